"""The decisions that a page offers, and why it does not offer the others."""

import dataclasses
from collections.abc import Sequence

from components.core.approval import ApprovalRule, Standing, why_not_counted
from components.core.evidence import CandidateEvidence
from components.core.ledger import Draft, Kind
from infra.console.access import Permission, why_not


@dataclasses.dataclass(frozen=True)
class Action:
    """One form.

    Attributes:
        title: of the button.
        hint: what it means, one line.
        reason_needed: the ledger takes it with a reason only.
        refused: why this login cannot, one line; empty when it can.
    """

    kind: Kind
    title: str
    hint: str
    reason_needed: bool
    refused: str = ""


_REQUEST = Action("request", "Request promotion", "Asks for decisions on exactly these bytes and this evidence.", reason_needed=False)
_APPROVE = Action("approve", "Approve", "Lets these bytes into production, as far as the rule asks for you.", reason_needed=False)
_OVERRIDE = Action("override", "Override", "Stands in for what did not pass, and is always shown with your reason.", reason_needed=True)
_REJECT = Action("reject", "Reject", "Ends this request; another one starts from nothing.", reason_needed=True)
_REVOKE = Action("revoke", "Revoke", "Takes the approval back; it cannot be promoted on it.", reason_needed=True)


def actions(
    evidence: CandidateEvidence, found: Standing, rule: ApprovalRule, *, login: str, permission: Permission, disabled: str
) -> list[Action]:
    """What can be decided on a candidate now.

    Args:
        evidence: as it is now.
        found: where it stands.
        rule: of its use case.
        login: who looks.
        permission: of that login on the model.
        disabled: why nobody can decide on these pages; empty when one can.
    """
    offered = []
    for action in _offered(found):
        refused = disabled or _refused(action.kind, evidence, found, rule=rule, login=login, permission=permission)
        offered.append(dataclasses.replace(action, refused=refused.rstrip(".")))
    return offered


def _offered(found: Standing) -> Sequence[Action]:
    if found.status == "waiting":
        return [_APPROVE, *([_OVERRIDE] if found.failed else []), _REJECT]
    if found.status == "approved":
        return [_REVOKE]
    return [_REQUEST]


def _refused(kind: Kind, evidence: CandidateEvidence, found: Standing, *, rule: ApprovalRule, login: str, permission: Permission) -> str:
    subject = evidence.subject
    refused = why_not(kind, permission, login=login, model=subject.model, rule=rule)
    if refused or kind == "request":
        return refused
    # A reason stands here so that only what the person cannot change is told.
    draft = Draft(kind=kind, subject=subject, actor=login, known_by="console_login", reason="given in the form")
    counts = why_not_counted(draft, evidence.candidate, rule, requester=found.requester)
    if counts:
        return f"yours would not count: {counts}"
    done = {"approve": found.approved_by, "override": found.overridden_by}.get(kind, ())
    return f"you did {kind} it already; the rule counts different people" if login in done else ""
