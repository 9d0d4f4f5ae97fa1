"""Digests of what decides a stage's result beside its inputs: sources and the locked environment. Nothing heavy is imported."""

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

from pipelines.config import UseCase

ROOT = Path(__file__).resolve().parent.parent
LOCK_FILE = ROOT / "requirements.lock"
FRAMEWORK_MODULES = {"keras": "keras_model.py", "lightning": "lightning_model.py"}


def code_fingerprint(*places: Path | str) -> str:
    """SHA-256 over the sources (*.py) at `places` (files or folders) and the lock, 64 hex digits.

    Paths count from the repository's root, or from the file's own folder when they lie elsewhere, so that a moved clone keeps its cache.
    """
    digest = hashlib.sha256(lock_digest().encode())
    for place in places:
        for name, content in _sources(Path(place)):
            digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def _sources(place: Path) -> Iterable[tuple[str, bytes]]:
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    for file in files:
        name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else Path(file.name)
        yield name.as_posix(), file.read_bytes()


@functools.cache
def lock_digest() -> str:
    """SHA-256 of requirements.lock, 64 hex digits; `unlocked` for an installed package, which carries no lock."""
    return hashlib.sha256(LOCK_FILE.read_bytes()).hexdigest() if LOCK_FILE.is_file() else "unlocked"


@functools.cache
def core_fingerprint() -> str:
    """Sources that every stage of ours shares."""
    return code_fingerprint(ROOT / "components" / "core")


def stage_fingerprint(*places: str) -> str:
    """Sources of a stage of ours, by their folders from the repository's root, with what all stages share."""
    return hashlib.sha256((core_fingerprint() + code_fingerprint(*(ROOT / place for place in places))).encode()).hexdigest()


def shared_sources(use_case: UseCase) -> list[Path]:
    """The use case's sources that any of its stages may import: all but the models of a framework."""
    models = set(FRAMEWORK_MODULES.values())
    return [path for path in sorted(use_case.folder.glob("*.py")) if path.name not in models]


def model_sources(use_case: UseCase, framework: str) -> list[Path]:
    """The use case's sources that decide one framework's model."""
    other = {name for key, name in FRAMEWORK_MODULES.items() if key != framework}
    return [path for path in sorted(use_case.folder.glob("*.py")) if path.name not in other]
