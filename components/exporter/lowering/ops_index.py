"""Rows that look elements up by computed positions."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from components.core.errors import ExportError
from components.exporter.lowering.ops_shape import LAST, slice_along
from components.exporter.lowering.promotion import cast, pack, size, sizes


def embedding(weight: tf.Tensor, ids: tf.Tensor, *settings: Any) -> tf.Tensor:
    """Rows of `weight` [V, D] at `ids`; training-time `settings` (padding_idx and others) change nothing here.

    Not guaranteed: an id outside [0, V) raises in torch and in plain TensorFlow but not under XLA; bound ids before the model.
    """
    del settings
    return tf.gather(weight, ids)


def _index_select(x: tf.Tensor, dim: int, index: tf.Tensor) -> tf.Tensor:
    """Takes the positions `index` (one dimension, not negative) along `dim`."""
    return tf.gather(x, tf.reshape(index, [-1]), axis=dim) if x.shape.rank else x


def _cropped(x: tf.Tensor, shape_of: tf.Tensor, axis: int) -> tf.Tensor:
    """Cuts `x` to the sizes of `shape_of` in every dimension but `axis`."""
    for place in range(x.shape.rank):
        if place != axis and (x.shape[place] != shape_of.shape[place] or x.shape[place] is None):
            x = slice_along(x, place, end=size(shape_of, place))
    return x


def _gather(x: tf.Tensor, dim: int, index: tf.Tensor, *, sparse_grad: bool = False) -> tf.Tensor:
    """out[i][j][k] = x[i][index[i][j][k]][k] for dim 1; the result has the shape of `index`."""
    del sparse_grad
    rank = x.shape.rank
    if rank == 0:
        return tf.broadcast_to(x, tf.shape(index))
    axis = dim % rank
    x = _cropped(x, index, axis)
    if axis == rank - 1:
        return tf.gather(x, index, batch_dims=rank - 1)
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    return tf.transpose(tf.gather(tf.transpose(x, swap), tf.transpose(index, swap), batch_dims=rank - 1), swap)


def _wrapped(index: tf.Tensor, length: Any) -> tf.Tensor:
    if index.dtype in (tf.bool, tf.uint8):
        raise ExportError("indexing with a boolean mask gives a shape that depends on the data; use torch.where or a product with the mask")
    index = tf.cast(index, tf.int64)
    return tf.where(index < 0, index + length, index)


def index(x: tf.Tensor, indices: Sequence[tf.Tensor | None]) -> tf.Tensor:
    """x[i, :, j] with integer tensors; negative positions count from the end.

    Raises:
        ExportError: A boolean mask, whose result has a shape that depends on the data: use torch.where.
    """
    rank = x.shape.rank
    chosen = [axis for axis, part in enumerate(indices) if part is not None]
    places = [_wrapped(indices[axis], size(x, axis)) for axis in chosen]
    if len(chosen) == 1:
        return tf.gather(x, places[0], axis=chosen[0])
    rest = [axis for axis in range(rank) if axis not in chosen]
    common = places[0]
    for place in places[1:]:
        common = common + tf.zeros_like(place)
    stacked = tf.stack([place + tf.zeros_like(common) for place in places], axis=-1)
    result = tf.gather_nd(tf.transpose(x, [*chosen, *rest]), stacked)
    adjacent = chosen == list(range(chosen[0], chosen[0] + len(chosen)))
    if not adjacent or chosen[0] == 0:
        return result
    width = common.shape.rank
    lead = list(range(width, width + chosen[0]))
    return tf.transpose(result, [*lead, *range(width), *range(width + chosen[0], result.shape.rank)])


def _coordinates(index: tf.Tensor, dim: int) -> tf.Tensor:
    """Returns, for each element of `index`, the full position it writes to: [*index.shape, rank]."""
    rank = index.shape.rank
    ranges = [tf.range(tf.cast(part, tf.int64)) for part in sizes(index)]
    grid = list(tf.meshgrid(*ranges, indexing="ij"))
    grid[dim % rank] = tf.cast(index, tf.int64)
    return tf.stack(grid, axis=-1)


def _scatter(x: tf.Tensor, dim: int, index: tf.Tensor, source: Any) -> tf.Tensor:
    """Writes `source` (a tensor or a number) at `index` along `dim`; positions written twice are undefined in torch too."""
    updates = cast(source, x.dtype)
    updates = tf.fill(pack(sizes(index)), updates) if updates.shape.rank == 0 else _cropped(updates, index, -1)
    updates = slice_along(updates, dim, end=size(index, dim))
    return tf.tensor_scatter_nd_update(x, _coordinates(index, dim), updates)


def _scatter_add(x: tf.Tensor, dim: int, index: tf.Tensor, source: tf.Tensor) -> tf.Tensor:
    """Adds `source` at `index` along `dim`; positions named twice add up."""
    updates = slice_along(_cropped(source, index, dim % x.shape.rank), dim, end=size(index, dim))
    return tf.tensor_scatter_nd_add(x, _coordinates(index, dim), updates)


def _slice_scatter(x: tf.Tensor, source: tf.Tensor, dim: int = 0, *bounds: Any) -> tf.Tensor:
    """Replaces x[..., start:end, ...] by `source`; `bounds` are (start, end, step).

    Raises:
        ExportError: A step other than 1: write the assignment with torch.where.
    """
    defaults: list[Any] = [None, None, 1]
    start, end, step = [*bounds, *defaults[len(bounds) :]]
    if step != 1:
        raise ExportError(f"slice_scatter with step {step} has no lowering; allowed: 1; write it with torch.where")
    parts = [slice_along(x, dim, end=0 if start is None else start), cast(source, x.dtype)]
    if end is not None and end != LAST:
        parts.append(slice_along(x, dim, start=end))
    return tf.concat(parts, axis=dim)


def _select_scatter(x: tf.Tensor, source: tf.Tensor, dim: int, index: int) -> tf.Tensor:
    """Replaces the position `index` along `dim` by `source`."""
    length = size(x, dim)
    place = index + length if index < 0 else index
    parts = [slice_along(x, dim, end=place), tf.expand_dims(cast(source, x.dtype), dim), slice_along(x, dim, start=place + 1)]
    return tf.concat(parts, axis=dim)


ROWS: dict[str, Callable[..., Any]] = {
    "aten.embedding.default": embedding,
    "aten.index_select.default": _index_select,
    "aten.gather.default": _gather,
    "aten.index.Tensor": index,
    "aten.scatter.src": _scatter,
    "aten.scatter.value": _scatter,
    "aten.scatter_add.default": _scatter_add,
    "aten.slice_scatter.default": _slice_scatter,
    "aten.select_scatter.default": _select_scatter,
}
