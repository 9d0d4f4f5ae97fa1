"""Turns artifacts and strings into one call of `load_test`."""

from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact
from tfx.utils import path_utils

from components.core.errors import GateError
from components.core.execution import execution_output, only
from components.core.measurements import read_measurement, write_measurement
from components.core.promotion import CLEARANCE_FILE, LOAD_FILE, Clearance, ProductionSpec
from components.load_tester.load_test import load_test


class Executor(base_executor.BaseExecutor):
    """Executor of the load tester."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> execution_result_pb2.ExecutorOutput:
        """Measures; `load.json` says what. A model beyond a limit fails the stage."""
        given = only(input_dict)
        made = only(output_dict)

        clearance = read_measurement(Clearance, given["clearance"].uri, CLEARANCE_FILE)
        report = load_test(
            Path(path_utils.serving_model_path(given["model"].uri)),
            digest=clearance.subject.model_digest,
            production=ProductionSpec.from_json(exec_properties["production"]),
        )
        write_measurement(report, made["load_report"].uri, LOAD_FILE)
        if not report.passed:
            raise GateError(f"load-tester: {report.reason}; nothing was promoted")
        return execution_output(output_dict, {"digest": report.digest, "p99_ms": max(batch.p99_ms for batch in report.batches)})
