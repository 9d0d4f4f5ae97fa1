"""Torch's type promotion and dtype names, in TensorFlow terms.

Source of the rules: the `torch.result_type` documentation ("tensor attributes", type promotion): operands fall into three
classes (tensors with dimensions, zero-dimensional tensors, Python numbers) and a lower class only changes the result
where it is of a higher category (boolean < integer < floating).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
import torch

from components.core.errors import ExportError

DTYPES: dict[torch.dtype, tf.DType] = {
    torch.bool: tf.bool,
    torch.uint8: tf.uint8,
    torch.int8: tf.int8,
    torch.int16: tf.int16,
    torch.int32: tf.int32,
    torch.int64: tf.int64,
    torch.float16: tf.float16,
    torch.bfloat16: tf.bfloat16,
    torch.float32: tf.float32,
    torch.float64: tf.float64,
}
_WIDTH = {tf.uint8: 0, tf.int8: 1, tf.int16: 2, tf.int32: 3, tf.int64: 4, tf.float16: 5, tf.bfloat16: 5, tf.float32: 6, tf.float64: 7}


def tf_dtype(dtype: torch.dtype) -> tf.DType:
    """Returns the TensorFlow dtype of a torch dtype.

    Raises:
        ExportError: A dtype outside `DTYPES` (complex, quantised, float8): cast it in the model's forward.
    """
    if dtype not in DTYPES:
        raise ExportError(f"dtype {dtype} has no lowering; allowed: {', '.join(str(d) for d in DTYPES)}; cast the tensor in forward")
    return DTYPES[dtype]


def _category(dtype: tf.DType) -> int:
    return 0 if dtype == tf.bool else 1 if dtype.is_integer else 2


def promote(first: tf.DType | None, second: tf.DType | None) -> tf.DType | None:
    """Returns the promoted dtype of two operands of one class; None stands for "no operand"."""
    if first is None or second is None or first == second:
        return second if first is None else first
    if _category(first) != _category(second):
        return max(first, second, key=_category)
    if {first, second} == {tf.uint8, tf.int8}:
        return tf.int16
    if {first, second} == {tf.float16, tf.bfloat16}:
        return tf.float32
    return max(first, second, key=lambda dtype: _WIDTH[dtype])


def _combine(higher: tf.DType | None, lower: tf.DType | None) -> tf.DType | None:
    if higher is None or lower is None:
        return lower if higher is None else higher
    return promote(higher, lower) if _category(lower) > _category(higher) else higher


def result_type(*operands: Any) -> tf.DType:
    """Returns the dtype torch computes in for these operands (tf tensors, ints, floats, bools)."""
    classes: list[tf.DType | None] = [None, None, None]
    for operand in operands:
        if tf.is_tensor(operand):
            rank = 1 if operand.shape.rank == 0 else 0
            classes[rank] = promote(classes[rank], operand.dtype)
        else:
            number = tf.bool if isinstance(operand, bool) else tf.int64 if isinstance(operand, int) else tf.float32
            classes[2] = promote(classes[2], number)
    return _combine(classes[0], _combine(classes[1], classes[2]))


def cast(operand: Any, dtype: tf.DType) -> tf.Tensor:
    """Casts a tensor or Python number to `dtype`; floating to boolean is "not zero", so NaN is true as in torch."""
    if not tf.is_tensor(operand):
        return tf.constant(np.asarray(operand).astype(dtype.as_numpy_dtype), dtype)
    if dtype == tf.bool and operand.dtype != tf.bool:
        return tf.not_equal(operand, tf.zeros([], operand.dtype))
    return operand if operand.dtype == dtype else tf.cast(operand, dtype)


def together(*operands: Any) -> list[tf.Tensor]:
    """Casts all operands to the dtype torch computes in."""
    dtype = result_type(*operands)
    return [cast(operand, dtype) for operand in operands]


def as_floating(operand: tf.Tensor) -> tf.Tensor:
    """Casts integer and boolean tensors to float32, torch's default dtype; leaves floating ones alone."""
    return operand if operand.dtype.is_floating else cast(operand, tf.float32)


def pack(sizes: Iterable[Any]) -> Any:
    """Returns sizes as a plain list where all are Python ints, else as one int64 vector."""
    parts = list(sizes)
    if all(isinstance(part, int) for part in parts):
        return parts
    return tf.stack([tf.cast(part, tf.int64) for part in parts])


def size(tensor: tf.Tensor, axis: int) -> Any:
    """Returns one dimension: a Python int where it is static, else an int64 scalar tensor."""
    static = tensor.shape[axis]
    return int(static) if static is not None else tf.shape(tensor, out_type=tf.int64)[axis]


def sizes(tensor: tf.Tensor) -> list[Any]:
    """Returns every dimension as `size` does."""
    return [size(tensor, axis) for axis in range(tensor.shape.rank)]


def axes(dim: int | Iterable[int] | None, rank: int) -> list[int]:
    """Returns non-negative axes; None and an empty list mean all of them, as in torch's reductions."""
    if isinstance(dim, int):
        return [dim % rank] if rank else []
    chosen = [] if dim is None else list(dim)
    return [axis % rank for axis in chosen] if chosen and rank else list(range(rank))
