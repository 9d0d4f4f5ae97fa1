"""Validation metrics from logits, computed in one place for both frameworks."""

import math

import numpy as np
from numpy.typing import NDArray

TRAIN_LOSS = "train/loss"
VAL_LOSS = "val/loss"
VAL_ACCURACY = "val/accuracy"
VAL_AUC = "val/auc"


def log_softmax(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Logarithms of the scores, float64[N, C], from logits [N, C]; shifted by each row's maximum so that nothing overflows."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True).astype(np.float64)
    logarithms: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return logarithms


def rank_auc(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> float:
    """Area under the ROC curve, exact, by midranks: the chance that a positive row scores above a negative one, ties counting half.

    Source: Mann-Whitney U, `(R+ - P (P + 1) / 2) / (P N)` with R+ the sum of the positives' midranks.

    Args:
        scores: float[N].
        positive: bool[N].

    Returns:
        0 to 1; NaN when there are no positives, no negatives, or a score is NaN.
    """
    positives = int(positive.sum())
    negatives = positive.size - positives
    if positives == 0 or negatives == 0 or bool(np.isnan(scores).any()):
        return math.nan
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    last_rank = np.cumsum(counts, dtype=np.float64)
    midranks = last_rank - (counts - 1) / 2
    rank_sum = float(midranks[inverse.reshape(-1)][positive].sum())
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def validation_metrics(logits: NDArray[np.floating], labels: NDArray[np.integer], *, positive_index: int) -> dict[str, float]:
    """Metrics of the eval split.

    Args:
        logits: float[N, C].
        labels: int[N], class indices below C.
        positive_index: class whose score ranks the rows for `val/auc` (one against the rest where C > 2).

    Returns:
        `val/loss` (mean cross-entropy, nats), `val/accuracy` (0 to 1) and `val/auc` (0 to 1, NaN where undefined).
    """
    logarithms = log_softmax(logits)
    return {
        VAL_LOSS: float(-logarithms[np.arange(labels.size), labels].mean()),
        VAL_ACCURACY: float((logits.argmax(axis=1) == labels).mean()),
        VAL_AUC: rank_auc(np.exp(logarithms[:, positive_index]), labels == positive_index),
    }
