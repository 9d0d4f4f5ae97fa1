"""Rebuilds native models from their weights: as a scorer of TensorFlow operators, and as what the framework itself computes."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from components.core.contracts import NATIVE_FILE, WEIGHTS_FILES, Framework, NativeModel
from components.core.errors import ExportError

Features = Mapping[str, npt.NDArray[Any]]
Scores = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class Native:
    """A native model, rebuilt.

    Attributes:
        description: what `native.json` says.
        scorer: maps a dict of dense features to logits [N, C] by plain TensorFlow operators.
        scores: what the framework itself computes: dense features [N, ...] -> scores float32[N, C].
    """

    description: NativeModel
    scorer: tf.Module
    scores: Callable[[Features], Scores]


class KerasScorer(tf.Module):
    """A Keras model as logits in inference mode. Only its variables are tracked: saving the model itself would trace every layer again."""

    def __init__(self, model: Any) -> None:
        super().__init__(name="keras_scorer")
        self.weights = [variable.value for variable in model.variables]
        self._apply: Callable[[Mapping[str, tf.Tensor]], tf.Tensor] = lambda features: model(dict(features), training=False)

    def __call__(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Maps dense features to logits [N, C]."""
        return self._apply(features)


def read_description(folder: Path) -> NativeModel:
    """Reads `native.json`.

    Raises:
        ExportError: it is not there or not readable.
    """
    try:
        return NativeModel.from_json((folder / NATIVE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExportError(f"{folder / NATIVE_FILE} cannot be read: {error}; run the trainer again") from error


def load_native(folder: Path | str) -> Native:
    """Rebuilds the native model that a trainer left in `folder`.

    Raises:
        ExportError: the module cannot be imported or does not build the model whose weights these are.
    """
    folder = Path(folder)
    description = read_description(folder)
    load = {"keras": _load_keras, "lightning": _load_lightning}[description.framework]
    try:
        return load(description, folder / WEIGHTS_FILES[description.framework])
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(
            f"{description.module}.build_model does not rebuild the model of {folder}: {type(error).__name__}: {error}; "
            "train again if the module was changed"
        ) from error


def _build(description: NativeModel) -> Any:
    return importlib.import_module(description.module).build_model(description.spec, dict(description.training.model))


def _zeros(description: NativeModel, rows: int) -> dict[str, npt.NDArray[Any]]:
    return {feature.name: np.zeros([rows, *feature.shape], feature.dtype) for feature in description.spec.features}


def _load_keras(description: NativeModel, weights: Path) -> Native:
    import keras

    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")  # served scores are float32 whatever the precision of training was
    try:
        model = _build(description)
        model({name: tf.constant(value) for name, value in _zeros(description, 1).items()}, training=False)
        model.load_weights(str(weights))
    finally:
        keras.config.set_dtype_policy(policy)

    def scores(features: Features) -> Scores:
        logits = model({name: tf.constant(value) for name, value in features.items()}, training=False)
        return np.asarray(keras.ops.softmax(keras.ops.cast(logits, "float32"), axis=-1), np.float32)

    return Native(description, KerasScorer(model), scores)


def _load_lightning(description: NativeModel, weights: Path) -> Native:
    import torch

    from components.exporter.lowering import lower

    module = _build(description)
    module.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    module = module.float().eval()
    example = {name: torch.from_numpy(value) for name, value in _zeros(description, 2).items()}

    def scores(features: Features) -> Scores:
        with torch.inference_mode():
            logits = module({name: torch.from_numpy(np.array(value)) for name, value in features.items()})
            return np.asarray(torch.softmax(logits.float(), dim=-1).numpy(), np.float32)

    return Native(description, lower(module, example), scores)


def framework_of(native: Native, expected: Framework) -> Framework:
    """Checks that the model is of the framework that the stage was asked for.

    Raises:
        ExportError: it is of the other one.
    """
    found = native.description.framework
    if found != expected:
        raise ExportError(f"the native model is a {found} model, not {expected}; wire the {expected} trainer to this exporter")
    return found
