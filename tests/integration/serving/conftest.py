"""Models and a server that tests share."""

import os
import shutil

import pytest

from tests.integration.serving.served import make_model, running, running_real


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folder `m` with version 1 (scale 1) and 2 (scale 2)."""
    root = tmp_path_factory.mktemp("models")
    for version in (1, 2):
        make_model(root / "m" / str(version), version)
    return root


@pytest.fixture
def own_models(models, tmp_path):
    """A copy with version 1 alone, to change."""
    shutil.copytree(models / "m" / "1", tmp_path / "m" / "1")
    return tmp_path


@pytest.fixture(scope="module", params=["tandem", "tensorflow_model_server"])
def server(request, models, tmp_path_factory):
    """A server of both versions, with a label: ours, and the real one where there is one."""
    folder = tmp_path_factory.mktemp("server")
    config = folder / "models.config"
    config.write_text(
        f"""model_config_list {{ config {{ name: "m" base_path: "{models}/m" model_platform: "tensorflow"
        model_version_policy {{ all {{}} }} version_labels {{ key: "stable" value: 1 }} }} }}"""
    )
    if request.param == "tandem":
        words = ("serve", "--config", config, "--grpc-port", "0", "--rest-port", "0")
        with running(*words, cwd=folder, ready="/readyz") as started:
            yield started
        return
    binary = os.environ.get("TANDEM_TF_SERVING")
    if not binary:
        pytest.skip("TANDEM_TF_SERVING names no tensorflow_model_server; the image tensorflow/serving holds one in /usr/bin")
    with running_real(binary, config, cwd=folder) as started:
        yield started
