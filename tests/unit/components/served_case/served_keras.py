"""A Keras model of a few weights on the features of the served case."""

import keras


def build_model(spec, hparams):
    """Embeds ids, concatenates everything, one hidden layer, logits."""
    inputs = {f.name: keras.Input(f.shape, name=f.name, dtype=f.dtype) for f in spec.features}
    parts = [keras.layers.Reshape((1,))(inputs[f.name]) for f in spec.floats]
    parts += [keras.layers.Embedding(f.vocabulary_size, 3)(inputs[f.name]) for f in spec.ids]
    hidden = keras.layers.Dense(hparams["width"], activation="relu")(keras.layers.Concatenate()(parts))
    return keras.Model(inputs, keras.layers.Dense(len(spec.classes))(hidden))
