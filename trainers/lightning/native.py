"""Loads a native Lightning model in a fresh process; MLflow calls it for the LoggedModel of a training run."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from components.core.contracts import NATIVE_FILE, WEIGHTS_FILES, NativeModel


class NativeScorer:
    """A native model that gives scores.

    Attributes:
        model: the LightningModule with its weights, in eval mode.
        native: how it was built.
    """

    def __init__(self, folder: Path | str) -> None:
        self.native = NativeModel.from_json((Path(folder) / NATIVE_FILE).read_text(encoding="utf-8"))
        training = self.native.training
        build = importlib.import_module(self.native.module).build_model
        self.model = build(self.native.spec, {**training.model, "learning_rate": training.learning_rate})
        weights = torch.load(Path(folder) / WEIGHTS_FILES["lightning"], map_location="cpu", weights_only=True)
        self.model.load_state_dict(weights)
        self.model.eval()

    def predict(self, features: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Scores float32[N, C] of transformed features (float32/int64[N, *shape])."""
        with torch.no_grad():
            logits = self.model({name: torch.from_dlpack(array) for name, array in features.items()})
        scores: NDArray[np.float32] = torch.softmax(logits, dim=1).numpy()
        return scores


def _load_pyfunc(path: str) -> NativeScorer:
    """What MLflow's pyfunc flavor asks of a loader module."""
    return NativeScorer(path)
