"""Calls signatures of a SavedModel in a fresh process in which XLA is disabled and no Python package can be imported."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.core import serving_probe
from components.core.errors import StageError
from components.core.served_model import SCORES

TIMEOUT_S = 120


def request(signature: Any, inputs: Mapping[str, Any], *, repeats: int = 0) -> dict[str, Any]:
    """One call of a signature as the probe reads it: tensors by the names in the graph.

    Args:
        signature: its SignatureDef.
        inputs: input name -> NumPy array or eager tensor [N].
        repeats: timed calls after the first.
    """
    feeds = {}
    for name, tensor in inputs.items():
        values = tensor.tolist() if hasattr(tensor, "tolist") else tensor.numpy().tolist()
        dtype = "string" if any(isinstance(value, bytes) for value in values) or tensor.dtype.name == "string" else tensor.dtype.name
        feeds[signature.inputs[name].name] = {
            "dtype": dtype,
            "values": [value.hex() if isinstance(value, bytes) else float(value) for value in values],
        }
    return {"feeds": feeds, "fetch": signature.outputs[SCORES].name, "repeats": repeats}


def ask(folder: Path, requests: Sequence[Mapping[str, Any]], *, timeout_s: float = TIMEOUT_S) -> list[Any]:
    """Runs the probe; for each request its answer as `serving_probe` says.

    Raises:
        StageError: the process ended without an answer: the SavedModel does not load there.
    """
    import tensorflow as tf

    library = Path(tf.__file__).with_name("libtensorflow_cc.so.2")
    command = [sys.executable, "-I", "-S", str(Path(serving_probe.__file__)), str(library), str(folder)]
    try:
        done = subprocess.run(command, input=json.dumps(requests), capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise StageError(f"{folder} did not answer within {timeout_s:.0f} s in a process without XLA") from error
    if done.returncode:
        raise StageError(f"{folder} does not load in a process without XLA: {done.stderr.strip()[-500:]}")
    return list(json.loads(done.stdout))
