"""What both proxies do with a request: who serves it, what is seen of the answer, and what is logged."""

import dataclasses
import hashlib
import json
import math
import time
from typing import Any

import numpy as np

from components.core.rollout import ServedVersion, Traffic
from infra.serving.router.conductor import Conductor
from infra.serving.router.counts import Counts
from infra.serving.router.observations import observed
from infra.serving.router.request_log import LoggedRequest, RequestLog, key_digest

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
    """

    split: Traffic
    version: ServedVersion
    role: str
    key: bytes

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
        return dataclasses.replace(self, version=canary, role="shadow") if shadowed and canary is not None else None


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
    """

    protocol: str
    method: str
    status: str
    failed: bool
    latency_ms: float
    request: bytes
    scores: Any = None


class Routing:
    """Chooses and takes note."""

    def __init__(self, conductor: Conductor, *, log: RequestLog | None, log_share: float | None, key_header: str = KEY_HEADER) -> None:
        self.conductor, self.counts = conductor, Counts()
        self.key_header = key_header.lower()
        self._log, self._log_share = log, log_share

    def route(self, model: str, key: str | None, content: bytes) -> Route | None:
        """Who serves a request; None for a model that the ledger does not know: it passes as it is.

        Args:
            model: that it asks.
            key: what the caller sent as request key; the digest of the content where it sent none, so that equal requests stay together.
            content: body or message.
        """
        split = self.conductor.split(model)
        if split is None or split.champion is None:
            return None
        chosen = key.encode() if key is not None else hashlib.sha256(content).digest()
        version = split.version_for(chosen)
        if version is None:
            return None
        role = "canary" if split.canary is not None and version.version == split.canary.version else "champion"
        return Route(split, version, role, chosen)

    def looks_at(self, route: Route) -> bool:
        """Whether the scores of this answer are needed: a rollout goes on, or requests are logged."""
        return self.conductor.watches(route.split.model) or (self._log is not None and self._share(route) > 0)

    def _share(self, route: Route) -> float:
        return route.split.rule.log_share if self._log_share is None else self._log_share

    def saw(self, route: Route, answered: Answered) -> None:
        """Counts, shows the guards and logs one answer."""
        model, version = route.split.model, route.version.version
        self.counts.add(model, version, route.role, status=answered.status, latency_ms=answered.latency_ms)
        seen = observed(time.monotonic(), failed=answered.failed, latency_ms=answered.latency_ms, scores=answered.scores)
        self.conductor.saw(model, route.version, seen)
        if self._log is not None and route.role != "shadow" and self._log.wants(self._share(route)):
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
    """`scores` of a REST answer, float64[N, C]; None when it holds none."""
    try:
        content = json.loads(body)
        rows = content.get("predictions")
        if rows is None:
            columns = content["outputs"]
            rows = columns["scores"] if isinstance(columns, dict) else columns
        else:
            rows = [row["scores"] if isinstance(row, dict) else row for row in rows]
        array = np.asarray([[math.nan if value is None else value for value in np.atleast_1d(row)] for row in rows], np.float64)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # an answer of another kind: there is nothing to look at
    return array if array.ndim == 2 else None
