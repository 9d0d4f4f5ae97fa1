"""JSON of TensorFlow Serving's REST interface: row format (`instances`), columnar format (`inputs`), and the answers to both."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from infra.serving.model_server.faults import invalid
from infra.serving.model_server.servable import Signature, TensorSpec
from infra.serving.model_server.session import Array

MAX_DEPTH = 32
_BYTES_SUFFIX = "_bytes"
_B64 = "b64"


def parse(body: bytes) -> dict[str, Any]:
    """The object of a request's body; NaN and Infinity are numbers.

    Raises:
        ServingFault: no JSON object.
    """
    if not body.strip():
        raise invalid("JSON Parse error: The document is empty")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise invalid(f"JSON Parse error: {error}") from error
    if not isinstance(content, dict):
        raise invalid(f"JSON Value: {type(content).__name__} is not an object; a request is one")
    return content


def predict_inputs(content: Mapping[str, Any], signature: Signature, *, max_elements: int) -> tuple[dict[str, Array], bool]:
    """Tensors of a predict request, and whether it is in row format.

    Raises:
        ServingFault: neither format, both, or values that are no tensor of the signature.
    """
    rows, columns = "instances" in content, "inputs" in content
    if rows == columns:
        raise invalid("Request should have either 'instances' or 'inputs' key, and not both")
    if columns:
        return _by_column(content["inputs"], signature, max_elements), False
    instances = content["instances"]
    if not isinstance(instances, list) or not instances:
        raise invalid("Missing 'instances' values: it is a list with an element a row")
    return _by_row(instances, signature, max_elements), True


def _by_row(instances: list[Any], signature: Signature, max_elements: int) -> dict[str, Array]:
    named = isinstance(instances[0], dict) and set(instances[0]) != {_B64}
    if not named:
        if len(signature.inputs) != 1:
            raise invalid(f"'instances' holds values without names, and the signature has the inputs {', '.join(sorted(signature.inputs))}")
        name = next(iter(signature.inputs))
        return {name: _tensor(name, instances, signature.inputs[name], max_elements)}
    wanted = set(signature.inputs)
    for number, instance in enumerate(instances):
        if not isinstance(instance, dict) or set(instance) != wanted:
            given = sorted(instance) if isinstance(instance, dict) else type(instance).__name__
            raise invalid(f"Failed to process element: {number} of 'instances' list. It has {given}, the signature wants {sorted(wanted)}")
    return {name: _tensor(name, [instance[name] for instance in instances], spec, max_elements) for name, spec in signature.inputs.items()}


def _by_column(inputs: Any, signature: Signature, max_elements: int) -> dict[str, Array]:
    if isinstance(inputs, dict) and set(inputs) != {_B64}:
        unknown = sorted(set(inputs) - set(signature.inputs))
        if unknown:
            raise invalid(f"'inputs' has {unknown[0]!r}, the signature has {', '.join(sorted(signature.inputs))}")
        return {name: _tensor(name, value, signature.inputs[name], max_elements) for name, value in inputs.items()}
    if len(signature.inputs) != 1:
        raise invalid(f"'inputs' has no names, and the signature has the inputs {', '.join(sorted(signature.inputs))}")
    name = next(iter(signature.inputs))
    return {name: _tensor(name, inputs, signature.inputs[name], max_elements)}


def _tensor(name: str, value: Any, spec: TensorSpec, max_elements: int) -> Array:
    shape = _shape(name, value)
    flat: list[Any] = []
    _flatten(name, value, shape, 0, flat)
    if len(flat) > max_elements:
        raise invalid(f"input {name!r} has {len(flat)} elements, the limit of this server is {max_elements}")
    if spec.dtype == object:
        texts = np.empty(len(flat), object)
        texts[:] = [_text(name, element) for element in flat]
        return texts.reshape(shape)
    return _numbers(name, flat, spec).reshape(shape)


def _shape(name: str, value: Any) -> tuple[int, ...]:
    shape: list[int] = []
    while isinstance(value, list):
        if len(shape) >= MAX_DEPTH:
            raise invalid(f"input {name!r}: lists are nested deeper than {MAX_DEPTH}")
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _flatten(name: str, value: Any, shape: tuple[int, ...], axis: int, flat: list[Any]) -> None:
    if axis == len(shape):
        if isinstance(value, list):
            raise invalid(f"input {name!r}: Encountered list at unexpected size: {len(value)} at level: {axis}; lists must be equally long")
        flat.append(value)
        return
    if not isinstance(value, list) or len(value) != shape[axis]:
        raise invalid(f"input {name!r}: lists must be equally long and equally deep; level {axis} has {shape[axis]} elements first")
    for element in value:
        _flatten(name, element, shape, axis + 1, flat)


def _text(name: str, element: Any) -> bytes:
    if isinstance(element, str):
        return element.encode("utf-8", "surrogatepass")
    if isinstance(element, dict) and set(element) == {_B64} and isinstance(element[_B64], str):
        try:
            return base64.b64decode(element[_B64], validate=True)
        except (binascii.Error, ValueError) as error:
            raise invalid(f"input {name!r}: Unable to base64 decode") from error
    raise invalid(f'input {name!r} is string: JSON Value: {json.dumps(element)[:60]} is neither a string nor {{"b64": ...}}')


def _numbers(name: str, flat: list[Any], spec: TensorSpec) -> Array:
    dtype = spec.dtype
    if dtype == np.bool_:
        if not all(isinstance(element, bool) for element in flat):
            raise invalid(f"input {name!r} is bool: only true and false are taken")
        return np.array(flat, np.bool_)
    whole = np.issubdtype(dtype, np.integer)
    for element in flat:
        if isinstance(element, bool) or not isinstance(element, int if whole else int | float):
            raise invalid(
                f"input {name!r}: JSON Value: {json.dumps(element)[:60]} Type: {type(element).__name__} is not of expected type: {dtype}"
            )
    try:
        numbers = np.array(flat, dtype if whole else np.float64)
    except OverflowError as error:
        raise invalid(f"input {name!r}: a number is out of the range of {dtype}") from error
    if whole or dtype == np.float64:
        return numbers
    with np.errstate(over="ignore"):
        cast = numbers.astype(dtype)
    if np.any(np.isinf(cast) & np.isfinite(numbers)):
        raise invalid(f"input {name!r}: a number is out of the range of {dtype}")
    return cast


def predict_answer(answer: Mapping[str, Array], *, rows: bool) -> dict[str, Any]:
    """The body of an answer: `predictions` for rows, `outputs` for columns; a single output drops its name.

    Raises:
        ServingFault: row format, and an output has no row a prediction.
    """
    values = {name: _listed(name, value) for name, value in answer.items()}
    if not rows:
        return {"outputs": next(iter(values.values())) if len(values) == 1 else values}
    sizes = {len(value) if isinstance(value, list) else -1 for value in values.values()}
    if len(sizes) != 1 or -1 in sizes:
        raise invalid("Tensor outputs have no common first dimension; ask in columnar format (`inputs`)")
    if len(values) == 1:
        return {"predictions": next(iter(values.values()))}
    return {"predictions": [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]}


def _listed(name: str, value: Array) -> Any:
    if value.dtype == object:
        return _map_texts(value.tolist(), as_base64=name.endswith(_BYTES_SUFFIX))
    if value.dtype in (np.float32, np.float16):
        # The shortest decimal that reads back as the same float32, not the float64 that it widens to.
        return _shortest(value)
    return value.tolist()


def _shortest(value: Array) -> Any:
    flat = [float(text) for text in value.ravel().astype("U32").tolist()]
    return np.array(flat, np.float64).reshape(value.shape).tolist()


def _map_texts(value: Any, *, as_base64: bool) -> Any:
    if isinstance(value, list):
        return [_map_texts(element, as_base64=as_base64) for element in value]
    if as_base64:
        return {_B64: base64.b64encode(value).decode()}
    return value.decode("utf-8", "replace")


def example_of(features: Mapping[str, Any]) -> bytes:
    """A serialized tf.Example from a JSON object, as classify and regress take it: numbers with a point or exponent become floats.

    Raises:
        ServingFault: a value that no feature can hold.
    """
    from tensorflow.core.example import example_pb2

    example = example_pb2.Example()
    for name, given in features.items():
        elements = given if isinstance(given, list) else [given]
        feature = example.features.feature[name]
        if all(isinstance(element, int) and not isinstance(element, bool) for element in elements):
            if any(not -(2**63) <= element < 2**63 for element in elements):
                raise invalid(f"feature {name!r}: a number is out of the range of int64")
            feature.int64_list.value.extend(elements)
        elif all(isinstance(element, int | float) and not isinstance(element, bool) for element in elements):
            feature.float_list.value.extend(map(float, elements))
        else:
            feature.bytes_list.value.extend(_text(name, element) for element in elements)
    return bytes(example.SerializeToString())
