"""Takes out of an exported graph what does nothing when it is served, and turns convolution weights."""

from typing import Any

import torch

from components.exporter.lowering.ops_convolution import filter_order

_NOTHING = {"aten.clone.default", "aten.alias.default", "aten.detach.default", "aten.lift_fresh_copy.default"}
_SAME_SHAPE = {"aten.expand.default", "aten.view.default", "aten.slice.Tensor"}
# Checks of shapes that torch.export already took as given, and of ids that Transform bounds before they reach the model.
_CHECKS = (
    "aten._assert_tensor_metadata",
    "aten._assert_async",
    "aten._assert_scalar",
    "aten.sym_constrain_range",
    "aten._functional_assert",
)


def convolve_turned(x: torch.Tensor, weight: torch.Tensor, *rest: Any) -> torch.Tensor:
    """aten.convolution over a weight whose axes are in TensorFlow's order [k..., I, O]; `rest` as there."""
    order = filter_order(weight.dim())
    back = [order.index(axis) for axis in range(weight.dim())]
    return torch.ops.aten.convolution.default(x, weight.permute(back), *rest)


def _shape(value: Any) -> tuple[str, ...] | None:
    """Returns the shape with symbolic sizes by name, or None where there is none: equal text is proven equality."""
    return tuple(str(size) for size in value.shape) if isinstance(value, torch.Tensor) else None


def _does_nothing(node: torch.fx.Node) -> bool:
    name = str(node.target)
    if name in _NOTHING:
        return True
    source = node.args[0] if node.args else None
    if not isinstance(source, torch.fx.Node):
        return False
    if name in _SAME_SHAPE:
        # A slice that keeps the shape is the whole; strides other than 1 would change it.
        return _shape(source.meta.get("val")) == _shape(node.meta.get("val"))
    if name == "aten.permute.default":
        return [axis % len(node.args[1]) for axis in node.args[1]] == list(range(len(node.args[1])))
    return name == "aten._to_copy.default" and source.meta["val"].dtype == node.meta["val"].dtype


def _turn_filters(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Puts a permutation before the weight of a convolution; folding then computes it once."""
    weight = node.args[1]
    order = filter_order(weight.meta["val"].dim())
    with graph.inserting_before(node):
        turned = graph.call_function(torch.ops.aten.permute.default, (weight, order))
    turned.meta = {"val": weight.meta["val"].permute(order), "nn_module_stack": node.meta.get("nn_module_stack")}
    node.update_arg(1, turned)
    node.target = convolve_turned


def simplify(graph: torch.fx.Graph) -> None:
    """Removes assertions and operators without effect, in place, and reorders the filters of convolutions."""
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if str(node.target).startswith(_CHECKS):
            graph.erase_node(node)
        elif _does_nothing(node):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif str(node.target) == "aten.convolution.default":
            _turn_filters(graph, node)
    graph.eliminate_dead_code()
