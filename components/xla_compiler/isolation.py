"""Asks the plain signatures in a fresh process in which XLA is disabled and no Python package can be imported."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components.core.isolated_session import ask, request
from components.core.served_model import EXAMPLES, SCORES, SERVING_DEFAULT, SERVING_RAW
from components.xla_compiler.twins import Signatures

TOLERANCE = 1e-6
"""Largest allowed difference of a score to the same signature in this process: the C++ session may fold constants in another order."""


def plain_answers_without_xla(
    folder: Path, *, signatures: Signatures, loaded: Any, examples: Sequence[bytes], raw: Mapping[str, Any]
) -> str:
    """Compares both plain signatures, and `serving_raw` with its optional inputs left out, with the answers in this process.

    Args:
        folder: the SavedModel.
        signatures: its SignatureDefs.
        loaded: the same model, loaded here.
        examples: serialized rows for `serving_default`.
        raw: the same rows for `serving_raw`, tensors [N].

    Returns:
        Empty when all agree, else what does not.
    """
    optional = signatures[SERVING_RAW].defaults
    left_out = {name: tensor[:0] if name in optional else tensor for name, tensor in raw.items()}
    calls: list[tuple[str, Mapping[str, Any]]] = [
        (SERVING_DEFAULT, {EXAMPLES: tf.constant(list(examples), tf.string)}),
        (SERVING_RAW, raw),
        *([(SERVING_RAW, left_out)] if 0 < len(optional) < len(raw) else []),
    ]
    fed = [{name: tensor for name, tensor in inputs.items() if name not in optional or len(tensor)} for _, inputs in calls]
    answers = ask(folder, [request(signatures[key], feeds) for (key, _), feeds in zip(calls, fed, strict=True)])
    for (key, inputs), answer in zip(calls, answers, strict=True):
        if isinstance(answer, dict):
            return f"{key}: {answer['error'][:300]}"
        expected = loaded.signatures[key](**inputs)[SCORES].numpy()
        found = np.asarray(answer, np.float32).reshape(expected.shape if len(answer) == len(expected) else (len(answer), -1))
        if found.shape != expected.shape or not np.allclose(found, expected, rtol=0, atol=TOLERANCE):
            return f"{key} answers other scores in a process without XLA"
    return ""
