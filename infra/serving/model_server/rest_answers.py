"""JSON that TensorFlow Serving's REST interface answers with."""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from infra.serving.model_server.faults import invalid
from infra.serving.model_server.session import Array

_BYTES_SUFFIX = "_bytes"


def predict_answer(answer: Mapping[str, Array], *, rows: bool) -> dict[str, Any]:
    """The body of an answer: `predictions` for rows, `outputs` for columns; a single output drops its name.

    Raises:
        ServingFault: row format, and an output has no row a prediction.
    """
    if rows:
        _check_rows(answer)
    values = {name: _listed(name, answer[name]) for name in sorted(answer)}
    if not rows:
        return {"outputs": next(iter(values.values())) if len(values) == 1 else values}
    if len(values) == 1:
        return {"predictions": next(iter(values.values()))}
    return {"predictions": [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]}


def _check_rows(answer: Mapping[str, Array]) -> None:
    size = -1
    for name, value in answer.items():
        if not value.ndim:
            raise invalid(f"Tensor name: {name} has no shape information ")
        if size not in (-1, len(value)):
            raise invalid(f"Tensor name: {name} has inconsistent batch size: {len(value)} expecting: {size}")
        size = len(value)


def classify_answer(result: Any) -> dict[str, Any]:
    """The body for a ClassificationResult: [[label, score], ...] an example."""
    return {
        "results": [
            [[one.label, score] for one, score in zip(entry.classes, shortest([one.score for one in entry.classes]), strict=True)]
            for entry in result.classifications
        ]
    }


def regress_answer(result: Any) -> dict[str, Any]:
    """The body for a RegressionResult: a value an example."""
    return {"results": shortest([one.value for one in result.regressions])}


def shortest(numbers: list[float]) -> list[float]:
    """float32 values as the decimals that the real server writes: six digits where they read back as the same value, else nine."""
    six = [float(f"{number:.6g}") for number in numbers]
    same = np.array(six, np.float32) == np.array(numbers, np.float32)
    return [short if kept else float(f"{number:.9g}") for short, kept, number in zip(six, same.tolist(), numbers, strict=True)]


def _listed(name: str, value: Array) -> Any:
    if value.dtype == object:
        return _map_texts(value.tolist(), as_base64=name.endswith(_BYTES_SUFFIX))
    if value.dtype in (np.float32, np.float16):
        flat = shortest(value.ravel().tolist())
        return flat if value.ndim == 1 else np.array(flat, np.float64).reshape(value.shape).tolist()
    return value.tolist()


def _map_texts(value: Any, *, as_base64: bool) -> Any:
    if isinstance(value, list):
        return [_map_texts(element, as_base64=as_base64) for element in value]
    if as_base64:
        return {"b64": base64.b64encode(value).decode()}
    return value.decode("utf-8", "replace")
