"""What a decision rests on: the bytes of a registered candidate and what was measured on them, both read anew and digested here.

Nothing is taken from tags: whoever can write the registry can write a tag. The digest of the model is taken over its bytes, the digest of
the dossier over the file that names every measurement's digest, and a gate counts as passed only where the audit says so of these bytes.
"""

import dataclasses
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from components.core.approval import Candidate, Evidence
from components.core.contracts import PRODUCTION_SUFFIX, Contract
from components.core.dossier import DOSSIER_FILE, Dossier
from components.core.errors import RegistryError
from components.core.files import file_digest
from components.core.ledger import Subject
from components.core.measurements import AUDIT_FILE, COMPILE_FILE, PARITY_FILE, AuditReport, CompileReport, Gate, ParityReport
from components.core.registry import ModelVersion, Registry

_Measurement = TypeVar("_Measurement", bound=Contract)
_OWN_GATES: dict[str, Evidence] = {
    "parity": "parity",
    "xla_numerics": "xla_numerics",
    "plain_without_xla": "xla_numerics",
    "service_level": "service_level",
}


@dataclasses.dataclass(frozen=True)
class CandidateEvidence:
    """A registered candidate as it is now.

    Attributes:
        version: in the registry.
        saved_model: folder of its bytes on this machine.
        subject: what a decision would be about.
        audit: what the auditor measured.
        parity, compiled: None where the package holds no such file.
        dossier: as it was frozen.
        author: who made it; empty where not known.
        author_vouched: the console's server vouches for `author`; otherwise it is what the training run says of itself.
    """

    version: ModelVersion
    saved_model: Path
    subject: Subject
    audit: AuditReport
    parity: ParityReport | None
    compiled: CompileReport | None
    dossier: Dossier
    author: str
    author_vouched: bool

    @property
    def passed(self) -> tuple[Evidence, ...]:
        """Evidence that passed on exactly these bytes."""
        return passed_evidence(self.audit, self.subject.model_digest)

    @property
    def candidate(self) -> Candidate:
        """As the approval rule wants it."""
        return Candidate(subject=self.subject, author=self.author, passed=self.passed)


def passed_evidence(audit: AuditReport, model_digest: str) -> tuple[Evidence, ...]:
    """The evidence that an audit gives; none where it is about other bytes.

    A required gate that was not checked did not pass, and a kind of evidence without any gate did not pass either.

    Args:
        audit: what the auditor measured.
        model_digest: tree digest of the bytes that are there now.
    """
    if audit.digest != model_digest:
        return ()
    gates: dict[Evidence, list[Gate]] = {}
    for gate in audit.gates:
        gates.setdefault(_OWN_GATES.get(gate.name, "audit"), []).append(gate)
    found: list[Evidence] = []
    kinds: tuple[Evidence, ...] = ("audit", "parity", "xla_numerics", "service_level")
    for kind in kinds:
        required = [gate for gate in gates.get(kind, []) if gate.required]
        if required and all(gate.status == "passed" for gate in required):
            found.append(kind)
    return (*found, "dossier")


def read_evidence(registry: Registry, reference: str, *, folder: Path | None = None) -> CandidateEvidence:
    """Reads a candidate's bytes and measurements.

    Args:
        registry: where it is registered.
        reference: `name`, `name@alias` or `name/version` of a candidate, not of a production model.
        folder: where a remote package is downloaded to; a temporary one where None.

    Raises:
        RegistryError: no such version, its bytes or its evidence are not those that were registered, or it has no audit.
        StoreError: the registry cannot be read.
    """
    version = registry.resolve(reference)
    if version.name.endswith(PRODUCTION_SUFFIX):
        raise RegistryError(
            f"{version.name} is a production model, made by promotion; decide on a candidate, e.g. "
            f"{version.tags.get('promoted_from', version.name.removesuffix(PRODUCTION_SUFFIX))}"
        )
    saved_model = registry.local_saved_model(version, folder)
    measurements = registry.local_measurements(version, folder)
    audit_file = measurements / AUDIT_FILE
    audit = _read(AuditReport, audit_file)
    if audit is None:
        raise RegistryError(f"{version.name}/{version.version} was never audited: {audit_file} is not there; run the pipeline again")
    dossier = Dossier.read(measurements, model_digest=version.digest, of=f"{version.name}/{version.version}")
    author, vouched = registry.author_of(version.run_id)
    return CandidateEvidence(
        version=version,
        saved_model=saved_model,
        subject=Subject(
            model=version.name,
            version=version.version,
            model_digest=version.digest,
            dossier_digest=file_digest(measurements / DOSSIER_FILE),
        ),
        audit=audit,
        parity=_read(ParityReport, measurements / PARITY_FILE),
        compiled=_read(CompileReport, measurements / COMPILE_FILE),
        dossier=dossier,
        author=author,
        author_vouched=vouched,
    )


def _read(kind: type[_Measurement], path: Path) -> _Measurement | None:
    if not path.is_file():
        return None
    try:
        return kind.from_json(path.read_text(encoding="utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        raise RegistryError(f"{path} is no {kind.__name__} that this version reads; run the pipeline again") from error
