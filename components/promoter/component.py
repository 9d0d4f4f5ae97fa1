"""Declaration of the promoter."""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from components.core.artifacts import Clearance, LoadReport, PromotionReport
from components.promoter.executor import Executor


class PromoterSpec(ComponentSpec):
    """Inputs, outputs and parameters of the promoter.

    Parameters: `ledger` and `tracking` as JSON (LedgerSpec, TrackingSpec); `code_fingerprint`.
    """

    PARAMETERS = {
        "ledger": ExecutionParameter(type=str),
        "tracking": ExecutionParameter(type=str),
        "code_fingerprint": ExecutionParameter(type=str),
    }
    INPUTS = {
        "model": ChannelParameter(type=standard_artifacts.Model),
        "clearance": ChannelParameter(type=Clearance),
        "load_report": ChannelParameter(type=LoadReport),
    }
    OUTPUTS = {
        "promotion_report": ChannelParameter(type=PromotionReport),
    }


class Promoter(base_component.BaseComponent):
    """Makes a version of the production model."""

    SPEC_CLASS = PromoterSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(self, **arguments: types.BaseChannel | str) -> None:
        outputs = {"promotion_report": types.Channel(type=PromotionReport)}
        super().__init__(spec=PromoterSpec(**arguments, **outputs))
