"""Scores the eval split once: a SavedModel's `serving_default` over serialized tf.Examples, row by row, in the order of the files."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from components.core import files
from components.core.contracts import DataSpec, slice_feature
from components.core.errors import AuditError
from components.core.served_model import SCORES, SERVING_DEFAULT, SERVING_RAW

PREDICTIONS_FILE = "predictions.parquet"
BATCH_ROWS = 1024
"""Rows of one call of the model; a bound on memory, nothing else depends on it."""


@dataclasses.dataclass(frozen=True)
class EvalSplit:
    """The rows of the eval split.

    Attributes:
        examples: serialized tf.Examples, in the order of the sorted files.
        labels: class name of each row.
        slices: slice key -> value of each row.
    """

    examples: tuple[bytes, ...]
    labels: tuple[str, ...]
    slices: dict[str, tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class Predictions:
    """Scores of the eval split beside what they are held against.

    Attributes:
        classes: class names; the position is the column of `scores`.
        positive: column of the positive class.
        labels: class name of each row.
        scores: float32[N, C] of the candidate.
        slices: slice key -> value of each row.
        digests: SHA-256 of each serialized example, hex.
        champion_scores: float32[N, C] of the champion, None without one.
    """

    classes: tuple[str, ...]
    positive: int
    labels: tuple[str, ...]
    scores: npt.NDArray[np.float32]
    slices: dict[str, tuple[str, ...]]
    digests: tuple[str, ...]
    champion_scores: npt.NDArray[np.float32] | None = None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def positives(self) -> npt.NDArray[np.bool_]:
        """bool[N]: rows of the positive class."""
        return np.array([label == self.classes[self.positive] for label in self.labels], dtype=np.bool_)


def read_serialized(folder: Path | str, *, at_most: int | None = None) -> list[bytes]:
    """Serialized tf.Examples of a split's folder (TFRecord, `.gz` or plain), in the order of the sorted files; the first `at_most`."""
    import tensorflow as tf

    examples: list[bytes] = []
    for path in sorted(path for path in Path(folder).iterdir() if path.is_file() and not path.name.startswith(".")):
        records = tf.data.TFRecordDataset(str(path), compression_type="GZIP" if path.suffix == ".gz" else "")
        left = -1 if at_most is None else at_most - len(examples)
        for batch in records.take(left).batch(BATCH_ROWS):
            examples.extend(batch.numpy().tolist())
    return examples


def read_eval_split(folder: Path | str, data: DataSpec) -> EvalSplit:
    """Reads serialized tf.Examples, their labels and slice values from a split's folder (TFRecord, `.gz` or plain).

    Raises:
        AuditError: no row, a row without label or slice value, or a label that is none of the classes.
    """
    import tensorflow as tf

    examples = read_serialized(folder)
    if not examples:
        raise AuditError(f"auditor: the eval split in {folder} has no rows, so nothing can be audited; give it rows by the split weights")
    names = [data.label.name, *map(slice_feature, data.slice_keys)]
    parsed = tf.io.parse_example(examples, {name: tf.io.FixedLenFeature([], tf.string, default_value="") for name in names})
    columns = {name: tuple(value.decode() for value in parsed[name].numpy().tolist()) for name in names}
    for name, values in columns.items():
        allowed = data.label.classes if name == data.label.name else None
        for row, value in enumerate(values):
            if (allowed is not None and value not in allowed) or not value:
                raise AuditError(
                    f"auditor: eval row {row}: {name} is {value!r}; allowed: {', '.join(allowed) if allowed else 'any non-empty text'}; "
                    "ingest the data again with the same pipeline.toml"
                )
    slices = {key: columns[slice_feature(key)] for key in data.slice_keys}
    return EvalSplit(examples=tuple(examples), labels=columns[data.label.name], slices=slices)


class LoadedModel:
    """A SavedModel of the served-model contract, loaded once.

    Raises:
        AuditError: it has no signature `serving_default`; from its methods: outputs of another shape or class order.
    """

    def __init__(self, model: Path | str, data: DataSpec) -> None:
        import tensorflow as tf

        self._data, self._model = data, str(model)
        self._loaded = tf.saved_model.load(self._model)
        self._signature = self._of(SERVING_DEFAULT)
        (self._argument,) = self._signature.structured_input_signature[1]

    def score(self, examples: Sequence[bytes]) -> npt.NDArray[np.float32]:
        """Scores of serialized tf.Examples.

        Returns:
            float32[N, C]: `scores` of `serving_default`, columns in the order of `data.label.classes`. They may be not finite.
        """
        import tensorflow as tf

        scores = []
        for start in range(0, len(examples), BATCH_ROWS):
            batch = examples[start : start + BATCH_ROWS]
            outputs = self._signature(**{self._argument: tf.constant(batch)})
            _check_outputs(outputs, len(batch), self._data, model=self._model)
            scores.append(outputs[SCORES].numpy())
        return np.concatenate(scores).astype(np.float32)

    def score_raw(self, inputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        """Scores of raw columns, float32[N, C], in one call of `serving_raw`.

        Args:
            inputs: input name -> column [N], as `served_model.raw_inputs` makes them.
        """
        import tensorflow as tf

        outputs = self._of(SERVING_RAW)(**{name: tf.constant(column) for name, column in inputs.items()})
        _check_outputs(outputs, len(next(iter(inputs.values()))), self._data, model=self._model)
        scores: npt.NDArray[np.float32] = outputs[SCORES].numpy()
        return scores

    def _of(self, name: str) -> Any:
        if name not in self._loaded.signatures:
            raise AuditError(f"auditor: {self._model} has no signature {name}; export it again by the exporter")
        return self._loaded.signatures[name]


def _check_outputs(outputs: dict[str, Any], rows: int, data: DataSpec, *, model: str) -> None:
    expected = (rows, len(data.label.classes))
    for name in ("scores", "classes"):
        shape = tuple(outputs[name].shape) if name in outputs else None
        if shape != expected:
            raise AuditError(
                f"auditor: {model}: output {name} has shape {shape}, the served-model contract says {expected}; export it again"
            )
    order = tuple(value.decode() for value in outputs["classes"].numpy()[0])
    if order != data.label.classes:
        raise AuditError(f"auditor: {model}: classes are {list(order)}, pipeline.toml says {list(data.label.classes)}; train it again")


def predict(split: EvalSplit, data: DataSpec, *, candidate: LoadedModel, champion: Path | str | None = None) -> Predictions:
    """Scores the split with the candidate and, if there is one, with the champion."""
    return Predictions(
        classes=data.label.classes,
        positive=data.label.positive_index,
        labels=split.labels,
        scores=candidate.score(split.examples),
        slices=split.slices,
        digests=tuple(hashlib.sha256(example).hexdigest() for example in split.examples),
        champion_scores=None if champion is None else LoadedModel(champion, data).score(split.examples),
    )


def write_predictions(folder: Path | str, predictions: Predictions) -> Path:
    """Writes `predictions.parquet`: one row a row of the eval split, in its order.

    Columns: row (int64), label, positive_score (float32), score_<class> (float32), slice_<key> (text), example_digest (SHA-256, hex), and
    champion_positive_score (float32) where there is a champion.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {
        "row": pa.array(range(predictions.size), pa.int64()),
        "label": pa.array(predictions.labels, pa.string()),
        "positive_score": pa.array(predictions.scores[:, predictions.positive]),
    }
    columns |= {f"score_{name}": pa.array(predictions.scores[:, index]) for index, name in enumerate(predictions.classes)}
    columns |= {slice_feature(key): pa.array(values, pa.string()) for key, values in predictions.slices.items()}
    columns["example_digest"] = pa.array(predictions.digests, pa.string())
    if predictions.champion_scores is not None:
        columns["champion_positive_score"] = pa.array(predictions.champion_scores[:, predictions.positive])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    target = Path(folder) / PREDICTIONS_FILE
    files.write_bytes(target, sink.getvalue().to_pybytes())
    return target
