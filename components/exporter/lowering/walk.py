"""The walk over an exported graph: each node's row is called with TensorFlow values in place of torch's."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import torch
from torch.fx.node import map_aggregate

from components.core.errors import ExportError
from components.exporter.lowering.capture import Program, module_path
from components.exporter.lowering.promotion import tf_dtype
from components.exporter.lowering.table import ROWS, overload_name

# Where a tensor lies in memory has no meaning for TensorFlow.
_PLACEMENT = {"device", "layout", "pin_memory", "memory_format", "non_blocking"}


def computed_nodes(program: Program) -> list[torch.fx.Node]:
    """Returns the nodes that are computed for each request, in order."""
    return [node for node in program.graph.nodes if node.op == "call_function" and node not in program.constants]


def refuse_missing_rows(program: Program) -> None:
    """Checks that every computed node has a row.

    Raises:
        ExportError: Some have none; the message names each overload and all module paths it comes from.
    """
    missing: dict[str, list[str]] = {}
    for node in computed_nodes(program):
        name = overload_name(node.target)
        if name not in ROWS:
            paths = missing.setdefault(name, [])
            paths.extend(path for path in [module_path(node)] if path not in paths)
    if missing:
        listed = "; ".join(f"{name} at {', '.join(paths)}" for name, paths in sorted(missing.items()))
        raise ExportError(
            f"no lowering for {len(missing)} operator(s): {listed}; replace them in forward by supported ones, "
            "or add rows to components/exporter/lowering"
        )


def used_constants(program: Program) -> list[torch.fx.Node]:
    """Returns the constant nodes that computed nodes or the output read, in graph order."""
    readers = {*computed_nodes(program)}
    return [
        node
        for node in program.graph.nodes
        if node in program.constants and (node is program.output or any(user in readers for user in node.users))
    ]


def _argument(values: Mapping[torch.fx.Node, Any], argument: Any) -> Any:
    if isinstance(argument, torch.fx.Node):
        return values[argument]
    return tf_dtype(argument) if isinstance(argument, torch.dtype) else argument


def _conform(node: torch.fx.Node, value: Any) -> Any:
    """Checks the dtype against what torch computed at export and hands torch's static sizes to TensorFlow."""
    expected = node.meta.get("val")
    if not isinstance(expected, torch.Tensor) or not tf.is_tensor(value):
        return value
    if value.dtype != tf_dtype(expected.dtype):
        raise ExportError(f"the row gives {value.dtype.name} where torch gives {expected.dtype}; correct the row")
    shape = tf.TensorShape([size if isinstance(size, int) else None for size in expected.shape])
    if not value.shape.is_compatible_with(shape):
        raise ExportError(f"the row gives shape {value.shape} where torch gives {tuple(expected.shape)}; correct the row")
    value.set_shape(value.shape.merge_with(shape))
    return value


def compute_node(node: torch.fx.Node, values: Mapping[torch.fx.Node, Any]) -> Any:
    """Returns the TensorFlow value of one node from the values of those before it.

    Raises:
        ExportError: The row refuses the arguments; the message names overload and module path.
    """
    name = overload_name(node.target)
    kwargs = {key: value for key, value in node.kwargs.items() if key not in _PLACEMENT}
    args, kwargs = map_aggregate((node.args, kwargs), lambda argument: _argument(values, argument))
    try:
        with tf.name_scope(node.name.lstrip("_")):
            return _conform(node, ROWS[name](*args, **kwargs))
    except (ExportError, TypeError, ValueError) as error:
        raise ExportError(f"{error} (operator {name} at {module_path(node)})") from error


def walk(program: Program, constants: Mapping[torch.fx.Node, Any], *, inputs: Mapping[torch.fx.Node, Any]) -> tf.Tensor:
    """Computes the program's output from TensorFlow values of its constants and inputs."""
    values: dict[torch.fx.Node, Any] = {**constants, **inputs}
    for node in computed_nodes(program):
        values[node] = compute_node(node, values)
    return tf.convert_to_tensor(values[program.output])
