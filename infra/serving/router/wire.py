"""Just enough of protobuf's wire format to route TensorFlow Serving's messages without TensorFlow: model, version, scores.

Source of the format: the Protocol Buffers encoding documentation. A repeated occurrence of a singular message field is merged into the
first, so a version is pinned by appending a second `model_spec` that holds nothing else.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_SPEC_NAME, _SPEC_VERSION, _SPEC_LABEL = 1, 2, 4
_SCORES = b"scores"
_DTYPE, _SHAPE, _CONTENT = 1, 2, 4
_TYPES: dict[int, tuple[int, np.dtype[Any]]] = {1: (5, np.dtype("<f4")), 2: (6, np.dtype("<f8"))}
"""Of a TensorProto: DT_FLOAT and DT_DOUBLE -> number of the field that holds their values one by one, and their bytes."""
_REPEATED = 1_000_000
SPEC_FIELDS = {"Predict": 1, "Classify": 1, "Regress": 1, "GetModelMetadata": 1, "GetModelStatus": 1}
"""Method -> number of the field `model_spec` of its request; MultiInference has one in each task instead."""
_TASKS, _TASK_SPEC = 1, 1


class Malformed(ValueError):
    """Bytes that are no message."""


@dataclasses.dataclass(frozen=True)
class Target:
    """Who a request asks.

    Attributes:
        name: of the model, empty when it names none.
        pinned: it names a version or a label itself.
    """

    name: str
    pinned: bool


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise Malformed("a number is cut off")
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7


def fields(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(number, wire type, begin, end) of each field; for varints begin and end are those of the number.

    Raises:
        Malformed: the bytes are no message.
    """
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, kind = tag >> 3, tag & 7
        begin = place
        if kind == _VARINT:
            _, end = _varint(data, place)
        elif kind == _BYTES:
            size, begin = _varint(data, place)
            end = begin + size
        elif kind in (_FIXED64, _FIXED32):
            end = begin + (8 if kind == _FIXED64 else 4)
        else:
            raise Malformed(f"wire type {kind}")
        if end > len(data) or number == 0:
            raise Malformed("a field is longer than the message")
        yield number, kind, begin, end
        place = end


def _messages(data: bytes, number: int) -> list[bytes]:
    return [data[begin:end] for found, kind, begin, end in fields(data) if found == number and kind == _BYTES]


def target(method: str, data: bytes) -> Target:
    """Who a request of this method asks.

    Raises:
        Malformed: no message.
    """
    if method == "MultiInference":
        specs = [spec for task in _messages(data, _TASKS) for spec in _messages(task, _TASK_SPEC)]
    else:
        specs = _messages(data, SPEC_FIELDS[method])
    name, pinned = "", False
    for spec in specs:
        for number, kind, begin, end in fields(spec):
            if number == _SPEC_NAME and kind == _BYTES:
                name = spec[begin:end].decode("utf-8", "replace")
            # An empty one counts: version 0 and the label "" are encoded so, and a server takes them at their word.
            pinned = pinned or (number in (_SPEC_VERSION, _SPEC_LABEL) and kind == _BYTES)
    return Target(name, pinned)


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(content)) + content


def pin(method: str, data: bytes, version: int) -> bytes:
    """The request with its version set."""
    wrapped = _encoded(1 << 3 | _VARINT) + _encoded(version)
    spec = _field(_SPEC_VERSION, wrapped)
    if method != "MultiInference":
        return data + _field(SPEC_FIELDS[method], spec)
    # Appending to a repeated field would add a task: each task is written anew, with its spec merged.
    parts = []
    place = 0
    for number, kind, begin, end in fields(data):
        if number == _TASKS and kind == _BYTES:
            parts.append(_field(_TASKS, data[begin:end] + _field(_TASK_SPEC, spec)))
        else:
            parts.append(data[place:end])
        place = end
    return b"".join(parts)


def scores(data: bytes) -> np.ndarray | None:  # float32[N, C] or float64[N, C]
    """`scores` of a PredictResponse, float32[N, C], or float64 where the model gives that; None when it has none of these types.

    Raises:
        Malformed: no message.
    """
    for entry in _messages(data, 1):
        if _messages(entry, 1) == [_SCORES]:
            tensors = _messages(entry, 2)
            return _floats(tensors[-1]) if tensors else None
    return None


def _floats(tensor: bytes) -> np.ndarray | None:  # float[N, C]
    dims: list[int] = []
    kind_of_value, content = 0, b""
    values: dict[int, list[bytes]] = {number: [] for number, _ in _TYPES.values()}
    for number, kind, begin, end in fields(tensor):
        if number == _DTYPE and kind == _VARINT:
            kind_of_value, _ = _varint(tensor, begin)
        elif number == _SHAPE and kind == _BYTES:
            dims = [_dim(dim) for dim in _messages(tensor[begin:end], 2)]
        elif number == _CONTENT and kind == _BYTES:
            content = tensor[begin:end]
        elif number in values and kind != _VARINT:
            values[number].append(tensor[begin:end])
    if kind_of_value not in _TYPES:
        return None
    field, dtype = _TYPES[kind_of_value]
    flat = np.frombuffer(content or b"".join(values[field]), dtype)
    if flat.size == 1:
        # One value may stand for a whole tensor.
        flat = np.repeat(flat, max(1, min(math.prod(dims), _REPEATED)))
    if dims and math.prod(dims) == flat.size and flat.size:
        return flat.reshape(dims[0], -1)
    return flat.reshape(-1, 1)


def _dim(data: bytes) -> int:
    size = 0
    for number, kind, begin, _ in fields(data):
        if number == 1 and kind == _VARINT:
            size, _ = _varint(data, begin)
    return size
