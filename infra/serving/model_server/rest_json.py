"""JSON that TensorFlow Serving's REST interface takes: row format (`instances`), columnar format (`inputs`), and examples.

Which values are taken and what a refusal says follow the real server (util/json_tensor.cc), with three exceptions: bytes that are no UTF-8,
whole numbers that do not fit the dtype, and finite numbers that float32 cannot hold are refused instead of changed.
"""

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from infra.serving.model_server.faults import ServingFault, invalid
from infra.serving.model_server.servable import Signature, TensorSpec
from infra.serving.model_server.session import Array

MAX_DEPTH = 32
_B64 = "b64"
_SHOWN_CHARACTERS = 256
_WHITESPACE = " \t\n\r"


def parse(body: bytes) -> dict[str, Any]:
    """The object of a request's body; NaN and Infinity are numbers, what stands behind the object is not read.

    Raises:
        ServingFault: no JSON object.
    """
    if not body:
        raise invalid("JSON Parse error: The document is empty")
    try:
        text = body.decode("utf-8-sig")
        begin = len(text) - len(text.lstrip(_WHITESPACE))
        content, _ = json.JSONDecoder().raw_decode(text, begin)
    except json.JSONDecodeError as error:
        raise invalid(f"JSON Parse error: {error.msg} at offset: {error.pos}") from error
    except UnicodeDecodeError as error:
        raise invalid(f"JSON Parse error: Invalid encoding in string. at offset: {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise invalid(f"JSON Parse error: {error}") from error
    if not isinstance(content, dict):
        raise invalid(f"JSON Value: {_shown(content)} Is not object")
    return content


def signature_name(content: Mapping[str, Any]) -> str:
    """The signature that a request names; empty = the default one.

    Raises:
        ServingFault: it is no string.
    """
    name = content.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(f"JSON Value: {_shown(content)} not formatted correctly. 'signature_name' key must be a string value.")
    return name


def predict_inputs(content: Mapping[str, Any], signature: Signature, *, max_elements: int) -> tuple[dict[str, Array], bool]:
    """Tensors of a predict request, and whether it is in row format.

    Raises:
        ServingFault: neither format, both, or values that are no tensor of the signature.
    """
    rows, columns = "instances" in content, "inputs" in content
    if not rows and not columns:
        raise invalid("Missing 'inputs' or 'instances' key")
    if rows and columns:
        raise invalid(f"JSON Value: {_shown(content)} Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ")
    if columns:
        return _by_column(content["inputs"], signature, max_elements), False
    instances = content["instances"]
    if not isinstance(instances, list):
        raise invalid(f"JSON Value: {_shown(content)} Expecting 'instances' to be an list/array")
    if not instances:
        raise invalid(f"JSON Value: {_shown(content)} No values in 'instances' array")
    return _by_row(instances, signature, max_elements), True


def _by_row(instances: list[Any], signature: Signature, max_elements: int) -> dict[str, Array]:
    if not isinstance(instances[0], dict) and len(signature.inputs) > 1:
        raise invalid("instances is a plain list, but expecting list of objects as multiple input tensors required as per tensorinfo_map")
    named = _is_named(instances[0])
    for place, instance in enumerate(instances):
        if _is_named(instance) != named:
            problem = "object but got list" if named else "value/list but got object"
            raise invalid(f"Expecting {problem} at item {place} of input list")
        if named and instance.keys() != signature.inputs.keys():
            unknown = sorted(instance.keys() - signature.inputs.keys())
            if unknown:
                raise invalid(
                    f"Failed to process element: {place} key: {unknown[0]} of 'instances' list. "
                    f"Error: INVALID_ARGUMENT: JSON object: does not have named input: {unknown[0]}"
                )
            raise invalid(
                f"Failed to process element: {place} of 'instances' list. JSON object: {_shown(instance)} "
                f"keys must be equal to: {','.join(sorted(signature.inputs))}"
            )
    columns = (
        {name: [instance[name] for instance in instances] for name in signature.inputs}
        if named
        else dict.fromkeys(signature.inputs, instances)
    )
    return {name: _row_tensor(name, values, signature.inputs[name], max_elements, named=named) for name, values in columns.items()}


def _row_tensor(name: str, values: list[Any], spec: TensorSpec, max_elements: int, *, named: bool) -> Array:
    try:
        return _tensor(values, spec, max_elements)
    except ServingFault:
        # The whole column is read at once; only for a refusal it is worth to look for the row.
        key = f" key: {name}" if named else ""
        first = _shape(values[0])
        for place, value in enumerate(values):
            try:
                _tensor(value, spec, max_elements)
                shape = _shape(value)
                _require_equal(first, shape)
            except ServingFault as fault:
                raise ServingFault(
                    fault.code, f"Failed to process element: {place}{key} of 'instances' list. Error: {fault.code.name}: {fault.message}"
                ) from fault
        raise


def _require_equal(first: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if math.prod(first) != math.prod(shape):
        raise invalid(f"Expecting tensor size: {math.prod(first)} but got: {math.prod(shape)}")
    if first != shape:
        raise invalid(f"Expecting shape {_shown_shape(first)} but got: {_shown_shape(shape)}")


def _by_column(inputs: Any, signature: Signature, max_elements: int) -> dict[str, Array]:
    if not _is_named(inputs):
        if len(signature.inputs) > 1:
            raise invalid("inputs is a plain value/list, but expecting an object as multiple input tensors required as per tensorinfo_map")
        return {name: _tensor(inputs, spec, max_elements) for name, spec in signature.inputs.items()}
    missing = sorted(signature.inputs.keys() - inputs.keys())
    if missing:
        raise invalid(f"Missing named input: {missing[0]} in 'inputs' object.")
    return {name: _tensor(inputs[name], spec, max_elements) for name, spec in signature.inputs.items()}


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and not _is_base64(value)


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get(_B64), str)


def _tensor(value: Any, spec: TensorSpec, max_elements: int) -> Array:
    shape = _shape(value)
    flat: list[Any] = []
    _flatten(value, shape, 0, flat)
    if len(flat) > max_elements:
        raise invalid(f"a tensor has {len(flat)} elements, the limit of this server is {max_elements}")
    if spec.dtype == object:
        texts = np.empty(len(flat), object)
        texts[:] = [text_of(element) for element in flat]
        return texts.reshape(shape)
    return _numbers(flat, spec.dtype).reshape(shape)


def _shape(value: Any) -> tuple[int, ...]:
    shape: list[int] = []
    while isinstance(value, list):
        if len(shape) >= MAX_DEPTH:
            raise invalid(f"lists are nested deeper than {MAX_DEPTH}, the limit of this server")
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _flatten(value: Any, shape: tuple[int, ...], level: int, flat: list[Any]) -> None:
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid(
                f"JSON Value: {_shown(value)} found at incorrect level: {level + 1} in the JSON DOM. Expected at level: {len(shape)}"
            )
        flat.append(value)
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid(f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: {shape[level]}")
    if level == len(shape) - 1 and not any(isinstance(element, list) for element in value):
        flat.extend(value)
        return
    for element in value:
        _flatten(element, shape, level + 1, flat)


def text_of(element: Any) -> bytes:
    """The bytes of a JSON string, or of {"b64": ...}.

    Raises:
        ServingFault: neither.
    """
    if isinstance(element, str):
        try:
            return element.encode()
        except UnicodeEncodeError as error:
            raise invalid("JSON Parse error: The surrogate pair in string is invalid.") from error
    if _is_base64(element):
        try:
            return base64.b64decode(element[_B64], validate=True)
        except (binascii.Error, ValueError) as error:
            raise invalid("Unable to base64 decode") from error
    if isinstance(element, dict):
        raise invalid(f"JSON Value: {_shown(element)} not formatted correctly for base64 data")
    raise _type_fault(element, "string")


def _numbers(flat: list[Any], dtype: Any) -> Array:
    name = _DTYPE_NAMES.get(str(dtype), str(dtype))
    allowed = (bool,) if dtype == np.bool_ else (int,) if np.issubdtype(dtype, np.integer) else (int, float)
    for element in flat:
        if type(element) not in allowed:
            raise _type_fault(element, name)
    if dtype == np.bool_:
        return np.array(flat, np.bool_)
    try:
        # Whole numbers through Python's own, so that one that does not fit is an error and not another number.
        numbers = np.array(flat, np.float64 if float in allowed else dtype)
    except OverflowError as error:
        raise _type_fault(next(element for element in flat if not _fits(element, dtype)), name) from error
    with np.errstate(over="ignore"):
        cast = numbers.astype(dtype, copy=False)
    if np.any(np.isinf(cast) & np.isfinite(numbers)):
        raise invalid(f"a number is out of the range of {name}")
    return cast


_DTYPE_NAMES = {"float32": "float", "float64": "double", "float16": "half"}
"""TensorFlow's names (DataTypeString), where they are not NumPy's."""


def _fits(element: Any, dtype: Any) -> bool:
    try:
        np.array(element, np.float64 if np.issubdtype(dtype, np.floating) else dtype)
    except OverflowError:
        return False
    return True


_JSON_TYPES = {type(None): "Null", bool: "Boolean", int: "Number", float: "Number", str: "String", list: "Array", dict: "Object"}


def _type_fault(element: Any, dtype: str) -> ServingFault:
    return invalid(f"JSON Value: {_shown(element)} Type: {json_type(element)} is not of expected type: {dtype}")


def json_type(element: Any) -> str:
    """What a JSON value is, as the real server names it."""
    return str(element) if isinstance(element, bool) else _JSON_TYPES[type(element)]


def _shown(value: Any) -> str:
    """A value for a message; only its beginning is made, however large it is."""
    pieces, size = [], 0
    for piece in json.JSONEncoder(separators=(",", ":")).iterencode(value):
        pieces.append(piece)
        size += len(piece)
        if size >= _SHOWN_CHARACTERS:
            break
    return "".join(pieces)[:_SHOWN_CHARACTERS]


def _shown_shape(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"
