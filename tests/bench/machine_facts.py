"""What a figure was measured on: processor, cores, memory, load, versions and commit."""

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

DISTRIBUTIONS = ("tfx", "tensorflow", "keras", "torch", "pytorch-lightning", "mlflow", "apache-beam", "scikit-learn")
QUIET_LOAD = 0.5
"""Runnable processes, one-minute mean: above this other work takes part in the figures."""


def machine_facts(root: Path) -> list[tuple[str, str]]:
    """Name and value of each fact.

    Args:
        root: the repository's folder.
    """
    memory = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    return [
        ("processor", _processor()),
        ("cores", str(len(os.sched_getaffinity(0)))),
        ("memory", f"{int(memory[1]) / 2**20:.1f} GiB" if memory else "unknown"),
        ("system", f"{platform.system()} {platform.release()}, Python {platform.python_version()}, glibc {platform.libc_ver()[1]}"),
        ("load", _load()),
        ("versions", ", ".join(f"{name} {importlib.metadata.version(name)}" for name in DISTRIBUTIONS)),
        ("commit", _commit(root)),
    ]


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def _load() -> str:
    load = os.getloadavg()[0]
    return f"{load:.2f} before the first bench" + (": not a quiet machine, read the figures with care" if load > QUIET_LOAD else "")


def _commit(root: Path) -> str:
    """Short hash, and whether files differ from it."""
    commands = (["git", "rev-parse", "--short", "HEAD"], ["git", "status", "--porcelain"])
    commit, changes = (subprocess.run(command, cwd=root, capture_output=True, text=True, check=False) for command in commands)
    if commit.returncode != 0:
        return "unknown: no git"
    return commit.stdout.strip() + (" with uncommitted changes" if changes.stdout.strip() else "")
