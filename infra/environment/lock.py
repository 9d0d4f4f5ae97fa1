"""Writes requirements.lock and requirements-test.lock from pyproject.toml: `make lock`.

pip resolves for the interpreter that runs this module (CPython 3.11 of .venv) and installs nothing. Versions that are locked
already stay as long as they fit; with `--upgrade` everything is resolved afresh to the newest versions that fit together.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.core.errors import EnvironmentFault
from components.core.files import write_bytes

ROOT = Path(__file__).resolve().parents[2]
RUNTIME_LOCK = "requirements.lock"
TEST_LOCK = "requirements-test.lock"
_HEADING = """\
# Exact versions of everything that {what}.
# Made from pyproject.toml by `make lock`; not edited by hand. `tandem doctor` compares an environment with it.
"""
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;#]+)\s*$")


def canonical_name(name: str) -> str:
    """The normalised form of a distribution's name: lower case, `-` for runs of `-`, `_` and `.` (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def public_version(version: str) -> str:
    """A version without its local part: `2.13.0+cpu` is `2.13.0`; the lock fits torch's CPU and CUDA builds alike (PEP 440)."""
    return version.partition("+")[0]


def read_lock(path: Path) -> dict[str, str]:
    """The pins of a lock: canonical name -> version.

    Raises:
        EnvironmentFault: there is no such file, or a line that is neither a comment nor `name==version`; make it again by `make lock`.
    """
    pins = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise EnvironmentFault(f"the lock {path} cannot be read: {error.strerror}; make it by `make lock`") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _PIN.match(line)
        if match is None:
            raise EnvironmentFault(f"{path}, line {number}: {line!r} is not `name==version`; make the lock again by `make lock`")
        pins[canonical_name(match[1])] = match[2]
    return pins


def render_lock(pins: Mapping[str, str], what: str) -> str:
    """The text of a lock: a heading that ends "everything that `what`", then `name==version` lines sorted by canonical name."""
    lines = sorted(f"{canonical_name(name)}=={public_version(version)}\n" for name, version in pins.items())
    return _HEADING.format(what=what) + "".join(lines)


def resolve(requirements: Sequence[str], constraints: Mapping[str, str]) -> dict[str, str]:
    """What pip would install into an empty environment: canonical name -> public version. Reaches the package index.

    Args:
        requirements: requirement lines as they stand in pyproject.toml.
        constraints: versions that must be kept where the package is needed at all.

    Raises:
        EnvironmentFault: pip finds no set of versions that fits, or cannot reach an index.
    """
    with tempfile.TemporaryDirectory() as folder:
        pinned = Path(folder) / "constraints.txt"
        pinned.write_text("".join(f"{name}=={version}\n" for name, version in constraints.items()), encoding="utf-8")
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", str(report)]
        finished = subprocess.run([*command, "--constraint", str(pinned), *requirements], capture_output=True, text=True, check=False)
        if finished.returncode != 0:
            reason = next((line for line in finished.stderr.splitlines() if line.startswith("ERROR:")), "no reason given")
            raise EnvironmentFault(
                f"pip could not resolve pyproject.toml: {reason.removeprefix('ERROR: ')}; check the network, or `make lock UPGRADE=1`"
            )
        chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {canonical_name(entry["metadata"]["name"]): public_version(entry["metadata"]["version"]) for entry in chosen}


def write_locks(root: Path, *, upgrade: bool = False) -> dict[str, int]:
    """Resolves `root`/pyproject.toml and writes both locks.

    Returns:
        The number of packages in each lock, by file name; the test lock holds only what the runtime lock does not.

    Raises:
        EnvironmentFault: as `resolve`; no lock is changed then.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    builders = project["build-system"]["requires"] + ["wheel"]
    runtime_needs = project["project"]["dependencies"] + builders
    test_needs = project["project"]["optional-dependencies"]["test"]
    kept: dict[str, str] = {}
    if not upgrade:
        for name in (RUNTIME_LOCK, TEST_LOCK):
            kept |= read_lock(root / name) if (root / name).exists() else {}
    runtime = resolve(runtime_needs, kept)
    both = resolve([*runtime_needs, *test_needs], kept | runtime)
    extra = {name: version for name, version in both.items() if name not in runtime}
    write_bytes(root / RUNTIME_LOCK, render_lock(runtime, "the pipeline needs to run").encode())
    write_bytes(root / TEST_LOCK, render_lock(extra, f"the tests need beside {RUNTIME_LOCK}").encode())
    return {RUNTIME_LOCK: len(runtime), TEST_LOCK: len(extra)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command behind `make lock`; says on standard output how many packages each lock holds."""
    parser = argparse.ArgumentParser(description="write requirements.lock and requirements-test.lock from pyproject.toml")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that fit instead of keeping what is locked")
    try:
        counts = write_locks(ROOT, upgrade=parser.parse_args(arguments).upgrade)
    except EnvironmentFault as fault:
        sys.stderr.write(f"tandem lock: {fault}\n")
        return fault.exit_code
    sys.stdout.write("".join(f"{name}: {count} packages\n" for name, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
