"""What an executor knows about its own execution, and what it leaves on it in ML Metadata."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Self

from tfx.dsl.components.base import base_executor
from tfx.orchestration.portable import outputs_utils
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact, artifact_utils


@dataclasses.dataclass(frozen=True)
class StageExecution:
    """One execution of one stage.

    Attributes:
        stage: node id, e.g. `keras-trainer`.
        execution_id: id of the ML Metadata execution, as text; empty outside a pipeline.
        pipeline_run_id: id of the pipeline run; empty outside a pipeline.
    """

    stage: str
    execution_id: str
    pipeline_run_id: str

    @classmethod
    def of(cls, executor: base_executor.BaseExecutor) -> Self:
        """Reads it from the context that the launcher gave to `executor`."""
        context = executor._context  # TFX gives executors no public way to it
        if context is None:
            return cls(stage="", execution_id="", pipeline_run_id="")
        node = context.pipeline_node
        return cls(
            stage=node.node_info.id if node is not None else "",
            execution_id=str(getattr(context, "_unique_id", "") or ""),
            pipeline_run_id=context.pipeline_run_id or "",
        )

    def tags(self) -> dict[str, str]:
        """Tags that every MLflow run of a stage carries."""
        return {"stage": self.stage, "pipeline_run_id": self.pipeline_run_id, "mlmd_execution_id": self.execution_id}


def only(artifacts: Mapping[str, list[artifact.Artifact]]) -> dict[str, artifact.Artifact]:
    """The one artifact behind each key of an executor's inputs or outputs.

    Raises:
        ValueError: a key has none or several.
    """
    return {key: artifact_utils.get_single_instance(given) for key, given in artifacts.items()}


def execution_output(
    output_dict: Mapping[str, Sequence[artifact.Artifact]], properties: Mapping[str, str | int | float]
) -> execution_result_pb2.ExecutorOutput:
    """What an executor returns so that `properties` become custom properties of its ML Metadata execution.

    A returned output replaces what TFX would gather itself, so the artifacts, with the properties set on them, are put in as well.
    """
    output = execution_result_pb2.ExecutorOutput()
    outputs_utils.populate_output_artifact(output, output_dict)
    for name, value in properties.items():
        target: Any = output.execution_properties[name]
        if isinstance(value, str):
            target.string_value = value
        elif isinstance(value, float):
            target.double_value = value
        else:
            target.int_value = int(value)
    return output
