"""What is kept about each parameter after training."""

import math

import numpy as np
from numpy.typing import NDArray

from components.core.contracts import finite_or_none
from components.core.measurements import Histogram, ParameterFacts

_BINS = 20


def l2_norm(values: NDArray[np.floating]) -> float | None:
    """L2 norm in float64; None when a value is not finite."""
    return finite_or_none(float(np.linalg.norm(values.astype(np.float64).ravel())))


def weight_histogram(values: NDArray[np.floating]) -> Histogram:
    """Counts of the finite values in 20 equal bins from the smallest to the largest."""
    finite = values[np.isfinite(values)].astype(np.float64)
    counts, edges = np.histogram(finite, bins=_BINS)
    return Histogram(edges=tuple(map(float, edges)), counts=tuple(map(int, counts)))


def parameter_facts(name: str, values: NDArray[np.floating], *, trainable: bool, gradient_norm: float | None) -> ParameterFacts:
    """Facts of one parameter.

    Args:
        name: path in the model.
        values: its weights.
        trainable: False = frozen; its gradient norm is then None.
        gradient_norm: of the last step, None or NaN where the loss never touched it.
    """
    known = trainable and gradient_norm is not None and math.isfinite(gradient_norm)
    return ParameterFacts(
        name=name,
        shape=tuple(map(int, values.shape)),
        trainable=trainable,
        weight_norm=l2_norm(values),
        gradient_norm=gradient_norm if known else None,
        histogram=weight_histogram(values),
    )
