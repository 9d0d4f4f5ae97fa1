"""The lowering table: the name of an ATen overload to the function that computes it with plain TensorFlow operators.

To support one more operator, write its function in the `ops_…` module of its kind and add one row there; a test fails
until a case exercises the row against torch.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from components.exporter.lowering import (
    ops_convolution,
    ops_index,
    ops_linear,
    ops_normalize,
    ops_pointwise,
    ops_pool,
    ops_recurrent,
    ops_reduce,
    ops_shape,
)

Row = Callable[..., Any]

_MODULES = (
    ops_convolution,
    ops_index,
    ops_linear,
    ops_normalize,
    ops_pointwise,
    ops_pool,
    ops_recurrent,
    ops_reduce,
    ops_shape,
)


def _joined() -> dict[str, Row]:
    rows: dict[str, Row] = {}
    for module in _MODULES:
        twice = rows.keys() & module.ROWS.keys()
        if twice:
            raise AssertionError(f"rows defined twice: {sorted(twice)}")
        rows.update(module.ROWS)
    return rows


ROWS: Mapping[str, Row] = MappingProxyType(_joined())


def overload_name(target: Any) -> str:
    """Returns the name a graph node's target has in the table: "aten.add.Tensor", "operator.mul", "tandem.convolve_turned"."""
    if hasattr(target, "overloadpacket"):
        return str(target)
    owner = "tandem" if target.__module__.startswith("components.") else target.__module__.lstrip("_")
    return f"{owner}.{target.__name__}"
