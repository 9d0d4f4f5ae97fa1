"""Loads a native Keras model in a fresh process; MLflow calls it for the LoggedModel of a training run."""

import importlib
from pathlib import Path
from typing import Any

import keras
import numpy as np
from numpy.typing import NDArray

from components.core.contracts import NATIVE_FILE, WEIGHTS_FILES, NativeModel


class NativeScorer:
    """A native model that gives scores.

    Attributes:
        model: the Keras model with its weights.
        native: how it was built.
    """

    def __init__(self, folder: Path | str) -> None:
        self.native = NativeModel.from_json((Path(folder) / NATIVE_FILE).read_text(encoding="utf-8"))
        training = self.native.training
        build = importlib.import_module(self.native.module).build_model
        self.model = build(self.native.spec, {**training.model, "learning_rate": training.learning_rate})
        self.model({feature.name: np.zeros((1, *feature.shape), feature.dtype) for feature in self.native.spec.features})
        self.model.load_weights(Path(folder) / WEIGHTS_FILES["keras"])

    def predict(self, features: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Scores float32[N, C] of transformed features (float32/int64[N, *shape])."""
        return np.asarray(keras.ops.softmax(self.model(features, training=False)))


def _load_pyfunc(path: str) -> NativeScorer:
    """What MLflow's pyfunc flavor asks of a loader module."""
    return NativeScorer(path)
