"""Turns artifacts and strings into one call of `compile_candidate`."""

from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact, artifact_utils
from tfx.utils import path_utils

from components.core.contracts import DataSpec, ServingSpec, TrackingSpec
from components.core.execution import StageExecution, execution_output, only
from components.core.measurements import COMPILE_FILE, CompileReport
from components.core.tracking import StageRun
from components.xla_compiler.compile import CompileInputs, compile_candidate


class Executor(base_executor.BaseExecutor):
    """Executor of the XLA compiler."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> execution_result_pb2.ExecutorOutput:
        """Compiles and measures; a candidate that parity stopped is copied."""
        given = only(input_dict)
        model = artifact_utils.get_single_instance(output_dict["model"])
        target = artifact_utils.get_single_instance(output_dict["compile_report"])
        inputs = CompileInputs(
            model=Path(path_utils.serving_model_path(given["exported_model"].uri)),
            parity=Path(given["parity"].uri),
            examples=Path(artifact_utils.get_split_uri([given["examples"]], "eval")),
            framework=exec_properties["framework"],
            model_name=exec_properties["model_name"],
            data=DataSpec.from_json(exec_properties["data_spec"]),
            serving=ServingSpec.from_json(exec_properties["serving_spec"]),
        )
        tags = {**StageExecution.of(self).tags(), "framework": inputs.framework}
        with StageRun(TrackingSpec.from_json(exec_properties["tracking"]), f"compile-{inputs.framework}", tags=tags) as run:
            report = compile_candidate(inputs, Path(path_utils.serving_model_path(model.uri)), report_folder=Path(target.uri))
            _track(run, report, Path(target.uri) / COMPILE_FILE)
        for found in (model, target):
            found.set_string_custom_property("tree_digest", report.tree_digest)
        return execution_output(
            output_dict, {"mlflow_run_id": run.run_id, "tree_digest": report.tree_digest, "compiled": int(report.compiled)}
        )


def _track(run: StageRun, report: CompileReport, file: Path) -> None:
    metrics: dict[str, float | None] = {"size_bytes": report.size_bytes, "xla/compilations": report.compilations}
    for bucket in report.buckets:
        for name in ("plain_p50_ms", "plain_p99_ms", "xla_p50_ms", "xla_p99_ms"):
            metrics[f"latency/{name}/b{bucket.batch}"] = getattr(bucket, name)
        for name in ("compile_s", "largest_absolute_difference", "fusions", "memory_bytes", "flops"):
            metrics[f"xla/{name}/b{bucket.batch}"] = getattr(bucket, name)
    run.log_metrics(metrics)
    run.set_tags({"tree_digest": report.tree_digest, "compiled": str(report.compiled).lower(), "compile_reason": report.reason[:500]})
    run.log_file(file)
