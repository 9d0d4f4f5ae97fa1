"""lock.py: the locks are exact, fit pyproject.toml, and are made again from it."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement

from components.core.errors import EnvironmentFault
from infra.environment import lock


@pytest.fixture
def project(tmp_path, offline, monkeypatch):
    """A project with a test group, resolved against the small wheels."""
    for name, value in offline.items():
        monkeypatch.setenv(name, value)

    def write(dependency="tiny==1.*"):
        text = f"""
[build-system]
requires = ["setuptools"]
[project]
dependencies = ["{dependency}"]
optional-dependencies.test = ["extra"]
"""
        (tmp_path / "pyproject.toml").write_text(text)
        return tmp_path

    return write


@pytest.mark.parametrize(("name", "expected"), [("Flask", "flask"), ("ruamel.yaml", "ruamel-yaml"), ("a_-.b", "a-b"), ("x", "x")])
def test_canonical_name(name, expected):
    assert lock.canonical_name(name) == expected


@pytest.mark.parametrize(("version", "expected"), [("2.13.0+cpu", "2.13.0"), ("2.13.0", "2.13.0"), ("1.0.post1", "1.0.post1")])
def test_public_version(version, expected):
    assert lock.public_version(version) == expected


def test_a_lock_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "x.lock"
    text = lock.render_lock({"Zeta": "1", "alpha_b": "2.0+cpu"}, "something needs")
    path.write_text(text)
    assert text.splitlines()[0] == "# Exact versions of everything that something needs."
    assert text.splitlines()[-2:] == ["alpha-b==2.0", "zeta==1"]
    assert lock.read_lock(path) == {"alpha-b": "2.0", "zeta": "1"}


@pytest.mark.parametrize("line", ["tiny", "tiny>=1", "tiny==1 ; python_version > '3'", "-r other.lock", "tiny == 1"])
def test_a_line_that_is_no_pin_is_refused(line, tmp_path):
    (tmp_path / "x.lock").write_text(f"# heading\na==1\n{line}\n")
    with pytest.raises(EnvironmentFault, match=r"line 3: .* is not `name==version`; make the lock again"):
        lock.read_lock(tmp_path / "x.lock")


def test_a_missing_lock_is_refused(tmp_path):
    with pytest.raises(EnvironmentFault, match="No such file or directory; make it by `make lock`"):
        lock.read_lock(tmp_path / "x.lock")


def test_locks_hold_what_is_needed_and_keep_versions_until_upgraded(project):
    root = project()
    (root / lock.RUNTIME_LOCK).write_text("tiny==1.0\n")
    assert lock.write_locks(root) == {lock.RUNTIME_LOCK: 4, lock.TEST_LOCK: 1}
    assert lock.read_lock(root / lock.RUNTIME_LOCK)["tiny"] == "1.0"
    assert set(lock.read_lock(root / lock.RUNTIME_LOCK)) == {"packaging", "setuptools", "tiny", "wheel"}
    assert lock.read_lock(root / lock.TEST_LOCK) == {"extra": "3.0"}

    lock.write_locks(root, upgrade=True)
    assert lock.read_lock(root / lock.RUNTIME_LOCK)["tiny"] == "1.1"


def test_what_cannot_be_resolved_changes_no_lock(project):
    root = project("tiny==9")
    (root / lock.RUNTIME_LOCK).write_text("tiny==1.0\n")
    with pytest.raises(
        EnvironmentFault, match=r"pip could not resolve pyproject\.toml: .*tiny==9.*; check the network, or `make lock UPGRADE=1`"
    ):
        lock.write_locks(root)
    assert (root / lock.RUNTIME_LOCK).read_text() == "tiny==1.0\n"
    assert not (root / lock.TEST_LOCK).exists()


def test_a_dependency_of_a_dependency_is_locked(project):
    root = project("demanding")
    lock.write_locks(root)
    assert lock.read_lock(root / lock.RUNTIME_LOCK)["tiny"] == "2.0"


@pytest.mark.parametrize("name", [lock.RUNTIME_LOCK, lock.TEST_LOCK])
def test_the_shipped_locks_are_as_make_lock_writes_them(name):
    text = (lock.ROOT / name).read_text()
    pins = lock.read_lock(lock.ROOT / name)
    what = re.search(r"everything that (.*)\.\n", text)[1]
    assert lock.render_lock(pins, what) == text


def test_the_shipped_locks_fit_pyproject():
    project = tomllib.loads((lock.ROOT / "pyproject.toml").read_text())
    runtime, tests = lock.read_lock(lock.ROOT / lock.RUNTIME_LOCK), lock.read_lock(lock.ROOT / lock.TEST_LOCK)
    assert set(runtime) & set(tests) == set()
    for lines, pins in (
        (project["project"]["dependencies"] + project["build-system"]["requires"], runtime),
        (project["project"]["optional-dependencies"]["test"], runtime | tests),
    ):
        for requirement in map(Requirement, lines):
            assert requirement.specifier.contains(pins[lock.canonical_name(requirement.name)]), requirement
    assert runtime["torch"] == "2.13.0"
