"""Turns artifacts and strings into one call of `export`."""

from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact, artifact_utils
from tfx.utils import path_utils

from components.core.contracts import DataSpec, ServingSpec, TrackingSpec
from components.core.execution import StageExecution, execution_output, only
from components.core.measurements import PARITY_FILE, ParityReport
from components.core.tracking import StageRun
from components.exporter.export import ExportInputs, export


class Executor(base_executor.BaseExecutor):
    """Executor of the exporter."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> execution_result_pb2.ExecutorOutput:
        """Exports and compares; a model that differs from its native form is recorded, not raised."""
        given = only(input_dict)
        model = artifact_utils.get_single_instance(output_dict["model"])
        parity = artifact_utils.get_single_instance(output_dict["parity"])
        inputs = ExportInputs(
            native=Path(path_utils.serving_model_path(given["native_model"].uri)),
            transform=Path(given["transform_graph"].uri),
            examples=Path(artifact_utils.get_split_uri([given["examples"]], "eval")),
            framework=exec_properties["framework"],
            data=DataSpec.from_json(exec_properties["data_spec"]),
            serving=ServingSpec.from_json(exec_properties["serving_spec"]),
        )
        tags = {**StageExecution.of(self).tags(), "framework": inputs.framework}
        with StageRun(TrackingSpec.from_json(exec_properties["tracking"]), f"export-{inputs.framework}", tags=tags) as run:
            report = export(inputs, Path(path_utils.serving_model_path(model.uri)), report_folder=Path(parity.uri))
            _track(run, report, Path(parity.uri) / PARITY_FILE)
        parity.set_int_custom_property("passed", int(report.passed))
        return execution_output(output_dict, {"mlflow_run_id": run.run_id, "parity_passed": int(report.passed)})


def _track(run: StageRun, report: ParityReport, file: Path) -> None:
    run.log_metrics(
        {
            "parity/largest_absolute_difference": report.largest_absolute_difference,
            "parity/label_agreement": report.label_agreement,
            "parity/eval_rows": report.eval_rows,
            "parity/edge_rows": report.edge_rows,
        }
    )
    run.set_tags({"parity_passed": str(report.passed).lower(), "parity_reason": report.reason[:500]})
    run.log_file(file)
