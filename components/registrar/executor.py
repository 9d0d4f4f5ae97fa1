"""Turns artifacts and strings into one call of `register_candidate`."""

from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact, artifact_utils
from tfx.utils import path_utils

from components.core.contracts import TrackingSpec
from components.core.execution import StageExecution, execution_output, only
from components.registrar.register import Request, register_candidate


class Executor(base_executor.BaseExecutor):
    """Executor of the registrar."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> execution_result_pb2.ExecutorOutput:
        """Registers the candidate; `registration.json` and the execution's properties say what was done."""
        given = only(input_dict)
        output = artifact_utils.get_single_instance(output_dict["registration"])
        request = Request(
            name=exec_properties["name"],
            framework=exec_properties["framework"],
            saved_model=Path(path_utils.serving_model_path(given["model"].uri)),
            audit=Path(given["audit"].uri),
            compile_report=Path(given["compile_report"].uri),
            parity=Path(given["parity"].uri),
            model_run=Path(given["model_run"].uri),
            dataset_digest=exec_properties["dataset_digest"],
            lock_digest=exec_properties["lock_digest"],
            source_root=exec_properties["source_root"],
            output=Path(output.uri),
            stage_tags=StageExecution.of(self).tags(),
        )
        blessed = given["blessing"].get_int_custom_property("blessed") == 1
        _, properties = register_candidate(request, tracking=TrackingSpec.from_json(exec_properties["tracking"]), blessed=blessed)
        for key, value in properties.items():
            output.set_string_custom_property(key, value)
        return execution_output(output_dict, properties)
