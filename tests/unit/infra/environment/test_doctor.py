"""doctor.py: each examination on something sound and something broken."""

import contextlib
import os
import socket
import sqlite3
import subprocess
import sys

import pytest

from infra.environment import doctor
from infra.environment.doctor import Distribution

HEAVY = ("tfx", "tensorflow", "torch", "mlflow", "ml_metadata", "numpy", "pandas", "pydantic")


def lock_folder(tmp_path, runtime, tests=""):
    (tmp_path / "requirements.lock").write_text(runtime)
    (tmp_path / "requirements-test.lock").write_text(tests)
    return tmp_path


def installed(**versions):
    return {name: Distribution(version, ()) for name, version in versions.items()}


def test_this_environment_is_sound(tmp_path):
    findings = doctor.examine(home=tmp_path / "home", serving=tmp_path / "serving")
    assert [finding.name for finding in findings] == [
        "python",
        "machine",
        "glibc",
        "disk",
        "lock",
        "packages",
        "metadata",
        "mlflow",
        "serving",
    ]
    assert [finding for finding in findings if not finding.ok or finding.remedy or not finding.checked] == []
    assert list(tmp_path.iterdir()) == []


def test_it_imports_nothing_heavy_and_is_quick(tmp_path):
    program = f"""
import sys, time
from pathlib import Path
from infra.environment.doctor import examine
examine(home=Path({str(tmp_path)!r}), serving=Path({str(tmp_path)!r}))
print([name for name in {HEAVY!r} if name in sys.modules], time.process_time() < 3)
"""
    finished = subprocess.run([sys.executable, "-c", program], cwd=doctor.ROOT, capture_output=True, text=True, check=True)
    assert finished.stdout == "[] True\n"


def test_another_python_is_wrong(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 12, 1, "final", 0))
    finding = doctor.examine_python()
    assert not finding.ok
    assert "CPython 3.11 is needed: set PYTHON to one" in finding.remedy


def test_another_machine_is_wrong(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    finding = doctor.examine_machine()
    assert not finding.ok
    assert "Linux aarch64" in finding.detail
    assert "Linux on x86-64 is needed" in finding.remedy


@pytest.mark.parametrize(
    ("glibc", "ok"), [("2.36", False), ("2.38", False), ("2.39", True), ("2.41", True), ("2.100", True), ("3.0", True)]
)
def test_glibc(glibc, ok, monkeypatch):
    monkeypatch.setattr(os, "confstr", lambda name: f"glibc {glibc}")
    finding = doctor.examine_glibc()
    assert finding.ok is ok
    assert finding.detail.startswith(f"glibc {glibc}, ")
    assert ("or use the container image" in finding.remedy) is not ok


def test_a_full_disk_is_wrong(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "NEEDED_FREE_BYTES", 10**18)
    finding = doctor.examine_disk(tmp_path / "not/made")
    assert not finding.ok
    assert f"free at {tmp_path}" in finding.detail
    assert "free some, or put [directories] home elsewhere" in finding.remedy


def test_installed_distributions_agree_with_importlib():
    from importlib import metadata

    found = doctor.installed_distributions()
    for name in ("tfx", "torch", "pydantic", "setuptools"):
        assert found[name].version == metadata.version(name)
        assert found[name].requires == tuple(metadata.requires(name) or ())


@pytest.mark.parametrize("versions", [{"a": "1", "b": "2"}, {"a": "1+cpu", "b": "2", "other": "9"}, {"a": "1", "b": "2", "t": "3"}])
def test_the_locked_versions_are_right(versions, tmp_path):
    finding = doctor.examine_lock(lock_folder(tmp_path, "a==1\nb==2\n", "t==3\n"), installed(**versions))
    assert finding == doctor.Finding("lock", True, "all 2 packages are there in the locked version")


def test_drift_is_named(tmp_path):
    root = lock_folder(tmp_path, "a==1\nb==2\nc==3\n", "t==3\n")
    finding = doctor.examine_lock(root, installed(a="1.1", c="3", t="4"))
    assert finding.detail == "1 missing (b), 2 differing (a 1.1 instead of 1, t 4 instead of 3)"
    assert not finding.ok
    assert finding.remedy == "build the environment again: `make clean`, then `make run`"


def test_many_are_counted_and_five_named(tmp_path):
    finding = doctor.examine_lock(lock_folder(tmp_path, "".join(f"p{n}==1\n" for n in range(8))), {})
    assert finding.detail == "8 missing (p0, p1, p2, p3, p4 and 3 more)"


def test_without_a_lock_it_is_plainly_not_checked(tmp_path):
    finding = doctor.examine_lock(tmp_path, {})
    assert finding == doctor.Finding("lock", True, "not checked (no lock beside an installed package)", checked=False)


def test_a_broken_lock_is_a_finding_and_the_rest_goes_on(tmp_path):
    (tmp_path / "requirements.lock").write_text("not a pin\n")
    findings = {finding.name: finding for finding in doctor.examine(home=tmp_path, serving=tmp_path, root=tmp_path)}
    assert not findings["lock"].ok
    assert "line 1: 'not a pin' is not `name==version`" in findings["lock"].detail
    assert findings["lock"].remedy == "make the lock again by `make lock`"
    assert findings["serving"].ok


@pytest.mark.parametrize(
    ("requires", "fault"),
    [
        ("b>=1", ""),
        ("b>=2", "a needs b>=2, there is 1.5"),
        ("B_c", "a needs B_c, which is missing"),
        ("gone; extra == 'more'", ""),
        ("gone; python_version < '3'", ""),
        ("gone; python_version > '3'", "a needs gone, which is missing"),
    ],
)
def test_dependencies(requires, fault):
    finding = doctor.examine_dependencies({"a": Distribution("1", (requires,)), "b": Distribution("1.5", ())})
    assert finding.ok is not bool(fault)
    assert not fault or finding.detail == fault


def test_a_sqlite_store(tmp_path):
    path = tmp_path / "metadata.db"
    assert doctor.examine_sqlite("metadata", path).detail == f"{path} is not made yet"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as store:
        store.execute("CREATE TABLE run (id)")
        assert doctor.examine_sqlite("metadata", path) == doctor.Finding("metadata", True, f"{path} can be written, 1 tables")
        store.execute("BEGIN EXCLUSIVE")
        busy = doctor.examine_sqlite("metadata", path)
    assert busy.ok
    assert "another process is writing to it now" in busy.detail


def test_a_file_that_is_no_store_is_wrong(tmp_path):
    path = tmp_path / "mlflow.db"
    path.write_bytes(b"this is no database at all" * 100)
    finding = doctor.examine_sqlite("mlflow", path)
    assert not finding.ok
    assert "file is not a database" in finding.detail
    assert "restore it from a copy, or move it away" in finding.remedy
    assert path.read_bytes() == b"this is no database at all" * 100


def test_a_folder_in_place_of_a_store_is_wrong(tmp_path):
    (tmp_path / "mlflow.db").mkdir()
    finding = doctor.examine_sqlite("mlflow", tmp_path / "mlflow.db")
    assert not finding.ok
    assert "unable to open database file" in finding.detail


def test_a_file_in_place_of_a_folder_is_wrong(tmp_path):
    (tmp_path / "serving").write_text("")
    for folder in (tmp_path / "serving", tmp_path / "serving/staging"):
        finding = doctor.examine_folder("serving", folder)
        assert not finding.ok
        assert finding.detail == f"{tmp_path / 'serving'} is a file, a folder is needed"


def test_a_folder_that_cannot_be_written_is_wrong():
    finding = doctor.examine_folder("serving", doctor.Path("/proc/tandem"))
    assert not finding.ok
    assert finding.detail.startswith("/proc cannot be written: ")


def test_a_server_is_asked(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        assert doctor.examine_mlflow(uri) == doctor.Finding("mlflow", True, f"server {uri} answers")
    findings = {finding.name: finding for finding in doctor.examine(home=tmp_path, serving=tmp_path, mlflow_uri=uri)}
    assert not findings["mlflow"].ok
    assert "does not answer" in findings["mlflow"].detail
    assert "start it (`tandem ui`)" in findings["mlflow"].remedy


def test_a_database_server_is_plainly_not_checked():
    finding = doctor.examine_mlflow("postgresql://db.example/mlflow")
    assert finding == doctor.Finding("mlflow", True, "not checked (a postgresql store)", checked=False)


def test_a_sqlite_uri_is_opened(tmp_path):
    assert doctor.examine_mlflow(f"sqlite:///{tmp_path / 'x.db'}").detail == f"{tmp_path / 'x.db'} is not made yet"


def test_what_breaks_an_examination_is_a_finding():
    def broken():
        raise ImportError("no module named packaging")

    finding = doctor._guarded("packages", broken)
    assert finding.detail == "cannot be examined: ImportError: no module named packaging"
    assert not finding.ok
    assert finding.remedy
