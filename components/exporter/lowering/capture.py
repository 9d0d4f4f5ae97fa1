"""From a torch module to a graph that is ready to walk: export, simplification, constants.

The user's module is never touched: everything happens to a deep copy in evaluation mode on the CPU.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from components.core.errors import ExportError
from components.exporter.lowering.fold import fold_constants
from components.exporter.lowering.recurrent import replace_recurrent_layers
from components.exporter.lowering.simplify import simplify

# Kept whole instead of decomposed: TensorFlow has one fast operator for each.
_KEPT = ("linear", "matmul")


@dataclass(frozen=True)
class InputSpec:
    """One input of the model: its name, dtype and shape, with None for a dynamic size."""

    name: str
    dtype: torch.dtype
    shape: tuple[int | None, ...]


@dataclass(frozen=True)
class Program:
    """An exported model: the ATen graph, the inputs by placeholder and the value of every constant node."""

    graph: torch.fx.Graph
    inputs: Mapping[torch.fx.Node, InputSpec]
    constants: Mapping[torch.fx.Node, Any]
    output: Any


@contextmanager
def _without_attention_fast_path() -> Iterator[None]:
    """Keeps nn.MultiheadAttention on its plain operators: the fused one cannot be decomposed."""
    enabled = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(enabled)


def _refuse_batch_statistics(module: nn.Module) -> None:
    for path, layer in module.named_modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.running_mean is None:
            raise ExportError(
                f"{type(layer).__name__} at {path or 'the top'} keeps no running statistics (track_running_stats=False), so a score would "
                "depend on the other rows of its batch; train it with track_running_stats=True"
            )


def _prepared_copy(module: nn.Module) -> nn.Module:
    try:
        prepared = copy.deepcopy(module)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise ExportError(
            f"{type(module).__name__} cannot be copied: {error}; keep only parameters, buffers and plain values as attributes"
        ) from error
    prepared.to("cpu").eval()
    _refuse_batch_statistics(prepared)
    replace_recurrent_layers(prepared)
    return prepared.requires_grad_(False)


class _SingleInput(nn.Module):
    """Gives the model a forward whose only argument is called features, whatever its own is called."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: dict[str, torch.Tensor]) -> Any:
        """Returns what the model returns."""
        return self.model(features)


def _checked_examples(examples: Mapping[str, torch.Tensor], dynamic_sequence: Sequence[str]) -> dict[str, torch.Tensor]:
    """Returns detached examples with at least two rows (and steps), because torch.export takes a size of 1 for a constant."""
    if not examples:
        raise ExportError("example_inputs is empty; give one batch, a tensor a feature")
    unknown = sorted(set(dynamic_sequence) - examples.keys())
    if unknown:
        raise ExportError(f"dynamic_sequence names {unknown}, which example_inputs lacks; allowed: {sorted(examples)}")
    checked = {}
    for name, tensor in examples.items():
        least = 2 if name in dynamic_sequence else 1
        if not isinstance(tensor, torch.Tensor) or tensor.dim() < least:
            raise ExportError(
                f"example input {name!r} must be a tensor of at least {least} dimension(s), the batch first; got {tensor!r:.80}"
            )
        longer = tensor
        for axis in range(least):
            if tensor.shape[axis] == 0:
                raise ExportError(f"example input {name!r} is empty along dimension {axis}; give at least one row and step")
            # A dimension of 1 would be specialised by torch.export.
            longer = longer if longer.shape[axis] > 1 else longer.repeat_interleave(2, axis)
        checked[name] = longer.detach().cpu()
    rows = {name: tensor.shape[0] for name, tensor in checked.items()}
    if len(set(rows.values())) > 1:
        raise ExportError(f"example inputs have different numbers of rows: {rows}; give one batch")
    return checked


def _export(model: nn.Module, examples: dict[str, torch.Tensor], dynamic_sequence: Sequence[str]) -> torch.export.ExportedProgram:
    dynamic = torch.export.Dim.DYNAMIC
    shapes = {name: {0: dynamic, 1: dynamic} if name in dynamic_sequence else {0: dynamic} for name in examples}
    decompositions = torch.export.default_decompositions()
    for name in _KEPT:
        decompositions.pop(getattr(torch.ops.aten, name).default, None)
    try:
        with torch.no_grad(), _without_attention_fast_path():
            exported = torch.export.export(_SingleInput(model), (examples,), dynamic_shapes=(shapes,), strict=False)
            return exported.run_decompositions(decompositions)
    except ExportError:
        raise
    except Exception as error:  # whatever the model's forward and torch.export raise, told as one line with its cause
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ExportError(
            f"torch.export cannot capture {type(model).__name__}: {type(error).__name__}: {first}; write forward without control flow and "
            "shapes that depend on values, and without a fixed number of rows"
        ) from error


def _constant_values(exported: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """Returns the value of each placeholder that is no input, by placeholder name."""
    values: dict[str, torch.Tensor] = {}
    signature = exported.graph_signature
    for spec in signature.input_specs:
        kind = spec.kind.name
        if kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            found = exported.state_dict.get(spec.target)
            values[spec.arg.name] = (exported.constants[spec.target] if found is None else found).detach()
        elif kind != "USER_INPUT":
            raise ExportError(f"the model holds a {kind.lower()} ({spec.target}), which has no lowering; keep only tensors")
    changed = sorted(spec.target or spec.arg.name for spec in signature.output_specs if spec.kind.name != "USER_OUTPUT")
    if changed:
        raise ExportError(f"forward changes {changed} in evaluation mode; a served model keeps no state: change it in training_step only")
    return values


def _input_specs(exported: torch.export.ExportedProgram, names: Sequence[str]) -> dict[str, InputSpec]:
    """Returns the spec of each input by placeholder name; the pytree of one dict keeps the order of its keys."""
    specs = {}
    nodes = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    placeholders = [spec.arg.name for spec in exported.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    for name, placeholder in zip(names, placeholders, strict=True):
        value = nodes[placeholder].meta["val"]
        shape = tuple(size if isinstance(size, int) else None for size in value.shape)
        specs[placeholder] = InputSpec(name, value.dtype, shape)
    return specs


def capture(module: nn.Module, example_inputs: Mapping[str, torch.Tensor], *, dynamic_sequence: Sequence[str] = ()) -> Program:
    """Exports a copy of `module` with a dynamic batch and prepares its graph.

    Args:
        module: Its forward takes one dict of tensors and returns one tensor.
        example_inputs: One batch, each tensor [N, ...]; only dtypes and shapes matter.
        dynamic_sequence: Names of inputs [N, T, ...] whose T is dynamic too.

    Raises:
        ExportError: The model cannot be captured; the message names the layer or input and the remedy.
    """
    examples = _checked_examples(example_inputs, dynamic_sequence)
    exported = _export(_prepared_copy(module), examples, dynamic_sequence)
    values, specs = _constant_values(exported), _input_specs(exported, list(examples))
    graph = exported.graph_module.graph
    outputs = next(node for node in graph.nodes if node.op == "output").args[0]
    if len(outputs) != 1 or not isinstance(outputs[0], torch.fx.Node) or exported.call_spec.out_spec.num_children:
        raise ExportError(f"forward must return one tensor, not {len(outputs)} or a collection; pick one in forward")
    simplify(graph)
    nodes = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    return Program(
        graph=graph,
        inputs={nodes[placeholder]: spec for placeholder, spec in specs.items()},
        constants=fold_constants(graph, {nodes[name]: value for name, value in values.items()}),
        output=next(node for node in graph.nodes if node.op == "output").args[0][0],
    )


def module_path(node: torch.fx.Node) -> str:
    """Returns where in the user's model a node comes from, as "encoder.layers.0 (TransformerEncoderLayer)"."""
    stack = [*(node.meta.get("nn_module_stack") or {}).values()]
    if not stack:
        return "the top of the model"
    path, kind = stack[-1]
    name = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    shown = path.removeprefix("model").removeprefix(".")
    return f"{shown or 'the top of the model'} ({name.rsplit('.', 1)[-1]})"
