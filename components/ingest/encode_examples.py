"""Serializes columns as tf.Example and deals rows to splits, the same bytes for the same rows every time.

Why not a library's encoder: tfx_bsl's writes a missing cell as a feature without a value (statistics then count nothing as missing) and its
key order changes from run to run, so equal data would give different artifacts. The wire format is that of protocol buffers
(https://protobuf.dev/programming-guides/encoding/) for the messages of tensorflow/core/example/{example,feature}.proto.
"""

import hashlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from components.ingest.parse_cells import Column

_FIRST_FIELD, _SECOND_FIELD = b"\x0a", b"\x12"  # tags of length-delimited fields 1 and 2
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = b"\x0a", b"\x12", b"\x1a"  # fields 1, 2, 3 of Feature
_MISSING = "-"


def encode_batch(columns: Mapping[str, Column]) -> pa.Array:
    """Serializes N rows.

    Args:
        columns: feature name -> column; int64 gives int64_list, float64 float_list (float32), string bytes_list. A missing cell
            is a feature left out.

    Returns:
        binary[N] of serialized tf.Example, features in the order of their names.
    """
    entries = [_encode_column(name, columns[name]) for name in sorted(columns)]
    nothing = pa.scalar(b"", pa.binary())  # pyarrow 18 drops a row whose inputs are all null
    body = pc.binary_join_element_wise(nothing, *entries, b"", null_handling="skip")
    lengths = pc.binary_length(body).dictionary_encode()
    heads = pa.array([_FIRST_FIELD + _varint(length) for length in lengths.dictionary.to_pylist()], pa.binary())
    return pc.binary_join_element_wise(heads.take(lengths.indices), body, b"")


def _encode_column(name: str, column: Column) -> pa.Array:
    """binary[N]: the map entry of each row, null where the value is missing."""
    key = name.encode()
    values = column.values
    if pa.types.is_float64(values.type):
        entries = _encode_floats(key, values.to_numpy())
    elif pa.types.is_int64(values.type):
        entries = _encode_integers(key, values.to_numpy())
    else:
        entries = pa.array([_entry(key, _BYTES_LIST, value.encode()) for value in values.to_pylist()], pa.binary())
    return entries.take(column.codes)


def _encode_floats(key: bytes, values: npt.NDArray[np.float64]) -> pa.Array:
    """binary[n] from float64[n]: each value is four bytes, float32 little-endian."""
    return _encode_tails(key, _FLOAT_LIST, values.astype("<f4").view(np.uint8).reshape(-1, 4))


def _encode_integers(key: bytes, values: npt.NDArray[np.int64]) -> pa.Array:
    """binary[n] from int64[n]: values are grouped by the length of their varint, so that each group is one matrix of bytes."""
    unsigned = values.astype(np.uint64)  # two's complement, as the wire format wants negative numbers
    shifts = np.arange(0, 70, 7, dtype=np.uint64)
    lengths = 1 + sum((unsigned >> shift > 0).astype(np.int64) for shift in shifts[1:])
    order = np.argsort(lengths, kind="stable")
    parts = []
    for length in np.unique(lengths).tolist():
        groups = (unsigned[lengths == length][:, None] >> shifts[:length]) & np.uint64(0x7F)
        groups[:, :-1] |= np.uint64(0x80)  # more groups follow
        parts.append(_encode_tails(key, _INT64_LIST, groups.astype(np.uint8)))
    return pa.concat_arrays(parts).take(pa.array(np.argsort(order))) if parts else pa.array([], pa.binary())


def _encode_tails(key: bytes, kind: bytes, tails: npt.NDArray[np.uint8]) -> pa.Array:
    """binary[n] from uint8[n, w]: entries whose values have the same length share their head."""
    width = tails.shape[1]
    head = np.frombuffer(_entry(key, kind, bytes(width))[:-width], dtype=np.uint8)
    rows = np.concatenate([np.broadcast_to(head, (len(tails), len(head))), tails], axis=1)
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(rows.shape[1]), len(rows), [None, pa.py_buffer(rows.tobytes())])
    return fixed.cast(pa.binary())


def _entry(key: bytes, kind: bytes, value: bytes) -> bytes:
    """An entry of Features.feature: {key, Feature{kind{value}}}."""
    feature = _delimited(kind, _delimited(_FIRST_FIELD, value))
    return _delimited(_FIRST_FIELD, _delimited(_FIRST_FIELD, key) + _delimited(_SECOND_FIELD, feature))


def _delimited(tag: bytes, content: bytes) -> bytes:
    return tag + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """A number of 0 or more in base 128, low group first."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def assign_splits(batch: pa.RecordBatch, weights: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """Deals rows to splits by their content, so equal rows share a split whatever their order or batch.

    The hash is BLAKE2b (64 bits) over the cells' text as `<length in bytes>:<text>`, `-` where missing, modulo the sum of weights.

    Args:
        batch: string columns of N rows, in a fixed order.
        weights: split name -> weight of 1 or more.

    Returns:
        int64[N]: position of the row's split in `weights`.
    """
    rows = pc.binary_join_element_wise(*map(_measured, batch.columns), "").to_pylist()
    total = sum(weights.values())
    draws = [int.from_bytes(hashlib.blake2b(row.encode(), digest_size=8).digest(), "big") % total for row in rows]
    edges = np.cumsum(list(weights.values()))
    return np.searchsorted(edges, np.array(draws, dtype=np.int64), side="right").astype(np.int64)


def _measured(cells: pa.Array) -> pa.Array:
    """Writes each cell with its length before it, so that no two different rows join to the same text."""
    coded = cells.dictionary_encode()
    lengths = pc.binary_length(coded.dictionary).cast(pa.string())
    return pc.fill_null(pc.binary_join_element_wise(lengths, coded.dictionary, ":").take(coded.indices), _MISSING)
