"""Turns artifacts and strings into one call of `start`."""

from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact

from components.core.contracts import TrackingSpec
from components.core.execution import execution_output, only
from components.core.measurements import read_measurement, write_measurement
from components.core.promotion import PROMOTION_FILE, ROLLOUT_FILE, LedgerSpec, ProductionSpec, PromotionReport
from components.core.rollout import RolloutRule
from components.rollout_starter.start import start


class Executor(base_executor.BaseExecutor):
    """Executor of the rollout starter."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> execution_result_pb2.ExecutorOutput:
        """Starts the rollout; `rollout.json` says with which share."""
        given = only(input_dict)
        made = only(output_dict)

        report = start(
            read_measurement(PromotionReport, given["promotion_report"].uri, PROMOTION_FILE),
            RolloutRule.from_json(exec_properties["rollout"]),
            ledger=LedgerSpec.from_json(exec_properties["ledger"]),
            production=ProductionSpec.from_json(exec_properties["production"]),
            tracking=TrackingSpec.from_json(exec_properties["tracking"]),
        )
        write_measurement(report, made["rollout_report"].uri, ROLLOUT_FILE)
        return execution_output(output_dict, {"share": report.share, "role": report.role, "ledger_entry": report.entry})
