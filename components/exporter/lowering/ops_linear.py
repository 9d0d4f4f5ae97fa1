"""Rows of matrix multiplication."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from components.exporter.lowering.ops_shape import view
from components.exporter.lowering.promotion import cast, sizes


def _scaled(x: tf.Tensor, factor: Any) -> tf.Tensor:
    return x if factor == 1 else x * cast(factor, x.dtype)


def _add_product(bias: tf.Tensor, first: tf.Tensor, second: tf.Tensor, *, beta: Any = 1, alpha: Any = 1) -> tf.Tensor:
    """beta * bias + alpha * first @ second; beta 0 leaves the bias out, NaN or not."""
    product = _scaled(tf.matmul(first, second), alpha)
    return product if beta == 0 else product + _scaled(bias, beta)


def _linear(x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
    """x [..., I] @ weight [O, I] transposed + bias [O]; leading dimensions are flattened to one fast matrix product."""
    rank = x.shape.rank
    flat = x if rank == 2 else tf.reshape(x, [-1, x.shape[-1]])
    product = tf.matmul(flat, weight, transpose_b=True)
    product = product if bias is None else tf.nn.bias_add(product, bias)
    return product if rank == 2 else view(product, [*sizes(x)[:-1], weight.shape[0]])


def matmul(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """torch.matmul: vectors are rows on the left and columns on the right, leading dimensions broadcast."""
    left = first[tf.newaxis, :] if first.shape.rank == 1 else first
    right = second[:, tf.newaxis] if second.shape.rank == 1 else second
    if left.shape.rank > 2 and right.shape.rank == 2:
        product = view(tf.matmul(tf.reshape(left, [-1, left.shape[-1]]), right), [*sizes(left)[:-1], *sizes(right)[-1:]])
    else:
        product = tf.matmul(left, right)
    product = product if second.shape.rank > 1 else tf.squeeze(product, -1)
    return product if first.shape.rank > 1 else tf.squeeze(product, -1 if second.shape.rank == 1 else -2)


ROWS: dict[str, Callable[..., Any]] = {
    "aten.mm.default": tf.matmul,
    "aten.bmm.default": tf.matmul,
    "aten.addmm.default": _add_product,
    "aten.baddbmm.default": _add_product,
    "aten.linear.default": _linear,
    "aten.matmul.default": matmul,
    "aten.dot.default": lambda first, second: tf.reduce_sum(first * second),
    "aten.mv.default": tf.linalg.matvec,
}
