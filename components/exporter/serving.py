"""Builds the served model: the transform graph and a scorer behind two signatures, and saves it.

Nothing here depends on the framework that trained: a scorer is any tf.Module that maps a dict of dense features to logits.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from components.core.contracts import DataSpec, Feature, ModelSpec
from components.core.errors import ExportError
from components.core.served_model import (
    EXAMPLES,
    LARGEST_EXACT_INTEGER,
    SERVING_DEFAULT,
    SERVING_RAW,
    answer,
    input_names,
    missing_value,
    named_function,
    parse_spec,
    raw_dtype,
)

Tensors = Mapping[str, tf.Tensor]


class TransformGraph:
    """The transform graph of TFX's Transform, for the raw features of one data specification.

    Attributes:
        tables: what a SavedModel must track so that the vocabularies travel with it.
    """

    def __init__(self, folder: Path | str, spec: DataSpec) -> None:
        output = tft.TFTransformOutput(str(folder))
        _refuse_dense(output.raw_feature_spec(), spec)
        self._layer = output.transform_features_layer()
        # The layer is a Keras 2 model: saving it would trace it once more (2.4 s). Only the tables behind it have to be tracked.
        parts = tf.train.TrackableView(self._layer._saved_model_loader._imported).descendants()
        kinds = (tf.Variable, tf.saved_model.Asset, tf.saved_model.experimental.TrackableResource)
        self.tables = [part for part in parts if isinstance(part, kinds)]

    def __call__(self, raw: Mapping[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
        """Applies it to sparse raw features [N, 0 or 1]; what depends on anything else, as the label does, is left out."""
        return dict(self._layer(dict(raw)))


def _refuse_dense(raw_spec: Mapping[str, Any], spec: DataSpec) -> None:
    for feature in spec.features:
        found = raw_spec.get(feature.name)
        if not isinstance(found, tf.io.VarLenFeature):
            reason = "is not in the transform graph" if found is None else f"is dense ({found}) in the transform graph"
            raise ExportError(
                f"feature {feature.name!r} {reason}; run Transform on a schema made with infer_feature_shape=False that holds every feature"
            )


def as_missing(feature: Feature, raw: tf.SparseTensor) -> tf.SparseTensor:
    """Drops values that mean "missing": NaN and the empty string, so that both signatures read a row alike.

    The width is at least 1, also where no row has a value: a transform that takes column 0 of the dense form meets one shape only.
    """
    shape = tf.maximum(raw.dense_shape, tf.constant([0, 1], tf.int64))
    if feature.kind == "integer":
        return tf.SparseTensor(raw.indices, raw.values, shape)
    kept = tf.where(_present(feature, raw.values))
    return tf.SparseTensor(tf.gather_nd(raw.indices, kept), tf.gather_nd(raw.values, kept), shape)


def _present(feature: Feature, values: tf.Tensor) -> tf.Tensor:
    return tf.not_equal(values, "") if feature.kind == "category" else tf.equal(values, values)  # NaN alone differs from itself


def _refuse(names: Sequence[str], violated: tf.Tensor, message: str) -> tf.Operation:
    """Fails at run time with InvalidArgument that gives those of `names` where `violated`, bool [len(names)], is true."""
    shown = tf.boolean_mask(tf.constant(list(names)), violated)
    return tf.debugging.Assert(tf.logical_not(tf.reduce_any(violated)), [message, shown], summarize=100)


class ServedModel(tf.Module):
    """Transform graph and scorer behind the signatures of the served-model contract.

    An integer input of `serving_raw` that is fractional, infinite or larger than 2^53 in size is refused with InvalidArgument, as is a
    missing value of a feature that is not optional; the message names the feature. One bad row refuses the whole request. NaN and the
    empty string mean "missing" in both signatures. An optional input that is left out over gRPC arrives as a tensor of no rows.

    Attributes:
        score: dense transformed features -> scores float32[N, C]; holds no string, so XLA can compile it.
        transform_examples: `examples` string[N] -> dense transformed features.
        transform_raw: dict of raw inputs -> dense transformed features.
    """

    def __init__(self, transform: TransformGraph, scorer: tf.Module, *, data: DataSpec, model: ModelSpec) -> None:
        super().__init__(name="served_model")
        self.tables = transform.tables
        self.scorer = scorer
        # Behind a function, hidden from tf.Module: it would wrap and try to save what it finds.
        self._plan: Callable[[], tuple[DataSpec, ModelSpec, TransformGraph]] = lambda: (data, model, transform)
        names = input_names(data.features)
        raw_specs = {names[feature.name]: tf.TensorSpec([None], raw_dtype(feature), names[feature.name]) for feature in data.features}
        examples = tf.TensorSpec([None], tf.string, EXAMPLES)
        self.score = tf.function(self._score, input_signature=[feature_specs(model)], autograph=False)
        self.transform_examples = tf.function(self._transform_examples, input_signature=[examples], autograph=False)
        self.transform_raw = tf.function(self._transform_raw, input_signature=[raw_specs], autograph=False)
        signatures = {
            SERVING_DEFAULT: tf.function(self._serve_examples, input_signature=[examples], autograph=False),
            SERVING_RAW: named_function(self._serve_raw, specs=raw_specs, defaults=_defaults(data, names)),
        }
        self.signatures_to_save: Callable[[], dict[str, Any]] = lambda: signatures

    def _score(self, features: Tensors) -> tf.Tensor:
        return tf.nn.softmax(tf.cast(self.scorer(features), tf.float32))

    def _serve_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return answer(self._plan()[0].label.classes, self.score(self.transform_examples(examples)))

    def _serve_raw(self, inputs: Tensors) -> dict[str, tf.Tensor]:
        return answer(self._plan()[0].label.classes, self.score(self.transform_raw(dict(inputs))))

    def _transform_examples(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
        data, _, _ = self._plan()
        parsed = tf.io.parse_example(examples, parse_spec(data))
        return self._transform({feature.name: as_missing(feature, parsed[feature.name]) for feature in data.features})

    def _transform_raw(self, inputs: Tensors) -> dict[str, tf.Tensor]:
        data, _, _ = self._plan()
        columns = _equal_length(data, inputs)
        integers = [feature.name for feature in data.features if feature.kind == "integer"]
        refusal = []
        if integers:
            message = (
                f"integer inputs must be whole numbers of at most 2^53 = {LARGEST_EXACT_INTEGER} in size (NaN = missing); they are not in"
            )
            refusal = [_refuse(integers, _not_exact(tf.stack([columns[name] for name in integers])), message)]
        with tf.control_dependencies(refusal):
            return self._transform(_to_sparse(data, columns))

    def _transform(self, raw: Mapping[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
        data, model, transform = self._plan()
        needed = [feature.name for feature in data.features if not feature.optional]
        refusal = []
        if needed:
            first_values = tf.stack([tf.math.count_nonzero(tf.equal(raw[name].indices[:, 1], 0)) for name in needed])
            absent = first_values < raw[needed[0]].dense_shape[0]
            refusal = [_refuse(needed, absent, "a value is missing in features that are not optional:")]
        with tf.control_dependencies(refusal):
            held = {name: tf.SparseTensor(sparse.indices, tf.identity(sparse.values), sparse.dense_shape) for name, sparse in raw.items()}
            features = transform(held)
        return {feature.name: _dense(feature.name, features, shape=feature.shape) for feature in model.features}


def feature_specs(model: ModelSpec) -> dict[str, tf.TensorSpec]:
    """Tensor specs of the dense transformed features, batch dimension open."""
    return {feature.name: tf.TensorSpec([None, *feature.shape], feature.dtype) for feature in model.features}


def _not_exact(columns: tf.Tensor) -> tf.Tensor:
    """float64 [K, N] -> bool [K]: a column has a value that is no whole number of at most 2^53 in size, NaN aside."""
    exact = tf.logical_and(tf.abs(columns) <= float(LARGEST_EXACT_INTEGER), tf.equal(columns, tf.floor(columns)))
    return tf.reduce_any(tf.logical_not(tf.logical_or(exact, tf.math.is_nan(columns))), axis=1)


def _equal_length(data: DataSpec, inputs: Tensors) -> dict[str, tf.Tensor]:
    """Fills inputs that were left out (no rows) with their missing value, and refuses inputs of different lengths."""
    names = input_names(data.features)
    sizes = tf.stack([tf.size(inputs[names[feature.name]]) for feature in data.features])  # int32 [features]
    rows = tf.reduce_max(sizes)
    left_out = tf.logical_and(tf.equal(sizes, 0), tf.constant([feature.optional for feature in data.features]))
    wrong = tf.not_equal(tf.where(left_out, rows, sizes), rows)
    message = "inputs must hold the same number of rows; fewer are in"
    with tf.control_dependencies([_refuse([feature.name for feature in data.features], wrong, message)]):
        # [features, 1, 2]: nothing before the rows of an input, behind them as many as it lacks.
        filling = tf.pad(tf.where(left_out, rows, 0)[:, tf.newaxis, tf.newaxis], [[0, 0], [0, 0], [1, 0]])
    fillers = {feature.kind: tf.constant(missing_value(feature), raw_dtype(feature)) for feature in data.features}
    return {
        feature.name: tf.pad(inputs[names[feature.name]], lacking, constant_values=fillers[feature.kind])
        for feature, lacking in zip(data.features, tf.unstack(filling, num=len(data.features)), strict=True)
    }


def _to_sparse(data: DataSpec, columns: Tensors) -> dict[str, tf.SparseTensor]:
    """Makes of each column [N] the sparse [N, 1] that parsing examples gives."""
    shape = tf.stack([tf.size(next(iter(columns.values())), out_type=tf.int64), 1])
    first_column = tf.constant([[0, 0], [0, 1]])
    found = {}
    for feature in data.features:
        rows = tf.where(_present(feature, columns[feature.name]))
        values = tf.gather_nd(columns[feature.name], rows)
        values = tf.cast(values, tf.int64) if feature.kind == "integer" else values
        found[feature.name] = tf.SparseTensor(tf.pad(rows, first_column), values, shape)
    return found


def _dense(name: str, features: Tensors, *, shape: tuple[int, ...]) -> tf.Tensor:
    if name not in features:
        raise ExportError(
            f"transformed feature {name!r} cannot be made from the raw features alone (they give {sorted(features)}); "
            "preprocessing_fn must not use the label or slice keys for it"
        )
    return tf.ensure_shape(features[name], [None, *shape])


def _defaults(data: DataSpec, names: Mapping[str, str]) -> dict[str, tf.Tensor]:
    return {names[feature.name]: tf.zeros([0], raw_dtype(feature)) for feature in data.features if feature.optional}


def save_served_model(model: ServedModel, folder: Path | str) -> None:
    """Saves the model with its two signatures to a folder that does not exist yet."""
    tf.saved_model.save(model, str(folder), signatures=model.signatures_to_save())
