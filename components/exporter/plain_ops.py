"""What a SavedModel is made of: only operators that a stock TensorFlow Serving knows, and none that needs XLA or Python."""

import collections
from pathlib import Path

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from components.core.errors import ExportError

_NEEDS_PYTHON_OR_XLA = ("PyFunc", "EagerPyFunc", "Xla", "NumpyFunction")


def count_ops(folder: Path | str) -> dict[str, int]:
    """Counts the operators of a SavedModel, in its graph and its functions: operator name -> how often it occurs.

    Raises:
        ExportError: an operator that is not part of stock TensorFlow, calls Python or needs XLA, or a function that XLA must compile.
    """
    saved = saved_model_pb2.SavedModel.FromString((Path(folder) / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    functions = {function.signature.name for function in graph.library.function}
    counts = collections.Counter(node.op for node in nodes if node.op not in functions)
    refused = sorted(op for op in counts if op.startswith(_NEEDS_PYTHON_OR_XLA) or not hasattr(tf.raw_ops, op))
    if refused:
        raise ExportError(
            f"the exported graph holds {refused}, which a stock model server cannot run; write the transform or model without them"
        )
    compiled = sorted(function.signature.name for function in graph.library.function if function.attr["_XlaMustCompile"].b)
    if compiled:
        raise ExportError(f"functions {compiled} are marked jit_compile=True; a stock model server has XLA off, so remove the mark")
    return dict(sorted(counts.items()))
