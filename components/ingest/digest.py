"""Which files are read, and what identifies their content. Light: nothing beyond the standard library is imported."""

import dataclasses
import hashlib
from pathlib import Path

from components.core.errors import DataError
from components.core.files import file_digest


@dataclasses.dataclass(frozen=True)
class SourceFiles:
    """The input of one ingest.

    Attributes:
        files: CSV files, in name order.
        skipped: names of entries of the folder that are not read: dotfiles, folders, other suffixes.
    """

    files: tuple[Path, ...]
    skipped: tuple[str, ...] = ()


def find_source_files(path: Path | str) -> SourceFiles:
    """A file stands for itself; of a folder the `*.csv` files (suffix in any case, no dotfiles, folders below are not entered).

    Raises:
        DataError: there is nothing at `path`, or the folder holds no CSV file; correct the path.
    """
    path = Path(path)
    if path.is_file():
        return SourceFiles(files=(path,))
    if not path.is_dir():
        raise DataError(f"{path}: no such file or folder; correct the data path (relative paths start at the configuration's folder)")
    entries = sorted(path.iterdir(), key=lambda entry: entry.name)
    files = tuple(entry for entry in entries if entry.is_file() and entry.suffix.lower() == ".csv" and not entry.name.startswith("."))
    skipped = tuple(entry.name for entry in entries if entry not in files)
    if not files:
        seen = f"; it holds only {', '.join(skipped[:10])}" if skipped else "; it is empty"
        raise DataError(f"{path}: the folder has no *.csv file{seen}; put the data there or correct the data path")
    return SourceFiles(files=files, skipped=skipped)


def data_digest(path: Path | str) -> str:
    """The identity of the input, 64 hex digits.

    For a file the SHA-256 of its bytes; for a folder the SHA-256 over the `<file's SHA-256>  <name>` lines of the files that are read.
    Skipped entries do not count. The whole input is read, in bounded memory.

    Raises:
        DataError: see `find_source_files`.
    """
    path = Path(path)
    files = find_source_files(path).files
    if path.is_file():
        return file_digest(path)
    lines = [f"{file_digest(file)}  {file.name}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
