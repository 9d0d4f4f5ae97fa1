"""A Keras model of few weights; `fault` among the hyperparameters makes it fail in a known way."""

import keras


class Scale(keras.layers.Layer):
    """Multiplies by a frozen weight; can raise, give NaN, or end its process."""

    def __init__(self, fault):
        super().__init__(name="scale")
        self.fault = fault

    def build(self, shape):
        self.factor = self.add_weight(shape=(), initializer="ones", trainable=False, name="factor")

    def call(self, inputs, training=False):
        if self.fault == "raise":
            raise ValueError("the tiny model is broken")
        factor = self.factor / 0.0 - self.factor / 0.0 if self.fault == "nan" and training else self.factor
        return inputs * keras.ops.cast(factor, inputs.dtype)


def build_model(spec, hparams):
    inputs = {feature.name: keras.Input(feature.shape, dtype=feature.dtype, name=feature.name) for feature in spec.features}
    columns = [keras.layers.Reshape((1,))(inputs[feature.name]) for feature in spec.floats]
    columns += [
        keras.layers.Embedding(feature.vocabulary_size, 1, name=feature.name + "_ids")(inputs[feature.name]) for feature in spec.ids
    ]
    hidden = keras.layers.Concatenate()(columns)
    hidden = keras.layers.Dense(hparams["units"], activation="relu", name="hidden")(Scale(hparams.get("fault"))(hidden))
    hidden = keras.layers.Dropout(hparams["dropout"])(hidden)
    return keras.Model(inputs, keras.layers.Dense(len(spec.classes), name="logits")(hidden))
