"""Wall and CPU seconds of a command with every process that it starts, also those that outlive their parents.

`getrusage(RUSAGE_CHILDREN)` alone is not enough: it counts a process only when its parent waited for it, and the forkserver that runs
Tandem's stages is waited for by nobody, since it ends when it sees that the command is gone. The kernel then hands it to init, and its
CPU, with that of all stages it waited for, is lost to us. So the command runs below a small watcher that first declares itself a child
subreaper (prctl(2)): orphans come to the watcher instead of init, and it waits for them with wait4, which gives the CPU of a process and of
all that this process waited for. Each process is so counted once, either by its parent's wait or by the watcher's.

Not counted: children of a process that ignores SIGCHLD, because the kernel keeps no account of those. None is known here.

A cgroup would count the same, but needs rights that a container seldom has.
"""

import ctypes
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.01
LINGER_S = 60.0
"""Longest that processes may outlive the command: the forkserver needs a fraction of a second."""


class CommandError(Exception):
    """A measured command failed: its figure would mean nothing."""


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a command used.

    Attributes:
        wall_s: from its start to its own end.
        cpu_s: user and system time of all its processes.
        peak_bytes: largest resident size of any one process.
        processes: processes that the watcher waited for: the command and its orphans.
        exit_code: of the command; 128 and the signal's number when a signal ended it.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int
    processes: int
    exit_code: int


def run_measured(
    command: Sequence[str], *, folder: Path, log: Path, environment: Mapping[str, str] | None = None, linger_s: float = LINGER_S
) -> Usage:
    """Runs a command to its end and to the end of every process that it left behind.

    Args:
        command: program and arguments.
        folder: working folder.
        log: file that takes output and errors, one run after the other.
        environment: of the command, this process's where None.
        linger_s: longest that processes may outlive the command.

    Raises:
        CommandError: a process outlived the command for longer than `linger_s`; it is left alone, and named.
    """
    with tempfile.TemporaryDirectory() as scratch, log.open("ab") as output:
        result = Path(scratch) / "usage.json"
        # -I: the watcher must not take modules or settings from the folder or the environment that the command needs.
        watcher = [sys.executable, "-I", str(Path(__file__).resolve()), str(result), str(linger_s), *command]
        environment = None if environment is None else dict(environment)
        finished = subprocess.run(watcher, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
        if finished.returncode != 0 or not result.is_file():
            raise CommandError(f"{' '.join(command)}: could not be measured: {last_line(log)}; the whole story is in {log}")
        return Usage(**json.loads(result.read_text()))


def last_line(log: Path) -> str:
    """The last line of a log that is not empty."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


def _become_subreaper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed: it needs Linux 3.4 or newer")


def watch(command: list[str], linger_s: float) -> Usage:
    """Runs a command and waits for all that it leaves. Only for a process of its own: it takes in every child that ends.

    Raises:
        TimeoutError: a process outlived the command for longer than `linger_s`.
    """
    _become_subreaper()
    began = time.perf_counter()
    command_pid = os.posix_spawnp(command[0], command, os.environ)
    wall_s, exit_code, ended = 0.0, -1, None
    cpu_s, peak, processes = 0.0, 0, 0
    while True:
        try:
            pid, status, used = os.wait4(-1, os.WNOHANG if ended else 0)
        except ChildProcessError:
            break
        if pid == 0:
            if ended and time.perf_counter() - ended > linger_s:
                raise TimeoutError(f"processes {_children()} outlived the command by {linger_s:g} s")
            time.sleep(_POLL_S)
            continue
        if pid == command_pid:
            ended = time.perf_counter()
            wall_s, exit_code = ended - began, os.waitstatus_to_exitcode(status)
        cpu_s += used.ru_utime + used.ru_stime
        peak = max(peak, used.ru_maxrss * 1024)
        processes += 1
    return Usage(wall_s, cpu_s, peak, processes, 128 - exit_code if exit_code < 0 else exit_code)


def _children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().strip()


if __name__ == "__main__":
    usage = watch(sys.argv[3:], float(sys.argv[2]))
    Path(sys.argv[1]).write_text(json.dumps(dataclasses.asdict(usage)))
