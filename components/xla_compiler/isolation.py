"""Asks the plain signatures in a fresh process in which XLA is disabled and no Python package can be imported."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components.core.errors import CompileError
from components.core.served_model import EXAMPLES, SCORES, SERVING_DEFAULT, SERVING_RAW
from components.xla_compiler.twins import Signatures

TIMEOUT_S = 120
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
    answers = ask_probe(folder, [request(signatures[key], feeds) for (key, _), feeds in zip(calls, fed, strict=True)])
    for (key, inputs), answer in zip(calls, answers, strict=True):
        if isinstance(answer, dict):
            return f"{key}: {answer['error'][:300]}"
        expected = loaded.signatures[key](**inputs)[SCORES].numpy()
        found = np.asarray(answer, np.float32).reshape(expected.shape if len(answer) == len(expected) else (len(answer), -1))
        if found.shape != expected.shape or not np.allclose(found, expected, rtol=0, atol=TOLERANCE):
            return f"{key} answers other scores in a process without XLA"
    return ""


def request(signature: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """One call of a signature as the probe reads it: tensors by the names in the graph."""
    feeds = {
        signature.inputs[name].name: {
            "dtype": tensor.dtype.name,
            "values": [value.hex() if isinstance(value, bytes) else float(value) for value in tensor.numpy().tolist()],
        }
        for name, tensor in inputs.items()
    }
    return {"feeds": feeds, "fetch": signature.outputs[SCORES].name}


def ask_probe(folder: Path, requests: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Runs the probe; for each request the scores as rows, or {"error": message}.

    Raises:
        CompileError: the process ended without an answer: the SavedModel does not load there.
    """
    library = Path(tf.__file__).with_name("libtensorflow_cc.so.2")
    command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("probe.py")), str(library), str(folder)]
    try:
        done = subprocess.run(command, input=json.dumps(requests), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"{folder} did not answer within {TIMEOUT_S} s in a process without XLA") from error
    if done.returncode:
        raise CompileError(f"{folder} does not load in a process without XLA: {done.stderr.strip()[-500:]}")
    return list(json.loads(done.stdout))
