"""The module_file of Transform: fill what is missing, scale numbers, give words their ids."""

from typing import Any

import columns
import tensorflow as tf
import tensorflow_transform as tft


def _filled(column: Any, default: Any) -> tf.Tensor:
    """[N]: a column with empty cells comes as a sparse tensor, one without as a dense one."""
    if isinstance(column, tf.SparseTensor):
        shape = [column.dense_shape[0], 1]
        column = tf.sparse.to_dense(tf.SparseTensor(column.indices, column.values, shape), default_value=default)
    return tf.squeeze(column, axis=1)


def preprocessing_fn(inputs: dict[str, Any]) -> dict[str, Any]:
    """Raw columns to float32[N] scores, int64[N] ids and the label, 1 for the positive class."""
    outputs = {}
    for name in columns.NUMBERS:
        outputs[columns.transformed(name)] = tft.scale_to_z_score(tf.cast(_filled(inputs[name], 0), tf.float32))
    for name in columns.WORDS:
        ids = tft.compute_and_apply_vocabulary(_filled(inputs[name], ""), num_oov_buckets=1, vocab_filename=name)
        outputs[columns.transformed(name)] = ids
    label = tf.equal(_filled(inputs[columns.LABEL], ""), columns.POSITIVE)
    outputs[columns.transformed(columns.LABEL)] = tf.cast(label, tf.int64)
    return outputs
