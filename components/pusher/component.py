"""Declaration of the pusher."""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from components.core.artifacts import AuditReport, CompileReport, PushReport, Registration
from components.core.contracts import FRAMEWORKS
from components.pusher.executor import Executor

_INPUTS = {"model": standard_artifacts.Model, "registration": Registration, "audit": AuditReport, "compile_report": CompileReport}


class PusherSpec(ComponentSpec):
    """Inputs, outputs and parameters of the pusher.

    Inputs: `<framework>_model`, `_registration`, `_audit` and `_compile_report` for each framework. Parameters: `name` of the served
    model; `audit_spec` (AuditSpec as JSON); `serving_root`, directory of the model servers; `tracking` (TrackingSpec as JSON);
    `code_fingerprint`.
    """

    PARAMETERS = {
        "name": ExecutionParameter(type=str),
        "audit_spec": ExecutionParameter(type=str),
        "serving_root": ExecutionParameter(type=str),
        "tracking": ExecutionParameter(type=str),
        "code_fingerprint": ExecutionParameter(type=str),
    }
    INPUTS = {f"{framework}_{name}": ChannelParameter(type=kind) for framework in FRAMEWORKS for name, kind in _INPUTS.items()}
    OUTPUTS = {
        "pushed_model": ChannelParameter(type=standard_artifacts.PushedModel),
        "push_report": ChannelParameter(type=PushReport),
    }


class Pusher(base_component.BaseComponent):
    """Pushes the better blessed candidate to staging."""

    SPEC_CLASS = PusherSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(self, **arguments: types.BaseChannel | str) -> None:
        outputs = {
            "pushed_model": types.Channel(type=standard_artifacts.PushedModel),
            "push_report": types.Channel(type=PushReport),
        }
        super().__init__(spec=PusherSpec(**arguments, **outputs))
