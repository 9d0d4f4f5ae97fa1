"""Classification and regression: which signatures can do it, tf.Examples in, classes, scores and values out.

The real server checks a signature's method name only with --enable_signature_method_name_check, which is off by default; what counts
are the names and the number of its inputs and outputs (servables/tensorflow/classifier.cc, regressor.cc).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from infra.serving.model_server.faults import invalid
from infra.serving.model_server.servable import CLASSIFY, REGRESS, Servable, Signature
from infra.serving.model_server.session import Array

INPUTS = "inputs"
_CLASSES, _SCORES, _OUTPUTS = "classes", "scores", "outputs"


def example_signature(servable: Servable, key: str, method: str, *, words: str = "No signature was found with the name: ") -> Signature:
    """The signature of a classification or regression request.

    Args:
        servable: asked.
        key: of the signature, empty = the default one.
        method: CLASSIFY or REGRESS.
        words: before the key, where there is no such signature.

    Raises:
        ServingFault: there is none, or it cannot do that.
    """
    key = key or "serving_default"
    signature = servable.signatures.get(key)
    if signature is None:
        raise invalid(f"{words}{key}")
    kind, outputs = ("classification", {_CLASSES, _SCORES}) if method == CLASSIFY else ("regression", {_OUTPUTS})
    if len(signature.inputs) != 1:
        raise invalid("Expected one input Tensor.")
    if method == REGRESS and len(signature.outputs) != 1:
        raise invalid("Expected one output Tensor.")
    if len(signature.outputs) > len(outputs):
        raise invalid(f"Expected one or two output Tensors, found {len(signature.outputs)}")
    if INPUTS not in signature.inputs:
        raise invalid(f"No {kind} inputs found in SignatureDef: {key} has the input {next(iter(signature.inputs))}")
    if not outputs & signature.outputs.keys():
        if method == REGRESS:
            raise invalid(f"No regression outputs found in SignatureDef: {key} has the output {next(iter(signature.outputs))}")
        raise invalid('Expected classification signature outputs to contain at least one of "classes" or "scores". Signature was: ' + key)
    return signature


def wanted_outputs(signature: Signature, method: str) -> list[str]:
    """The outputs that an answer is made of."""
    return [name for name in ((_CLASSES, _SCORES) if method == CLASSIFY else (_OUTPUTS,)) if name in signature.outputs]


def serialized_examples(given: Any) -> Array:
    """The examples of an Input, each behind the context; string[N].

    Raises:
        ServingFault: there are none.
    """
    kind = given.WhichOneof("kind")
    listed = getattr(given, kind).examples if kind else ()
    context = given.example_list_with_context.context.SerializeToString() if kind == "example_list_with_context" else b""
    if not listed:
        raise invalid("Input is empty.")
    texts = np.empty(len(listed), object)
    # Protobuf merges what is written one behind the other; a feature of the example takes the place of the context's.
    texts[:] = [context + example.SerializeToString() for example in listed]
    return texts


def fill_result(result: Any, answer: Mapping[str, Array], *, method: str, rows: int) -> None:
    """Fills a ClassificationResult or a RegressionResult.

    Args:
        result: the message.
        answer: outputs by name.
        method: CLASSIFY or REGRESS.
        rows: number of examples.

    Raises:
        ServingFault: the outputs are not what the method promises.
    """
    if method == CLASSIFY:
        _fill_classes(result, answer.get(_CLASSES), answer.get(_SCORES), rows)
    else:
        _fill_values(result, answer[_OUTPUTS], rows)


def _fill_classes(result: Any, classes: Array | None, scores: Array | None, rows: int) -> None:
    for name, value, dtype, shown in ((_CLASSES, classes, object, "DT_STRING"), (_SCORES, scores, np.float32, "DT_FLOAT")):
        if value is None:
            continue
        if value.ndim != 2:
            raise invalid(f"Expected Tensor shape: [batch_size num_classes] but got {_shown(value)}")
        if value.dtype != dtype:
            raise invalid(f"Expected {name} Tensor of {shown}. Got: {value.dtype}")
        if len(value) != rows:
            raise invalid(f"Expected {name} output batch size of {rows}. Got: {len(value)}")
    if classes is not None and scores is not None and classes.shape[1] != scores.shape[1]:
        raise invalid(f"Tensors class and score should match in dim_size(1). Got {classes.shape[1]} vs. {scores.shape[1]}")
    labels: Any = classes.tolist() if classes is not None else None
    values: Any = scores.tolist() if scores is not None else None
    for row in range(rows):
        entry = result.classifications.add()
        for place in range(len(labels[row] if labels is not None else values[row])):
            one = entry.classes.add()
            if labels is not None:
                # A string field holds UTF-8 only; the real server would send what its clients cannot read.
                one.label = labels[row][place].decode("utf-8", "replace")
            if values is not None:
                one.score = values[row][place]


def _fill_values(result: Any, values: Array, rows: int) -> None:
    if values.ndim not in (1, 2) or (values.ndim == 2 and values.shape[1] != 1):
        raise invalid(f"Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got {_shown(values)}")
    if len(values) != rows:
        raise invalid(f"Input batch size did not match output batch size: {rows} vs. {len(values)}")
    if values.dtype != np.float32:
        raise invalid(f"Expected output Tensor of DT_FLOAT.  Got: {values.dtype}")
    for value in values.ravel().tolist():
        result.regressions.add(value=value)


def _shown(value: Array) -> str:
    return "[" + ",".join(map(str, value.shape)) + "]"
