"""Turns artifacts and strings into one call of `deploy`."""

from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact
from tfx.utils import path_utils

from components.core.execution import execution_output, only
from components.core.measurements import read_measurement, write_measurement
from components.core.promotion import (
    DEPLOYMENT_FILE,
    LOAD_FILE,
    PROMOTION_FILE,
    LedgerSpec,
    LoadReport,
    ProductionSpec,
    PromotionReport,
)
from components.production_pusher.deploy import deploy


class Executor(base_executor.BaseExecutor):
    """Executor of the production pusher."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> execution_result_pb2.ExecutorOutput:
        """Deploys; `deployment.json` and the custom properties of `pushed_model` say what."""
        given = only(input_dict)
        made = only(output_dict)

        report = deploy(
            read_measurement(PromotionReport, given["promotion_report"].uri, PROMOTION_FILE),
            read_measurement(LoadReport, given["load_report"].uri, LOAD_FILE),
            saved_model=Path(path_utils.serving_model_path(given["model"].uri)),
            ledger=LedgerSpec.from_json(exec_properties["ledger"]),
            production=ProductionSpec.from_json(exec_properties["production"]),
        )
        write_measurement(report, made["deployment_report"].uri, DEPLOYMENT_FILE)
        made["pushed_model"].set_int_custom_property("pushed", 1)
        facts = {"pushed_destination": report.path, "pushed_version": report.version, "digest": report.digest}
        for key, value in facts.items():
            made["pushed_model"].set_string_custom_property(key, value)
        return execution_output(output_dict, {"digest": report.digest, "ledger_entry": report.entry, "available_s": report.available_s})
