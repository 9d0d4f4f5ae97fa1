"""Examines the machine, the Python environment and the stores, and names the remedy for what is wrong: `tandem doctor`.

Hardly anything but the standard library is imported, so that it works where the environment is broken, and in less than three
seconds. Nothing is changed and nothing is left behind.
"""

import contextlib
import dataclasses
import importlib.metadata
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from components.core.errors import TandemError
from infra.environment.lock import RUNTIME_LOCK, TEST_LOCK, canonical_name, public_version, read_lock

ROOT = Path(__file__).resolve().parents[2]
NEEDED_GLIBC = (2, 39)
NEEDED_FREE_BYTES = 1_000_000_000
_REBUILD = "build the environment again: `make clean`, then `make run`"
_SQLITE_WAIT_S = 0.2
_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Finding:
    """One line of the examination.

    Attributes:
        name: what was examined, one word.
        ok: whether it is as it should be; True for what could not be checked and need not be.
        detail: what was found.
        remedy: what to do; empty when `ok`.
        checked: False when nothing was examined; `detail` then begins with "not checked".
    """

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    checked: bool = True


def examine(*, home: Path, serving: Path, mlflow_uri: str | None = None, root: Path = ROOT) -> list[Finding]:
    """Examines everything; never raises for what is wrong, it says so.

    Args:
        home: folder of the stores (`[directories] home`): metadata.db and mlflow.db lie there; neither has to exist.
        serving: the model servers' folder (`[directories] serving`); it does not have to exist.
        mlflow_uri: MLflow's store where it is not `home`/mlflow.db: `sqlite:///…` or the URL of a server.
        root: the folder with the lock; without one there (an installed package) the lock is not checked.
    """
    examinations: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("python", examine_python),
        ("machine", examine_machine),
        ("glibc", examine_glibc),
        ("disk", lambda: examine_disk(home)),
        ("lock", lambda: examine_lock(root, installed_distributions())),
        ("packages", lambda: examine_dependencies(installed_distributions())),
        ("metadata", lambda: examine_sqlite("metadata", home / "metadata.db")),
        ("mlflow", lambda: examine_mlflow(mlflow_uri) if mlflow_uri else examine_sqlite("mlflow", home / "mlflow.db")),
        ("serving", lambda: examine_folder("serving", serving)),
    )
    return [_guarded(name, examination) for name, examination in examinations]


def _guarded(name: str, examination: Callable[[], Finding]) -> Finding:
    """A broken environment may break an examination too; that is a finding, and the others go on."""
    try:
        return examination()
    except TandemError as fault:
        # The remedy comes last in every message.
        detail, _, remedy = str(fault).rpartition("; ")
        return Finding(name, False, detail, remedy)
    except (OSError, ValueError, AttributeError, ImportError) as error:
        return Finding(name, False, f"cannot be examined: {type(error).__name__}: {error}", _REBUILD)


def examine_python() -> Finding:
    """CPython 3.11."""
    version = platform.python_version()
    ok = sys.implementation.name == "cpython" and sys.version_info[:2] == (3, 11)
    detail = f"{platform.python_implementation()} {version} ({sys.executable})"
    return Finding("python", ok, detail, "" if ok else f"CPython 3.11 is needed: set PYTHON to one and {_REBUILD}")


def examine_machine() -> Finding:
    """Linux on x86-64 with AVX, which TensorFlow's wheels are compiled for."""
    system, machine = platform.system(), platform.machine()
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    detail = f"{system} {machine}, {os.cpu_count()} cores, {memory_gb:.1f} GB memory"
    if (system, machine) != ("Linux", "x86_64"):
        return Finding("machine", False, detail, "Linux on x86-64 is needed: use such a machine or a virtual one")
    flags = next((line for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines() if line.startswith("flags")), "")
    if " avx " not in f"{flags} ":
        return Finding("machine", False, f"{detail}, no AVX", "TensorFlow needs a processor with AVX: let the virtual machine pass it on")
    return Finding("machine", True, detail)


def examine_glibc() -> Finding:
    """The C library that this interpreter runs on, and whether it is the environment's private one."""
    text = (os.confstr("CS_GNU_LIBC_VERSION") or "unknown 0").split()[-1]
    version = tuple(int(part) for part in text.split(".") if part.isdigit())
    private = str(Path(sys.prefix) / "libc") in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    detail = f"glibc {text}, {'private to this environment' if private else 'of the system'}"
    ok = version >= NEEDED_GLIBC
    return Finding("glibc", ok, detail, "" if ok else f"2.39 or newer is needed: {_REBUILD}, or use the container image (infra/Dockerfile)")


def examine_disk(home: Path) -> Finding:
    """Free disk where the stores and artifacts go; a run of the shipped use cases needs far less than the 1 GB asked for."""
    place = _existing(home)
    free = shutil.disk_usage(place).free
    detail = f"{free / 1e9:.1f} GB free at {place}"
    ok = free >= NEEDED_FREE_BYTES
    return Finding(
        "disk", ok, detail, "" if ok else f"{NEEDED_FREE_BYTES / 1e9:.0f} GB is needed: free some, or put [directories] home elsewhere"
    )


@dataclasses.dataclass(frozen=True)
class Distribution:
    """An installed distribution: its version and the requirement lines of its metadata, as they stand there."""

    version: str
    requires: tuple[str, ...]


def installed_distributions() -> dict[str, Distribution]:
    """What is installed, by canonical name. A distribution with broken metadata counts as not there."""
    found: dict[str, Distribution] = {}
    for distribution in importlib.metadata.distributions():
        # Read by hand: the standard library's parser takes ten times as long, for descriptions that nobody reads here.
        header = (distribution.read_text("METADATA") or "").partition("\n\n")[0]
        fields = [line.partition(": ")[::2] for line in header.splitlines()]
        name, version = (next((value for key, value in fields if key == wanted), "") for wanted in ("Name", "Version"))
        if name and version:
            # What comes first on sys.path is what Python imports.
            requires = tuple(value for key, value in fields if key == "Requires-Dist")
            found.setdefault(canonical_name(name), Distribution(version, requires))
    return found


def examine_dependencies(installed: Mapping[str, Distribution]) -> Finding:
    """Whether the installed packages have what they ask for: the check of `pip check`, in a twentieth of its time."""
    from packaging.requirements import Requirement

    faults = []
    count = 0
    for name, distribution in installed.items():
        for line in distribution.requires:
            requirement = Requirement(line)
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            count += 1
            present = installed.get(canonical_name(requirement.name))
            if present is None:
                faults.append(f"{name} needs {requirement.name}, which is missing")
            elif not requirement.specifier.contains(present.version, prereleases=True):
                faults.append(f"{name} needs {requirement.name}{requirement.specifier}, there is {present.version}")
    if faults:
        return Finding("packages", False, _first(sorted(faults)), _REBUILD)
    return Finding("packages", True, f"{len(installed)} packages have the {count} others that they ask for")


def examine_lock(root: Path, installed: Mapping[str, Distribution]) -> Finding:
    """Compares what is installed with the lock; a local version suffix (torch's `+cpu`) is no difference.

    Packages of the test lock may be missing (`make run` does not install them); those that are there must be its versions.
    """
    if not (root / RUNTIME_LOCK).is_file():
        return Finding("lock", True, "not checked (no lock beside an installed package)", checked=False)
    runtime = read_lock(root / RUNTIME_LOCK)
    tests = read_lock(root / TEST_LOCK) if (root / TEST_LOCK).is_file() else {}
    missing = sorted(name for name in runtime if name not in installed)
    differing = sorted(
        f"{name} {installed[name].version} instead of {pinned}"
        for name, pinned in {**tests, **runtime}.items()
        if name in installed and public_version(installed[name].version) != pinned
    )
    if not missing and not differing:
        return Finding("lock", True, f"all {len(runtime)} packages are there in the locked version")
    parts = [f"{len(found)} {word} ({_first(found)})" for found, word in ((missing, "missing"), (differing, "differing")) if found]
    return Finding("lock", False, ", ".join(parts), _REBUILD)


def examine_mlflow(uri: str) -> Finding:
    """An MLflow store given by its URI: a SQLite file is opened, a server's port is asked, other databases are not reached."""
    from components.core.store_address import require_reachable, sqlite_path

    path = sqlite_path(uri)
    if path is not None:
        return examine_sqlite("mlflow", path)
    scheme = uri.partition(":")[0]
    if scheme not in ("http", "https"):
        return Finding("mlflow", True, f"not checked (a {scheme} store)", checked=False)
    require_reachable(uri)
    return Finding("mlflow", True, f"server {uri} answers")


def examine_sqlite(name: str, path: Path) -> Finding:
    """A SQLite store: can be opened and written, or can be made."""
    if not path.exists():
        finding = examine_folder(name, path.parent)
        return dataclasses.replace(finding, detail=f"{path} is not made yet") if finding.ok else finding
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=_SQLITE_WAIT_S)) as store:
            tables = store.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
            store.execute("BEGIN IMMEDIATE")
            store.rollback()
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            return Finding(name, True, f"{path} can be opened, another process is writing to it now")
        return Finding(name, False, f"{path}: {error}", "make the file and its folder writable for this user, or free disk")
    except sqlite3.DatabaseError as error:
        return Finding(
            name, False, f"{path}: {error}", "it is no SQLite store or is damaged: restore it from a copy, or move it away to start anew"
        )
    return Finding(name, True, f"{path} can be written, {tables} tables")


def examine_folder(name: str, folder: Path) -> Finding:
    """A folder that is written to, or can be made."""
    place = _existing(folder)
    if not place.is_dir():
        return Finding(name, False, f"{place} is a file, a folder is needed", "move the file away, or choose another folder")
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Finding(
            name, False, f"{place} cannot be written: {error.strerror}", "make it writable for this user, or choose another folder"
        )
    return Finding(name, True, f"{folder} can be written" if place == folder else f"{folder} is not made yet")


def _first(items: list[str]) -> str:
    rest = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _existing(path: Path) -> Path:
    """`path`, or the nearest of its parents that exists."""
    return next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
