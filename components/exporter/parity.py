"""Parity: what the exported SavedModel answers, held against what the framework itself computes, row by row."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from components.core.contracts import DataSpec, finite_or_none
from components.core.measurements import ParityReport, WorstRow
from components.core.served_model import CLASSES, EXAMPLES, SCORES, SERVING_DEFAULT, SERVING_RAW, parse_spec, raw_batches
from components.exporter.edge_rows import EdgeRow, decode_example
from components.exporter.native import Features, Native, Scores
from components.exporter.serving import TransformGraph, as_missing

BATCH = 1024
"""Rows of one call on the eval split. The first row alone and the first seven are asked again: a score must not depend on its batch."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows that are compared: serialized examples and, for people, what each is called."""

    source: str
    names: tuple[str, ...]
    examples: tuple[bytes, ...]

    def row(self, index: int, data: DataSpec, *, native: Scores, exported: Scores) -> WorstRow:
        """Describes a row for people, with its scores [C] of both sides."""
        return WorstRow(
            source=self.names[index],
            index=index,
            native=tuple(finite_or_none(float(score)) for score in native),
            exported=tuple(finite_or_none(float(score)) for score in exported),
            features=decode_example(data, self.examples[index]),
        )

    def batches(self) -> Iterator[slice]:
        """Row ranges that are asked in one call each."""
        count = len(self.examples)
        yield from (slice(start, min(start + BATCH, count)) for start in range(0, count, BATCH))
        if self.source == "edge":
            yield from (slice(index, index + 1) for index in range(count))
        else:
            yield from (slice(0, size) for size in (1, 7) if size < count)


@dataclasses.dataclass
class Findings:
    """The worst of all comparisons so far; `difference` is NaN once a score is not finite."""

    difference: float = 0.0
    compared: int = 0
    agreed: int = 0
    worst: WorstRow | None = None
    signature: str = ""

    def add(self, answers: Scores, expected: Scores, *, signature: str) -> int | None:
        """Counts one call's answers [N, C] in; gives the position of the new worst row if it holds one."""
        if not len(answers):
            return None
        differences = np.abs(answers.astype(np.float64) - expected).max(axis=1)  # [N]
        differences[~(np.isfinite(answers).all(axis=1) & np.isfinite(expected).all(axis=1))] = np.nan
        self.compared += len(differences)
        self.agreed += int((answers.argmax(axis=1) == expected.argmax(axis=1)).sum())
        place = int(np.argmax(np.where(np.isnan(differences), np.inf, differences)))
        worse = np.isnan(differences[place]) or differences[place] > self.difference
        if self.worst is not None and (np.isnan(self.difference) or not worse):
            return None
        self.difference, self.signature = float(differences[place]), signature
        return place


def check_parity(
    native: Native, transform: TransformGraph, served: Any, *, data: DataSpec, rows: Sequence[Rows], tolerance: float
) -> ParityReport:
    """Compares both plain signatures with the native model on all rows.

    Native scores rest on transformed features that the transform graph gives outside the exported model.

    Args:
        native: the rebuilt native model.
        transform: the transform graph.
        served: the loaded SavedModel.
        data: raw features and label.
        rows: the eval split and the edge rows.
        tolerance: largest allowed absolute difference of scores.
    """
    findings = Findings()
    reason = _check_classes(served, data, rows[0])
    for part in rows:
        features = transform_rows(transform, data, part.examples)
        reason = reason or _check_ids(native, features, part)
        expected = _native_scores(native, features)
        raw = raw_batches(data, part.examples)
        for batch in part.batches():
            for signature, answers in _ask(served, part.examples[batch], raw(batch)).items():
                place = findings.add(answers, expected[batch], signature=signature)
                if place is not None:
                    row = batch.start + place
                    findings.worst = part.row(row, data, native=expected[row], exported=answers[place])
    reason = reason or _judge(findings, tolerance)
    counts = {part.source: len(part.examples) for part in rows}
    return ParityReport(
        framework=native.description.framework,
        passed=not reason,
        tolerance=tolerance,
        largest_absolute_difference=finite_or_none(findings.difference),
        label_agreement=findings.agreed / findings.compared,
        eval_rows=counts.get("eval", 0),
        edge_rows=counts.get("edge", 0),
        worst_row=findings.worst,
        reason=reason,
    )


def eval_rows(examples: Sequence[bytes]) -> Rows:
    """The rows of the eval split."""
    return Rows("eval", ("eval",) * len(examples), tuple(examples))


def edge_rows(rows: Sequence[EdgeRow]) -> Rows:
    """The edge rows."""
    return Rows("edge", tuple(row.name for row in rows), tuple(row.example for row in rows))


def transform_rows(transform: TransformGraph, data: DataSpec, examples: Sequence[bytes]) -> dict[str, npt.NDArray[Any]]:
    """Applies the transform graph outside the exported model: serialized rows -> dense features [N, ...]."""
    parts = []
    for start in range(0, len(examples), BATCH):
        parsed = tf.io.parse_example(tf.constant(list(examples[start : start + BATCH]), tf.string), parse_spec(data))
        features = transform({feature.name: as_missing(feature, parsed[feature.name]) for feature in data.features})
        parts.append({name: value.numpy() for name, value in features.items() if isinstance(value, tf.Tensor)})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _native_scores(native: Native, features: Features) -> Scores:
    names = [feature.name for feature in native.description.spec.features]
    count = len(features[names[0]])
    return np.concatenate(
        [native.scores({name: features[name][start : start + BATCH] for name in names}) for start in range(0, count, BATCH)]
    )


def _ask(served: Any, examples: Sequence[bytes], raw: Mapping[str, Any]) -> dict[str, Scores]:
    by_example = served.signatures[SERVING_DEFAULT](**{EXAMPLES: tf.constant(list(examples), tf.string)})
    by_feature = served.signatures[SERVING_RAW](**raw)
    return {SERVING_DEFAULT: by_example[SCORES].numpy(), SERVING_RAW: by_feature[SCORES].numpy()}


def _judge(findings: Findings, tolerance: float) -> str:
    """Returns why parity did not hold, or an empty text."""
    worst = findings.worst
    where = f"row {worst.index} ({worst.source}) of {findings.signature}" if worst else ""
    if not np.isfinite(findings.difference):
        return f"a score is not finite in {where}; bound that feature in preprocessing_fn"
    if findings.difference > tolerance:
        return f"scores differ by {findings.difference:.3g} in {where}, allowed {tolerance:g}"
    if findings.agreed < findings.compared:
        differ = findings.compared - findings.agreed
        return f"the label differs in {differ} of {findings.compared} answers, although scores are within {tolerance:g}"
    return ""


def _check_ids(native: Native, features: Mapping[str, npt.NDArray[Any]], part: Rows) -> str:
    """Returns which id leaves its table, or an empty text: on such an id the frameworks differ from each other in silence."""
    for feature in native.description.spec.ids:
        ids = features[feature.name].reshape(len(part.examples), -1)
        limit = feature.vocabulary_size if feature.vocabulary_size is not None else np.inf
        outside = np.flatnonzero(((ids < 0) | (ids >= limit)).any(axis=1))
        if len(outside):
            row = int(outside[0])
            remedy = "use num_oov_buckets of 1 or more in preprocessing_fn"
            return f"{feature.name!r} must be at least 0 and below {limit}, but is not in row {row} ({part.names[row]}); {remedy}"
    return ""


def _check_classes(served: Any, data: DataSpec, rows: Rows) -> str:
    answer = served.signatures[SERVING_DEFAULT](**{EXAMPLES: tf.constant(list(rows.examples[:1]), tf.string)})
    found = tuple(name.decode("utf-8") for name in answer[CLASSES].numpy()[0])
    return "" if found == data.label.classes else f"classes are {list(found)}, not {list(data.label.classes)}"
