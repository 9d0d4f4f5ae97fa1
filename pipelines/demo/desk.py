"""Calls `tandem` as a person does: a process of its own, in the demonstration's folder, with nothing of the caller's keys and stores."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.core.contracts import Contract
from components.core.errors import ServingError, StageError
from pipelines.config import SHIPPED

_COMMAND = "import sys; from pipelines.cli import main; sys.exit(main())"
_START_S = 180.0
_STOP_S = 40.0
_POLL_S = 0.1


class Call(Contract):
    """A command that was called.

    Attributes:
        line: as a person types it.
        exit_code: None of a server, which goes on.
        seconds: wall time until it ended, or until it said that it serves.
    """

    line: str
    exit_code: int | None
    seconds: float


class DemoDesk:
    """A folder, and the servers that were started in it.

    Attributes:
        calls: everything that was called, in order.
        log: file with what the commands wrote to stderr.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder / "demo.log"
        self.calls: list[Call] = []
        self._servers: list[subprocess.Popen[bytes]] = []

    def call(self, line: str, *, codes: Sequence[int] = (0,)) -> Any:
        """Calls a command with --json and waits for its end; what it printed.

        Args:
            line: e.g. `tandem runs`.
            codes: exit codes that are expected.

        Raises:
            StageError: it ended otherwise.
        """
        began = time.monotonic()
        words = [*shlex.split(line)[1:], "--json"]
        with self.log.open("ab") as log:
            log.write(f"$ {line}\n".encode())
            log.flush()
            process = self._start(words, out=subprocess.PIPE, err=log)
            try:
                out, _ = process.communicate()
            except BaseException:
                _end(process, signal.SIGINT)
                raise
        self.calls.append(Call(line=line, exit_code=process.returncode, seconds=round(time.monotonic() - began, 1)))
        if process.returncode not in codes:
            raise StageError(f"`{line}` ended with exit code {process.returncode}: {self._last_line()}; see {self.log}")
        return json.loads(out)

    def serve(self, line: str, says: str) -> re.Match[str]:
        """Starts a server and waits until it says that it serves.

        Args:
            line: e.g. `tandem serve`.
            says: pattern of what it prints then.

        Raises:
            ServingError: it ended, or said nothing within three minutes.
        """
        began = time.monotonic()
        words = shlex.split(line)[1:]
        told = self.folder / "demo-servers" / f"{words[0]}.out"
        told.parent.mkdir(exist_ok=True)
        with told.open("wb") as out, self.log.open("ab") as log:
            process = self._start(words, out=out, err=log)
        self._servers.append(process)
        while time.monotonic() < began + _START_S and process.poll() is None:
            found = re.search(says, told.read_text(encoding="utf-8", errors="replace"))
            if found is not None:
                self.calls.append(Call(line=line, exit_code=None, seconds=round(time.monotonic() - began, 1)))
                return found
            time.sleep(_POLL_S)
        state = "does not say that it serves" if process.poll() is None else f"ended with exit code {process.returncode}"
        raise ServingError(f"`{line}` {state}: {self._last_line()}; see {self.log}")

    def close(self) -> list[int]:
        """Ends the servers, the newest first; their exit codes."""
        codes = [_end(process, signal.SIGTERM) for process in reversed(self._servers)]
        self._servers.clear()
        return codes

    def _start(self, words: Sequence[str], *, out: Any, err: Any) -> "subprocess.Popen[bytes]":
        """In a session of its own: Ctrl-C on the terminal is ours to pass on, once."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("TANDEM_", "MLFLOW_"))}
        known = [str(SHIPPED.parent), *(part for part in inherited.get("PYTHONPATH", "").split(os.pathsep) if part)]
        return subprocess.Popen(
            [sys.executable, "-c", _COMMAND, *words],
            cwd=self.folder,
            env={**inherited, "PYTHONPATH": os.pathsep.join(dict.fromkeys(known))},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )

    def _last_line(self) -> str:
        with contextlib.suppress(OSError):
            lines = [line.strip() for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
            return lines[-1].removeprefix("tandem: ")[:300] if lines else "it wrote nothing"
        return "it wrote nothing"


def _end(process: "subprocess.Popen[bytes]", request: int) -> int:
    """Asks a process to end, then ends it with its children."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(request)
    try:
        return process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.wait()
