"""TensorProto to NumPy and back, checked: what a client sends decides neither how much memory is taken nor which type the model gets."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from infra.serving.model_server.faults import invalid
from infra.serving.model_server.session import DTYPES, Array

_STRING = 7
_HALF = 19
_FIELDS = {
    1: "float_val",
    2: "double_val",
    3: "int_val",
    4: "int_val",
    5: "int_val",
    6: "int_val",
    9: "int64_val",
    10: "bool_val",
    17: "int_val",
    19: "half_val",
    22: "uint32_val",
    23: "uint64_val",
}
_PACKED = {1: 5 << 3 | 2, 2: 6 << 3 | 2}
"""DataType -> first byte of the packed field (tensor.proto: float_val = 5, double_val = 6)."""
_NUMBERS = {np.dtype(kind): number for number, kind in DTYPES.items()}
MAX_RANK = 16


def to_array(name: str, proto: Any, *, max_elements: int) -> Array:
    """Reads a TensorProto.

    Args:
        name: of the input, for messages.
        proto: TensorProto.
        max_elements: that a tensor may have; a few bytes can declare a shape of any size.

    Raises:
        ServingFault: no valid tensor.
    """
    shape = _shape(name, proto, max_elements)
    size = math.prod(shape)
    if proto.dtype == _STRING:
        return _filled_strings(name, proto.string_val, size).reshape(shape)
    kind = DTYPES.get(proto.dtype)
    if kind is None:
        raise invalid(f"tensor parsing error: {name}: tensors of TensorFlow's type {proto.dtype} are not served")
    dtype = np.dtype(kind)
    if proto.tensor_content:
        if len(proto.tensor_content) != size * dtype.itemsize:
            raise invalid(f"tensor parsing error: {name}: {len(proto.tensor_content)} bytes of content for shape {list(shape)} of {dtype}")
        return np.frombuffer(proto.tensor_content, dtype).reshape(shape)
    values: Any = np.asarray(getattr(proto, _FIELDS[proto.dtype]))
    if proto.dtype == _HALF:
        values = values.astype(np.uint16).view(np.float16)
    return _filled(name, values.astype(dtype, copy=False), size).reshape(shape)


def _shape(name: str, proto: Any, max_elements: int) -> tuple[int, ...]:
    dims = [dim.size for dim in proto.tensor_shape.dim]
    if proto.tensor_shape.unknown_rank or len(dims) > MAX_RANK or any(dim < 0 for dim in dims):
        raise invalid(f"tensor parsing error: {name}: {dims} is no shape of a tensor")
    if math.prod(dims) > max_elements:
        raise invalid(f"tensor parsing error: {name}: shape {dims} has more than {max_elements} elements, the limit of this server")
    return tuple(dims)


def _filled(name: str, values: Array, size: int) -> Array:
    """As TensorFlow reads it: too few values mean that the last one repeats, none mean zeros."""
    if len(values) > size:
        raise invalid(f"tensor parsing error: {name}: {len(values)} values for {size} elements")
    if len(values) == size:
        return values
    last = values[-1] if len(values) else np.zeros(1, values.dtype)[0]
    return np.concatenate([values, np.full(size - len(values), last, values.dtype)])


def _filled_strings(name: str, values: Sequence[bytes], size: int) -> Array:
    if len(values) > size:
        raise invalid(f"tensor parsing error: {name}: {len(values)} values for {size} elements")
    texts = np.empty(size, object)
    texts[: len(values)] = values
    if len(values) < size:
        texts[len(values) :] = values[-1] if values else b""
    return texts


def fill_proto(proto: Any, array: Array) -> None:
    """Writes an array into an empty TensorProto: as typed values, which is what the real server sends (AsProtoField)."""
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    if array.dtype == object:
        proto.dtype = _STRING
        proto.string_val.extend(array.ravel().tolist())
        return
    number = _NUMBERS[array.dtype]
    proto.dtype = number
    if number in _PACKED:
        # Packed on the wire they are the array's own bytes: nothing is converted, a NaN keeps its bits.
        content = np.ascontiguousarray(array).tobytes()
        if content:
            proto.MergeFromString(bytes([_PACKED[number]]) + _varint(len(content)) + content)
    elif number == _HALF:
        proto.half_val.extend(np.ascontiguousarray(array).view(np.uint16).ravel().tolist())
    else:
        getattr(proto, _FIELDS[number]).extend(array.ravel().tolist())


def _varint(value: int) -> bytes:
    """Protobuf's variable-length form of a whole number."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def dtype_of(number: int) -> Any:
    """NumPy's dtype of a DataType number; `object` for strings.

    Raises:
        ServingFault: it is not served.
    """
    if number == _STRING:
        return np.dtype(object)
    if number not in DTYPES:
        raise invalid(f"tensors of TensorFlow's type {number} are not served")
    return np.dtype(DTYPES[number])
