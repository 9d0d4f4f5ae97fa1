"""Edge rows: synthetic rows at the limits of what a served model may be asked, beside the rows of the eval split."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from components.core.contracts import DataSpec, Feature
from components.core.served_model import LARGEST_EXACT_INTEGER, parse_spec

Value = int | float | bytes
LONG_TEXT_BYTES = 10_000
_FLOAT32 = np.finfo(np.float32)


@dataclasses.dataclass(frozen=True)
class EdgeRow:
    """One edge row.

    Attributes:
        name: what is at its limit, e.g. `Income at -2^53`.
        example: serialized tf.Example; a missing feature is left out.
    """

    name: str
    example: bytes


@dataclasses.dataclass(frozen=True)
class Observed:
    """What the eval split holds of one feature: the median or most frequent value, and the smallest and largest."""

    typical: Value
    lowest: Value
    highest: Value


def make_edge_rows(spec: DataSpec, examples: Sequence[bytes]) -> list[EdgeRow]:
    """Makes the edge rows: each varies one feature of a typical row, a few vary all.

    The typical row is put together from medians and most frequent values, so no row of a person is copied. A feature that is not
    optional is never missing here: the served model refuses that.

    Args:
        spec: the raw features.
        examples: rows of the eval split, for typical, smallest and largest values.
    """
    observed = _observe(spec, examples)
    typical: dict[str, Value | None] = {name: values.typical for name, values in observed.items()}
    variations = {feature.name: dict(_variations(feature, observed[feature.name])) for feature in spec.features}
    rows = [EdgeRow("typical", encode_example(typical))]
    for name, values in variations.items():
        rows += [EdgeRow(f"{name} {label}", encode_example({**typical, name: value})) for label, value in values.items()]
    for label in ("missing", "at its smallest observed value", "at its largest observed value", "zero", "unseen"):
        together = {name: values[label] for name, values in variations.items() if label in values}
        rows.append(EdgeRow(f"all {label}", encode_example({**typical, **together})))
    return rows


def encode_example(values: Mapping[str, Value | None]) -> bytes:
    """Serializes one row as tf.Example; None is left out."""
    example = tf.train.Example()
    for name, value in values.items():
        if isinstance(value, bytes):
            example.features.feature[name].bytes_list.value.append(value)
        elif isinstance(value, float):
            example.features.feature[name].float_list.value.append(value)
        elif value is not None:
            example.features.feature[name].int64_list.value.append(value)
    return bytes(example.SerializeToString(deterministic=True))


def decode_example(spec: DataSpec, example: bytes) -> dict[str, str]:
    """Raw feature values of one serialized row as text, `(missing)` where absent."""
    parsed = tf.train.Example.FromString(example).features.feature
    return {feature.name: _text(parsed[feature.name]) if feature.name in parsed else "(missing)" for feature in spec.features}


def _text(held: tf.train.Feature) -> str:
    values = [*held.bytes_list.value, *held.float_list.value, *held.int64_list.value]
    if not values:
        return "(missing)"
    return values[0].decode("utf-8", "replace")[:200] if isinstance(values[0], bytes) else repr(values[0])


def _variations(feature: Feature, observed: Observed) -> Iterator[tuple[str, Value | None]]:
    if feature.optional:
        yield "missing", None
    if feature.kind == "category":
        yield "unseen", b"\x7fa value that no row of training holds"
        yield "very long", b"x" * LONG_TEXT_BYTES
        yield "not ASCII", "北京 · naïve · 🏠".encode()
        yield "with a line break", b"owner\nrent"
        if feature.optional:
            yield "an empty string", b""
        return
    yield "at its smallest observed value", observed.lowest
    yield "at its largest observed value", observed.highest
    if feature.kind == "integer":
        yield from (("zero", 0), ("one", 1), ("negative", -1))
        yield from (("at 2^53", LARGEST_EXACT_INTEGER), ("at -2^53", -LARGEST_EXACT_INTEGER))
        return
    yield from (("zero", 0.0), ("negative zero", -0.0), ("negative", -1.0))
    yield from (("at the largest float32", float(_FLOAT32.max)), ("at the smallest float32", float(_FLOAT32.min)))
    yield "at the tiniest float32", float(_FLOAT32.tiny)
    if feature.optional:
        yield "not a number", float("nan")


def _observe(spec: DataSpec, examples: Sequence[bytes]) -> dict[str, Observed]:
    parsed = tf.io.parse_example(tf.constant(list(examples), tf.string), parse_spec(spec))
    return {feature.name: _observe_one(feature, parsed[feature.name].values.numpy()) for feature in spec.features}


def _observe_one(feature: Feature, values: np.ndarray) -> Observed:
    if feature.kind == "category":
        names, counts = np.unique(values.astype(object), return_counts=True) if len(values) else (np.array([b"typical"], object), [1])
        typical = bytes(names[int(np.argmax(counts))])
        return Observed(typical, typical, typical)
    finite = values[np.isfinite(values)]
    if not len(finite):
        finite = np.zeros([1], values.dtype)
    middle = np.sort(finite)[len(finite) // 2]
    return Observed(middle.item(), finite.min().item(), finite.max().item())
