"""Replays logged requests through candidate and champion in a server of its own, before any traffic moves, and rehearses the way back."""

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from components.core.contracts import Contract
from components.core.errors import ServingError
from components.core.model_server import ModelServer
from components.core.rollout import Guards
from infra.serving.router import wire
from infra.serving.router.observations import Observation, complaint, ks_distance, observed, percentile
from infra.serving.router.request_log import LoggedRequest
from infra.serving.router.routing import json_scores

CHAMPION, CANDIDATE = "1", "2"
REPORT_FILE = "rehearsal.json"
_START_TIMEOUT_S = 120.0
_CALL_TIMEOUT_S = 30.0
_KEPT_ERRORS = 5
_SERVE = "import sys; from pipelines.cli import main; sys.exit(main(sys.argv[1:]))"


class SideReport(Contract):
    """What one version answered.

    Attributes:
        requests: replayed.
        error_share: 0 to 1.
        p50_ms, p99_ms: one caller, one request after the other.
        errors: the first few refusals.
    """

    requests: int
    error_share: float
    p50_ms: float
    p99_ms: float
    errors: tuple[str, ...]


class RehearsalReport(Contract):
    """A rehearsal (file `rehearsal.json`).

    Attributes:
        model: name in the registry.
        candidate, champion: registry references.
        candidate_digest, champion_digest: tree digests of the bytes that answered.
        sides: of candidate and champion.
        compared: rows that both answered with finite scores.
        largest_absolute_difference, mean_absolute_difference: of their scores; None where nothing could be compared.
        ks_distance: of the scores of the last class, 0 to 1.
        label_changes: rows with another arg max.
        complaint: what a guard of the rollout would say; empty when all hold.
        rollback: whether after the candidate was taken away the champion answered everything as before.
        passed: no complaint, and the way back works.
    """

    schema_version: Literal[1] = 1
    model: str
    candidate: str
    champion: str
    candidate_digest: str
    champion_digest: str
    sides: dict[str, SideReport]
    compared: int
    largest_absolute_difference: float | None
    mean_absolute_difference: float | None
    ks_distance: float | None
    label_changes: int
    complaint: str
    rollback: bool
    passed: bool


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A version that is rehearsed: its registry reference, the folder of its bytes, their tree digest."""

    reference: str
    saved_model: Path
    digest: str


@dataclasses.dataclass
class _Side:
    """What one version answered, request by request."""

    seen: list[Observation] = dataclasses.field(default_factory=list)
    scores: list[Any] = dataclasses.field(default_factory=list)
    errors: list[str] = dataclasses.field(default_factory=list)


def rehearse(
    requests: Sequence[LoggedRequest], *, model: str, candidate: Contestant, champion: Contestant, guards: Guards
) -> RehearsalReport:
    """Replays every request through both, then takes the candidate away and asks the champion again.

    Args:
        requests: from the router's log, at least one.
        model: name that the requests ask.
        candidate, champion: the versions.
        guards: of the rollout; here the window is the whole rehearsal.

    Raises:
        ServingError: a version does not load, or the server does not come up.
    """
    with _server(model, {CHAMPION: champion.saved_model, CANDIDATE: candidate.saved_model}) as (address, grpc_port, base):
        server = ModelServer(address)
        for version in (CHAMPION, CANDIDATE):
            server.await_available(model, version, timeout_s=_START_TIMEOUT_S)
        caller = _Caller(address, grpc_port, model)
        sides = {version: caller.replay(requests, version) for version in (CHAMPION, CANDIDATE)}
        shutil.rmtree(base / model / CANDIDATE)
        _await_gone(server, model)
        again = caller.replay(requests, CHAMPION)
        caller.close()
    return _report(model, candidate, champion, sides=sides, again=again, guards=guards)


@contextlib.contextmanager
def _server(model: str, versions: dict[str, Path]) -> Iterator[tuple[str, int, Path]]:
    """An embedded server over copies of the versions: (REST address, gRPC port, folder)."""
    with tempfile.TemporaryDirectory(prefix="tandem-rehearsal-") as scratch:
        base = Path(scratch) / "models"
        for version, folder in versions.items():
            shutil.copytree(folder, base / model / version)
        config = Path(scratch) / "models.config"
        config.write_text(
            f"model_config_list {{ config {{ name: {json.dumps(model)} base_path: {json.dumps(str(base / model))} "
            'model_platform: "tensorflow" model_version_policy { all {} } } }',
            encoding="utf-8",
        )
        command = [sys.executable, "-c", _SERVE, "serve", "--config", str(config)]
        log = Path(scratch) / "serve.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--grpc-port", "0", "--rest-port", "0", "--poll", "0.1", "--json"],
                stdout=subprocess.PIPE,
                stderr=output,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        try:
            ports = _ports(process, log)
            yield f"http://127.0.0.1:{ports['rest_port']}", ports["grpc_port"], base
        finally:
            process.terminate()
            try:
                process.wait(_CALL_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _ports(process: "subprocess.Popen[bytes]", log: Path) -> dict[str, int]:
    text = b""
    while process.stdout is not None and not text.rstrip().endswith(b"}"):
        line = process.stdout.readline()
        if not line:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise ServingError(f"the server of the rehearsal did not start: {lines[-1][:300] if lines else 'it wrote nothing'}")
        text += line
    ports: dict[str, int] = json.loads(text)
    return ports


def _await_gone(server: ModelServer, model: str) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while CANDIDATE in server.available(model):
        if time.monotonic() > deadline:
            raise ServingError(f"the server of the rehearsal kept the candidate for {_START_TIMEOUT_S:.0f} s after its folder was gone")
        time.sleep(0.05)


class _Caller:
    """Sends logged requests to one version, over the protocol that they came by."""

    def __init__(self, address: str, grpc_port: int, model: str) -> None:
        import grpc

        self._address, self._model = address, model
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._channel = grpc.insecure_channel(f"127.0.0.1:{grpc_port}")

    def close(self) -> None:
        """Lets the connection go."""
        self._channel.close()

    def replay(self, requests: Sequence[LoggedRequest], version: str) -> _Side:
        """All requests, one after the other."""
        side = _Side()
        for logged in requests:
            began = time.perf_counter()
            failed, scores, error = self._rest(logged, version) if logged.protocol == "rest" else self._grpc(logged, version)
            latency_ms = 1000 * (time.perf_counter() - began)
            side.seen.append(observed(time.monotonic(), failed=failed, latency_ms=latency_ms, scores=scores))
            side.scores.append(scores)
            if error and len(side.errors) < _KEPT_ERRORS:
                side.errors.append(error[:300])
        return side

    def _rest(self, logged: LoggedRequest, version: str) -> tuple[bool, Any, str]:
        path = f"/v1/models/{self._model}/versions/{version}:{logged.method}"
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._address + path, logged.request, headers)  # noqa: S310 - an address of our own
        try:
            with self._opener.open(request, timeout=_CALL_TIMEOUT_S) as answer:
                return False, json_scores(answer.read()), ""
        except urllib.error.HTTPError as error:
            return error.code >= 500, None, f"{error.code}: {error.read(300).decode('utf-8', 'replace')}"
        except OSError as error:
            return True, None, str(error)

    def _grpc(self, logged: LoggedRequest, version: str) -> tuple[bool, Any, str]:
        import grpc

        call = self._channel.unary_unary(f"/tensorflow.serving.PredictionService/{logged.method}")
        try:
            answer = call(wire.pin(logged.method, logged.request, int(version)), timeout=_CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            return error.code() is not grpc.StatusCode.INVALID_ARGUMENT, None, f"{error.code().name}: {error.details()}"
        return False, wire.scores(answer) if logged.method == "Predict" else None, ""


def _report(
    model: str, candidate: Contestant, champion: Contestant, *, sides: dict[str, _Side], again: _Side, guards: Guards
) -> RehearsalReport:
    ours, theirs = sides[CANDIDATE], sides[CHAMPION]
    pairs = [
        (one, other)
        for one, other in zip(ours.scores, theirs.scores, strict=True)
        if one is not None and other is not None and one.shape == other.shape and np.isfinite(one).all() and np.isfinite(other).all()
    ]
    differences = [np.abs(one - other) for one, other in pairs]
    said = complaint(ours.seen, theirs.seen, guards, same_requests=True)
    back = _same(theirs, again)
    return RehearsalReport(
        model=model,
        candidate=candidate.reference,
        champion=champion.reference,
        candidate_digest=candidate.digest,
        champion_digest=champion.digest,
        sides={"candidate": _side(ours), "champion": _side(theirs)},
        compared=sum(len(one) for one, _ in pairs),
        largest_absolute_difference=float(max(difference.max() for difference in differences)) if pairs else None,
        mean_absolute_difference=float(np.concatenate([difference.ravel() for difference in differences]).mean()) if pairs else None,
        ks_distance=ks_distance(*_last_class(pairs)) if pairs else None,
        label_changes=sum(int((one.argmax(axis=1) != other.argmax(axis=1)).sum()) for one, other in pairs),
        complaint=said,
        rollback=back,
        passed=not said and back,
    )


def _last_class(pairs: Sequence[tuple[Any, Any]]) -> tuple[list[float], list[float]]:
    return [float(row[-1]) for one, _ in pairs for row in one], [float(row[-1]) for _, other in pairs for row in other]


def _same(before: _Side, after: _Side) -> bool:
    """Whether the champion answered every request as before, to the bit."""
    return all(
        (one is None) == (other is None) and (one is None or np.array_equal(one, other, equal_nan=True))
        for one, other in zip(before.scores, after.scores, strict=True)
    )


def _side(side: _Side) -> SideReport:
    return SideReport(
        requests=len(side.seen),
        error_share=sum(seen.failed for seen in side.seen) / len(side.seen),
        p50_ms=round(percentile(side.seen, 50), 3),
        p99_ms=round(percentile(side.seen, 99), 3),
        errors=tuple(side.errors),
    )
