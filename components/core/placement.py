"""Puts a SavedModel into a model server's directory, `<root>/<stage>/<name>/<version>`: whole or not at all, never over another.

Imports nothing heavy: whoever plans a run asks `is_pushed`.
"""

import contextlib
import fcntl
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from components.core.errors import PushError
from components.core.files import copy_tree, sync_directory, tree_digest

STAGING, PRODUCTION = "staging", "production"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_VERSION = re.compile(r"[1-9][0-9]*")
_INCOMING = ".incoming"
"""Model servers take folders whose name is a number for versions; this is none."""


def version_folder(serving_root: str, name: str, version: str, *, stage: str = STAGING) -> Path:
    """Folder of a version.

    Raises:
        PushError: a name or version that is no plain path component, or a folder that leads out of `serving_root`.
    """
    for part in (stage, name):
        if not _NAME.fullmatch(part):
            raise PushError(
                f"{part!r} cannot name a folder of the model server; allowed: small letters, digits and `-`, a letter or digit first"
            )
    if not _VERSION.fullmatch(version):
        raise PushError(f"{version!r} is no version; allowed: whole numbers from 1")
    root = Path(serving_root).resolve()
    folder = root / stage / name / version
    if not folder.resolve().is_relative_to(root):
        raise PushError(f"{folder} leads out of the serving directory {root}; remove the symbolic link")
    return folder


def is_pushed(serving_root: str, name: str, version: str, digest: str) -> bool:
    """Whether exactly this model lies in the staging directory; reads all its bytes.

    Raises:
        PushError: a name or version that is no plain path component.
    """
    folder = version_folder(serving_root, name, version)
    return folder.is_dir() and _digest(folder) == digest


def place(saved_model: Path, folder: Path, *, digest: str) -> bool:
    """Copies `saved_model` to `folder`, checked before it can be seen.

    Args:
        saved_model: folder of the SavedModel.
        folder: from `version_folder`.
        digest: its tree digest, 64 hex digits.

    Returns:
        False when the same bytes lie there already.

    Raises:
        PushError: the folder holds another model, the source is not `digest`, or the disk refuses.
    """
    found = _digest(saved_model)
    if found != digest:
        raise PushError(
            f"the SavedModel in {saved_model} has digest {found}, recorded is {digest}: its bytes changed; run the pipeline again"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with one_writer(folder.parent):
            if folder.exists():
                _require_same(folder, digest)
                return False
            _copy(saved_model, folder, digest)
    except OSError as error:
        raise PushError(f"cannot write {folder}: {error}; free space or correct its permissions, then run again") from error
    return True


def withdraw(folder: Path) -> None:
    """Takes a version away from a model server's directory, in one step.

    Args:
        folder: from `version_folder`; nothing happens where it is not there.

    Raises:
        PushError: the disk refuses.
    """
    try:
        if folder.is_dir():
            with one_writer(folder.parent):
                leaving = folder.parent / f"{_INCOMING}-{folder.name}"
                folder.rename(leaving)
                sync_directory(folder.parent)
                shutil.rmtree(leaving)
    except OSError as error:
        raise PushError(f"cannot remove {folder}: {error}; correct its permissions, then run again") from error


def _require_same(folder: Path, digest: str) -> None:
    there = _digest(folder)
    if there != digest:
        raise PushError(
            f"{folder} holds another model: digest {there}, to push {digest}; versions are immutable: "
            "move that folder away, or use another serving directory"
        )


def _copy(saved_model: Path, folder: Path, digest: str) -> None:
    incoming = folder.parent / _INCOMING
    copy_tree(saved_model, incoming)
    copied = _digest(incoming)
    if copied != digest:
        shutil.rmtree(incoming)
        raise PushError(f"the copy in {folder.parent} has digest {copied}, not {digest}; check the disk, then run again")
    incoming.rename(folder)
    sync_directory(folder.parent)


def _digest(folder: Path) -> str:
    """Tree digest; a folder without files has none."""
    try:
        return tree_digest(folder)
    except FileNotFoundError:
        return "none"


@contextlib.contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """One process at a time writes in `folder`; what a killed one left is removed."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob(f"{_INCOMING}*"):
            shutil.rmtree(left)
        for left in folder.glob(f".{_INCOMING}*.tmp"):
            shutil.rmtree(left)
        yield
