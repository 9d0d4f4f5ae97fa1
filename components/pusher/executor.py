"""Turns artifacts and strings into one call of `push`."""

from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact
from tfx.utils import path_utils

from components.core import measurements
from components.core.contracts import FRAMEWORKS, AuditSpec, Framework, TrackingSpec
from components.core.execution import execution_output, only
from components.core.measurements import read_measurement, write_measurement
from components.pusher.push import Candidate, push


class Executor(base_executor.BaseExecutor):
    """Executor of the pusher."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> execution_result_pb2.ExecutorOutput:
        """Pushes; `push.json` and the custom properties of `pushed_model` say what."""
        made = only(output_dict)
        report = push(
            [_candidate(framework, input_dict) for framework in FRAMEWORKS],
            name=exec_properties["name"],
            spec=AuditSpec.from_json(exec_properties["audit_spec"]),
            serving_root=exec_properties["serving_root"],
            tracking=TrackingSpec.from_json(exec_properties["tracking"]),
        )
        write_measurement(report, made["push_report"].uri, measurements.PUSH_FILE)
        pushed_model = made["pushed_model"]
        pushed_model.set_int_custom_property("pushed", int(report.pushed))
        facts = {"pushed_destination": report.path, "pushed_version": report.version, "digest": report.digest}
        for key, value in facts.items():
            if value is not None:
                pushed_model.set_string_custom_property(key, value)
        model_version = f"{report.name}/{report.version}" if report.pushed else ""
        return execution_output(output_dict, {"pushed": int(report.pushed), "model_version": model_version, "digest": report.digest or ""})


def _candidate(framework: Framework, given: dict[str, list[artifact.Artifact]]) -> Candidate:
    uris = {name: single.uri for name, single in only(given).items()}
    return Candidate(
        saved_model=Path(path_utils.serving_model_path(uris[f"{framework}_model"])),
        registration=read_measurement(measurements.Registration, uris[f"{framework}_registration"], measurements.REGISTRATION_FILE),
        audit=read_measurement(measurements.AuditReport, uris[f"{framework}_audit"], measurements.AUDIT_FILE),
        compiled=read_measurement(measurements.CompileReport, uris[f"{framework}_compile_report"], measurements.COMPILE_FILE),
    )
