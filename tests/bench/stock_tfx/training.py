"""The module_file of Trainer: a multilayer perceptron in Keras."""

from typing import Any

import columns
import keras
import tensorflow as tf
import tensorflow_transform as tft
from tfx_bsl.public import tfxio

LEARNING_RATE = 1e-3


def _dataset(fn_args: Any, files: list[str], transform: tft.TFTransformOutput) -> tf.data.Dataset:
    """Endless batches of (features, label)."""
    options = tfxio.TensorFlowDatasetOptions(batch_size=columns.BATCH_ROWS, label_key=columns.transformed(columns.LABEL))
    return fn_args.data_accessor.tf_dataset_factory(files, options, transform.transformed_metadata.schema).repeat()


def _model(transform: tft.TFTransformOutput) -> keras.Model:
    inputs, layers = {}, []
    for name in map(columns.transformed, columns.NUMBERS):
        inputs[name] = keras.Input((1,), name=name)
        layers.append(inputs[name])
    for name in columns.WORDS:
        key = columns.transformed(name)
        inputs[key] = keras.Input((1,), name=key, dtype="int64")
        tokens = transform.vocabulary_size_by_name(name) + 1
        layers.append(keras.layers.CategoryEncoding(tokens, output_mode="one_hot")(inputs[key]))
    hidden = keras.layers.concatenate(layers)
    for units in columns.HIDDEN_UNITS:
        hidden = keras.layers.Dense(units, activation="relu")(hidden)
    model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(hidden))
    optimizer = keras.optimizers.Adam(LEARNING_RATE)
    model.compile(optimizer, loss="binary_crossentropy", metrics=[keras.metrics.AUC(name="auc")])
    return model


def _export(model: keras.Model, transform: tft.TFTransformOutput, folder: str) -> None:
    """Writes the SavedModel: `serving_default` for requests, `transform_features` for the Evaluator."""
    layer = transform.transform_features_layer()
    examples = [tf.TensorSpec([None], tf.string, name="examples")]

    def serve(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        spec = transform.raw_feature_spec()
        spec.pop(columns.LABEL)
        features = layer(tf.io.parse_example(serialized, spec))
        return {"outputs": model({name: tf.reshape(features[name], [-1, 1]) for name in model.input})}

    def transform_features(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        return layer(tf.io.parse_example(serialized, transform.raw_feature_spec()))

    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.track(layer)
    archive.add_endpoint("serving_default", serve, input_signature=examples)
    archive.add_endpoint("transform_features", transform_features, input_signature=examples)
    archive.write_out(folder, verbose=False)


def run_fn(fn_args: Any) -> None:
    """What TFX's Trainer calls."""
    transform = tft.TFTransformOutput(fn_args.transform_output)
    model = _model(transform)
    model.fit(
        _dataset(fn_args, fn_args.train_files, transform),
        steps_per_epoch=fn_args.custom_config["steps_per_epoch"],
        epochs=fn_args.train_steps // fn_args.custom_config["steps_per_epoch"],
        validation_data=_dataset(fn_args, fn_args.eval_files, transform),
        validation_steps=fn_args.eval_steps,
        verbose=2,
    )
    _export(model, transform, fn_args.serving_model_dir)
