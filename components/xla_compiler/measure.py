"""Latency and numerics of a signature and its XLA twin, side by side in one process."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from components.core.served_model import EXAMPLES, SCORES

Scores = npt.NDArray[np.float32]
CALLS = 200
LEAST_CALLS = 100
LIMIT_S = 0.5
"""Timed calls of each signature for one bucket: CALLS, or fewer after LIMIT_S seconds but never under LEAST_CALLS; 100 give a p99."""
ROUNDS = 4
"""A p99 of some hundred calls is one or two calls, and a neighbour on the machine makes it; so it may be measured this often."""


@dataclasses.dataclass(frozen=True)
class Latency:
    """Milliseconds of a call, from serialized examples to scores in memory; `rounds` were measured and this is the calmest."""

    rounds: int
    calls: int
    plain_p50_ms: float
    plain_p99_ms: float
    xla_p50_ms: float
    xla_p99_ms: float


def ask_examples(signature: Any, examples: Sequence[bytes]) -> Scores:
    """Scores float32[N, C] of serialized examples."""
    return np.asarray(signature(**{EXAMPLES: tf.constant(list(examples), tf.string)})[SCORES].numpy())


def measure_latency(plain: Any, xla: Any, examples: Sequence[bytes], *, enough_ms: float) -> Latency:
    """Times calls on the same rows, plain and XLA in turn, so that what disturbs the machine disturbs both.

    A round whose plain p99 is above `enough_ms` is measured again, up to ROUNDS times; the round with the lowest plain p99 is given, whole.
    The calls come from Python: about 0.3 ms of each are its own. First calls must have been made before.
    """
    rows = tf.constant(list(examples), tf.string)
    calmest = _measure_round(plain, xla, rows)
    for done in range(1, ROUNDS):
        if calmest.plain_p99_ms <= enough_ms:
            break
        again = _measure_round(plain, xla, rows)
        calmest = dataclasses.replace(min(calmest, again, key=lambda latency: latency.plain_p99_ms), rounds=done + 1)
    return calmest


def _measure_round(plain: Any, xla: Any, rows: Any) -> Latency:
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + LIMIT_S
    while len(times[0]) < CALLS and (len(times[0]) < LEAST_CALLS or time.perf_counter() < end):
        for signature, series in zip((plain, xla), times, strict=True):
            start = time.perf_counter()
            signature(**{EXAMPLES: rows})[SCORES].numpy()
            series.append((time.perf_counter() - start) * 1000)
    (plain_p50, plain_p99), (xla_p50, xla_p99) = (np.percentile(series, [50, 99]) for series in times)
    return Latency(1, len(times[0]), float(plain_p50), float(plain_p99), float(xla_p50), float(xla_p99))


def batches(count: int, size: int, *, limit: int) -> Iterator[slice]:
    """At most `limit` row ranges of `size` rows that cover as much of `count` rows as they can; the last may be smaller."""
    for start in range(0, min(count, size * limit), size):
        yield slice(start, min(start + size, count))


def largest_difference(answers: Callable[[slice], tuple[Scores, Scores]], ranges: Sequence[slice]) -> float:
    """Largest absolute difference of two answers over row ranges; NaN if any score is not finite."""
    largest = 0.0
    for rows in ranges:
        left, right = answers(rows)
        difference = np.abs(left.astype(np.float64) - right)
        if not (np.isfinite(left).all() and np.isfinite(right).all()):
            return float("nan")
        largest = max(largest, float(difference.max(initial=0.0)))
    return largest
