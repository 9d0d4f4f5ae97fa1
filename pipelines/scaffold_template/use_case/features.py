"""The feature transform: one graph for both models, in training and in serving.

The lists below decide all of it; they name the columns that pipeline.toml lists under [features] and [label].
"""

from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

AMOUNTS = ("usage_hours",)
"""Numbers that are never negative and right-skewed: log(1 + x) before scaling."""
PLAIN = ("months", "tickets", "monthly_fee")
"""Numbers that are scaled as they are."""
OPTIONAL = ("usage_hours",)
"""Numbers whose cells may be missing: each gets a flag of its own beside the value."""
CATEGORIES = ("plan", "region")
LABEL = "cancelled"
CLASSES = ("no", "yes")
LIMIT = 10.0
"""Scaled values are clipped here (standard deviations), so that no served extreme leaves the range that training saw."""


def preprocessing_fn(inputs: dict[str, Any]) -> dict[str, Any]:
    """Maps raw columns to what both models take.

    Args:
        inputs: column name -> SparseTensor[N, ?]; a missing cell has no entry.

    Returns:
        feature name -> float32[N] (scaled numbers and `<name>_missing` flags) or int64[N] (ids); the label int64[N], the class index.
    """
    outputs = _numbers(inputs)
    for name in CATEGORIES:
        outputs[name] = _ids(inputs[name], name)
    if LABEL in inputs:
        outputs[LABEL] = _class_index(inputs[LABEL])
    return outputs


def _first(column: tf.SparseTensor, default: Any) -> tf.Tensor:
    """The first value of each row, [N]; `default` where a row has none."""
    shape = tf.maximum(column.dense_shape, [0, 1])  # a batch in which every row has none is [N, 0]
    return tf.sparse.to_dense(tf.SparseTensor(column.indices, column.values, shape), default, validate_indices=False)[:, 0]


def _numbers(inputs: dict[str, Any]) -> dict[str, tf.Tensor]:
    """Standard scores over the rows that have a value, and the flags of missing ones; a missing value becomes the mean, which is 0.

    All columns go as one matrix, [N, columns]: one pass of the analyzer, and a graph that stays small.
    """
    names = (*AMOUNTS, *PLAIN)
    values = tf.stack([_first(_floats(inputs[name]), float("nan")) for name in names], axis=1)
    missing = tf.math.is_nan(values)
    values = tf.where([name in AMOUNTS for name in names], tf.math.log1p(tf.maximum(values, 0.0)), values)
    # The analyzer leaves NaN out of its sums, and keeps it in its output.
    scores = tft.scale_to_z_score(values, elementwise=True)
    scores = tf.where(missing, tf.zeros_like(scores), tf.clip_by_value(scores, -LIMIT, LIMIT))
    outputs = dict(zip(names, tf.unstack(scores, num=len(names), axis=1), strict=True))
    flags = tf.unstack(tf.cast(missing, tf.float32), num=len(names), axis=1)
    return outputs | {f"{name}_missing": flag for name, flag in zip(names, flags, strict=True) if name in OPTIONAL}


def _floats(column: tf.SparseTensor) -> tf.SparseTensor:
    return tf.SparseTensor(column.indices, tf.cast(column.values, tf.float32), column.dense_shape)


def _ids(column: tf.SparseTensor, name: str) -> tf.Tensor:
    """int64[N]: ids of the vocabulary, then one for unseen strings; a missing cell is a word of its own."""
    dense = _first(column, "")
    dense = tf.where(tf.equal(dense, ""), tf.constant("(missing)"), dense)
    return tft.compute_and_apply_vocabulary(dense, num_oov_buckets=1, vocab_filename=name)


def _class_index(column: tf.SparseTensor) -> tf.Tensor:
    """int64[N]: position in CLASSES, -1 for any other text."""
    same = tf.equal(_first(column, "")[:, tf.newaxis], tf.constant(CLASSES))
    return tf.where(tf.reduce_any(same, axis=1), tf.argmax(tf.cast(same, tf.int32), axis=1), tf.constant(-1, tf.int64))
