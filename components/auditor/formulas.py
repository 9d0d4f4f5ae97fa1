"""Binary metrics as formulas over weighted rows: one row of weights is one resample, all ones is the eval split itself."""

import dataclasses
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SCORE_EPSILON = float(np.finfo(np.float32).eps)
"""Scores are clipped to [epsilon, 1 - epsilon] before a logarithm, as scikit-learn's log_loss does: a float32 softmax reaches 0 and 1."""


@dataclasses.dataclass(frozen=True)
class Ranking:
    """Rows sorted from the highest score to the lowest, ties as groups.

    Attributes:
        order: int[N], row numbers from the highest score to the lowest.
        starts: int[G], position in `order` where each group of equal scores begins.
        positives: float64[N] in that order, 1 for a row of the positive class.
    """

    order: npt.NDArray[np.intp]
    starts: npt.NDArray[np.intp]
    positives: Floats

    @classmethod
    def of(cls, scores: npt.NDArray[Any], positives: npt.NDArray[Any]) -> Self:
        """Ranks finite `scores` [N] with labels `positives` [N] (0/1 or bool); N is 1 or more."""
        order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")
        ordered = np.asarray(scores)[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        return cls(order=order, starts=starts, positives=np.asarray(positives, dtype=np.float64)[order])

    def group_weights(self, weights: Floats) -> tuple[Floats, Floats]:
        """Weights of positive and negative rows in each group of ties: two float64[B, G] from `weights` float64[B, N] in row order."""
        ordered = weights[:, self.order]
        positive = ordered * self.positives
        return np.add.reduceat(positive, self.starts, axis=1), np.add.reduceat(ordered - positive, self.starts, axis=1)


def area_under_roc(positive: Floats, negative: Floats) -> Floats:
    """Share of (positive, negative) pairs in which the positive has the higher score; a tie counts a half.

    Equals the trapezoid area under the exact ROC curve (Mann-Whitney U / (P * N)); no buckets.

    Args:
        positive: float64[B, G], weight of positive rows, groups from the highest score down.
        negative: float64[B, G], weight of negative rows.

    Returns:
        float64[B]; NaN where only one class has weight.
    """
    above = np.cumsum(positive, axis=1) - positive / 2.0
    pairs = positive.sum(axis=1) * negative.sum(axis=1)
    return _ratio((negative * above).sum(axis=1), pairs)


def average_precision(positive: Floats, negative: Floats) -> Floats:
    """Step-wise area under the precision-recall curve: sum of (recall step) * (precision there), as scikit-learn's average_precision_score.

    Args:
        positive: float64[B, G], weight of positive rows, groups from the highest score down.
        negative: float64[B, G], weight of negative rows.

    Returns:
        float64[B]; NaN where only one class has weight (with positives alone it would be 1 whatever the scores).
    """
    found = np.cumsum(positive, axis=1)
    taken = found + np.cumsum(negative, axis=1)
    precision = np.divide(found, taken, out=np.zeros_like(found), where=taken > 0)
    total = positive.sum(axis=1) * (negative.sum(axis=1) > 0)
    return _ratio((positive * precision).sum(axis=1), total)


def cross_entropy(scores: npt.NDArray[Any], positives: npt.NDArray[Any]) -> Floats:
    """Loss of each row, in nats: -log(score of the true side); float64[N] from scores [N] and labels [N]."""
    clipped = np.clip(np.asarray(scores, dtype=np.float64), SCORE_EPSILON, 1.0 - SCORE_EPSILON)
    return -np.log(np.where(np.asarray(positives, dtype=bool), clipped, 1.0 - clipped))


def resampled_metrics(scores: Floats, positives: Bools, weights: Floats, *, threshold: float) -> dict[str, Floats]:
    """Every metric of `contracts.METRICS` for each row of weights.

    Args:
        scores: float64[N], finite scores of the positive class, 0 to 1.
        positives: bool[N], rows of the positive class.
        weights: float64[B, N], how often each row was drawn.
        threshold: score from which a row counts as positive.

    Returns:
        metric -> float64[B]; NaN where a resample leaves the metric undefined.
    """
    group_positive, group_negative = Ranking.of(scores, positives).group_weights(weights)
    predicted = scores >= threshold
    columns = [
        np.ones_like(scores),
        predicted == positives,
        predicted,
        predicted & positives,
        positives,
        cross_entropy(scores, positives),
        (scores - positives) ** 2,
        scores,
    ]
    sums = weights @ np.stack(columns, axis=1).astype(np.float64)
    rows, right, called, hit, actual, loss, squared, scored = sums.T
    return {
        "auc": area_under_roc(group_positive, group_negative),
        "auc_precision_recall": average_precision(group_positive, group_negative),
        "binary_accuracy": _ratio(right, rows),
        "precision": _ratio(hit, called),
        "recall": _ratio(hit, actual),
        "binary_crossentropy": _ratio(loss, rows),
        "brier_score": _ratio(squared, rows),
        "calibration": _ratio(scored, actual),
    }


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    return np.divide(numerator, denominator, out=np.full_like(numerator, np.nan), where=denominator > 0)
