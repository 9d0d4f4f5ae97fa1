"""A preprocessing_fn with a missing flag, z-scores and a vocabulary; it runs with and without the label."""

import tensorflow as tf
import tensorflow_transform as tft


def _dense(x, default):
    x = tf.SparseTensor(x.indices, x.values, [x.dense_shape[0], 1])
    return tf.sparse.to_dense(x, default)[:, 0]


def _number(x):
    values = tf.clip_by_value(tf.cast(x.values, tf.float32), -1e6, 1e6)
    x = tf.SparseTensor(x.indices, values, x.dense_shape)
    present = _dense(tf.SparseTensor(x.indices, tf.ones_like(values), x.dense_shape), 0.0)
    filled = tf.where(present > 0, _dense(x, 0.0), tft.mean(x))
    return tft.scale_to_z_score(filled), 1.0 - present


def preprocessing_fn(inputs):
    """Income, Age and 比率 become z-scores, Home an id; Status becomes the label."""
    outputs = {}
    outputs["Income"], outputs["Income_missing"] = _number(inputs["Income"])
    outputs["Age"], _ = _number(inputs["Age"])
    outputs["比率"], outputs["ratio_missing"] = _number(inputs["比率"])
    outputs["Home"] = tft.compute_and_apply_vocabulary(_dense(inputs["Home"], ""), num_oov_buckets=1, vocab_filename="home")
    outputs["Status"] = tf.cast(tf.equal(_dense(inputs["Status"], ""), "bad"), tf.int64)
    return outputs
