"""Scores raw features with a SavedModel that keeps the served-model contract.

This file travels inside each registered model (as `code/tandem_scoring.py`), so that `mlflow.pyfunc.load_model` works in a process that
has MLflow and TensorFlow and nothing of this project. Therefore it imports nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

SIGNATURE = "serving_raw"


class ScoringModel:
    """Raw features in, scores out.

    Attributes:
        inputs: input name -> TensorSpec of `serving_raw`.
    """

    def __init__(self, saved_model: Any) -> None:
        # The signature holds weak references to the variables: the model has to stay alive beside it.
        self._saved_model = saved_model
        self._infer = saved_model.signatures[SIGNATURE]
        self.inputs: dict[str, Any] = dict(self._infer.structured_input_signature[1])

    def predict(self, data: pd.DataFrame | Mapping[str, Any], params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Scores rows.

        Args:
            data: a column a raw feature. A column left out, None and NaN mean "missing".
            params: not used; MLflow's interface has it.

        Returns:
            What the model server answers: `scores` float32[N, C] and, for classification, `classes` str[N, C].

        Raises:
            ValueError: a column that is no feature of the model, or no rows.
        """
        import pandas as pd

        frame = data if isinstance(data, pd.DataFrame) else pd.DataFrame(data)
        unknown = sorted(set(map(str, frame.columns)) - set(self.inputs))
        if unknown:
            raise ValueError(f"no feature of this model: {', '.join(unknown)}; its features: {', '.join(self.inputs)}")
        if not len(frame):
            raise ValueError("no rows to score; give at least one")
        answers = self._infer(**{name: _tensor(frame, name, spec) for name, spec in self.inputs.items()})
        return {name: _plain(answer.numpy()) for name, answer in answers.items()}


def _tensor(frame: pd.DataFrame, name: str, spec: Any) -> Any:
    """Column `name` as the tensor that the signature wants: dtype and shape of `spec`, the missing value where there is none."""
    import pandas as pd
    import tensorflow as tf

    shape = [-1, *spec.shape[1:]]
    if spec.dtype == tf.string:
        cells = frame[name] if name in frame else [None] * len(frame)
        texts = [cell if isinstance(cell, bytes) else "" if pd.isna(cell) else str(cell) for cell in cells]
        return tf.reshape(tf.constant(texts, tf.string), shape)
    if name not in frame:
        return tf.reshape(tf.fill([len(frame)], tf.constant(float("nan"), spec.dtype)), shape)
    numbers = frame[name].to_numpy(dtype="float64", na_value=float("nan"))
    return tf.reshape(tf.cast(tf.constant(numbers), spec.dtype), shape)


def _plain(answer: Any) -> Any:
    """Bytes become text."""
    return answer.astype(str) if answer.dtype == object else answer


def _load_pyfunc(path: str) -> ScoringModel:
    """What MLflow calls: `path` is the folder of the SavedModel."""
    import tensorflow as tf

    return ScoringModel(tf.saved_model.load(path))
