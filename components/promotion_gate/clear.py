"""Checks that the ledger covers a promotion: it holds, the rule is satisfied, bytes and evidence are those that were approved."""

import datetime
from pathlib import Path

from components.core.approval import ApprovalRule, standing
from components.core.contracts import TrackingSpec
from components.core.errors import GateError
from components.core.evidence import CandidateEvidence, read_evidence
from components.core.files import copy_tree, tree_digest
from components.core.ledger import EMPTY, Subject
from components.core.production_ledger import ProductionLedger
from components.core.promotion import Clearance, LedgerSpec
from components.core.registry import Registry


def clear(subject: Subject, rule: ApprovalRule, *, ledger: LedgerSpec, tracking: TrackingSpec, candidate: Path, model: Path) -> Clearance:
    """Clears a candidate for promotion, and copies its bytes to where the stages behind take them.

    Args:
        subject: what was asked to be promoted.
        rule: of the use case.
        ledger: where decisions are.
        tracking: the registry.
        candidate: folder of the bytes that the training pipeline made, as ML Metadata names it.
        model: where the cleared bytes go.

    Raises:
        GateError: the rule is not satisfied, or bytes or evidence are not those that were decided on.
        DecisionError: an entry of the ledger does not hold.
        RegistryError: the candidate is not there or its bytes changed.
    """
    evidence = read_evidence(Registry(tracking), f"{subject.model}/{subject.version}")
    _require_same(subject, evidence)
    entries = ProductionLedger(ledger).entries()
    found = standing(entries, evidence.candidate, rule, now=datetime.datetime.now(datetime.UTC))
    if found.status != "approved":
        lacking = "; ".join((*found.lacking, *found.ignored))
        state = found.status.replace("_", " ")
        raise GateError(f"{subject.model}/{subject.version} is {state} and may not be promoted: it lacks {lacking}")
    for folder in (candidate, evidence.saved_model):
        _require_digest(folder, subject)
    copy_tree(evidence.saved_model, model)
    _require_digest(model, subject)
    return Clearance(
        subject=subject,
        framework=evidence.audit.framework,
        training_run_id=evidence.version.run_id,
        author=evidence.author,
        rule=rule,
        standing=found,
        passed=evidence.passed,
        head=entries[-1].head if entries else EMPTY,
    )


def _require_same(subject: Subject, evidence: CandidateEvidence) -> None:
    now = evidence.subject
    for what, asked, found in (
        ("model", subject.model_digest, now.model_digest),
        ("dossier", subject.dossier_digest, now.dossier_digest),
    ):
        if asked != found:
            raise GateError(
                f"{subject.model}/{subject.version}: the {what} has digest {found}, to promote is {asked}: it changed since; "
                "what was decided on it is void, ask for a new decision with `tandem request`"
            )


def _require_digest(folder: Path, subject: Subject) -> None:
    found = tree_digest(folder) if folder.is_dir() else "none"
    if found != subject.model_digest:
        raise GateError(
            f"the SavedModel of {subject.model}/{subject.version} in {folder} has digest {found}, approved is {subject.model_digest}: "
            "its bytes changed; nothing was promoted"
        )
