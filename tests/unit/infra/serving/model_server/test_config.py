"""models.config and --model."""

import pytest

from components.core.errors import ConfigError
from infra.serving.model_server.config import ModelConfig, from_arguments, read_config

TEXT = """
model_config_list {
  config { name: "a" base_path: "/models/a" model_platform: "tensorflow" }
  config { name: "b" base_path: "/models/b" model_version_policy { latest { num_versions: 2 } } }
  config { name: "c" base_path: "/models/c" model_version_policy { all {} } }
  config {
    name: "d" base_path: "/models/d" model_version_policy { specific { versions: 3 versions: 5 } }
    version_labels { key: "champion" value: 3 } version_labels { key: "canary" value: 5 }
  }
}
"""


def write(tmp_path, text):
    path = tmp_path / "models.config"
    path.write_text(text)
    return path


def test_policies_and_labels(tmp_path):
    a, b, c, d = read_config(write(tmp_path, TEXT))
    found = {1, 2, 3, 5}
    assert [config.wanted(found) for config in (a, b, c, d)] == [{5}, {3, 5}, found, {3, 5}]
    assert d.labels == (("canary", 5), ("champion", 3))
    assert d.wanted({4}) == set()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model_config_list { config { nome: 'a' } }", "nome"),
        ("model_config_list {", "no ModelServerConfig"),
        ("model_config_list { config { name: 'a' } }", "needs name and base_path"),
        ("model_config_list { config { name: 'a' base_path: '/a' model_platform: 'torch' } }", "torch"),
        ("model_config_list { config { name: 'a' base_path: '/a' } config { name: 'a' base_path: '/b' } }", "twice"),
        ("model_config_list { config { name: 'a' base_path: '/a' model_version_policy { specific {} } } }", "without versions"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words):
        read_config(write(tmp_path, text))


def test_models_of_the_command_line(tmp_path):
    (tmp_path / "m").mkdir()
    assert from_arguments([f"m={tmp_path / 'm'}"]) == (ModelConfig("m", tmp_path / "m"),)
    for wrong in ("m", "=x", "m=", f"m={tmp_path / 'none'}"):
        with pytest.raises(ConfigError):
            from_arguments([wrong])
