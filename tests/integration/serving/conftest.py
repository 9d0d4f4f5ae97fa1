"""Models and a server that tests share."""

import shutil

import pytest

from tests.integration.serving.served import make_model, running


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


@pytest.fixture(scope="module")
def server(models, tmp_path_factory):
    """A server of both versions, with labels."""
    folder = tmp_path_factory.mktemp("server")
    config = folder / "models.config"
    config.write_text(
        f"""model_config_list {{ config {{ name: "m" base_path: "{models}/m" model_platform: "tensorflow"
        model_version_policy {{ all {{}} }} version_labels {{ key: "stable" value: 1 }} version_labels {{ key: "half" value: 9 }} }} }}"""
    )
    with running("serve", "--config", config, "--grpc-port", "0", "--rest-port", "0", cwd=folder, ready="/readyz") as started:
        yield started
