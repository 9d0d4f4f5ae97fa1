"""Slices of the eval split: their rows, which of them can be judged, and their metrics with intervals and reasons."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from components.auditor.bootstrap import Interval
from components.auditor.predictions import Predictions
from components.core.contracts import METRICS, AuditSpec, finite_or_none
from components.core.measurements import DecisionChange, MetricValue

WHOLE: tuple[()] = ()
SliceId = tuple[str, str] | tuple[()]
"""Slice key and value, or `WHOLE`."""
Points = dict[SliceId, dict[str, float]]
"""Slice -> metric -> TFMA's value, NaN where it is undefined; `example_count` beside `contracts.METRICS`."""


@dataclasses.dataclass(frozen=True)
class SliceRows:
    """Rows of each slice.

    Attributes:
        positives: bool[N], rows of the positive class.
        rows: slice -> row numbers, `WHOLE` first, then by key in the order of the DataSpec and by value.
        judged: (metric, slice) that a slice floor holds on: rows enough, and labels that leave the metric defined.
        undefined: one line for each slice that has rows enough and no defined metric.
    """

    positives: npt.NDArray[np.bool_]
    rows: dict[SliceId, npt.NDArray[np.intp]]
    judged: tuple[tuple[str, tuple[str, str]], ...]
    undefined: tuple[str, ...]

    @classmethod
    def of(cls, scored: Predictions, audit: AuditSpec) -> Self:
        """Finds the slices of the predictions and what the AuditSpec judges on them."""
        positives = scored.positives
        rows: dict[SliceId, npt.NDArray[np.intp]] = {WHOLE: np.arange(scored.size)}
        judged: list[tuple[str, tuple[str, str]]] = []
        undefined: list[str] = []
        for key, values in scored.slices.items():
            column = np.array(values)
            for value in sorted(set(values)):
                rows[key, value] = found = np.flatnonzero(column == value)
                for metric in audit.slice_floors if len(found) >= audit.min_slice_size else ():
                    reason = undefined_by_labels(metric, positives[found])
                    if reason:
                        undefined.append(f"slice_floor/{metric} on {key}={value}: {reason}")
                    else:
                        judged.append((metric, (key, value)))
        return cls(positives=positives, rows=rows, judged=tuple(judged), undefined=tuple(undefined))


def decision_changes(
    ours: npt.NDArray[Any], theirs: npt.NDArray[Any], rows: Mapping[SliceId, npt.NDArray[np.intp]], *, threshold: float
) -> tuple[DecisionChange, ...]:
    """Rows that candidate and champion decide differently at the operating threshold; a score that is not finite decides nothing.

    Args:
        ours, theirs: positive scores of candidate and champion, [N].
        rows: slice -> row numbers.
        threshold: score from which a row counts as positive.
    """
    comparable = np.isfinite(ours) & np.isfinite(theirs)
    up = comparable & (ours >= threshold) & (theirs < threshold)
    down = comparable & (ours < threshold) & (theirs >= threshold)
    return tuple(
        DecisionChange(
            key=name[0] if name else "",
            value=name[1] if name else "",
            size=len(found),
            to_positive=int(up[found].sum()),
            to_negative=int(down[found].sum()),
        )
        for name, found in rows.items()
    )


def undefined_by_labels(metric: str, positives: npt.NDArray[np.bool_]) -> str:
    """Why labels alone leave a metric undefined, whatever the model; empty when they do not."""
    if metric in ("auc", "auc_precision_recall") and (positives.all() or not positives.any()):
        return "undefined: one class only"
    if metric in ("recall", "calibration") and not positives.any():
        return "undefined: no row of the positive class"
    return ""


def metric_values(
    points: dict[str, float], intervals: dict[str, Interval], *, scores: npt.NDArray[Any], positives: npt.NDArray[np.bool_]
) -> dict[str, MetricValue]:
    """Joins TFMA's values with the intervals and says why one is undefined.

    Args:
        points: metric -> TFMA's value.
        intervals: metric -> bootstrap interval.
        scores: [N] of the slice, for the reason.
        positives: bool[N] of the slice, for the reason.
    """
    broken = int((~np.isfinite(scores)).sum())
    values = {}
    for metric in METRICS:
        value, interval = finite_or_none(points[metric]), intervals[metric]
        note = ""
        if value is None and broken:
            note = f"undefined: {broken} of {len(scores)} scores are not finite"
        elif value is None:
            note = undefined_by_labels(metric, positives) or "undefined: no row is predicted positive"
        elif interval.lower is None:
            note = f"interval undefined: {interval.left_out} of {interval.samples} resamples leave it undefined"
        elif interval.left_out:
            note = f"{interval.left_out} of {interval.samples} resamples left out of the interval, they leave it undefined"
        lower, upper = (interval.lower, interval.upper) if value is not None else (None, None)
        values[metric] = MetricValue(value=value, lower=lower, upper=upper, note=note)
    return values
