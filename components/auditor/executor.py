"""Turns artifacts and strings into one audit; extends the executor of TFX's Evaluator for its Beam pipeline and its blessing."""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from tfx import types
from tfx.components.evaluator import constants, executor
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact_utils
from tfx.utils import path_utils

from components.auditor.audit import Candidate, audit_candidate
from components.auditor.record import log_audit
from components.core import files
from components.core.contracts import FRAMEWORKS, AuditSpec, Champion, Contract, DataSpec, ServingSpec, TrackingSpec
from components.core.errors import AuditError
from components.core.execution import StageExecution, execution_output
from components.core.measurements import (
    AUDIT_FILE,
    COMPILE_FILE,
    PARITY_FILE,
    TRAINING_FACTS_FILE,
    CompileReport,
    ParityReport,
    TrainingFacts,
    read_measurement,
)
from components.core.tracking import StageRun

Artifacts = dict[str, list[types.Artifact]]
_Spec = TypeVar("_Spec", bound=Contract)


class Executor(executor.Executor):
    """Executor of the Auditor."""

    def Do(self, input_dict: Artifacts, output_dict: Artifacts, exec_properties: dict[str, Any]) -> execution_result_pb2.ExecutorOutput:
        """Audits the candidate, shows the audit in MLflow and blesses or does not.

        Raises:
            AuditError: see `audit.audit_candidate`.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        candidate = read_candidate(input_dict, exec_properties)
        tracking = _spec(TrackingSpec, exec_properties, "tracking")
        tags = {**StageExecution.of(self).tags(), "framework": candidate.framework}
        uris = {name: Path(artifact_utils.get_single_uri(artifacts)) for name, artifacts in output_dict.items()}
        with StageRun(tracking, f"audit-{candidate.framework}", tags=tags) as run:
            report = audit_candidate(
                candidate, self._make_beam_pipeline, evaluation_path=uris["evaluation"], predictions_path=uris["predictions"]
            )
            audit_file = uris["audit"] / AUDIT_FILE
            files.write_json(audit_file, report.model_dump(mode="json"))
            log_audit(run, report, audit_file)
        model = artifact_utils.get_single_instance(input_dict["model"])
        write_blessing(artifact_utils.get_single_instance(output_dict["blessing"]), model, blessed=report.blessed)
        return execution_output(output_dict, {"mlflow_run_id": run.run_id, "blessed": int(report.blessed), "digest": report.digest})


def read_candidate(input_dict: Artifacts, exec_properties: dict[str, Any]) -> Candidate:
    """Reads what is audited from the stage's inputs.

    Raises:
        AuditError: the framework has no such name, or a parameter is not what its contract says (no threshold, for one).
    """
    framework = next((name for name in FRAMEWORKS if name == exec_properties["framework"]), None)
    if framework is None:
        raise AuditError(f"auditor: unknown framework {exec_properties['framework']!r}; allowed: {', '.join(FRAMEWORKS)}")
    model = artifact_utils.get_single_instance(input_dict["model"])
    return Candidate(
        framework=framework,
        model=Path(path_utils.serving_model_path(model.uri)),
        train_split=Path(artifact_utils.get_split_uri(input_dict["examples"], "train")),
        eval_split=Path(artifact_utils.get_split_uri(input_dict["examples"], "eval")),
        training=read_measurement(TrainingFacts, artifact_utils.get_single_uri(input_dict["model_run"]), TRAINING_FACTS_FILE),
        parity=read_measurement(ParityReport, artifact_utils.get_single_uri(input_dict["parity"]), PARITY_FILE),
        compiled=read_measurement(CompileReport, artifact_utils.get_single_uri(input_dict["compile_report"]), COMPILE_FILE),
        data=_spec(DataSpec, exec_properties, "data_spec"),
        audit=_spec(AuditSpec, exec_properties, "audit_spec"),
        serving=_spec(ServingSpec, exec_properties, "serving_spec"),
        champion=_spec(Champion, exec_properties, "champion") if exec_properties.get("champion") else None,
    )


def _spec(kind: type[_Spec], exec_properties: dict[str, Any], name: str) -> _Spec:
    try:
        return kind.from_json(exec_properties[name])
    except ValidationError as error:
        reason = "; ".join(f"{'.'.join(map(str, found['loc'])) or name}: {found['msg']}" for found in error.errors(include_url=False))
        raise AuditError(f"auditor: the parameter {name} cannot be used: {reason}; correct pipeline.toml") from error


def write_blessing(blessing: types.Artifact, model: types.Artifact, *, blessed: bool) -> None:
    """Writes a ModelBlessing as TFX's Evaluator does: an empty file BLESSED or NOT_BLESSED, and custom properties that name the model."""
    blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_URI_KEY, model.uri)
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY, model.id)
    value = constants.BLESSED_VALUE if blessed else constants.NOT_BLESSED_VALUE
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, value)
    files.write_bytes(Path(blessing.uri) / (constants.BLESSED_FILE_NAME if blessed else constants.NOT_BLESSED_FILE_NAME), b"")
