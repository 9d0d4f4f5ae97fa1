"""What both proxies do with a request: who serves it, what is seen of the answer, and what is logged."""

import dataclasses
import hashlib
import json
import time
from typing import Any

import numpy as np

from components.core.rollout import ServedVersion, Traffic
from infra.serving.router.conductor import Conductor
from infra.serving.router.counts import Counts
from infra.serving.router.observations import observed
from infra.serving.router.request_log import LoggedRequest, RequestLog, key_digest
from infra.serving.router.shadows import Shadows

KEY_HEADER = "x-tandem-key"
VERSION_HEADER = "x-tandem-version"
ROLE_HEADER = "x-tandem-role"


@dataclasses.dataclass(frozen=True)
class Route:
    """Where one request goes.

    Attributes:
        split: of its model.
        version: that serves it.
        role: `champion` or `canary`.
        key: of the request.
        logged: whether it is in the sample of the request log.
    """

    split: Traffic
    version: ServedVersion
    role: str
    key: bytes
    logged: bool = False

    def to_champion(self) -> "Route | None":
        """The same request for the champion; None where it is the champion's, or there is none."""
        champion = self.split.champion
        if self.role != "canary" or champion is None:
            return None
        return dataclasses.replace(self, version=champion, role="champion")

    def to_shadow(self) -> "Route | None":
        """A copy for the canary in shadow mode; None where nothing is shadowed."""
        canary = self.split.canary
        shadowed = canary is not None and self.split.share == 0 and self.split.rule.shadow and self.role == "champion"
        return dataclasses.replace(self, version=canary, role="shadow", logged=False) if shadowed and canary is not None else None


@dataclasses.dataclass(frozen=True)
class Answered:
    """How a request went.

    Attributes:
        protocol: `rest` or `grpc`.
        method: of the interface.
        status: code as text.
        failed: the server's own fault.
        latency_ms: milliseconds.
        request: as it came.
        scores: of the answer, float[N, C], where it was looked at.
        judged: the guards look at it; what asks about a model and not the model is only counted.
    """

    protocol: str
    method: str
    status: str
    failed: bool
    latency_ms: float
    request: bytes
    scores: Any = None
    judged: bool = True

    @property
    def doubtful(self) -> bool:
        """Whether it may be the version's fault or the request's: the server failed, or a score is not finite."""
        return self.failed or (self.scores is not None and not bool(np.isfinite(self.scores).all()))


class Routing:
    """Chooses and takes note.

    Attributes:
        conductor: knows the splits.
        counts: of everything that was answered.
        shadows: the copies that run now.
        key_header: header or metadata key that carries the request key, lower case.
    """

    def __init__(self, conductor: Conductor, *, log: RequestLog | None, log_share: float | None, key_header: str = KEY_HEADER) -> None:
        self.conductor, self.counts = conductor, Counts()
        self.key_header = key_header.lower()
        self.shadows = Shadows()
        self._log, self._log_share = log, log_share

    def route(self, model: str, key: bytes | None, content: bytes) -> Route | None:
        """Who serves a request; None for a model that the ledger does not know: it passes as it is.

        Args:
            model: that it asks.
            key: what the caller sent as request key; where it sent none, or an empty one, the digest of the content: equal requests stay
                together.
            content: body or message.
        """
        split = self.conductor.split(model)
        if split is None or split.champion is None:
            return None
        chosen = key or hashlib.sha256(content).digest()
        version = split.version_for(chosen)
        if version is None:
            return None
        role = "canary" if split.canary is not None and version.version == split.canary.version else "champion"
        share = split.rule.log_share if self._log_share is None else self._log_share
        return Route(split, version, role, chosen, logged=self._log is not None and self._log.wants(share))

    def looks_at(self, route: Route) -> bool:
        """Whether the scores of this answer are needed: a rollout goes on, or this request is logged."""
        return route.logged or self.conductor.watches(route.split.model)

    def saw_both(self, route: Route, answered: Answered, champions: Route, champion: Answered) -> None:
        """Takes note of a canary's doubtful answer, and of what the champion said to the same request.

        Where the champion does no better, the request or the whole server is at fault: it does not count against the canary.

        Args:
            route: to the canary.
            answered: its answer.
            champions: the same to the champion.
            champion: its answer.
        """
        self.saw(route, dataclasses.replace(answered, judged=answered.judged and not champion.doubtful))
        self.saw(champions, champion)

    def saw(self, route: Route, answered: Answered) -> None:
        """Counts, shows the guards and logs one answer."""
        model, version = route.split.model, route.version.version
        self.counts.add(model, version, route.role, status=answered.status, latency_ms=answered.latency_ms)
        if answered.judged and self.conductor.watches(model):
            seen = observed(time.monotonic(), failed=answered.failed, latency_ms=answered.latency_ms, scores=answered.scores)
            self.conductor.saw(model, route.version, seen)
        if self._log is not None and route.logged and answered.judged:
            self._log.add(
                LoggedRequest(
                    at=time.time_ns() // 1000,
                    model=model,
                    version=version,
                    role=route.role,
                    key_digest=key_digest(route.key),
                    protocol=answered.protocol,
                    method=answered.method,
                    request=answered.request,
                    scores=_listed(answered.scores),
                    status=answered.status,
                    latency_ms=answered.latency_ms,
                )
            )


def _listed(scores: Any) -> list[list[float]]:
    return [] if scores is None else [[float(value) for value in row] for row in scores]


def json_scores(body: bytes) -> Any:
    """`scores` of a REST answer, float64[N, C], null as NaN; None when it holds none."""
    try:
        content = json.loads(body)
        rows = content.get("predictions")
        if rows is None:
            columns = content["outputs"]
            rows = columns["scores"] if isinstance(columns, dict) else columns
        elif rows and isinstance(rows[0], dict):
            rows = [row["scores"] for row in rows]
        array = np.asarray(rows, np.float64)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None  # an answer of another kind: there is nothing to look at
    if array.ndim == 1:
        array = array.reshape(-1, 1)
    return array if array.ndim == 2 else None
