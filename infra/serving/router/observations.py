"""What was seen of the two versions of a rollout, in a sliding window, and whether a guard complains.

A guard looks twice a second at a sample, so a figure beyond its limit is no reason yet: a healthy canary's would be, sooner or later. It
complains where the figure is beyond the limit and chance does not explain that: at the limit itself it would be seen in one look of a
thousand at most. What is far beyond a limit shows with the first `min_requests`; what is barely beyond it needs more.
"""

import collections
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from components.core.rollout import Guards

_KEPT = 20_000
"""Observations that a window holds at most: at high rates it covers less time, never more memory."""
_SCORES_A_REQUEST = 64
_SCORES_COMPARED = 10_000
"""Newest scores of a version that a distance is taken over: judging takes milliseconds."""
_LEVEL = 0.001
"""Chance, at the limit itself, to see what is taken for more than chance."""


@dataclasses.dataclass(frozen=True)
class Observation:
    """One answer.

    Attributes:
        at: of `time.monotonic`.
        failed: the server's own fault, not the client's.
        latency_ms: until the whole answer was there.
        scores: of the last class, at most 64 rows.
        not_finite: a score is NaN or infinite.
    """

    at: float
    failed: bool
    latency_ms: float
    scores: tuple[float, ...] = ()
    not_finite: bool = False


class Window:
    """The last observations of one version."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: collections.deque[Observation] = collections.deque(maxlen=_KEPT)
        self.total = 0

    def add(self, observation: Observation) -> None:
        """Remembers one more."""
        with self._lock:
            self._seen.append(observation)
            self.total += 1

    def last(self, seconds: float, *, at_least: int = 0) -> list[Observation]:
        """Those of the last seconds, the oldest first; where these are few, the newest `at_least`.

        So a canary with little traffic is judged too.
        """
        since = self._clock() - seconds
        with self._lock:
            while len(self._seen) > at_least and self._seen[0].at < since:
                self._seen.popleft()
            return list(self._seen)


def observed(at: float, *, failed: bool, latency_ms: float, scores: Any = None) -> Observation:
    """An observation of an answer.

    Args:
        at: when it was complete.
        failed: see Observation.
        latency_ms: milliseconds.
        scores: float[N, C], or None when the answer holds none.
    """
    if scores is None or not scores.size:
        return Observation(at, failed, latency_ms)
    column = scores[:_SCORES_A_REQUEST, -1]
    return Observation(at, failed, latency_ms, tuple(map(float, column)), not bool(np.isfinite(scores).all()))


def complaint(canary: Sequence[Observation], champion: Sequence[Observation], guards: Guards, *, same_requests: bool = False) -> str:
    """What a guard says of the canary, one line with value, limit and window; empty when all hold.

    Args:
        canary, champion: what was seen of each.
        guards: the limits.
        same_requests: both answered the same ones, so that no chance lies in who got which.
    """
    if any(seen.not_finite for seen in canary):
        return f"nan: a score of the canary is not finite, in its newest {len(canary)} requests"
    if len(canary) < guards.min_requests:
        return ""
    where = f"over its newest {len(canary)} requests"
    failed = sum(seen.failed for seen in canary)
    share = failed / len(canary)
    if share > guards.max_error_share and chance_of(failed, len(canary), guards.max_error_share) < _LEVEL:
        return f"errors: {share:.2%} of the canary's answers are errors, limit {guards.max_error_share:.2%}, {where}"
    p99 = percentile(canary, 99)
    if guards.max_p99_ms is not None and _is_slower(canary, guards.max_p99_ms):
        return f"p99: {p99:.1f} ms, limit {guards.max_p99_ms:g} ms, {where}"
    if guards.max_p99_ratio is not None and len(champion) >= guards.min_requests:
        theirs = max(percentile(champion, 99), 1e-9)
        if _is_slower(canary, theirs * guards.max_p99_ratio):
            return f"p99: {p99 / theirs:.2f} times the champion's, limit {guards.max_p99_ratio:g}, {where}"
    return _shift(canary, champion, guards, where=where, same_requests=same_requests)


def _is_slower(canary: Sequence[Observation], limit_ms: float) -> bool:
    """Whether more than 1 % of the requests take longer: that is what a p99 beyond the limit says."""
    slow = sum(seen.latency_ms > limit_ms for seen in canary)
    return percentile(canary, 99) > limit_ms and chance_of(slow, len(canary), 0.01) < _LEVEL


def chance_of(count: int, of: int, share: float) -> float:
    """Probability of at least `count` hits in `of` independent trials that each hit with probability `share`: the binomial's upper tail.

    Args:
        count: 0 to `of`.
        of: trials.
        share: 0 to 1, 1 excluded.
    """
    if share <= 0:
        return float(count == 0)
    logs = (
        math.lgamma(of + 1) - math.lgamma(hits + 1) - math.lgamma(of - hits + 1) + hits * math.log(share) + (of - hits) * math.log1p(-share)
        for hits in range(count, of + 1)
    )
    return min(1.0, math.fsum(map(math.exp, logs)))


def _shift(canary: Sequence[Observation], champion: Sequence[Observation], guards: Guards, *, where: str, same_requests: bool) -> str:
    # Requests, not scores: the rows of one request are one caller's, and a single large one is no distribution.
    asked, compared = (sum(bool(seen.scores) for seen in side) for side in (canary, champion))
    if min(asked, compared) < guards.min_requests:
        return ""
    distance = ks_distance(_newest_scores(canary), _newest_scores(champion))
    if distance - (0.0 if same_requests else chance_distance(asked, compared)) > guards.max_score_shift:
        return f"score shift: Kolmogorov-Smirnov distance {distance:.3f} to the champion, limit {guards.max_score_shift:g}, {where}"
    return ""


def chance_distance(first: int, second: int) -> float:
    """How far a Kolmogorov-Smirnov distance of two samples lies above the true one by chance at most, at the level of 0.1 %.

    sqrt(ln(2 / level) / 2) * sqrt((n + m) / (n * m)): Smirnov's asymptotic distribution, its first term.

    Args:
        first, second: sizes of the samples.
    """
    return math.sqrt(math.log(2 / _LEVEL) / 2 * (first + second) / (first * second))


def score_distance(canary: Sequence[Observation], champion: Sequence[Observation]) -> float | None:
    """Kolmogorov-Smirnov distance of the newest scores of two windows; None where one has none."""
    ours, theirs = _newest_scores(canary), _newest_scores(champion)
    return round(ks_distance(ours, theirs), 4) if ours and theirs else None


def _newest_scores(seen: Sequence[Observation]) -> list[float]:
    scores: list[float] = []
    for observation in reversed(seen):
        scores.extend(observation.scores)
        if len(scores) >= _SCORES_COMPARED:
            return scores[:_SCORES_COMPARED]
    return scores


def ks_distance(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Two-sample Kolmogorov-Smirnov distance: the largest difference of the two empirical distribution functions, 0 to 1."""
    first, second = np.sort(np.asarray(ours)), np.sort(np.asarray(theirs))
    values = np.concatenate([first, second])
    below_first = np.searchsorted(first, values, side="right") / len(first)
    below_second = np.searchsorted(second, values, side="right") / len(second)
    return float(np.abs(below_first - below_second).max())


def percentile(seen: Sequence[Observation], level: float) -> float:
    """Latency in milliseconds."""
    return float(np.percentile([observation.latency_ms for observation in seen], level))


def summary(seen: Sequence[Observation]) -> dict[str, float | int | None]:
    """Figures of a window for people and metrics."""
    if not seen:
        return {"requests": 0, "error_share": None, "p50_ms": None, "p99_ms": None}
    return {
        "requests": len(seen),
        "error_share": sum(observation.failed for observation in seen) / len(seen),
        "p50_ms": round(percentile(seen, 50), 3),
        "p99_ms": round(percentile(seen, 99), 3),
    }


class Comparison:
    """How far the scores of two versions lie apart on the same requests.

    A row's label is the class of its largest score; where there is one class alone, whether its score is at least 0.5.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows = self._values = self._agreed = 0
        self._difference = 0.0

    def add(self, canary: Any, champion: Any) -> None:
        """Takes the scores, float[N, C], of one request; other shapes and scores that are not finite are left to the guards."""
        if canary is None or champion is None or canary.shape != champion.shape or not canary.size:
            return
        if not (np.isfinite(canary).all() and np.isfinite(champion).all()):
            return
        difference = float(np.abs(canary.astype(np.float64) - champion).sum())
        agreed = int((_labels(canary) == _labels(champion)).sum())
        with self._lock:
            self._rows += len(canary)
            self._values += canary.size
            self._difference += difference
            self._agreed += agreed

    def summary(self) -> dict[str, float | int] | None:
        """Rows, mean absolute difference and share of equal labels; None where nothing was compared."""
        with self._lock:
            if not self._rows:
                return None
            return {
                "rows": self._rows,
                "mean_absolute_difference": self._difference / self._values,
                "label_agreement": self._agreed / self._rows,
            }


def _labels(scores: Any) -> Any:  # int64[N]
    return scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] >= 0.5).astype(np.int64)
