"""XLA twins of the plain signatures, over the same variables, one static shape a batch bucket.

Parsing, vocabularies and the transform stay outside: XLA has no strings. What it compiles maps dense features [B, ...] to scores
[B, C] for each bucket B; a batch is padded with zero rows to the smallest bucket that holds it and the padding is cut off again. A batch
above the largest bucket takes the plain path. Rows must not influence each other in the model, as in any served model.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2

from components.core.errors import CompileError
from components.core.served_model import EXAMPLES, SERVING_DEFAULT, SERVING_RAW, XLA_SUFFIX, answer, named_function

Tensors = Mapping[str, tf.Tensor]
Signatures = Mapping[str, meta_graph_pb2.SignatureDef]


def read_signatures(folder: Path | str) -> dict[str, meta_graph_pb2.SignatureDef]:
    """Reads the SignatureDefs of a SavedModel.

    Raises:
        CompileError: it is no SavedModel of the served-model contract.
    """
    file = Path(folder) / "saved_model.pb"
    if not file.is_file():
        raise CompileError(f"{file} does not exist; give the compiler the SavedModel that the exporter wrote")
    saved = saved_model_pb2.SavedModel.FromString(file.read_bytes())
    signatures = dict(saved.meta_graphs[0].signature_def)
    lacking = sorted({SERVING_DEFAULT, SERVING_RAW} - signatures.keys())
    if lacking:
        raise CompileError(f"{folder} lacks the signatures {lacking}; give the compiler the SavedModel that the exporter wrote")
    return signatures


def bucket_function_name(bucket: int) -> str:
    """Name of the function that XLA compiles for a bucket; XLA's modules carry it."""
    return f"xla_scores_of_{bucket}_rows"


class TwinModel(tf.Module):
    """A loaded served model with its plain signatures and an XLA twin of each.

    Attributes:
        parts: variables and tables of the loaded model; no copy is made.
        compiled: one function a bucket, marked for XLA, in the order of the buckets.
    """

    def __init__(self, base: Any, signatures: Signatures, *, classes: Sequence[str], buckets: Sequence[int]) -> None:
        super().__init__(name="twin_model")
        self.parts = [base.tables, base.scorer]
        # Behind a function, hidden from tf.Module: whole, the loaded model would be saved a second time inside this one.
        self._plan: Callable[[], tuple[Any, tuple[str, ...]]] = lambda: (base, tuple(classes))
        self._buckets = tuple(buckets)
        (features,), _ = base.score.concrete_functions[0].structured_input_signature
        self.compiled = [self._compiled(features, bucket) for bucket in buckets]
        self.bucketed = tf.function(self._bucketed, input_signature=[features], autograph=False)
        raw = signatures[SERVING_RAW]
        specs = {name: tf.TensorSpec([None], tf.as_dtype(info.dtype), name) for name, info in sorted(raw.inputs.items())}
        defaults = {name: tf.constant(tf.make_ndarray(value), specs[name].dtype) for name, value in sorted(raw.defaults.items())}
        examples = tf.TensorSpec([None], tf.string, EXAMPLES)
        functions = {
            SERVING_DEFAULT: base.signatures[SERVING_DEFAULT],
            SERVING_RAW: named_function(self._plain_raw, specs=specs, defaults=defaults),
            SERVING_DEFAULT + XLA_SUFFIX: tf.function(self._xla_examples, input_signature=[examples], autograph=False),
            SERVING_RAW + XLA_SUFFIX: named_function(self._xla_raw, specs=specs, defaults=defaults),
        }
        self.signatures_to_save: Callable[[], dict[str, Any]] = lambda: functions

    def _compiled(self, features: Mapping[str, tf.TensorSpec], bucket: int) -> Any:
        def scores(batch: Tensors) -> tf.Tensor:
            return self._plan()[0].score(batch)

        scores.__name__ = bucket_function_name(bucket)
        specs = {name: tf.TensorSpec([bucket, *spec.shape[1:]], spec.dtype) for name, spec in features.items()}
        return tf.function(scores, input_signature=[specs], jit_compile=True, autograph=False)

    def _plain_raw(self, inputs: Tensors) -> dict[str, tf.Tensor]:
        return self._plan()[0].signatures[SERVING_RAW](**inputs)

    def _xla_raw(self, inputs: Tensors) -> dict[str, tf.Tensor]:
        base, classes = self._plan()
        return answer(classes, self.bucketed(base.transform_raw(dict(inputs))))

    def _xla_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        base, classes = self._plan()
        return answer(classes, self.bucketed(base.transform_examples(examples)))

    def _bucketed(self, features: Tensors) -> tf.Tensor:
        rows = tf.shape(next(iter(features.values())))[0]
        smallest = tf.searchsorted(tf.constant(self._buckets), tf.expand_dims(rows, 0))[0]
        branches = [self._branch(features, rows, index) for index in range(len(self._buckets))]
        return tf.switch_case(smallest, [*branches, lambda: self._plan()[0].score(dict(features))])

    def _branch(self, features: Tensors, rows: tf.Tensor, index: int) -> Callable[[], tf.Tensor]:
        bucket = self._buckets[index]

        def branch() -> tf.Tensor:
            padded = {name: _pad(value, bucket - rows, bucket=bucket) for name, value in features.items()}
            return self.compiled[index](padded)[:rows]

        return branch


def _pad(value: tf.Tensor, rows: tf.Tensor, *, bucket: int) -> tf.Tensor:
    """Appends zero rows: [N, ...] -> [bucket, ...]; 0 is an id of every table."""
    inner = [[0, 0]] * (value.shape.rank - 1)
    return tf.ensure_shape(tf.pad(value, [[0, rows], *inner]), [bucket, *value.shape[1:]])


def save_twins(source: Path | str, target: Path | str, *, classes: Sequence[str], buckets: Sequence[int]) -> None:
    """Loads the SavedModel `source` and saves it to `target` with XLA twins; variables, tables and vocabularies are kept.

    Raises:
        CompileError: `source` does not follow the served-model contract.
    """
    signatures = read_signatures(source)
    model = TwinModel(tf.saved_model.load(str(source)), signatures, classes=classes, buckets=buckets)
    tf.saved_model.save(model, str(target), signatures=model.signatures_to_save())
