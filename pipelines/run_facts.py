"""What the stages of one run measured, read from the artifacts that its journal names. Nothing heavy is imported."""

import dataclasses
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from components.core.contracts import FRAMEWORKS, AuditSpec, Contract, Framework
from components.core.errors import StoreError
from components.core.measurements import (
    AUDIT_FILE,
    COMPILE_FILE,
    PARITY_FILE,
    PUSH_FILE,
    REGISTRATION_FILE,
    TRAINING_FACTS_FILE,
    AuditReport,
    CompileReport,
    ParityReport,
    PushReport,
    Registration,
    TrainingFacts,
    read_measurement,
)
from pipelines.journal import RunRecord

_Measurement = TypeVar("_Measurement", bound=Contract)
AUDIT_OUTPUT = "auditor/audit"


@dataclasses.dataclass(frozen=True)
class CandidateFacts:
    """One framework's candidate in one run; None where its stage made nothing, or its artifact is gone."""

    framework: Framework
    training: TrainingFacts | None = None
    parity: ParityReport | None = None
    compiled: CompileReport | None = None
    audit: AuditReport | None = None
    registration: Registration | None = None

    @property
    def digest(self) -> str | None:
        """Tree digest of the final SavedModel."""
        return next((text for text in (self._audited, self._compiled) if text), None)

    @property
    def _audited(self) -> str:
        return self.audit.digest if self.audit else ""

    @property
    def _compiled(self) -> str:
        return self.compiled.tree_digest if self.compiled else ""

    @property
    def run_id(self) -> str | None:
        """MLflow run of the training."""
        if self.registration and self.registration.run_id:
            return self.registration.run_id
        return self.training.run_id if self.training else None


@dataclasses.dataclass(frozen=True)
class RunFacts:
    """One run.

    Attributes:
        record: its journal.
        candidates: those of which anything was measured, in the order of FRAMEWORKS.
        push: what the pusher did; None when it made nothing.
        audit_spec: thresholds that the audit was asked for; None when the journal holds none.
        missing: artifacts that the journal names and that are gone.
    """

    record: RunRecord
    candidates: tuple[CandidateFacts, ...]
    push: PushReport | None
    audit_spec: AuditSpec | None
    missing: tuple[str, ...] = ()

    @property
    def metric(self) -> str | None:
        """The metric that names the better candidate; the first audited one when the journal does not say."""
        if self.audit_spec is not None:
            return self.audit_spec.better_metric
        return next((name for candidate in self.candidates if candidate.audit for name in candidate.audit.metrics), None)

    def candidate(self, framework: str) -> CandidateFacts | None:
        """One candidate."""
        return next((candidate for candidate in self.candidates if candidate.framework == framework), None)


def audited_frameworks(record: RunRecord) -> list[str]:
    """The frameworks whose candidate was audited in the run."""
    return [framework for framework in FRAMEWORKS if f"{framework}-{AUDIT_OUTPUT}" in record.artifacts]


def read_run_facts(record: RunRecord) -> RunFacts:
    """Reads every measurement of a run.

    Raises:
        StoreError: a measurement is no measurement of this version of Tandem; run again.
    """
    reader = _Reader(record)
    candidates = [reader.candidate(framework) for framework in FRAMEWORKS]
    return RunFacts(
        record=record,
        candidates=tuple(candidate for candidate in candidates if candidate != CandidateFacts(candidate.framework)),
        push=reader.read(PushReport, "pusher/push_report", PUSH_FILE),
        audit_spec=_audit_spec(record),
        missing=tuple(reader.missing),
    )


class _Reader:
    """Reads measurements of one run, and remembers which are gone."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.missing: list[str] = []

    def candidate(self, framework: Framework) -> CandidateFacts:
        """All measurements of one framework."""
        return CandidateFacts(
            framework=framework,
            training=self.read(TrainingFacts, f"{framework}-trainer/model_run", TRAINING_FACTS_FILE),
            parity=self.read(ParityReport, f"{framework}-exporter/parity", PARITY_FILE),
            compiled=self.read(CompileReport, f"{framework}-xla-compiler/compile_report", COMPILE_FILE),
            audit=self.read(AuditReport, f"{framework}-{AUDIT_OUTPUT}", AUDIT_FILE),
            registration=self.read(Registration, f"{framework}-registrar/registration", REGISTRATION_FILE),
        )

    def read(self, kind: type[_Measurement], output: str, name: str) -> _Measurement | None:
        """One measurement; None when the stage made none or its file is gone."""
        folder = self.record.artifacts.get(output)
        if folder is None:
            return None
        try:
            return read_measurement(kind, folder, name)
        except FileNotFoundError:
            self.missing.append(f"{output} ({Path(folder) / name})")
            return None
        except (ValidationError, UnicodeDecodeError) as error:
            path = Path(folder) / name
            raise StoreError(
                f"{path} is no {kind.__name__} that this version reads: {_first_fault(error)}; run the pipeline again"
            ) from error


def _first_fault(error: Any) -> str:
    if isinstance(error, ValidationError):
        fault = error.errors()[0]
        return f"{'.'.join(map(str, fault['loc'])) or 'file'}: {fault['msg']}"
    return str(error)


def _audit_spec(record: RunRecord) -> AuditSpec | None:
    """The thresholds in the parameters of the stages."""
    for stage in record.stages:
        text = stage.parameters.get("audit_spec")
        if text:
            try:
                return AuditSpec.from_json(text)
            except ValidationError:  # a journal of another version; whoever needs the metric takes the first one
                return None
    return None
