"""A sample of the requests as Parquet files, for skew checks and for `tandem rehearse`: what was asked and answered, never who asked."""

import dataclasses
import datetime
import hashlib
import logging
import os
import random
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from components.core.errors import StoreError
from components.core.files import sync_directory

LOG = logging.getLogger("tandem.route")
ROWS_A_FILE = 1000
SECONDS_A_FILE = 60.0
_MAX_WAITING = 20_000
_MAX_WAITING_BYTES = 128 * 1024 * 1024
_BYTES_A_FILE = 16 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class LoggedRequest:
    """One request.

    Attributes:
        at: UTC, microseconds since 1970.
        model, version, role: who answered; role is `champion` or `canary`.
        key_digest: first 16 hexadecimal digits of the SHA-256 of the request key.
        protocol: `rest` or `grpc`.
        method: `predict` or the gRPC method.
        request: the body or message as it came.
        scores: of the answer, a list a row.
        status: HTTP or gRPC code as text.
        latency_ms: milliseconds.
    """

    at: int
    model: str
    version: str
    role: str
    key_digest: str
    protocol: str
    method: str
    request: bytes
    scores: list[list[float]]
    status: str
    latency_ms: float


def key_digest(key: bytes) -> str:
    """What the log holds of a request key."""
    return hashlib.sha256(key).hexdigest()[:16]


class RequestLog:
    """Writes `<folder>/<model>/<date>/part-*.parquet`: bounded in memory, whole or not at all on disk.

    Attributes:
        dropped: requests that were to be logged and were not, because writing did not keep up.
    """

    def __init__(self, folder: Path, *, rows_a_file: int = ROWS_A_FILE, seconds_a_file: float = SECONDS_A_FILE) -> None:
        self.folder, self.dropped = folder, 0
        self._rows, self._seconds = rows_a_file, seconds_a_file
        self._random = random.Random()  # noqa: S311 - a sample, no secret
        self._waiting: list[LoggedRequest] = []
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="request-log", daemon=True)
        self._thread.start()

    def wants(self, share: float) -> bool:
        """Whether the next request is in the sample."""
        return share > 0 and self._random.random() < share

    def add(self, request: LoggedRequest) -> None:
        """Takes one; returns at once."""
        with self._changed:
            if len(self._waiting) >= _MAX_WAITING or self._waiting_bytes + len(request.request) > _MAX_WAITING_BYTES:
                self.dropped += 1
                return
            self._waiting.append(request)
            self._waiting_bytes += len(request.request)
            if self._is_full():
                self._changed.notify()

    def _is_full(self) -> bool:
        return len(self._waiting) >= self._rows or self._waiting_bytes >= _BYTES_A_FILE

    def stop(self) -> None:
        """Writes what waits and ends."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._stopping and not self._is_full():
                    self._changed.wait(self._seconds)
                taken, self._waiting, self._waiting_bytes = self._waiting, [], 0
                stopping = self._stopping
            try:
                for model in sorted({request.model for request in taken}):
                    self._write(model, [request for request in taken if request.model == model])
            except OSError:
                self.dropped += len(taken)
                LOG.exception("%d requests could not be logged", len(taken))
            if stopping:
                return

    def _write(self, model: str, requests: Sequence[LoggedRequest]) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        day = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
        folder = self.folder / model / day
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"part-{time.time_ns()}-{os.getpid()}.parquet"
        temporary = target.with_name(f".{target.name}.tmp")
        parquet.write_table(pa.Table.from_pylist([dataclasses.asdict(request) for request in requests], schema=_schema()), temporary)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.rename(target)
        sync_directory(folder)


def _schema() -> Any:
    import pyarrow as pa

    kinds: dict[Any, Any] = {int: pa.int64(), str: pa.string(), bytes: pa.binary(), float: pa.float64()}
    scores = pa.list_(pa.list_(pa.float64()))
    return pa.schema([(field.name, kinds.get(field.type, scores)) for field in dataclasses.fields(LoggedRequest)])


def read_log(folder: Path, model: str) -> Iterator[LoggedRequest]:
    """The logged requests of a model, file by file in the order of their writing.

    Raises:
        StoreError: a file is no log.
    """
    import pyarrow as pa
    from pyarrow import parquet

    for path in sorted((folder / model).glob("*/part-*.parquet")):
        try:
            rows = parquet.read_table(path, schema=_schema()).to_pylist()
        except (OSError, pa.ArrowInvalid) as error:
            raise StoreError(f"{path}: no request log ({error}); move it away") from error
        yield from (LoggedRequest(**row) for row in rows)
