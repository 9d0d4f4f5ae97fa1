"""The request log: what goes in comes out, whole files only."""

import dataclasses
import time

import pytest

from components.core.errors import StoreError
from infra.serving.router import request_log
from infra.serving.router.request_log import LoggedRequest, RequestLog, key_digest, read_log


def logged(number, model="m"):
    return LoggedRequest(
        at=number, model=model, version="3", role="champion", key_digest=key_digest(b"k"), protocol="rest", method="predict",
        request=b"\x00body%d" % number, scores=[[0.25, 0.75], [0.5, 0.5]], status="200", latency_ms=1.5,
    )  # fmt: skip


def test_round_trip_by_model(tmp_path):
    log = RequestLog(tmp_path, rows_a_file=3)
    given = [logged(number) for number in range(7)]
    for request in given:
        log.add(request)
    log.add(logged(99, model="other"))
    log.stop()
    assert sorted(read_log(tmp_path, "m"), key=lambda request: request.at) == given
    assert [request.at for request in read_log(tmp_path, "other")] == [99]
    assert log.dropped == 0
    assert not list(tmp_path.rglob("*.tmp"))


def test_files_come_by_time_too(tmp_path):
    log = RequestLog(tmp_path, seconds_a_file=0.1)
    log.add(logged(1))
    deadline = time.monotonic() + 10
    while not list(tmp_path.rglob("part-*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [request.at for request in read_log(tmp_path, "m")] == [1]
    log.stop()


def test_a_full_disk_or_a_wrong_folder_drops_and_counts(tmp_path):
    (tmp_path / "m").write_text("no folder")
    log = RequestLog(tmp_path, rows_a_file=1)
    log.add(logged(1))
    log.stop()
    assert log.dropped == 1


def test_waiting_requests_are_bounded_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(request_log, "_MAX_WAITING_BYTES", 100)
    monkeypatch.setattr(RequestLog, "_run", lambda self: None)
    log = RequestLog(tmp_path)
    for number in range(3):
        log.add(dataclasses.replace(logged(number), request=bytes(40)))
    assert (len(log._waiting), log.dropped) == (2, 1)


def test_the_sample(tmp_path):
    log = RequestLog(tmp_path)
    assert not any(log.wants(0.0) for _ in range(100))
    assert all(log.wants(1.0) for _ in range(100))
    wanted = sum(log.wants(0.3) for _ in range(10_000))
    assert abs(wanted - 3000) < 4 * (10_000 * 0.3 * 0.7) ** 0.5
    log.stop()


def test_a_foreign_file_is_told(tmp_path):
    folder = tmp_path / "m" / "2026-03-01"
    folder.mkdir(parents=True)
    (folder / "part-1.parquet").write_bytes(b"no parquet")
    with pytest.raises(StoreError, match="no request log"):
        list(read_log(tmp_path, "m"))
