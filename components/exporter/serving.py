"""Builds the served model: the transform graph and a scorer behind two signatures, and saves it.

Nothing here depends on the framework that trained: a scorer is any tf.Module that maps a dict of dense features to logits.
"""

from collections.abc import Callable, Mapping
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
    """Drops values that mean "missing": NaN and the empty string, so that both signatures read a row alike."""
    if feature.kind == "integer":
        return raw
    present = tf.not_equal(raw.values, "") if feature.kind == "category" else tf.logical_not(tf.math.is_nan(raw.values))
    kept = tf.sparse.retain(raw, present)
    return tf.SparseTensor(kept.indices, kept.values, [raw.dense_shape[0], tf.reduce_max(tf.concat([kept.indices[:, 1] + 1, [0]], 0))])


def _refuse(violations: Mapping[str, tf.Tensor], message: str) -> tf.Operation:
    """Fails at run time with InvalidArgument that names the features of which any row is a violation (bool [N])."""
    names = tf.constant(list(violations))
    violated = tf.stack([tf.reduce_any(rows) for rows in violations.values()])
    return tf.debugging.Assert(tf.logical_not(tf.reduce_any(violated)), [message, tf.boolean_mask(names, violated)], summarize=100)


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
        integers = {feature.name: columns[feature.name] for feature in data.features if feature.kind == "integer"}
        if not integers:
            return self._transform({feature.name: _to_sparse(feature, columns[feature.name]) for feature in data.features})
        message = f"integer inputs must be whole numbers of at most 2^53 = {LARGEST_EXACT_INTEGER} in size (NaN = missing); they are not in"
        with tf.control_dependencies([_refuse({name: _not_exact(column) for name, column in integers.items()}, message)]):
            return self._transform({feature.name: _to_sparse(feature, tf.identity(columns[feature.name])) for feature in data.features})

    def _transform(self, raw: Mapping[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
        data, model, transform = self._plan()
        needed = {feature.name: _absent(raw[feature.name]) for feature in data.features if not feature.optional}
        refusal = [_refuse(needed, "a value is missing in features that are not optional:")] if needed else []
        with tf.control_dependencies(refusal):
            features = transform({name: tf.sparse.map_values(tf.identity, sparse) for name, sparse in raw.items()})
        return {feature.name: _dense(feature.name, features, shape=feature.shape) for feature in model.features}


def feature_specs(model: ModelSpec) -> dict[str, tf.TensorSpec]:
    """Tensor specs of the dense transformed features, batch dimension open."""
    return {feature.name: tf.TensorSpec([None, *feature.shape], feature.dtype) for feature in model.features}


def _not_exact(column: tf.Tensor) -> tf.Tensor:
    exact = tf.logical_and(tf.abs(column) <= float(LARGEST_EXACT_INTEGER), tf.equal(column, tf.floor(column)))
    return tf.logical_not(tf.logical_or(exact, tf.math.is_nan(column)))


def _absent(raw: tf.SparseTensor) -> tf.Tensor:
    return tf.equal(tf.math.bincount(tf.cast(raw.indices[:, 0], tf.int32), minlength=tf.cast(raw.dense_shape[0], tf.int32)), 0)


def _equal_length(data: DataSpec, inputs: Tensors) -> dict[str, tf.Tensor]:
    """Fills inputs that were left out (no rows) with their missing value, and refuses inputs of different lengths."""
    names = input_names(data.features)
    sizes = {feature.name: tf.shape(inputs[names[feature.name]])[0] for feature in data.features}
    rows = tf.reduce_max(tf.stack(list(sizes.values())))
    left_out = {feature.name: tf.equal(sizes[feature.name], 0) if feature.optional else tf.constant(False) for feature in data.features}
    wrong = {name: tf.logical_not(tf.logical_or(left_out[name], tf.equal(size, rows))) for name, size in sizes.items()}
    with tf.control_dependencies([_refuse(wrong, "inputs must hold the same number of rows; fewer are in")]):
        columns = {}
        for feature in data.features:
            column = inputs[names[feature.name]]
            filling = tf.fill([tf.where(left_out[feature.name], rows, 0)], tf.constant(missing_value(feature), column.dtype))
            columns[feature.name] = tf.concat([column, filling], axis=0)
        return columns


def _to_sparse(feature: Feature, column: tf.Tensor) -> tf.SparseTensor:
    """Makes of [N] the sparse [N, 1] ([N, 0] if every row misses it) that parsing examples would give."""
    present = tf.not_equal(column, "") if feature.kind == "category" else tf.logical_not(tf.math.is_nan(column))
    rows = tf.where(present)
    values = tf.boolean_mask(column, present)
    width = tf.reduce_max(tf.concat([tf.cast(present, tf.int64), [0]], 0))
    return tf.SparseTensor(
        tf.concat([rows, tf.zeros_like(rows)], axis=1),
        tf.cast(values, tf.int64) if feature.kind == "integer" else values,
        [tf.shape(column, out_type=tf.int64)[0], width],
    )


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
