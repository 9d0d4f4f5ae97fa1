"""Whether a score of 0.3 means three of ten: expected calibration error over bins of equal size.

Source: Naeini, Cooper and Hauskrecht, Obtaining Well Calibrated Probabilities Using Bayesian Binning, AAAI 2015.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from components.core.measurements import Check, ReliabilityBin

BINS = 10
MIN_ROWS = 10 * BINS
ECE, LARGEST_GAP = "calibration/expected_error", "calibration/largest_gap"


def calibration_checks(scores: npt.NDArray[Any], positives: npt.NDArray[np.bool_]) -> tuple[tuple[Check, ...], tuple[ReliabilityBin, ...]]:
    """The error, the largest gap of a bin, and the bins.

    Args:
        scores: float[N] of the positive class.
        positives: bool[N], rows of that class.

    Returns:
        Checks without a limit, and bins from the lowest score up; no bins where there are fewer than 100 rows or a score is not finite.
    """
    reason = ""
    if len(scores) < MIN_ROWS:
        reason = f"{len(scores)} rows, {MIN_ROWS} are needed for {BINS} bins"
    elif not np.isfinite(scores).all():
        reason = "a score is not finite"
    if reason:
        return tuple(Check(name=name, outcome="not checked", detail=reason) for name in (ECE, LARGEST_GAP)), ()
    order = np.argsort(scores, kind="stable")
    bins = tuple(
        ReliabilityBin(size=len(rows), positives=int(positives[rows].sum()), mean_score=float(np.mean(scores[rows].astype(np.float64))))
        for rows in np.array_split(order, BINS)
    )
    gaps = [abs(found.mean_score - found.positives / found.size) for found in bins]
    error = sum(gap * found.size for gap, found in zip(gaps, bins, strict=True)) / len(scores)
    worst = bins[int(np.argmax(gaps))]
    detail = f"mean score {worst.mean_score:.3f}, {worst.positives} of {worst.size} rows positive"
    return (
        Check(name=ECE, outcome="measured", value=error, detail=f"mean over {BINS} bins of equal size, weighted by their rows"),
        Check(name=LARGEST_GAP, outcome="measured", value=max(gaps), detail=detail),
    ), bins
