"""The registered candidates and the evidence about them, read from the registry's files."""

import contextlib
import dataclasses
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from components.core.contracts import PRODUCTION_SUFFIX
from components.core.errors import RegistryError, TandemError
from components.core.evidence import CandidateEvidence, read_evidence
from components.core.files import tree_files
from components.core.registry import ModelVersion, Registry

REMOTE_SECONDS = 60.0
"""How long evidence from a remote artifact store is shown in a list before it is read again."""
Fingerprint = tuple[object, ...]


@dataclasses.dataclass(frozen=True)
class Listed:
    """A version in a list.

    Attributes:
        evidence: None where it cannot be read; `problem` says why.
    """

    version: ModelVersion
    evidence: CandidateEvidence | None
    problem: str


class Candidates:
    """Reads candidates; lists keep what they read while the files stay as they are, a decision reads everything anew."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._kept: dict[tuple[str, str], tuple[Fingerprint, Listed]] = {}

    def names(self) -> list[str]:
        """Registered models that hold candidates, sorted."""
        return [name for name in self.registry.names() if not name.endswith(PRODUCTION_SUFFIX)]

    def versions(self, name: str) -> list[ModelVersion]:
        """Candidates of a model, newest first; versions that no pipeline registered are left out."""
        return [version for version in reversed(self.registry.versions(name)) if version.digest]

    def listed(self, version: ModelVersion) -> Listed:
        """A version for a list."""
        key, fingerprint = (version.name, version.version), _fingerprint(version)
        kept = self._kept.get(key)
        if kept is None or kept[0] != fingerprint:
            kept = (fingerprint, self._read_listed(version))
            self._kept[key] = kept
        return dataclasses.replace(kept[1], version=version)

    def _read_listed(self, version: ModelVersion) -> Listed:
        try:
            return Listed(version, self.read(version.name, version.version), "")
        except TandemError as error:
            return Listed(version, None, str(error))

    def read(self, name: str, number: str) -> CandidateEvidence:
        """A candidate as it is now; the bytes of a remote one are gone again, what they were measured as stays.

        Raises:
            RegistryError: there is no such candidate, its bytes changed, or it has no audit.
            StoreError: the registry cannot be read.
        """
        reference = f"{name}/{number}"
        with _folder_for(self.registry.resolve(reference)) as folder:
            return read_evidence(self.registry, reference, folder=folder)

    def measurements(self, name: str, number: str) -> dict[str, bytes]:
        """Measurement files of a version, by name.

        Raises:
            RegistryError, StoreError: see `read`.
        """
        version = self.registry.resolve(f"{name}/{number}")
        if not version.digest:
            raise RegistryError(f"{name}/{number} was registered by no pipeline run")
        with _folder_for(version) as folder:
            found = self.registry.local_measurements(version, folder)
            return {path.name: path.read_bytes() for path in sorted(found.glob("*.json"))}


def _is_local(version: ModelVersion) -> bool:
    return urlsplit(version.source).scheme in ("", "file")


@contextlib.contextmanager
def _folder_for(version: ModelVersion) -> Iterator[Path | None]:
    """Where a remote package is downloaded to, gone afterwards; None for one that lies on this machine already."""
    if _is_local(version):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="tandem-console-") as folder:
        yield Path(folder)


def _fingerprint(version: ModelVersion) -> Fingerprint:
    """Changes when a file of the package does."""
    tags = (version.source, version.digest, version.run_id)
    if not _is_local(version):
        return (*tags, time.monotonic() // REMOTE_SECONDS)
    root = Path(urlsplit(version.source).path)
    if not root.is_dir():
        return tags
    stats = ((path, (root / path).stat()) for path in tree_files(root))
    return (*tags, *((str(path), stat.st_size, stat.st_mtime_ns) for path, stat in stats))
