"""Declaration of the promotion gate."""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from components.core.artifacts import Clearance
from components.promotion_gate.executor import Executor


class PromotionGateSpec(ComponentSpec):
    """Inputs, outputs and parameters of the promotion gate.

    Parameters: `subject`, `rule`, `ledger` and `tracking` as JSON (Subject, ApprovalRule, LedgerSpec, TrackingSpec); `code_fingerprint`.
    """

    PARAMETERS = {
        "subject": ExecutionParameter(type=str),
        "rule": ExecutionParameter(type=str),
        "ledger": ExecutionParameter(type=str),
        "tracking": ExecutionParameter(type=str),
        "code_fingerprint": ExecutionParameter(type=str),
    }
    INPUTS = {
        "candidate": ChannelParameter(type=standard_artifacts.Model),
    }
    OUTPUTS = {
        "clearance": ChannelParameter(type=Clearance),
        "model": ChannelParameter(type=standard_artifacts.Model),
    }


class PromotionGate(base_component.BaseComponent):
    """Lets a candidate through that the ledger covers, byte for byte."""

    SPEC_CLASS = PromotionGateSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(self, **arguments: types.BaseChannel | str) -> None:
        outputs = {"clearance": types.Channel(type=Clearance), "model": types.Channel(type=standard_artifacts.Model)}
        super().__init__(spec=PromotionGateSpec(**arguments, **outputs))
