"""Intervals of metrics by a seeded bootstrap over predictions: rows are drawn with replacement, percentiles are the bounds.

Source: Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13 (percentile interval). The model is held fixed: the interval says
how far the metric would move with other rows of the same population, not with another training.
"""

import dataclasses
import hashlib
from collections.abc import Iterator

import numpy as np

from components.auditor import formulas
from components.core.contracts import METRICS, AuditSpec

CELLS = 2_000_000
"""Weights held at once (resamples x rows, 16 MB): a bound on memory; results do not depend on it."""


@dataclasses.dataclass(frozen=True)
class Interval:
    """A percentile interval.

    Attributes:
        lower, upper: bounds, never clipped; None where the interval is undefined.
        left_out: resamples in which the metric was undefined (one class only, nothing predicted positive); they are not counted.
        samples: resamples drawn.
    """

    lower: float | None
    upper: float | None
    left_out: int
    samples: int


def resample_weights(rows: int, samples: int, *, seed: int, name: str) -> Iterator[formulas.Floats]:
    """Draws how often each row enters each resample.

    Args:
        rows: N, rows of the slice.
        samples: resamples in all.
        seed: of the audit.
        name: of the slice; each slice draws from its own stream, so adding a slice moves no other interval.

    Yields:
        float64[B, N] parts whose B add up to `samples`; each row adds up to N.
    """
    stream = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    generator = np.random.default_rng([seed, stream])
    step = max(1, CELLS // rows)
    for start in range(0, samples, step):
        count = min(step, samples - start)
        drawn = generator.integers(rows, size=(count, rows)) + rows * np.arange(count)[:, np.newaxis]
        yield np.bincount(drawn.ravel(), minlength=count * rows).reshape(count, rows).astype(np.float64)


def bootstrap_intervals(scores: formulas.Floats, positives: formulas.Bools, audit: AuditSpec, *, name: str) -> dict[str, Interval]:
    """Intervals of all metrics on one slice.

    Args:
        scores: float64[N], scores of the positive class.
        positives: bool[N], rows of the positive class.
        audit: gives samples, confidence, seed and operating threshold.
        name: of the slice, decides its random stream.

    Returns:
        metric -> interval; undefined for all when a score is not finite or there is no row, and for one metric when fewer than half of its
        resamples are left.
    """
    samples = audit.bootstrap_samples
    if not len(scores) or not np.isfinite(scores).all():
        return dict.fromkeys(METRICS, Interval(lower=None, upper=None, left_out=samples, samples=samples))
    parts = [
        formulas.resampled_metrics(scores, positives, weights, threshold=audit.operating_threshold)
        for weights in resample_weights(len(scores), samples, seed=audit.seed, name=name)
    ]
    values = {metric: np.concatenate([part[metric] for part in parts]) for metric in METRICS}
    return {metric: _percentiles(resampled, audit.confidence) for metric, resampled in values.items()}


def _percentiles(values: formulas.Floats, confidence: float) -> Interval:
    defined = values[np.isfinite(values)]
    left_out = len(values) - len(defined)
    if 2 * len(defined) < len(values):
        return Interval(lower=None, upper=None, left_out=left_out, samples=len(values))
    tail = (1.0 - confidence) / 2.0
    lower, upper = np.quantile(defined, [tail, 1.0 - tail])
    return Interval(lower=float(lower), upper=float(upper), left_out=left_out, samples=len(values))
