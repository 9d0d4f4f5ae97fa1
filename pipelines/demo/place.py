"""The folder of a demonstration: a copy of the shipped use case whose production is this machine and whose steps take seconds."""

import dataclasses
import re
import shutil
import socket
from pathlib import Path

from components.core.errors import ConfigError
from components.core.files import sync_directory, write_bytes
from pipelines.config import CONFIG_FILE, SHIPPED

USE_CASE = "credit_demo"
MODEL = "credit-demo"
STEPS = (5, 20, 100)
STEP_S = 2
STEP_REQUESTS = 50
_ORIGINAL = SHIPPED / "credit_risk"
_HOST = "127.0.0.1"


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a demonstration happens.

    Attributes:
        folder: everything is in it; commands are called there.
        server_port: REST of the model server, as the use case's pipeline.toml names it.
    """

    folder: Path
    server_port: int

    @property
    def use_case(self) -> Path:
        """The copied use case."""
        return self.folder / USE_CASE

    @property
    def server(self) -> str:
        """REST address of the model server."""
        return f"http://{_HOST}:{self.server_port}"


def make_place(folder: Path) -> Place:
    """Makes the folder with the use case in it.

    Args:
        folder: of the demonstration; empty or not there yet.

    Raises:
        ConfigError: there is something in it, or it cannot be written.
    """
    folder = folder.expanduser().resolve()
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"{folder}: is there already and not empty, nothing was changed; delete it, or choose another one with --dir")
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        place = Place(folder, _free_port())
        shutil.copytree(_ORIGINAL, place.use_case, ignore=shutil.ignore_patterns("__pycache__"))
        toml = place.use_case / CONFIG_FILE
        write_bytes(toml, _own_settings(toml.read_text(encoding="utf-8"), place).encode())
        sync_directory(folder)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror}; choose another one with --dir") from error
    return place


def _own_settings(text: str, place: Place) -> str:
    """The shipped pipeline.toml with this demonstration's name, server and steps; everything else, the limits too, stays as shipped."""
    changes = {
        "name": f'"{MODEL}"',
        "server": f'"{place.server}"',
        "steps": str(list(STEPS)),
        "step_s": str(STEP_S),
        "step_requests": str(STEP_REQUESTS),
    }
    for key, value in changes.items():
        # The first line with the key: `name` stands again in [label].
        text, count = re.subn(rf"^{key} = .*$", f"{key} = {value}", text, count=1, flags=re.MULTILINE)
        if count != 1:
            raise ConfigError(f"{_ORIGINAL / CONFIG_FILE}: has no line `{key} = ...`; the installation is damaged, see `tandem doctor`")
    return text


def _free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
