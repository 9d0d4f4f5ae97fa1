"""Declaration of the load tester."""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from components.core.artifacts import Clearance, LoadReport
from components.load_tester.executor import Executor


class LoadTesterSpec(ComponentSpec):
    """Inputs, outputs and parameters of the load tester.

    Parameters: `production` (ProductionSpec as JSON); `code_fingerprint`.
    """

    PARAMETERS = {
        "production": ExecutionParameter(type=str),
        "code_fingerprint": ExecutionParameter(type=str),
    }
    INPUTS = {
        "model": ChannelParameter(type=standard_artifacts.Model),
        "clearance": ChannelParameter(type=Clearance),
    }
    OUTPUTS = {
        "load_report": ChannelParameter(type=LoadReport),
    }


class LoadTester(base_component.BaseComponent):
    """Measures the bytes in a fresh process without XLA."""

    SPEC_CLASS = LoadTesterSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(self, **arguments: types.BaseChannel | str) -> None:
        outputs = {"load_report": types.Channel(type=LoadReport)}
        super().__init__(spec=LoadTesterSpec(**arguments, **outputs))
