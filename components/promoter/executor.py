"""Turns artifacts and strings into one call of `promote`."""

from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact
from tfx.utils import path_utils

from components.core.contracts import TrackingSpec
from components.core.execution import StageExecution, execution_output, only
from components.core.measurements import read_measurement, write_measurement
from components.core.promotion import CLEARANCE_FILE, LOAD_FILE, PROMOTION_FILE, Clearance, LedgerSpec
from components.promoter.promote import promote


class Executor(base_executor.BaseExecutor):
    """Executor of the promoter."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> execution_result_pb2.ExecutorOutput:
        """Promotes; `promotion.json` names the version and the ledger's entry."""
        given = only(input_dict)
        made = only(output_dict)

        report = promote(
            read_measurement(Clearance, given["clearance"].uri, CLEARANCE_FILE),
            saved_model=Path(path_utils.serving_model_path(given["model"].uri)),
            load_report=Path(given["load_report"].uri) / LOAD_FILE,
            ledger=LedgerSpec.from_json(exec_properties["ledger"]),
            tracking=TrackingSpec.from_json(exec_properties["tracking"]),
            stage_tags=StageExecution.of(self).tags(),
        )
        write_measurement(report, made["promotion_report"].uri, PROMOTION_FILE)
        return execution_output(output_dict, {"model_version": f"{report.name}/{report.version}", "ledger_entry": report.entry})
