"""Turns a PyTorch model into a tf.Module of plain TensorFlow operators.

torch.export writes the model down as ATen operators; each is looked up in a table of TensorFlow functions. What results
needs neither torch nor XLA where it runs: no XlaCallModule, no Python call-backs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
import torch

from components.core.errors import ExportError
from components.exporter.lowering.capture import Program, capture
from components.exporter.lowering.promotion import tf_dtype
from components.exporter.lowering.table import overload_name
from components.exporter.lowering.walk import computed_nodes, refuse_missing_rows, used_constants, walk

# Constants up to this size are written into the graph, where XLA and shape inference can see them; larger ones are variables.
LARGEST_LITERAL_ELEMENTS = 16


def _to_tensorflow(value: torch.Tensor) -> tf.Tensor:
    if value.dtype == torch.bfloat16:
        return tf.cast(tf.constant(value.to(torch.float32).numpy()), tf.bfloat16)
    return tf.constant(value.contiguous().numpy(), tf_dtype(value.dtype))


def _literal(value: Any) -> Any:
    return _to_tensorflow(value) if isinstance(value, torch.Tensor) else value


def _storage(value: torch.Tensor) -> tuple[Any, ...]:
    """Returns what tells tied weights: the same memory read the same way is one variable."""
    return value.untyped_storage().data_ptr(), value.storage_offset(), tuple(value.shape), value.stride(), value.dtype


@dataclass(frozen=True)
class _Recipe:
    """What a call needs beside the variables; a plain object, so that tf.Module does not try to save it."""

    program: Program
    literals: Mapping[torch.fx.Node, Any]
    slots: Mapping[torch.fx.Node, int]


class LoweredModule(tf.Module):
    """A torch model as plain TensorFlow operators; call it with a dict of tensors, one a feature.

    It can be traced in a tf.function, compiled by XLA and saved in a SavedModel. Its variables are not trainable. Not
    guaranteed: results equal to torch beyond float32 rounding, or for ids and indexes outside their tables.

    Attributes:
        weights: Variables of the parameters, buffers and folded constants; tied weights share one.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(name="lowered")
        self.weights: list[tf.Variable] = []
        self._recipe = self._store(program)

    def _store(self, program: Program) -> _Recipe:
        """Makes a variable of each constant that calls read; small computed ones become literals of the graph."""
        places: dict[tuple[Any, ...], int] = {}
        literals: dict[torch.fx.Node, Any] = {}
        slots: dict[torch.fx.Node, int] = {}
        for node in used_constants(program):
            value = program.constants[node]
            small = node.op != "placeholder" and isinstance(value, torch.Tensor) and value.numel() <= LARGEST_LITERAL_ELEMENTS
            if small or not isinstance(value, torch.Tensor):
                literals[node] = value
                continue
            key = _storage(value)
            if key not in places:
                places[key] = len(self.weights)
                self.weights.append(tf.Variable(_to_tensorflow(value), trainable=False, name=node.name))
            slots[node] = places[key]
        return _Recipe(program, literals, slots)

    @property
    def input_specs(self) -> dict[str, tf.TensorSpec]:
        """The inputs by name, in the order of the examples; the batch (and a dynamic sequence) has size None."""
        return {spec.name: tf.TensorSpec(spec.shape, tf_dtype(spec.dtype), name=spec.name) for spec in self._recipe.program.inputs.values()}

    @property
    def overloads(self) -> frozenset[str]:
        """Names of the table rows that a call uses."""
        return frozenset(overload_name(node.target) for node in computed_nodes(self._recipe.program))

    def _inputs(self, features: Mapping[str, tf.Tensor]) -> dict[torch.fx.Node, tf.Tensor]:
        specs = self._recipe.program.inputs
        lacking = sorted({spec.name for spec in specs.values()} - features.keys())
        if lacking:
            raise ExportError(f"features {lacking} are missing; the model takes {sorted(spec.name for spec in specs.values())}")
        values = {}
        for node, spec in specs.items():
            value = tf.convert_to_tensor(features[spec.name])
            if value.dtype != tf_dtype(spec.dtype) or not value.shape.is_compatible_with(spec.shape):
                raise ExportError(
                    f"feature {spec.name!r} is {value.dtype.name} {value.shape}; the model was exported for {spec.dtype} {spec.shape}"
                )
            values[node] = value
        return values

    @tf.autograph.experimental.do_not_convert  # plain Python decides here at trace time; rewriting it would only hide errors
    def __call__(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Computes the model's output, with the batch in the first dimension as the model returns it.

        Args:
            features: The tensors that `input_specs` describes; others are ignored.

        Raises:
            ExportError: A feature is missing or has another dtype or shape than at export.
        """
        recipe = self._recipe
        constants = {node: _literal(value) for node, value in recipe.literals.items()}
        constants |= {node: tf.convert_to_tensor(self.weights[slot]) for node, slot in recipe.slots.items()}
        return walk(recipe.program, constants, inputs=self._inputs(features))


def lower(module: torch.nn.Module, example_inputs: Mapping[str, torch.Tensor], *, dynamic_sequence: Sequence[str] = ()) -> LoweredModule:
    """Lowers a torch model to plain TensorFlow operators.

    The module is copied, put in evaluation mode and exported with a dynamic batch; it is left as it was. The result is traced once,
    so that whatever has no lowering fails here and not where it is served.

    Args:
        module: A model whose forward takes ONE dict of tensors and returns one tensor.
        example_inputs: One batch of the features, each [N, ...] with N >= 1; only dtypes and shapes matter.
        dynamic_sequence: Names of features [N, T, ...] whose length T may differ from call to call.

    Raises:
        ExportError: The model cannot be captured, or has operators without a row: all of them are named, with their module paths.
    """
    program = capture(module, example_inputs, dynamic_sequence=dynamic_sequence)
    refuse_missing_rows(program)
    lowered = LoweredModule(program)
    tf.function(lowered.__call__).get_concrete_function(lowered.input_specs)
    return lowered
