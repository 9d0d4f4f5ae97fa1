"""Declaration of the rollout starter."""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from components.core.artifacts import DeploymentReport, PromotionReport, RolloutReport
from components.rollout_starter.executor import Executor


class RolloutStarterSpec(ComponentSpec):
    """Inputs, outputs and parameters of the rollout starter.

    Parameters: `rollout`, `ledger`, `production` and `tracking` as JSON (RolloutRule, LedgerSpec, ProductionSpec, TrackingSpec);
    `code_fingerprint`.
    """

    PARAMETERS = {
        "rollout": ExecutionParameter(type=str),
        "ledger": ExecutionParameter(type=str),
        "production": ExecutionParameter(type=str),
        "tracking": ExecutionParameter(type=str),
        "code_fingerprint": ExecutionParameter(type=str),
    }
    INPUTS = {
        "promotion_report": ChannelParameter(type=PromotionReport),
        "deployment_report": ChannelParameter(type=DeploymentReport),
    }
    OUTPUTS = {
        "rollout_report": ChannelParameter(type=RolloutReport),
    }


class RolloutStarter(base_component.BaseComponent):
    """Starts the rollout of a version that is served."""

    SPEC_CLASS = RolloutStarterSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(self, **arguments: types.BaseChannel | str) -> None:
        outputs = {"rollout_report": types.Channel(type=RolloutReport)}
        super().__init__(spec=RolloutStarterSpec(**arguments, **outputs))
