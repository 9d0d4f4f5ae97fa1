"""What the console keeps in `<home>/console/`: its settings, the database of logins, the secret of the sessions, the admin's password."""

import dataclasses
import os
import secrets
from pathlib import Path

from components.core.errors import ConfigError
from components.core.files import write_bytes
from infra.console.settings import ConsoleSettings

FOLDER = "console"
ADMIN = "admin"
PASSWORD_VARIABLE = "TANDEM_ADMIN_PASSWORD"  # noqa: S105 - the name of a variable, no secret
PASSWORD_LENGTH = 12
"""Characters that MLflow asks of a password at least."""
_LOGINS, _INI, _SECRET, _PASSWORD, _SETTINGS = "logins.db", "basic_auth.ini", "session-secret", "admin-password", "settings.json"


@dataclasses.dataclass(frozen=True)
class ConsoleFiles:
    """The folder, made for its owner alone.

    Attributes:
        password_file: of the first admin; None where a person chose the password, which is kept nowhere.
        admin_password: that MLflow makes its admin with; of no use once it has one.
    """

    folder: Path
    password_file: Path | None
    admin_password: str

    @property
    def settings(self) -> Path:
        """The settings that TANDEM_CONSOLE names."""
        return self.folder / _SETTINGS

    @property
    def environment(self) -> dict[str, str]:
        """What the server needs to be told."""
        return {
            "TANDEM_CONSOLE": str(self.settings),
            "MLFLOW_AUTH_CONFIG_PATH": str(self.folder / _INI),
            "MLFLOW_AUTH_ADMIN_PASSWORD": self.admin_password,
            "MLFLOW_FLASK_SERVER_SECRET_KEY": (self.folder / _SECRET).read_text(encoding="ascii").strip(),
        }


def prepare(home: Path, settings: ConsoleSettings, *, chosen_password: str = "") -> ConsoleFiles:
    """Makes what is not there yet, and writes the settings anew.

    Args:
        home: folder of the stores.
        settings: of this start.
        chosen_password: of the admin, for the first start; empty = a random one, which is written to a file.

    Raises:
        ConfigError: the chosen password is too short.
    """
    folder = home / FOLDER
    if chosen_password and len(chosen_password) < PASSWORD_LENGTH:
        raise ConfigError(f"{PASSWORD_VARIABLE} has {len(chosen_password)} characters; MLflow asks for {PASSWORD_LENGTH} or more")
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    _write_new(folder / _SECRET, secrets.token_hex(32))
    password_file = folder / _PASSWORD
    if not chosen_password and not (folder / _LOGINS).exists():
        _write_new(password_file, secrets.token_urlsafe(18))
    write_bytes(folder / _INI, _ini(folder / _LOGINS).encode())
    write_bytes(folder / _SETTINGS, (settings.model_dump_json(indent=1) + "\n").encode())
    for path in (folder / _INI, folder / _SETTINGS):
        path.chmod(0o600)
    known = password_file.is_file()
    password = chosen_password or (password_file.read_text(encoding="utf-8").strip() if known else secrets.token_urlsafe(18))
    return ConsoleFiles(folder, password_file if known else None, password)


def _write_new(path: Path, text: str) -> None:
    """Writes a file that its owner alone can read; one that is there stays."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        path.chmod(0o600)
        return
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")


def _ini(logins: Path) -> str:
    """MLflow's own file; its parser takes a percent sign for the beginning of a reference."""
    return f"""\
[mlflow]
default_permission = READ
database_uri = sqlite:///{str(logins).replace("%", "%%")}
admin_username = {ADMIN}
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
grant_default_workspace_access = false
# A password is hashed for a quarter of a second at each request; one process serves, so a change counts at once.
auth_cache_ttl_seconds = 60
"""
