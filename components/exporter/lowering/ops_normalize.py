"""Rows of normalisation layers, in evaluation mode."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from components.exporter.lowering.ops_shape import view
from components.exporter.lowering.promotion import sizes

Outputs = tuple[tf.Tensor, None, None]


def _per_channel(values: tf.Tensor, rank: int) -> tf.Tensor:
    """Reshapes [C] so that it broadcasts along dimension 1 of a tensor of `rank` dimensions."""
    return values if rank == 2 else tf.reshape(values, [-1] + [1] * (rank - 2))


def _standardised(x: tf.Tensor, chosen: list[int], eps: float) -> tf.Tensor:
    centred = x - tf.reduce_mean(x, chosen, keepdims=True)
    return centred * tf.math.rsqrt(tf.reduce_mean(tf.square(centred), chosen, keepdims=True) + eps)


def _affine(x: tf.Tensor, weight: tf.Tensor | None, bias: tf.Tensor | None) -> tf.Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _batch_norm(
    x: tf.Tensor,
    weight: tf.Tensor | None,
    bias: tf.Tensor | None,
    mean: tf.Tensor,
    variance: tf.Tensor,
    *settings: float,
) -> Outputs:
    """(x - running mean) / sqrt(running variance + eps) * weight + bias over channels in dimension 1.

    `settings` are (momentum, eps). The four vectors [C] are first joined to one factor and one shift.
    """
    factor = tf.math.rsqrt(variance + settings[1])
    factor = factor if weight is None else factor * weight
    shift = -mean * factor if bias is None else bias - mean * factor
    rank = x.shape.rank
    return x * _per_channel(factor, rank) + _per_channel(shift, rank), None, None


def _batch_norm_of_instance(x: tf.Tensor, weight: tf.Tensor | None, bias: tf.Tensor | None, *settings: Any) -> Outputs:
    """Normalises with the statistics of `x` itself, which instance norm reaches with the batch folded into the channels.

    `settings` are (training, momentum, eps). A BatchNorm without running statistics is refused before export.
    """
    rank = x.shape.rank
    result = _standardised(x, [axis for axis in range(rank) if axis != 1], settings[2])
    weight = None if weight is None else _per_channel(weight, rank)
    bias = None if bias is None else _per_channel(bias, rank)
    return _affine(result, weight, bias), None, None


def _layer_norm(x: tf.Tensor, shape: Sequence[int], weight: tf.Tensor | None, bias: tf.Tensor | None, eps: float) -> Outputs:
    """Normalises over the last len(shape) dimensions with the biased variance."""
    rank = x.shape.rank
    return _affine(_standardised(x, list(range(rank - len(shape), rank)), eps), weight, bias), None, None


def _group_norm(x: tf.Tensor, weight: tf.Tensor | None, bias: tf.Tensor | None, *settings: Any) -> Outputs:
    """Normalises groups of channels; `settings` are (N, C, spatial size, groups, eps)."""
    groups, eps = settings[3], settings[4]
    shape = sizes(x)
    grouped = view(x, [shape[0], groups, shape[1] // groups, *shape[2:]])
    result = view(_standardised(grouped, list(range(2, x.shape.rank + 1)), eps), shape)
    rank = x.shape.rank
    weight = None if weight is None else _per_channel(weight, rank)
    bias = None if bias is None else _per_channel(bias, rank)
    return _affine(result, weight, bias), None, None


ROWS: dict[str, Callable[..., Any]] = {
    "aten._native_batch_norm_legit_no_training.default": _batch_norm,
    "aten._native_batch_norm_legit.no_stats": _batch_norm_of_instance,
    "aten.native_layer_norm.default": _layer_norm,
    "aten.native_group_norm.default": _group_norm,
}
