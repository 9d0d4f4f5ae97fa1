"""Turns artifacts and strings into one call of `clear`."""

from pathlib import Path
from typing import Any

from tfx.dsl.components.base import base_executor
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact
from tfx.utils import path_utils

from components.core.approval import ApprovalRule
from components.core.contracts import TrackingSpec
from components.core.execution import execution_output, only
from components.core.ledger import Subject
from components.core.measurements import write_measurement
from components.core.promotion import CLEARANCE_FILE, LedgerSpec
from components.promotion_gate.clear import clear


class Executor(base_executor.BaseExecutor):
    """Executor of the promotion gate."""

    def Do(
        self,
        input_dict: dict[str, list[artifact.Artifact]],
        output_dict: dict[str, list[artifact.Artifact]],
        exec_properties: dict[str, Any],
    ) -> execution_result_pb2.ExecutorOutput:
        """Clears the candidate; `clearance.json` and the execution's properties say what the ledger said."""
        given = only(input_dict)
        made = only(output_dict)

        clearance = clear(
            Subject.from_json(exec_properties["subject"]),
            ApprovalRule.from_json(exec_properties["rule"]),
            ledger=LedgerSpec.from_json(exec_properties["ledger"]),
            tracking=TrackingSpec.from_json(exec_properties["tracking"]),
            candidate=Path(path_utils.serving_model_path(given["candidate"].uri)),
            model=Path(path_utils.serving_model_path(made["model"].uri)),
        )
        write_measurement(clearance, made["clearance"].uri, CLEARANCE_FILE)
        made["model"].set_string_custom_property("digest", clearance.subject.model_digest)
        facts = {
            "model_version": f"{clearance.subject.model}/{clearance.subject.version}",
            "digest": clearance.subject.model_digest,
            "dossier_digest": clearance.subject.dossier_digest,
            "approved_by": ", ".join(clearance.standing.approved_by),
            "overridden": ", ".join(clearance.standing.failed),
            "ledger_head": clearance.head.digest,
        }
        return execution_output(output_dict, facts)
