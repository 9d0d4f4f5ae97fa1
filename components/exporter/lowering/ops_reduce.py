"""Rows that reduce, accumulate or order along dimensions.

NaN counts as the greatest number, as in torch; of equal values the first index wins. Integer and boolean sums, products
and running sums accumulate in int64.
"""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from components.core.errors import ExportError
from components.exporter.lowering.ops_pointwise import is_nan, negate
from components.exporter.lowering.promotion import as_floating, axes, cast, pack, size

Dims = int | list[int] | None


def _accumulated(x: tf.Tensor, dtype: tf.DType | None) -> tf.Tensor:
    if dtype is not None:
        return cast(x, dtype)
    return x if x.dtype.is_floating else cast(x, tf.int64)


def _count(x: tf.Tensor, chosen: list[int]) -> Any:
    """Returns how many elements one result is made of: an int, or an int64 scalar where a dimension is dynamic."""
    count: Any = 1
    for axis in chosen:
        count = count * size(x, axis)
    return count


def _total(x: tf.Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: tf.DType | None = None) -> tf.Tensor:
    """Sum over `dim`; integers and booleans give int64."""
    return tf.reduce_sum(_accumulated(x, dtype), axes(dim, x.shape.rank), keepdims=keepdim)


def _product(x: tf.Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: tf.DType | None = None) -> tf.Tensor:
    """Product over `dim`; integers and booleans give int64."""
    return tf.reduce_prod(_accumulated(x, dtype), axes(dim, x.shape.rank), keepdims=keepdim)


def _mean(x: tf.Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: tf.DType | None = None) -> tf.Tensor:
    """Arithmetic mean over `dim`, floating only."""
    return tf.reduce_mean(x if dtype is None else cast(x, dtype), axes(dim, x.shape.rank), keepdims=keepdim)


def _nan_wins(x: tf.Tensor, reduced: tf.Tensor, chosen: list[int], keepdim: bool) -> tf.Tensor:
    if not x.dtype.is_floating:
        return reduced
    return tf.where(tf.reduce_any(is_nan(x), chosen, keepdims=keepdim), tf.constant(math.nan, x.dtype), reduced)


def _largest(x: tf.Tensor, dim: Dims = None, keepdim: bool = False) -> tf.Tensor:
    """Maximum over `dim`; NaN where one is among the elements."""
    chosen = axes(dim, x.shape.rank)
    if x.dtype == tf.bool:
        return tf.reduce_any(x, chosen, keepdims=keepdim)
    return _nan_wins(x, tf.reduce_max(x, chosen, keepdims=keepdim), chosen, keepdim)


def _smallest(x: tf.Tensor, dim: Dims = None, keepdim: bool = False) -> tf.Tensor:
    """Minimum over `dim`; NaN where one is among the elements."""
    chosen = axes(dim, x.shape.rank)
    if x.dtype == tf.bool:
        return tf.reduce_all(x, chosen, keepdims=keepdim)
    return _nan_wins(x, tf.reduce_min(x, chosen, keepdims=keepdim), chosen, keepdim)


def _first_index(x: tf.Tensor, dim: int | None, keepdim: bool, *, greatest: bool) -> tf.Tensor:
    rank = x.shape.rank
    flat = tf.reshape(x, [-1]) if dim is None else x
    axis = 0 if dim is None else dim % max(rank, 1)
    if rank == 0:
        return tf.zeros([], tf.int64)
    flat = tf.cast(flat, tf.int32) if flat.dtype == tf.bool else flat
    choose = tf.argmax if greatest else tf.argmin
    index = choose(flat, axis, output_type=tf.int64)
    if flat.dtype.is_floating:
        missing = is_nan(flat)
        number = tf.where(missing, tf.constant(-math.inf if greatest else math.inf, flat.dtype), flat)
        first_nan = tf.argmax(tf.cast(missing, tf.int32), axis, output_type=tf.int64)
        index = tf.where(tf.reduce_any(missing, axis), first_nan, choose(number, axis, output_type=tf.int64))
    if not keepdim:
        return index
    return tf.reshape(index, [1] * rank) if dim is None else tf.expand_dims(index, axis)


def _argmax(x: tf.Tensor, dim: int | None = None, keepdim: bool = False) -> tf.Tensor:
    """First index (int64) of the greatest element; a NaN is the greatest."""
    return _first_index(x, dim, keepdim, greatest=True)


def _argmin(x: tf.Tensor, dim: int | None = None, keepdim: bool = False) -> tf.Tensor:
    """First index (int64) of the smallest element; a NaN wins here too, as in torch."""
    return _first_index(x, dim, keepdim, greatest=False)


def _any_true(x: tf.Tensor, dim: Dims = None, keepdim: bool = False) -> tf.Tensor:
    """Whether any element is not zero; NaN is not zero."""
    return tf.reduce_any(cast(x, tf.bool), axes(dim, x.shape.rank), keepdims=keepdim)


def variance(x: tf.Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False) -> tf.Tensor:
    """Sum of squared deviations over max(0, count - correction); `correction` None is 1 (Bessel)."""
    chosen = axes(dim, x.shape.rank)
    squares = tf.reduce_sum(tf.square(x - tf.reduce_mean(x, chosen, keepdims=True)), chosen, keepdims=keepdim)
    freedom = cast(_count(x, chosen), x.dtype) - cast(1 if correction is None else correction, x.dtype)
    return squares / tf.maximum(freedom, tf.zeros([], x.dtype))


def variance_and_mean(
    x: tf.Tensor, dim: Dims = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[tf.Tensor, tf.Tensor]:
    """(variance, mean) over `dim`."""
    return variance(x, dim, correction=correction, keepdim=keepdim), _mean(x, dim, keepdim)


def _vector_norm(x: tf.Tensor, order: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: tf.DType | None = None) -> tf.Tensor:
    """The p-norm over `dim` for p = 0, 1, 2, inf, -inf and any other positive p."""
    x = tf.abs(x if dtype is None else cast(x, dtype))
    chosen = axes(dim, x.shape.rank)
    if math.isinf(order):
        return (_largest if order > 0 else _smallest)(x, chosen, keepdim)
    if order == 0:
        return tf.reduce_sum(cast(x != 0, x.dtype), chosen, keepdims=keepdim)
    if order == 1:
        return tf.reduce_sum(x, chosen, keepdims=keepdim)
    if order == 2:
        return tf.sqrt(tf.reduce_sum(tf.square(x), chosen, keepdims=keepdim))
    return tf.pow(tf.reduce_sum(tf.pow(x, cast(order, x.dtype)), chosen, keepdims=keepdim), cast(1.0 / order, x.dtype))


def running_sum(x: tf.Tensor, dim: int, *, dtype: tf.DType | None = None) -> tf.Tensor:
    """Cumulative sum along `dim`; integers and booleans give int64."""
    return tf.cumsum(_accumulated(x, dtype), axis=dim) if x.shape.rank else _accumulated(x, dtype)


def running_product(x: tf.Tensor, dim: int, *, dtype: tf.DType | None = None) -> tf.Tensor:
    """Cumulative product along `dim`; integers and booleans give int64."""
    return tf.math.cumprod(_accumulated(x, dtype), axis=dim) if x.shape.rank else _accumulated(x, dtype)


def _order_key(x: tf.Tensor) -> tf.Tensor:
    """Maps values to integers of the same order, NaN above +inf, -0.0 equal to 0.0.

    IEEE 754 numbers sort like sign-magnitude integers; flipping the magnitude of the negative ones gives two's complement.
    A sort over floats would be undefined here as soon as one is NaN.
    """
    if not x.dtype.is_floating:
        return tf.cast(x, tf.int64 if x.dtype == tf.int64 else tf.int32)
    wide = x if x.dtype == tf.float64 else tf.cast(x, tf.float32)
    wide = tf.where(is_nan(wide), tf.constant(math.nan, wide.dtype), tf.where(wide == 0, tf.zeros_like(wide), wide))
    integer = tf.int64 if wide.dtype == tf.float64 else tf.int32
    bits = tf.bitcast(wide, integer)
    key = tf.where(bits < 0, tf.bitwise.bitwise_xor(bits, tf.constant(integer.max, integer)), bits)
    return tf.where(is_nan(wide), tf.constant(integer.max, integer), key)


def _ordered(x: tf.Tensor, count: Any, dim: int, *, descending: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the first `count` values along `dim` in order, and their indexes (int64); stable."""
    rank = x.shape.rank
    if rank == 0:
        return x, tf.zeros([], tf.int64)
    axis = dim % rank
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    moved = tf.transpose(x, swap) if axis != rank - 1 else x
    key = _order_key(moved)
    key = key if descending else tf.bitwise.invert(key)
    index = tf.math.top_k(key, k=tf.cast(count, tf.int32), sorted=True).indices
    values = tf.gather(moved, index, batch_dims=rank - 1)
    if axis != rank - 1:
        values, index = tf.transpose(values, swap), tf.transpose(index, swap)
    return values, tf.cast(index, tf.int64)


def _sort(x: tf.Tensor, dim: int = -1, descending: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
    """(values, indexes) in order along `dim`, stable, NaN greatest."""
    return _ordered(x, size(x, dim) if x.shape.rank else 1, dim, descending=descending)


def sort_stable(x: tf.Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
    """`sort`, which is always stable here."""
    del stable
    return _sort(x, dim, descending)


def _top(x: tf.Tensor, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[tf.Tensor, tf.Tensor]:
    """(values, indexes) of the k greatest or smallest, always sorted; among equal values torch's choice of index is its own."""
    del sorted
    return _ordered(x, k, dim, descending=largest)


def _with_index(reduce: Callable[..., tf.Tensor], index: Callable[..., tf.Tensor]) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    return lambda x, dim, keepdim=False: (reduce(x, dim, keepdim), index(x, dim, keepdim))


def _median(x: tf.Tensor, dim: int = -1, keepdim: bool = False) -> tuple[tf.Tensor, tf.Tensor]:
    """(the lower median, its index) along `dim`; NaN where one is among the elements."""
    values, index = _sort(x, dim)
    if x.shape.rank == 0:
        return values, index
    middle = (size(x, dim) - 1) // 2
    if x.dtype.is_floating:
        nan = is_nan(x)
        first_nan = tf.argmax(tf.cast(nan, tf.int32), dim, output_type=tf.int64)
        value = tf.where(tf.reduce_any(nan, dim), tf.constant(math.nan, x.dtype), tf.gather(values, middle, axis=dim))
        place = tf.where(tf.reduce_any(nan, dim), first_nan, tf.gather(index, middle, axis=dim))
    else:
        value, place = tf.gather(values, middle, axis=dim), tf.gather(index, middle, axis=dim)
    return (tf.expand_dims(value, dim), tf.expand_dims(place, dim)) if keepdim else (value, place)


def bucketize(x: tf.Tensor, boundaries: tf.Tensor, *, out_int32: bool = False, right: bool = False) -> tf.Tensor:
    """Index of the bucket between ascending `boundaries` [M]; NaN falls into the last one. O(x * M) comparisons."""
    if boundaries.shape.rank != 1:
        raise ExportError(f"bucketize takes boundaries of one dimension, not {boundaries.shape.rank}; flatten them")
    beside = as_floating(x)[..., tf.newaxis]
    edges = cast(boundaries, beside.dtype)
    inside = edges > beside if right else edges >= beside
    return tf.reduce_sum(tf.cast(negate(inside), tf.int32 if out_int32 else tf.int64), axis=-1)


def _one_logit_axis(x: tf.Tensor, dim: int, function: Callable[..., tf.Tensor]) -> tf.Tensor:
    """Applies a softmax function along `dim`; a zero-dimensional tensor counts as one element."""
    if x.shape.rank == 0:
        return tf.reshape(function(tf.reshape(x, pack([1]))), [])
    return function(x, axis=dim)


def _softmax(x: tf.Tensor, dim: int, half_to_float: bool = False) -> tf.Tensor:
    """exp(x - max) over its sum along `dim`; a row of -inf alone gives NaN."""
    return _one_logit_axis(cast(x, tf.float32) if half_to_float else x, dim, tf.nn.softmax)


def _log_softmax(x: tf.Tensor, dim: int, half_to_float: bool = False) -> tf.Tensor:
    """Logarithm of `softmax`, computed without taking it."""
    return _one_logit_axis(cast(x, tf.float32) if half_to_float else x, dim, tf.nn.log_softmax)


ROWS: dict[str, Callable[..., Any]] = {
    "aten.sum.default": _total,
    "aten.sum.dim_IntList": _total,
    "aten.prod.default": _product,
    "aten.prod.dim_int": _product,
    "aten.mean.default": _mean,
    "aten.mean.dim": _mean,
    "aten.amax.default": _largest,
    "aten.amin.default": _smallest,
    "aten.max.default": _largest,
    "aten.min.default": _smallest,
    "aten.max.dim": _with_index(_largest, _argmax),
    "aten.min.dim": _with_index(_smallest, _argmin),
    "aten.argmax.default": _argmax,
    "aten.argmin.default": _argmin,
    "aten.any.default": _any_true,
    "aten.any.dim": _any_true,
    "aten.any.dims": _any_true,
    "aten.var.correction": variance,
    "aten.var_mean.correction": variance_and_mean,
    "aten.linalg_vector_norm.default": _vector_norm,
    "aten.cumsum.default": running_sum,
    "aten.cumprod.default": running_product,
    "aten.sort.default": _sort,
    "aten.sort.stable": sort_stable,
    "aten.topk.default": _top,
    "aten.median.dim": _median,
    "aten.bucketize.Tensor": bucketize,
    "aten._softmax.default": _softmax,
    "aten._log_softmax.default": _log_softmax,
}
