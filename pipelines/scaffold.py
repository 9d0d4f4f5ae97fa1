"""Makes a use case of one's own from the template: whole or not at all, outside this repository."""

import importlib.util
import keyword
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from components.core.errors import ConfigError
from components.core.files import sync_directory, sync_tree
from pipelines.config import CONFIG_FILE, SHIPPED
from pipelines.sample_data import sample_customers
from pipelines.sections import NAME_PATTERN

TEMPLATE = SHIPPED / "scaffold_template" / "use_case"
DATA_FILE = "data/customers.csv"
_PACKAGE_WORD = "use_case_name"
_REGISTRY_WORD = "use-case-name"


def registry_name(name: str) -> str:
    """Name of the models of a use case: `my_case` -> `my-case`."""
    return name.replace("_", "-")


def create_use_case(name: str, folder: Path) -> Path:
    """Writes a use case that runs at once.

    Args:
        name: becomes the folder, the Python package and, with hyphens, the registry name.
        folder: where the use case's folder is made; made itself when it is not there.

    Returns:
        The use case's folder.

    Raises:
        ConfigError: a name that cannot be used, a folder that is in the way, or one that cannot be written.
    """
    check_name(name)
    target = folder.expanduser().resolve() / name
    _check_place(target)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".tmp", dir=target.parent))
        _write_files(name, temporary / name)
        sync_tree(temporary / name)
        (temporary / name).rename(target)
        sync_directory(target.parent)
    except OSError as error:
        raise ConfigError(f"{target}: cannot be written: {error.strerror}; choose another folder with --dir") from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return target


def check_name(name: str) -> None:
    """Refuses names that fail later, when the folder is imported or the model registered.

    Raises:
        ConfigError: says what is wrong with the name and what is allowed.
    """
    if not name.isidentifier() or not name.isascii() or not re.fullmatch(NAME_PATTERN, registry_name(name)):
        raise ConfigError(
            f"name {name!r} cannot be used: it becomes a Python package and, with hyphens, a registry name; "
            "allowed: up to 63 small letters, digits and _, a letter first, no _ at the end, e.g. my_case"
        )
    if keyword.iskeyword(name) or name in sys.stdlib_module_names:
        raise ConfigError(f"name {name!r} is a word or module of Python itself; choose another, e.g. {name}_case")
    if (SHIPPED / name / CONFIG_FILE).is_file():
        raise ConfigError(f"name {name!r} is a shipped use case, `tandem run {name}` runs it; choose another, e.g. my_{name}")
    if (SHIPPED.parent / name).exists() or _is_installed(name):
        raise ConfigError(f"name {name!r} would hide an installed package of that name; choose another, e.g. {name}_case")


def _is_installed(name: str) -> bool:
    """Whether a package of that name can be imported; a plain folder on the path is none."""
    specification = importlib.util.find_spec(name)
    return specification is not None and specification.origin is not None


def _check_place(target: Path) -> None:
    if os.path.lexists(target):
        raise ConfigError(f"{target}: is there already, nothing was changed; choose another name or --dir")
    if target.is_relative_to(SHIPPED.parent):
        raise ConfigError(f"{target}: lies inside Tandem's own folder {SHIPPED.parent}; choose a folder outside with --dir, e.g. --dir ..")
    if os.pathsep in str(target.parent):
        raise ConfigError(f"{target.parent}: {os.pathsep!r} separates folders in PYTHONPATH; choose a folder without it with --dir")


def _write_files(name: str, folder: Path) -> None:
    for source in sorted(TEMPLATE.rglob("*")):
        if not source.is_file() or "__pycache__" in source.parts:
            continue
        text = source.read_text(encoding="utf-8").replace(_PACKAGE_WORD, name).replace(_REGISTRY_WORD, registry_name(name))
        _write(folder / source.relative_to(TEMPLATE), text)
    _write(folder / DATA_FILE, sample_customers())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
