"""The Keras model of credit_risk: embeddings and numbers into a small multilayer perceptron."""

from typing import Any

import keras

from components.core.contracts import ModelSpec


def build_model(spec: ModelSpec, hparams: dict[str, Any]) -> keras.Model:
    """Builds the model, uncompiled.

    Args:
        spec: features (float32[N, *shape], int64[N, *shape] ids) and classes.
        hparams: `hidden_units` (units of each hidden layer), `embedding_dim` (width of each id's embedding), `dropout` (0 to 1).

    Returns:
        a model from name -> tensor to logits float32[N, C].
    """
    inputs = {feature.name: keras.Input(feature.shape, dtype=feature.dtype, name=feature.name) for feature in spec.features}
    scalars = [inputs[feature.name] for feature in spec.floats if not feature.shape]
    columns = [keras.ops.stack(scalars, axis=1)] if scalars else []
    columns += [_flat(inputs[feature.name]) for feature in spec.floats if feature.shape]
    for feature in spec.ids:
        embedding = keras.layers.Embedding(feature.vocabulary_size, hparams["embedding_dim"], name=f"embedding_{feature.name}")
        columns.append(_flat(embedding(inputs[feature.name])))
    hidden = keras.layers.Concatenate(name="concatenated")(columns)
    for index, units in enumerate(hparams["hidden_units"]):
        hidden = keras.layers.Dense(units, activation="relu", name=f"hidden_{index}")(hidden)
        hidden = keras.layers.Dropout(hparams["dropout"], name=f"dropout_{index}")(hidden)
    # float32 whatever the precision: a softmax over 16 bits loses digits
    logits = keras.layers.Dense(len(spec.classes), dtype="float32", name="logits")(hidden)
    return keras.Model(inputs, logits, name="credit_risk")


def _flat(tensor: keras.KerasTensor) -> keras.KerasTensor:
    """[N, *shape] -> [N, product of shape]."""
    return keras.layers.Flatten()(tensor) if len(tensor.shape) > 2 else tensor
