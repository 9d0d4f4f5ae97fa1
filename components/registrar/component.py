"""Declaration of the registrar."""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from components.core.artifacts import AuditReport, CompileReport, ParityReport, Registration
from components.registrar.executor import Executor


class RegistrarSpec(ComponentSpec):
    """Inputs, outputs and parameters of the registrar.

    Parameters: `name` of the registered model; `framework`; `tracking` (TrackingSpec as JSON); `dataset_digest`, SHA-256 of the input
    data; `lock_digest` of the environment; `source_root`, folder of the use case, whose git checkout is recorded; `code_fingerprint`.
    """

    PARAMETERS = {
        "name": ExecutionParameter(type=str),
        "framework": ExecutionParameter(type=str),
        "tracking": ExecutionParameter(type=str),
        "dataset_digest": ExecutionParameter(type=str),
        "lock_digest": ExecutionParameter(type=str),
        "source_root": ExecutionParameter(type=str),
        "code_fingerprint": ExecutionParameter(type=str),
    }
    INPUTS = {
        "model": ChannelParameter(type=standard_artifacts.Model),
        "audit": ChannelParameter(type=AuditReport),
        "blessing": ChannelParameter(type=standard_artifacts.ModelBlessing),
        "compile_report": ChannelParameter(type=CompileReport),
        "parity": ChannelParameter(type=ParityReport),
        "model_run": ChannelParameter(type=standard_artifacts.ModelRun),
    }
    OUTPUTS = {"registration": ChannelParameter(type=Registration)}


class Registrar(base_component.BaseComponent):
    """Makes one audited candidate a version of the model registry."""

    SPEC_CLASS = RegistrarSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(self, **arguments: types.BaseChannel | str) -> None:
        registration = types.Channel(type=Registration)
        super().__init__(spec=RegistrarSpec(**arguments, registration=registration))
