"""The evidence dossier of a candidate: which files of measurements stand beside its bytes, frozen at its registration.

People decide on the digest of this file, and so on every file that it names: what is changed, added or taken away later shows.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import ValidationError

from components.core.contracts import Contract, Framework
from components.core.errors import RegistryError
from components.core.files import file_digest

DOSSIER_FILE = "dossier.json"


class Dossier(Contract):
    """What was known of a candidate when it was registered (file `dossier.json`).

    Attributes:
        framework: that it was trained in.
        model_digest: tree digest of its SavedModel, 64 hexadecimal digits.
        training_run_id: MLflow run of its training.
        recorded: what the registrar noted beside the measurements: digests of data and lock, git commit, pipeline run, execution.
        files: name of a file of measurements -> its SHA-256.
    """

    schema_version: Literal[1] = 1
    framework: Framework
    model_digest: str
    training_run_id: str
    recorded: Mapping[str, str]
    files: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path, *, model_digest: str, of: str) -> Self:
        """Reads a dossier, and holds it against the files and the bytes that are there now.

        Args:
            folder: of the measurements.
            model_digest: of the bytes.
            of: reference of the version, for messages.

        Raises:
            RegistryError: there is none, it is no dossier, or it is not of these bytes and files.
        """
        path = folder / DOSSIER_FILE
        if not path.is_file():
            raise RegistryError(f"{of} has no evidence dossier: {path} is not there; run the pipeline again, which registers a new version")
        try:
            found = cls.from_json(path.read_text(encoding="utf-8"))
        except (ValidationError, UnicodeDecodeError) as error:
            raise RegistryError(f"{path} is no evidence dossier that this version reads; run the pipeline again") from error
        if found.model_digest != model_digest:
            raise RegistryError(f"the dossier of {of} is of bytes {found.model_digest}, there are {model_digest}: {path} was changed")
        there = digests(file for file in folder.iterdir() if file.is_file() and file.name != DOSSIER_FILE)
        for name in sorted({*found.files, *there}):
            if found.files.get(name) != there.get(name):
                raise RegistryError(
                    f"{folder / name} has digest {there.get(name, 'none: it is not there')}, the dossier of {of} says "
                    f"{found.files.get(name, 'nothing of it')}: the evidence was changed after its registration; run the pipeline again"
                )
        return found


def digests(files: Iterable[Path]) -> dict[str, str]:
    """Name -> SHA-256, sorted by name."""
    return {file.name: file_digest(file) for file in sorted(files, key=lambda file: file.name)}


def evidence_digest(files: Mapping[str, str]) -> str:
    """SHA-256 over lines of name and digest: two registrations of the same bytes with the same evidence are one version."""
    return hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in sorted(files.items())).encode()).hexdigest()
