"""Declaration of the XLA compiler."""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from components.core.artifacts import CompileReport, ParityReport
from components.xla_compiler.executor import Executor


class XlaCompilerSpec(ComponentSpec):
    """Inputs, outputs and parameters of the XLA compiler.

    Inputs: `exported_model` and `parity` of the exporter, raw `examples` with an eval split. Parameters: `framework`; `model_name` under
    which a model server will hold the model; `data_spec` (DataSpec as JSON); `serving_spec` (ServingSpec as JSON); `tracking`
    (TrackingSpec as JSON); `code_fingerprint`.
    """

    PARAMETERS = {
        "framework": ExecutionParameter(type=str),
        "model_name": ExecutionParameter(type=str),
        "data_spec": ExecutionParameter(type=str),
        "serving_spec": ExecutionParameter(type=str),
        "tracking": ExecutionParameter(type=str),
        "code_fingerprint": ExecutionParameter(type=str),
    }
    INPUTS = {
        "exported_model": ChannelParameter(type=standard_artifacts.Model),
        "parity": ChannelParameter(type=ParityReport),
        "examples": ChannelParameter(type=standard_artifacts.Examples),
    }
    OUTPUTS = {"model": ChannelParameter(type=standard_artifacts.Model), "compile_report": ChannelParameter(type=CompileReport)}


class XlaCompiler(base_component.BaseComponent):
    """Gives an exported model its XLA twins, measures them and takes the tree digest.

    Output `model` is the final SavedModel in `Format-Serving`; `compile_report` holds `compile.json`.
    """

    SPEC_CLASS = XlaCompilerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(self, **arguments: types.BaseChannel | str) -> None:
        outputs = {"model": types.Channel(type=standard_artifacts.Model), "compile_report": types.Channel(type=CompileReport)}
        super().__init__(spec=XlaCompilerSpec(**arguments, **outputs))
