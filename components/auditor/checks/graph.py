"""Facts of the served graph that a person who operates it wants to know before it fails: ops, constants, what is not deterministic."""

import collections
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from components.core.errors import AuditError
from components.core.measurements import Check

LARGE_BYTES = 1024 * 1024
_VARIABLES = frozenset({"VarHandleOp", "ReadVariableOp", "AssignVariableOp", "VarIsInitializedOp", "DisableCopyOnRead"})
_CALLS = frozenset({"StatefulPartitionedCall", "PartitionedCall", "Case", "If", "While", "For", "Assert"})
"""Marked as stateful because of what they may call, or so that they are not optimised away; what they call is looked at itself."""
_SAVING = frozenset({"SaveV2", "RestoreV2", "MergeV2Checkpoints", "ShardedFilename"})
_TABLES = ("HashTable", "LookupTable", "InitializeTable")
_RANDOM = ("Random", "Multinomial", "Dropout", "Shuffle")
_DOUBLE, _STRING = 2, 7
"""DataType numbers of tensorflow/core/framework/types.proto."""


def graph_checks(saved_model: Path) -> tuple[Check, ...]:
    """Reads the graph and its functions; nothing is executed.

    Raises:
        AuditError: there is no SavedModel.
    """
    graph = _meta_graph(saved_model)
    nodes = list(_nodes(graph))
    counts = collections.Counter(node.op for node in nodes)
    return (
        Check(name="graph/nodes", outcome="measured", value=len(nodes), detail=f"{len(counts)} kinds: {_most(counts)}"),
        _limited("graph/nondeterministic_ops", _random(counts), "draw nothing when serving; seeds do not hold across servers"),
        _limited(
            "graph/stateful_ops",
            _stateful(counts),
            "an op that keeps state answers the same row differently; use variables and tables alone",
        ),
        _limited("graph/large_constants", _large(nodes), "keep weights in variables: a constant lies in the graph and is copied with it"),
        _kind(nodes, _DOUBLE, "graph/float64_ops"),
        _kind(nodes, _STRING, "graph/string_ops"),
        Check(
            name="graph/signatures",
            outcome="measured",
            value=sum(not key.startswith("__") for key in graph.signature_def),
            detail=", ".join(sorted(key for key in graph.signature_def if not key.startswith("__"))),
        ),
    )


def _meta_graph(saved_model: Path) -> Any:
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    path = saved_model / "saved_model.pb"
    try:
        return saved_model_pb2.SavedModel.FromString(path.read_bytes()).meta_graphs[0]
    except (OSError, DecodeError, IndexError) as error:
        raise AuditError(f"auditor: {path} is no SavedModel ({type(error).__name__}); export it again") from error


def _nodes(graph: Any) -> Iterator[Any]:
    yield from graph.graph_def.node
    for function in graph.graph_def.library.function:
        yield from function.node_def


def _random(counts: collections.Counter[str]) -> dict[str, int]:
    return {op: count for op, count in counts.items() if any(word in op for word in _RANDOM) and not op.startswith("Stateless")}


def _stateful(counts: collections.Counter[str]) -> dict[str, int]:
    from tensorflow.python.framework import op_def_registry

    known = _VARIABLES | _CALLS | _SAVING
    found = {}
    for op, count in counts.items():
        definition = op_def_registry.get(op)
        if definition is not None and definition.is_stateful and op not in known and not any(word in op for word in _TABLES):
            found[op] = count
    return {op: count for op, count in found.items() if op not in _random(counts)}


def _large(nodes: list[Any]) -> dict[str, int]:
    return {node.name: node.ByteSize() for node in nodes if node.op == "Const" and node.ByteSize() > LARGE_BYTES}


def _limited(name: str, found: dict[str, int], remedy: str) -> Check:
    detail = ", ".join(f"{key} ({count})" for key, count in sorted(found.items())) or "none"
    return Check(
        name=name, outcome="failed" if found else "passed", value=len(found), limit=0, detail=detail, remedy=remedy if found else ""
    )


def _kind(nodes: list[Any], kind: int, name: str) -> Check:
    counts = collections.Counter(node.op for node in nodes if any(value.type == kind for value in node.attr.values()))
    return Check(name=name, outcome="measured", value=counts.total(), detail=_most(counts) or "none")


def _most(counts: collections.Counter[str]) -> str:
    shown = ", ".join(f"{op} {count}" for op, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:8])
    return shown + (", ..." if len(counts) > 8 else "")
