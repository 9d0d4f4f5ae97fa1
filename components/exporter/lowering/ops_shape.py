"""Rows that make tensors, change their shape or take parts of them, and rows for arithmetic on sizes.

A size that is only known at run time is an int64 scalar tensor here; a static one is a Python int, so that XLA and
TensorFlow's shape inference see constants wherever there are any.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from components.core.errors import ExportError
from components.exporter.lowering.promotion import axes, cast, pack, result_type, size, sizes

LAST = 2**63 - 1  # what torch writes for "to the end" of a slice


def view(x: tf.Tensor, shape: Sequence[Any]) -> tf.Tensor:
    """Reshapes; where exactly one size is dynamic TensorFlow infers it, which saves the arithmetic at run time."""
    dynamic = [place for place, part in enumerate(shape) if not isinstance(part, int)]
    known = [part for part in shape if isinstance(part, int)]
    if len(dynamic) == 1 and all(part > 0 for part in known):
        return tf.reshape(x, [-1 if place == dynamic[0] else part for place, part in enumerate(shape)])
    return tf.reshape(x, pack(shape))


def permute(x: tf.Tensor, dims: Sequence[int]) -> tf.Tensor:
    """Transposes to the order `dims`, which may count from the end."""
    return tf.transpose(x, axes(list(dims), x.shape.rank)) if x.shape.rank else x


def expand(x: tf.Tensor, shape: Sequence[Any], *, implicit: bool = False) -> tf.Tensor:
    """Broadcasts to `shape`; -1 keeps a size, new leading dimensions are allowed."""
    del implicit
    own = [None] * (len(shape) - x.shape.rank) + sizes(x)
    wanted = [kept if isinstance(part, int) and part == -1 else part for part, kept in zip(shape, own, strict=True)]
    return tf.broadcast_to(x, pack(wanted))


def squeeze(x: tf.Tensor, dims: int | Sequence[int]) -> tf.Tensor:
    """Drops those of `dims` whose size is 1; a dynamic size is kept, as at torch.export's time."""
    chosen = [dims] if isinstance(dims, int) else list(dims)
    rank = x.shape.rank
    dropped = sorted(axis for axis in {dim % max(rank, 1) for dim in chosen} if rank and x.shape[axis] == 1)
    return tf.squeeze(x, dropped) if dropped else x  # tf.squeeze takes an empty list for "all"


def unsqueeze(x: tf.Tensor, dim: int) -> tf.Tensor:
    """Inserts a dimension of size 1."""
    return tf.expand_dims(x, dim)


def concatenate(tensors: Sequence[tf.Tensor], dim: int = 0) -> tf.Tensor:
    """Joins along `dim` in the promoted dtype; torch lets empty tensors of one dimension pass, so they are dropped."""
    parts = [part for part in tensors if not (part.shape.rank == 1 and part.shape[0] == 0)] or list(tensors)
    dtype = result_type(*tensors)
    return tf.concat([cast(part, dtype) for part in parts], dim)


def _split(x: tf.Tensor, lengths: Sequence[Any], dim: int = 0) -> list[tf.Tensor]:
    """Cuts into pieces of the given lengths."""
    return list(tf.split(x, pack(lengths), axis=dim, num=len(lengths)))


def _bound(value: Any, length: Any, default: Any) -> Any:
    """Returns a slice bound in [0, length]: negative ones count from the end, all are clamped."""
    if value is None or (isinstance(value, int) and value >= LAST):
        return default
    if isinstance(value, int) and isinstance(length, int):
        return min(max(value + length if value < 0 else value, 0), length)
    position, end = tf.cast(value, tf.int64), tf.cast(length, tf.int64)
    return tf.clip_by_value(tf.where(position < 0, position + end, position), tf.zeros([], tf.int64), end)


def slice_along(x: tf.Tensor, dim: int, *, start: Any = None, end: Any = None, step: int = 1) -> tf.Tensor:
    """x[..., start:end:step, ...] along `dim`."""
    length = size(x, dim)
    low, high = _bound(start, length, 0), _bound(end, length, length)
    if isinstance(low, int) and low == 0 and step == 1 and high is length:
        return x
    if isinstance(low, int) and isinstance(high, int):
        high = max(low, high)
    part = slice(low, None if high is length else high, step)
    return x[(slice(None),) * (dim % x.shape.rank) + (part,)]


def _slice(x: tf.Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> tf.Tensor:
    return slice_along(x, dim, start=start, end=end, step=step)


def _select(x: tf.Tensor, dim: int, index: Any) -> tf.Tensor:
    """Takes one position along `dim` and drops the dimension; negative positions count from the end."""
    return x[(slice(None),) * (dim % x.shape.rank) + (index,)]


def repeat(x: tf.Tensor, repeats: Sequence[Any]) -> tf.Tensor:
    """Tiles; more repeats than dimensions add leading ones."""
    lead = len(repeats) - x.shape.rank
    grown = view(x, [1] * lead + sizes(x)) if lead else x
    return tf.tile(grown, pack(repeats))


def flip(x: tf.Tensor, dims: Sequence[int]) -> tf.Tensor:
    """Reverses the order along `dims`."""
    return tf.reverse(x, axes(list(dims), x.shape.rank)) if dims else x


def _constant_pad(x: tf.Tensor, pad: Sequence[int], value: Any = 0) -> tf.Tensor:
    """Pads from the last dimension backwards, (before, after) a dimension; negative counts cut off."""
    rank = x.shape.rank
    pairs = [(0, 0)] * (rank - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    for axis, (before, after) in enumerate(pairs):
        if before < 0 or after < 0:
            x = slice_along(x, axis, start=max(-before, 0), end=LAST if after >= 0 else after)
    widths = [(max(before, 0), max(after, 0)) for before, after in pairs]
    if not any(before or after for before, after in widths):
        return x
    return tf.pad(x, widths, constant_values=cast(value, x.dtype))


def _unfold(x: tf.Tensor, dim: int, length: int, step: int) -> tf.Tensor:
    """Sliding windows along `dim`: the window becomes a new last dimension of size `length`."""
    rank = x.shape.rank
    axis = dim % rank
    windows = (size(x, axis) - length) // step + 1
    starts = tf.range(tf.cast(windows, tf.int64)) * step
    places = starts[:, tf.newaxis] + tf.range(tf.constant(length, tf.int64))
    taken = tf.gather(x, places, axis=axis)
    order = [place for place in range(rank + 1) if place != axis + 1]
    return tf.transpose(taken, [*order, axis + 1])


def _diagonal(x: tf.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> tf.Tensor:
    """The diagonal of the planes (dim1, dim2), as a new last dimension."""
    first, second = dim1 % x.shape.rank, dim2 % x.shape.rank
    rest = [axis for axis in range(x.shape.rank) if axis not in (first, second)]
    return tf.linalg.diag_part(tf.transpose(x, [*rest, first, second]), k=offset)


def full(shape: Sequence[Any], fill_value: Any, *, dtype: tf.DType | None = None) -> tf.Tensor:
    """A tensor of one value; without dtype it follows the value (bool, int64, float32)."""
    value = cast(fill_value, result_type(fill_value) if dtype is None else dtype)
    return tf.fill(pack(shape), value) if len(shape) else tf.reshape(value, [])


def full_like(x: tf.Tensor, fill_value: Any, *, dtype: tf.DType | None = None) -> tf.Tensor:
    """`full` in the shape of `x`, and in its dtype where none is given."""
    return full(sizes(x), fill_value, dtype=x.dtype if dtype is None else dtype)


def empty(shape: Sequence[Any], *, dtype: tf.DType | None = None) -> tf.Tensor:
    """Zeros where torch leaves memory as it is: whatever reads them before writing is undefined there."""
    return full(shape, 0, dtype=tf.float32 if dtype is None else dtype)


def scalar_tensor(value: Any, *, dtype: tf.DType | None = None) -> tf.Tensor:
    """A zero-dimensional tensor, float32 where no dtype is given."""
    return cast(value, tf.float32 if dtype is None else dtype)


def _arange(start: Any, end: Any, step: Any = 1, *, dtype: tf.DType | None = None) -> tf.Tensor:
    """start, start + step, ... below end; int64 where all three are integers and no dtype is given."""
    inferred = result_type(start, end, step)
    dtype = inferred if dtype is None else dtype
    if not inferred.is_floating:
        return cast(tf.range(*(cast(part, tf.int64) for part in (start, end, step))), dtype)
    wide = tf.range(*(cast(part, tf.float64) for part in (start, end, step)))
    return cast(wide, dtype)


def sym_size(x: tf.Tensor, dim: int) -> Any:
    """One size of `x`."""
    return size(x, dim)


def choose_item(sequence: Any, index: int) -> Any:
    """One output of an operator with several.

    Raises:
        ExportError: For an output that the lowering does not compute, such as the indexes of a max-pool.
    """
    item = sequence[index]
    if item is None:
        raise ExportError(f"output {index} of this operator is not computed by its lowering; use only the others")
    return item


def _numbers(on_ints: Callable[..., Any], on_tensors: Callable[..., Any]) -> Callable[..., Any]:
    """Chooses between plain numbers and tensors, so that static sizes stay Python ints."""
    return lambda *values: (on_tensors if any(tf.is_tensor(value) for value in values) else on_ints)(*values)


def _extreme(choose: Callable[..., tf.Tensor]) -> Callable[[Any, Any], tf.Tensor]:
    return lambda first, second: choose(tf.cast(first, tf.int64), tf.cast(second, tf.int64))


def _divide_sizes(first: Any, second: Any) -> tf.Tensor:
    return tf.cast(first, tf.float64) / tf.cast(second, tf.float64)


def _to_int(value: Any) -> Any:
    return tf.cast(value, tf.int64) if tf.is_tensor(value) else int(value)


def _to_float(value: Any) -> Any:
    return tf.cast(value, tf.float64) if tf.is_tensor(value) else float(value)


ROWS: dict[str, Callable[..., Any]] = {
    "aten.view.default": view,
    "aten.reshape.default": view,
    "aten._unsafe_view.default": view,
    "aten.permute.default": permute,
    "aten.expand.default": expand,
    "aten.squeeze.dim": squeeze,
    "aten.squeeze.dims": squeeze,
    "aten.unsqueeze.default": unsqueeze,
    "aten.cat.default": concatenate,
    "aten.split_with_sizes.default": _split,
    "aten.slice.Tensor": _slice,
    "aten.select.int": _select,
    "aten.repeat.default": repeat,
    "aten.flip.default": flip,
    "aten.constant_pad_nd.default": _constant_pad,
    "aten.unfold.default": _unfold,
    "aten.diagonal.default": _diagonal,
    "aten.clone.default": lambda x: x,
    "aten.alias.default": lambda x: x,
    "aten.detach.default": lambda x: x,
    "aten.lift_fresh_copy.default": lambda x: x,
    "aten.full.default": full,
    "aten.full_like.default": full_like,
    "aten.empty.memory_format": empty,
    "aten.scalar_tensor.default": scalar_tensor,
    "aten.arange.start_step": _arange,
    "aten.sym_size.int": sym_size,
    "operator.getitem": choose_item,
    "operator.add": operator.add,
    "operator.sub": operator.sub,
    "operator.mul": operator.mul,
    "operator.neg": operator.neg,
    "operator.floordiv": operator.floordiv,
    "operator.mod": operator.mod,
    "operator.truediv": _numbers(operator.truediv, _divide_sizes),
    "torch.sym_max": _numbers(max, _extreme(tf.maximum)),
    "torch.sym_min": _numbers(min, _extreme(tf.minimum)),
    "torch.sym_int": _to_int,
    "torch.sym_float": _to_float,
}
