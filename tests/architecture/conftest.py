"""What the architecture tests look at: the files that are, or will be, in the repository."""

import ast
import dataclasses
import subprocess
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pipelines", "components", "trainers", "infra")
NOT_TRACKED = {".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__"}


@dataclasses.dataclass(frozen=True)
class Source:
    """A Python file: its path from the repository's folder, its text and its syntax tree."""

    path: str
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, text, path="components/example/work.py"):
        text = textwrap.dedent(text)
        return cls(path, text, ast.parse(text))

    @property
    def module(self):
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _tracked_paths():
    listing = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode == 0:
        names = [name for name in listing.stdout.split("\0") if name]
    else:
        # An unpacked archive has no git: everything in it counts.
        names = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if not NOT_TRACKED & set(path.relative_to(ROOT).parts)]
    return sorted(name for name in names if (ROOT / name).is_file())


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def tracked():
    paths = _tracked_paths()
    assert "pyproject.toml" in paths
    return paths


@pytest.fixture(scope="session")
def python_files(tracked):
    return [Source(path, text, ast.parse(text)) for path in tracked if path.endswith(".py") for text in [(ROOT / path).read_text()]]


@pytest.fixture(scope="session")
def code(python_files):
    """The product: everything that the wheel holds."""
    found = [source for source in python_files if source.path.split("/")[0] in PACKAGES]
    assert found
    return found


@pytest.fixture(scope="session")
def files_of_tests(python_files):
    found = [source for source in python_files if source.path.startswith("tests/")]
    assert found
    return found


@pytest.fixture(scope="session")
def snippet():
    """Makes a Source of a few lines: each rule is tried on code that breaks it."""
    return Source.parse
