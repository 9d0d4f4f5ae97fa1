"""Constant folding: torch computes once, at export, what depends on parameters and literals alone."""

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx.node import map_arg

# A folded result larger than this and than what it was made of stays an operator: files should not grow by it.
LARGEST_GROWTH_ELEMENTS = 65536


def _elements(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel()
    return sum(_elements(part) for part in value) if isinstance(value, list | tuple) else 0


def _is_foldable(node: torch.fx.Node, known: Mapping[torch.fx.Node, Any]) -> bool:
    if node.op != "call_function" or not all(argument in known for argument in node.all_input_nodes):
        return False
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded not in tags


def fold_constants(graph: torch.fx.Graph, values: Mapping[torch.fx.Node, torch.Tensor]) -> dict[torch.fx.Node, Any]:
    """Returns the values of all nodes that need no input, by node: the given ones and what follows from them.

    Random operators are never folded; results that would grow the export by more than `LARGEST_GROWTH_ELEMENTS` neither.
    """
    known: dict[torch.fx.Node, Any] = dict(values)
    with torch.no_grad():
        for node in graph.nodes:
            if not _is_foldable(node, known):
                continue
            given = sum(_elements(known[argument]) for argument in node.all_input_nodes)
            made = node.meta.get("val")
            if _elements(made) > max(given, LARGEST_GROWTH_ELEMENTS):
                continue
            args, kwargs = map_arg((node.args, node.kwargs), lambda argument: known[argument])
            known[node] = node.target(*args, **kwargs)
    return known
