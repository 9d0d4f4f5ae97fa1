"""The feature transform of credit_risk: one graph for both models, in training and in serving."""

from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

AMOUNTS = ("Seniority", "Expenses", "Income", "Assets", "Debt", "Amount", "Price")
"""Right-skewed: log(1 + x) before scaling."""
PLAIN = ("Time", "Age")
OPTIONAL = ("Income", "Assets", "Debt")
CATEGORIES = ("Home", "Marital", "Records", "Job")
LABEL = "Status"
CLASSES = ("good", "bad")
LIMIT = 10.0
"""Scaled values are clipped here (standard deviations), so that no served extreme leaves the range that training saw."""


def preprocessing_fn(inputs: dict[str, Any]) -> dict[str, Any]:
    """Maps raw columns to what both models take.

    Args:
        inputs: column name -> SparseTensor[N, ?]; a missing cell has no entry.

    Returns:
        feature name -> float32[N] (scaled numbers and `<name>_missing` flags) or int64[N] (ids); `Status` int64[N], the class index.
    """
    outputs = _scaled({name: _dense(inputs[name]) for name in (*AMOUNTS, *PLAIN)})
    for name in OPTIONAL:
        outputs[f"{name}_missing"] = tf.cast(tf.math.is_nan(_dense(inputs[name])), tf.float32)
    for name in CATEGORIES:
        outputs[name] = _ids(inputs[name], name)
    if LABEL in inputs:
        outputs[LABEL] = _class_index(inputs[LABEL])
    return outputs


def _first(column: tf.SparseTensor, default: Any) -> tf.Tensor:
    """The first value of each row, [N]; `default` where a row has none."""
    rows = column.dense_shape[0]
    first = tf.sparse.slice(column, [0, 0], [rows, 1])
    dense = tf.sparse.to_dense(tf.SparseTensor(first.indices, first.values, [rows, 1]), default_value=default, validate_indices=False)
    return tf.squeeze(tf.ensure_shape(dense, [None, 1]), axis=1)


def _dense(column: tf.SparseTensor) -> tf.Tensor:
    """float32[N], NaN where missing."""
    return _first(tf.SparseTensor(column.indices, tf.cast(column.values, tf.float32), column.dense_shape), float("nan"))


def _scaled(columns: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Standard scores over the rows that have a value, in one pass for all columns; a missing value becomes the mean, which is 0."""
    values = [tf.math.log1p(tf.maximum(value, 0.0)) if name in AMOUNTS else value for name, value in columns.items()]
    # The analyzer leaves NaN out of its sums, and keeps it in its output.
    scores = tft.scale_to_z_score(tf.stack(values, axis=1), elementwise=True)
    scores = tf.where(tf.math.is_nan(scores), tf.zeros_like(scores), tf.clip_by_value(scores, -LIMIT, LIMIT))
    return {name: scores[:, position] for position, name in enumerate(columns)}


def _ids(column: tf.SparseTensor, name: str) -> tf.Tensor:
    """int64[N]: ids of the vocabulary, then one for unseen strings; a missing cell is a word of its own."""
    dense = _first(column, "")
    dense = tf.where(tf.equal(dense, ""), tf.constant("(missing)"), dense)
    return tft.compute_and_apply_vocabulary(dense, num_oov_buckets=1, vocab_filename=name)


def _class_index(column: tf.SparseTensor) -> tf.Tensor:
    """int64[N]: position in CLASSES."""
    keys, values = tf.constant(CLASSES), tf.range(len(CLASSES), dtype=tf.int64)
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default_value=-1)
    return table.lookup(_first(column, ""))
