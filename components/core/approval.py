"""The approval rule: what the ledger says of one candidate, and whether that is enough to promote it.

A decision counts for exact bytes and exact evidence: an entry about another digest of the model or of the dossier counts for nothing. Each
request opens a round; what was decided in an earlier round is over.
"""

import datetime
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from components.core.contracts import Contract
from components.core.ledger import Draft, Entry, Subject

Evidence = Literal["audit", "parity", "xla_numerics", "service_level", "dossier"]
Status = Literal["not_requested", "waiting", "approved", "rejected", "revoked", "expired", "voided"]


class ApprovalRule(Contract):
    """`[approval]` of pipeline.toml.

    Attributes:
        approvals: different people who must approve.
        approvers: who may decide; empty = every person with a key or a login but author and requester.
        evidence: gates that must have passed, or be overridden.
        overrides: different people, each with a reason, who must override where a gate did not pass.
        expires_days: a decision counts this long.
    """

    approvals: int = Field(default=1, ge=1, le=20)
    approvers: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ("audit", "parity", "xla_numerics", "service_level", "dossier")
    overrides: int = Field(default=2, ge=2, le=20)
    expires_days: int = Field(default=30, ge=1, le=3650)


class Standing(Contract):
    """Where a candidate stands.

    Attributes:
        status: `approved` alone lets it be promoted.
        requester: who asked, empty before.
        approved_by, overridden_by: the people whose decisions count, in the order of the ledger.
        failed: evidence that is required and did not pass, or was not checked.
        lacking: what is still needed, one line each; empty when approved.
        ignored: decisions that do not count, and why, one line each.
    """

    status: Status
    requester: str = ""
    approved_by: tuple[str, ...] = ()
    overridden_by: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


class Candidate(Contract):
    """What is decided on.

    Attributes:
        subject: model, version and digests as they are now.
        author: who made it, as the trusted side knows; excluded from deciding. Empty = not known.
        passed: evidence that passed.
    """

    subject: Subject
    author: str
    passed: tuple[Evidence, ...]


def standing(entries: Iterable[Entry], candidate: Candidate, rule: ApprovalRule, *, now: datetime.datetime) -> Standing:
    """Says where a candidate stands.

    Args:
        entries: the ledger, checked by `ledger.verify`: here signatures are taken as good.
        candidate: digests as they are now.
        rule: of the use case.
        now: with a time zone; decisions expire against it.
    """
    key = (candidate.subject.model, candidate.subject.version)
    about = [entry for entry in entries if (entry.statement.subject.model, entry.statement.subject.version) == key]
    start = max((place for place, entry in enumerate(about) if entry.statement.kind == "request"), default=None)
    failed = tuple(evidence for evidence in rule.evidence if evidence not in candidate.passed)
    if start is None:
        return Standing(status="not_requested", failed=failed, lacking=("a request: `tandem request`",))
    request = about[start].statement
    if request.subject != candidate.subject:
        what = "model" if request.subject.model_digest != candidate.subject.model_digest else "dossier"
        lacking = (f"a new request: the digest of the {what} changed since {request.actor} asked",)
        return Standing(status="voided", requester=request.actor, failed=failed, lacking=lacking)
    if _expired(about[start], rule, now):
        return Standing(status="expired", requester=request.actor, failed=failed, lacking=("a new request: this one has expired",))
    return _round(about[start + 1 :], candidate, rule, requester=request.actor, failed=failed, now=now)


def _round(
    entries: Sequence[Entry], candidate: Candidate, rule: ApprovalRule, *, requester: str, failed: tuple[str, ...], now: datetime.datetime
) -> Standing:
    approved: dict[str, None] = {}
    overridden: dict[str, None] = {}
    ignored: list[str] = []
    ended: Status | None = None
    for entry in entries:
        said = entry.statement
        if said.kind not in ("approve", "reject", "override", "revoke"):
            continue
        reason = _does_not_count(entry, candidate, rule, requester=requester, now=now)
        if reason:
            ignored.append(f"entry {said.sequence}: {said.kind} by {said.actor} does not count: {reason}")
        elif said.kind == "approve":
            approved[said.actor] = None
        elif said.kind == "override":
            overridden[said.actor] = None
        else:
            ended = "rejected" if said.kind == "reject" else "revoked"
    lacking = [] if ended is None else [f"a new request: this one was {ended}"]
    if ended is None:
        lacking = _lacking(rule, approved=len(approved), overridden=len(overridden), failed=failed)
    return Standing(
        status=ended or ("waiting" if lacking else "approved"),
        requester=requester,
        approved_by=tuple(approved),
        overridden_by=tuple(overridden),
        failed=failed,
        lacking=tuple(lacking),
        ignored=tuple(ignored),
    )


def why_not_counted(said: Draft, candidate: Candidate, rule: ApprovalRule, *, requester: str) -> str:
    """Why a decision does not count in the round that `requester` opened; empty when it does. Age is not looked at here."""
    if said.subject != candidate.subject:
        return "it is about other bytes or other evidence"
    if said.kind in ("reject", "revoke"):
        return ""  # to stop a model nobody is excluded, and a stop does not expire
    if said.actor == requester:
        return "who asked does not decide"
    if candidate.author and said.actor == candidate.author:
        return "the author does not decide"
    if rule.approvers and said.actor not in rule.approvers:
        return "not among the approvers of the rule"
    if said.kind == "override" and not said.reason.strip():
        return "an override needs a reason"
    return ""


def _does_not_count(entry: Entry, candidate: Candidate, rule: ApprovalRule, *, requester: str, now: datetime.datetime) -> str:
    reason = why_not_counted(entry.statement, candidate, rule, requester=requester)
    if reason or entry.statement.kind in ("reject", "revoke"):
        return reason
    return f"older than {rule.expires_days} days" if _expired(entry, rule, now) else ""


def _lacking(rule: ApprovalRule, *, approved: int, overridden: int, failed: Sequence[str]) -> list[str]:
    lacking = []
    if approved < rule.approvals:
        lacking.append(f"{rule.approvals - approved} of {rule.approvals} approvals")
    if failed and overridden < rule.overrides:
        lacking.append(f"{rule.overrides - overridden} of {rule.overrides} overrides of {', '.join(failed)}")
    return lacking


def _expired(entry: Entry, rule: ApprovalRule, now: datetime.datetime) -> bool:
    return datetime.datetime.fromisoformat(entry.statement.at) + datetime.timedelta(days=rule.expires_days) <= now
