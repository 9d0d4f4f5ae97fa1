"""What the console is told, and what it makes at its first start."""

import stat

import pytest

from components.core.errors import ConfigError
from infra.console.first_start import prepare
from infra.console.settings import ConsoleSettings, read_settings


@pytest.fixture
def settings(tmp_path):
    return ConsoleSettings(
        ledger_url="sqlite://", public_keys="k", service_key="", tracking_uri="sqlite:///m", artifact_root="a", metadata_store="d"
    )


def test_the_first_start_makes_a_folder_for_its_owner_alone(tmp_path, settings):
    files = prepare(tmp_path, settings)
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in files.folder.iterdir()} == {
        "admin-password": "0o600",
        "basic_auth.ini": "0o600",
        "session-secret": "0o600",
        "settings.json": "0o600",
    }
    password = files.password_file.read_text().strip()
    assert len(password) >= 12
    assert files.environment["MLFLOW_AUTH_ADMIN_PASSWORD"] == password
    assert read_settings(files.environment) == settings


def test_a_later_start_keeps_secret_and_password(tmp_path, settings):
    first = prepare(tmp_path, settings)
    (first.folder / "logins.db").touch()
    again = prepare(tmp_path, settings)
    assert again.environment == first.environment
    assert again.password_file == first.password_file


def test_a_chosen_password_is_kept_nowhere(tmp_path, settings):
    files = prepare(tmp_path, settings, chosen_password="chosen-by-a-person")
    assert files.password_file is None
    assert files.environment["MLFLOW_AUTH_ADMIN_PASSWORD"] == "chosen-by-a-person"
    assert all(b"chosen-by" not in path.read_bytes() for path in files.folder.iterdir())
    (files.folder / "logins.db").touch()
    assert prepare(tmp_path, settings).password_file is None


def test_a_password_that_mlflow_would_refuse_is_refused_before(tmp_path, settings):
    with pytest.raises(ConfigError, match="has 5 characters; MLflow asks for 12"):
        prepare(tmp_path, settings, chosen_password="short")
    assert not (tmp_path / "console").exists()


def test_settings_that_are_not_there_or_none_are_one_line(tmp_path):
    with pytest.raises(ConfigError, match="names no settings"):
        read_settings({})
    with pytest.raises(ConfigError, match=r"missing\.json: no settings"):
        read_settings({"TANDEM_CONSOLE": str(tmp_path / "missing.json")})
    (tmp_path / "bad.json").write_text('{"ledger_url": 3}')
    with pytest.raises(ConfigError, match="`tandem ui` writes them anew"):
        read_settings({"TANDEM_CONSOLE": str(tmp_path / "bad.json")})
