"""The MLflow server of one machine, with Tandem's pages and one login: loopback only, over the SQLite file of a home folder.

It is gone when the command that started it ends.
"""

import contextlib
import dataclasses
import http
import http.client
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from components.core.errors import EnvironmentFault, StoreError

HOST = "127.0.0.1"
DATABASE = "mlflow.db"
ARTIFACTS = "mlflow-artifacts"
START_TIMEOUT_S = 120.0
STOP_GRACE_S = 10.0
_POLL_S = 0.1
_ANSWER_TIMEOUT_S = 10.0


@dataclasses.dataclass(frozen=True)
class UiServer:
    """A server that answers.

    Attributes:
        address: without a slash at the end.
        log: file with its output.
        process: the leader of its process group.
        database: MLflow's SQLite file.
    """

    address: str
    log: Path
    process: subprocess.Popen[bytes]
    database: Path

    def experiments(self) -> list[tuple[str, str]]:
        """(id, name) of the experiments that are not deleted, sorted by name; from the file, since the API wants a login.

        Raises:
            StoreError: the file is no MLflow store.
        """
        query = "SELECT experiment_id, name FROM experiments WHERE lifecycle_stage = 'active' ORDER BY name"
        try:
            with contextlib.closing(sqlite3.connect(f"file:{quote(str(self.database))}?mode=ro", uri=True, timeout=10)) as store:
                return [(str(number), str(name)) for number, name in store.execute(query)]
        except sqlite3.Error as error:
            raise StoreError(f"{self.database}: cannot be read as MLflow's store: {error}; see `tandem doctor`") from error

    def wait(self) -> None:
        """Returns never: a server ends when it is told to, or with a fault.

        Raises:
            StoreError: the server ended by itself.
        """
        code = self.process.wait()
        raise StoreError(f"the MLflow server at {self.address} ended (exit code {code}): {_last_line(self.log)}; see {self.log}")


@contextlib.contextmanager
def serve_ui(home: Path, environment: Mapping[str, str], *, port: int, start_timeout_s: float = START_TIMEOUT_S) -> Iterator[UiServer]:
    """Starts the server, gives it when it answers, and ends it with all its children.

    Args:
        home: folder with `mlflow.db` and `mlflow-artifacts`.
        environment: what the console adds, see `ConsoleFiles.environment`.
        port: on 127.0.0.1; 0 takes a free one.
        start_timeout_s: seconds until it has to answer.

    Raises:
        StoreError: there is no MLflow store in `home`, or the server does not start over it.
        EnvironmentFault: the port is taken or not allowed.
    """
    require_store(home)
    port = _free_port(port)
    log = home / "ui.log"
    with log.open("wb") as output:
        # A process group of its own: a server that is killed leaves its uvicorn child serving, the group ends both.
        process = subprocess.Popen(
            _command(home, port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**_environment(), **environment},
            cwd=home,
            start_new_session=True,
        )
    try:
        server = UiServer(f"http://{HOST}:{port}", log, process, home / DATABASE)
        _await_answer(server, start_timeout_s)
        yield server
    finally:
        _end_group(process)


def require_store(home: Path) -> None:
    """Refuses a home without an MLflow store.

    Raises:
        StoreError: there is none.
    """
    if not (home / DATABASE).is_file():
        raise StoreError(f"{home / DATABASE}: no such file; `tandem run USE_CASE` makes it, or name its folder with --home")


def _command(home: Path, port: int) -> list[str]:
    artifacts = str(home / ARTIFACTS)
    return [
        *(sys.executable, "-m", "mlflow", "server", "--app-name", "tandem"),
        *("--backend-store-uri", f"sqlite:///{home / DATABASE}"),
        *("--default-artifact-root", artifacts),
        *("--artifacts-destination", artifacts),
        # One process: what the console remembers of sent forms, and its lock around a decision, are of this process.
        *("--host", HOST, "--port", str(port), "--workers", "1"),
        # A page in the user's browser must not reach the server under another name (DNS rebinding).
        *("--allowed-hosts", f"{HOST}:{port},localhost:{port}"),
    ]


def _environment() -> dict[str, str]:
    """Ours without MLflow settings of other servers; no job runner (a child more, of no use here), nothing sent anywhere."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("MLFLOW_")}
    return {**inherited, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}


def _free_port(port: int) -> int:
    """`port` when it can be listened on; a free one for 0."""
    if not 0 <= port <= 65535:
        raise EnvironmentFault(f"port {port} is none; allowed are 1 to 65535, and 0 for a free one")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise EnvironmentFault(f"port {port} on {HOST} cannot be used: {error.strerror}; choose another one with --port") from error
        chosen: int = probe.getsockname()[1]
        return chosen


def _opener() -> urllib.request.OpenerDirector:
    """Asks directly: a proxy of the environment knows nothing of this machine's loopback."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _await_answer(server: UiServer, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    opener = _opener()
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise StoreError(f"the MLflow server did not start: {_last_line(server.log)}; see {server.log}")
        try:
            with opener.open(f"{server.address}/health", timeout=_ANSWER_TIMEOUT_S) as answer:
                if answer.status == http.HTTPStatus.OK:
                    return
        except (urllib.error.URLError, OSError, http.client.HTTPException):
            time.sleep(_POLL_S)  # it is not up yet
    raise StoreError(f"the MLflow server did not answer within {timeout_s:.0f} s; see {server.log}")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends the server and its children: asked first, then forced; also those whose leader is gone already."""
    for request in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + STOP_GRACE_S
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, request)
        while time.monotonic() < deadline:
            process.poll()
            if not _group_lives(process.pid):
                return
            time.sleep(_POLL_S)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it wrote nothing"
