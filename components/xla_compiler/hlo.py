"""What XLA compiled: seen by TensorFlow's profiler while the first calls run, so nothing is compiled twice to look at it.

The profile of a call holds an event for each compilation and, for each module that ran, its optimised HLO with the buffer assignment.
"""

import dataclasses
import json
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.compiler.xla.service import hlo_pb2
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from components.core.errors import CompileError

_COMPILE_EVENT = "Compiler::RunBackend"  # CpuCompiler's, GpuCompiler's
_METADATA_PLANE = "/host:metadata"
_MATMUL_TARGETS = ("matmul", "gemm")


@dataclasses.dataclass(frozen=True)
class Compilations:
    """What XLA did while something ran.

    Attributes:
        count: compilations.
        modules: name and optimised HLO of each module that XLA holds, in the order in which they were compiled; those of earlier work
            in this process are among them.
    """

    count: int
    modules: Sequence[tuple[str, hlo_pb2.HloProto]]

    def module(self, function: str) -> hlo_pb2.HloProto:
        """Finds the module that was compiled last of a TensorFlow function.

        Raises:
            CompileError: there is none: XLA did not run it as expected.
        """
        found = [module for name, module in self.modules if f"_{function}_" in name]
        if not found:
            raise CompileError(f"XLA ran no module of {function}; it holds {[name for name, _ in self.modules]}")
        return found[-1]


@dataclasses.dataclass(frozen=True)
class HloFacts:
    """Facts of one optimised module.

    Attributes:
        fusions: fusion instructions.
        memory_bytes: bytes of all allocations of XLA's buffer assignment, parameters included.
        flops: floating point operations of matrix products and convolutions; element-wise work is not counted, nor is a loop's body more
            than once where XLA does not know the number of its turns.
    """

    fusions: int
    memory_bytes: int
    flops: int


def watch_compilations(run: Callable[[], None]) -> Compilations:
    """Runs `run` under TensorFlow's profiler.

    Raises:
        CompileError: the process is profiled already.
    """
    with tempfile.TemporaryDirectory(prefix="tandem-xla-") as folder:
        try:
            tf.profiler.experimental.start(folder)
        except tf.errors.AlreadyExistsError as error:
            raise CompileError("another profile is running in this process; end it, XLA's compilations are counted by a profile") from error
        try:
            run()
        finally:
            tf.profiler.experimental.stop()
        spaces = [xplane_pb2.XSpace.FromString(path.read_bytes()) for path in Path(folder).rglob("*.xplane.pb")]
    planes = [plane for space in spaces for plane in space.planes]
    count = sum(
        plane.event_metadata[event.metadata_id].name.endswith(_COMPILE_EVENT)
        for plane in planes
        for line in plane.lines
        for event in line.events
    )
    return Compilations(count, [module for plane in planes if plane.name == _METADATA_PLANE for module in _modules(plane)])


def _modules(plane: Any) -> list[tuple[str, hlo_pb2.HloProto]]:
    return [
        (metadata.name, hlo_pb2.HloProto.FromString(stat.bytes_value))
        for _, metadata in sorted(plane.event_metadata.items())  # keys are XLA's program numbers, counted up
        for stat in metadata.stats
        if stat.bytes_value
    ]


def read_facts(module: hlo_pb2.HloProto) -> HloFacts:
    """Counts fusions, bytes and operations of one optimised module."""
    instructions = [instruction for computation in module.hlo_module.computations for instruction in computation.instructions]
    return HloFacts(
        fusions=sum(instruction.opcode == "fusion" for instruction in instructions),
        memory_bytes=sum(allocation.size for allocation in module.buffer_assignment.buffer_allocations),
        flops=_FlopCounter(module.hlo_module).of(module.hlo_module.entry_computation_id),
    )


class _FlopCounter:
    """Counts 2 x multiply-adds of dots and convolutions, following calls and loops from a computation."""

    def __init__(self, module: Any) -> None:
        self.computations = {computation.id: computation for computation in module.computations}
        instructions = [instruction for computation in module.computations for instruction in computation.instructions]
        self.shapes = {instruction.id: list(instruction.shape.dimensions) for instruction in instructions}

    def of(self, computation_id: int) -> int:
        """Operations of one run of a computation."""
        return sum(self._instruction(instruction) for instruction in self.computations[computation_id].instructions)

    def _instruction(self, instruction: Any) -> int:
        turns = _known_turns(instruction) if instruction.opcode == "while" else 1
        called = turns * sum(self.of(identity) for identity in instruction.called_computation_ids)
        return called + 2 * math.prod(instruction.shape.dimensions) * self._depth(instruction)

    def _depth(self, instruction: Any) -> int:
        """Multiply-adds for one element of the result; 0 for what is neither a product nor a convolution."""
        if instruction.opcode == "dot":
            left = self.shapes[instruction.operand_ids[0]]
            return math.prod(left[axis] for axis in instruction.dot_dimension_numbers.lhs_contracting_dimensions)
        if instruction.opcode == "convolution":
            kernel = self.shapes[instruction.operand_ids[1]]
            return math.prod(kernel) // kernel[instruction.convolution_dimension_numbers.kernel_output_feature_dimension]
        if instruction.opcode == "custom-call" and any(target in instruction.custom_call_target for target in _MATMUL_TARGETS):
            return self.shapes[instruction.operand_ids[0]][-1]
        return 0


def _known_turns(instruction: Any) -> int:
    try:
        config = json.loads(instruction.backend_config or b"{}")
    except ValueError:
        return 1
    return int(config.get("known_trip_count", {}).get("n", 1))
