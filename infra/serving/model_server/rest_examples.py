"""Examples in JSON, as classify and regress take them: an object of features an example, and a context that all share."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from infra.serving.model_server.faults import invalid
from infra.serving.model_server.rest_json import json_type, text_of
from infra.serving.model_server.session import Array


def serialized_examples(content: Mapping[str, Any]) -> Array:
    """The examples of a classify or regress request, each behind the context; string[N].

    Raises:
        ServingFault: there are none, or one of them is no object of features.
    """
    context = _example(content["context"]) if "context" in content else b""
    if "examples" not in content:
        raise invalid("When method is classify, key 'examples' is expected and was not found")
    examples = content["examples"]
    if not isinstance(examples, list):
        raise invalid("Expecting 'examples' value to be an list/array")
    if not examples:
        raise invalid("'examples' value is an empty array")
    texts = np.empty(len(examples), object)
    # Protobuf merges what is written one behind the other; a feature of the example takes the place of the context's.
    texts[:] = [context + _example(example) for example in examples]
    return texts


def _example(features: Any) -> bytes:
    from tensorflow.core.example import example_pb2

    if not isinstance(features, dict):
        raise invalid(f"Example must be JSON object but got JSON {json_type(features)}")
    example = example_pb2.Example()
    for name, given in features.items():
        feature = example.features.feature[name]
        for element in given if isinstance(given, list) else [given]:
            _add(element, name, feature)
    return bytes(example.SerializeToString())


def _add(element: Any, name: str, feature: Any) -> None:
    """The first element says which kind of feature it is: a whole number or a boolean int64, a number with a point float."""
    if element is None or isinstance(element, list) or (isinstance(element, dict) and set(element) != {"b64"}):
        raise invalid(f"Feature: {name} has element with unexpected JSON type: {json_type(element)}")
    if isinstance(element, str | dict):
        _same_kind(name, feature, "bytes")
        feature.bytes_list.value.append(text_of(element))
        return
    if isinstance(element, int) and -(2**63) <= element < 2**64:
        _same_kind(name, feature, "int64")
        if element >= 2**63:
            raise invalid(f"Feature: {name} has uint64_t element. Only int64_t is supported.")
        feature.int64_list.value.append(int(element))
        return
    _same_kind(name, feature, "float")
    with np.errstate(over="ignore"):
        try:
            feature.float_list.value.append(float(np.float32(element)))
        except OverflowError as error:
            raise invalid(f"Feature: {name} has a number that is out of the range of double") from error


def _same_kind(name: str, feature: Any, kind: str) -> None:
    found = (feature.WhichOneof("kind") or f"{kind}_list").removesuffix("_list")
    if found != kind:
        raise invalid(f"Unexpected element type in feature: {name} expecting type: {found}")
