"""Declaration of the exporter."""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from components.core.artifacts import ParityReport
from components.exporter.executor import Executor


class ExporterSpec(ComponentSpec):
    """Inputs, outputs and parameters of the exporter.

    Inputs: `native_model` of a trainer, `transform_graph`, raw `examples` with an eval split. Parameters: `framework`; `data_spec`
    (DataSpec as JSON); `serving_spec` (ServingSpec as JSON); `tracking` (TrackingSpec as JSON); `code_fingerprint`.
    """

    PARAMETERS = {
        "framework": ExecutionParameter(type=str),
        "data_spec": ExecutionParameter(type=str),
        "serving_spec": ExecutionParameter(type=str),
        "tracking": ExecutionParameter(type=str),
        "code_fingerprint": ExecutionParameter(type=str),
    }
    INPUTS = {
        "native_model": ChannelParameter(type=standard_artifacts.Model),
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph),
        "examples": ChannelParameter(type=standard_artifacts.Examples),
    }
    OUTPUTS = {"model": ChannelParameter(type=standard_artifacts.Model), "parity": ChannelParameter(type=ParityReport)}


class Exporter(base_component.BaseComponent):
    """Exports a native model of either framework to one SavedModel contract and holds it against the native model.

    Output `model` is a SavedModel in `Format-Serving`; `parity` holds `parity.json` and the edge rows.
    """

    SPEC_CLASS = ExporterSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(self, **arguments: types.BaseChannel | str) -> None:
        outputs = {"model": types.Channel(type=standard_artifacts.Model), "parity": types.Channel(type=ParityReport)}
        super().__init__(spec=ExporterSpec(**arguments, **outputs))
