"""Files are written whole or not at all: to a temporary name beside the target, synced, then renamed."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_bytes(path: Path | str, content: bytes) -> None:
    """Writes `content` so that a reader sees the old file or the new one, never a part."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def write_json(path: Path | str, value: Any) -> None:
    """Writes `value` as JSON (sorted keys, two spaces); NaN and infinity are refused, they are no JSON.

    Raises:
        ValueError: a number is not finite; store it as null beside a word that says why.
    """
    write_bytes(path, (json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n").encode())


def read_json(path: Path | str) -> Any:
    """Reads a JSON file."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def sync_directory(path: Path | str) -> None:
    """Makes a rename inside `path` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(root: Path | str) -> None:
    """Syncs every file and folder below `root`, the folders last."""
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            descriptor = os.open(Path(folder) / name, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_directory(folder)


def copy_tree(source: Path | str, target: Path | str) -> None:
    """Copies a folder so that `target` appears whole: temporary name, fsync, rename.

    Raises:
        FileExistsError: `target` is there already; versions are immutable.
    """
    target = Path(target)
    if target.exists():
        raise FileExistsError(str(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent))
    try:
        shutil.copytree(source, temporary / "tree")
        sync_tree(temporary / "tree")
        (temporary / "tree").rename(target)
        sync_directory(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def tree_files(root: Path | str) -> Iterator[Path]:
    """All files below `root`, as paths relative to it, sorted by their POSIX form."""
    root = Path(root)
    yield from sorted((path.relative_to(root) for path in root.rglob("*") if path.is_file()), key=Path.as_posix)


def file_digest(path: Path | str) -> str:
    """SHA-256 of a file's bytes, 64 hex digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_digest(root: Path | str) -> str:
    """The identity of a SavedModel: SHA-256 over the sorted list of `<file's SHA-256>  <relative path>` lines, 64 hex digits.

    Raises:
        FileNotFoundError: there is no file below `root`.
    """
    lines = [f"{file_digest(Path(root) / path)}  {path.as_posix()}\n" for path in tree_files(root)]
    if not lines:
        raise FileNotFoundError(f"no file below {root}")
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def tree_size_bytes(root: Path | str) -> int:
    """The sum of the sizes of all files below `root`, in bytes."""
    return sum((Path(root) / path).stat().st_size for path in tree_files(root))
