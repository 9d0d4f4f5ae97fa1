"""Declaration of the production pusher."""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from components.core.artifacts import DeploymentReport, LoadReport, PromotionReport
from components.production_pusher.executor import Executor


class ProductionPusherSpec(ComponentSpec):
    """Inputs, outputs and parameters of the production pusher.

    Parameters: `ledger` and `production` as JSON (LedgerSpec, ProductionSpec); `code_fingerprint`.
    """

    PARAMETERS = {
        "ledger": ExecutionParameter(type=str),
        "production": ExecutionParameter(type=str),
        "code_fingerprint": ExecutionParameter(type=str),
    }
    INPUTS = {
        "model": ChannelParameter(type=standard_artifacts.Model),
        "load_report": ChannelParameter(type=LoadReport),
        "promotion_report": ChannelParameter(type=PromotionReport),
    }
    OUTPUTS = {
        "deployment_report": ChannelParameter(type=DeploymentReport),
        "pushed_model": ChannelParameter(type=standard_artifacts.PushedModel),
    }


class ProductionPusher(base_component.BaseComponent):
    """Brings a production version to the model server and waits until it answers."""

    SPEC_CLASS = ProductionPusherSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(self, **arguments: types.BaseChannel | str) -> None:
        outputs = {
            "deployment_report": types.Channel(type=DeploymentReport),
            "pushed_model": types.Channel(type=standard_artifacts.PushedModel),
        }
        super().__init__(spec=ProductionPusherSpec(**arguments, **outputs))
