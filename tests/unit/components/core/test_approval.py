import datetime

import pytest
from pydantic import ValidationError

from components.core.approval import ApprovalRule, Candidate, standing
from components.core.ledger import EMPTY, Draft, Head, Subject, make_entry
from components.core.signing import PrivateKey

START = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
SUBJECT = Subject(model="credit-risk", version="3", model_digest="a" * 64, dossier_digest="b" * 64)
ALL = ("audit", "parity", "xla_numerics", "service_level", "dossier")
KEY = PrivateKey.generate()


def ledger(*said):
    """Entries of (kind, actor[, changes]), a minute apart."""
    entries, head = [], EMPTY
    for number, (kind, actor, *changes) in enumerate(said):
        fields = {"subject": SUBJECT, "reason": "seen", "at": START + datetime.timedelta(minutes=number)} | (changes[0] if changes else {})
        at = fields.pop("at")
        entries.append(make_entry(Draft(kind=kind, actor=actor, known_by="personal_key", **fields), head, KEY, at=at))
        head = Head(sequence=len(entries), digest=entries[-1].digest)
    return entries


def now_of(entries, rule=None, *, passed=ALL, author="ann", subject=SUBJECT, days=0.0):
    candidate = Candidate(subject=subject, author=author, passed=passed)
    return standing(entries, candidate, rule or ApprovalRule(), now=START + datetime.timedelta(days=days, hours=1))


def test_nothing_was_asked_for():
    found = now_of(ledger(("promote", "tandem")))
    assert (found.status, found.lacking) == ("not_requested", ("a request: `tandem request`",))


def test_one_approval_of_somebody_else_is_enough_by_default():
    assert now_of(ledger(("request", "rob"))).status == "waiting"
    found = now_of(ledger(("request", "rob"), ("approve", "sue")))
    assert (found.status, found.requester, found.approved_by, found.lacking) == ("approved", "rob", ("sue",), ())


@pytest.mark.parametrize(
    ("actor", "why"),
    [("rob", "who asked does not decide"), ("ann", "the author does not decide"), ("eve", "not among the approvers of the rule")],
)
@pytest.mark.parametrize("kind", ["approve", "override"])
def test_who_is_excluded_does_not_count_and_is_told_so(actor, why, kind):
    found = now_of(ledger(("request", "rob"), (kind, actor)), ApprovalRule(approvers=("sue", "ann", "rob")))
    assert found.status == "waiting"
    assert found.ignored == (f"entry 2: {kind} by {actor} does not count: {why}",)


def test_several_approvals_are_several_people():
    rule = ApprovalRule(approvals=2)
    twice = ledger(("request", "rob"), ("approve", "sue"), ("approve", "sue"))
    assert (now_of(twice, rule).status, now_of(twice, rule).lacking) == ("waiting", ("1 of 2 approvals",))
    assert now_of(ledger(("request", "rob"), ("approve", "sue"), ("approve", "tim")), rule).approved_by == ("sue", "tim")


@pytest.mark.parametrize(("digest", "what"), [("model_digest", "model"), ("dossier_digest", "dossier")])
def test_a_changed_digest_voids_what_was_decided(digest, what):
    changed = SUBJECT.model_copy(update={digest: "f" * 64})
    found = now_of(ledger(("request", "rob"), ("approve", "sue")), subject=changed)
    assert (found.status, found.approved_by) == ("voided", ())
    assert found.lacking == (f"a new request: the digest of the {what} changed since rob asked",)


def test_a_decision_about_other_bytes_counts_for_nothing():
    other = {"subject": SUBJECT.model_copy(update={"model_digest": "f" * 64})}
    for kind in ("approve", "reject", "revoke"):
        found = now_of(ledger(("request", "rob"), (kind, "sue", other)))
        assert (found.status, found.approved_by) == ("waiting", ())
        assert found.ignored == (f"entry 2: {kind} by sue does not count: it is about other bytes or other evidence",)
    version = {"subject": SUBJECT.model_copy(update={"version": "4"})}
    assert now_of(ledger(("request", "rob"), ("approve", "sue", version))).status == "waiting"


@pytest.mark.parametrize(("kind", "status"), [("reject", "rejected"), ("revoke", "revoked")])
def test_a_stop_ends_the_round_until_it_is_asked_for_again(kind, status):
    stopped = [("request", "rob"), ("approve", "sue"), (kind, "tim")]
    assert now_of(ledger(*stopped)).status == status
    assert now_of(ledger(*stopped, ("approve", "sue"))).status == status
    assert now_of(ledger(*stopped, ("request", "rob"))).status == "waiting"
    assert now_of(ledger(*stopped, ("request", "rob"), ("approve", "sue"))).status == "approved"
    # the author may stop what he made
    assert now_of(ledger(("request", "rob"), ("approve", "sue"), (kind, "ann"))).status == status


def test_decisions_expire_to_the_second():
    entries = ledger(("request", "rob"), ("approve", "sue", {"at": START + datetime.timedelta(days=5)}))
    rule = ApprovalRule(expires_days=10)
    moments = [10 - 1 / 24 - 1e-5, 10 - 1 / 24 + 1e-5]
    assert [now_of(entries, rule, days=days).status for days in moments] == ["approved", "expired"]
    renewed = ledger(("request", "rob", {"at": START + datetime.timedelta(days=9)}), ("approve", "sue"))
    found = now_of(renewed, rule, days=11)
    assert (found.status, found.ignored) == ("waiting", ("entry 2: approve by sue does not count: older than 10 days",))


def test_a_gate_that_did_not_pass_needs_two_people_with_a_reason():
    asked = [("request", "rob"), ("approve", "sue")]
    failing = {"passed": ("parity", "xla_numerics", "service_level", "dossier")}
    found = now_of(ledger(*asked), **failing)
    assert (found.status, found.failed, found.lacking) == ("waiting", ("audit",), ("2 of 2 overrides of audit",))
    assert now_of(ledger(*asked, ("override", "tim")), **failing).lacking == ("1 of 2 overrides of audit",)
    assert now_of(ledger(*asked, ("override", "tim"), ("override", "tim")), **failing).status == "waiting"
    silent = now_of(ledger(*asked, ("override", "tim"), ("override", "uma", {"reason": "  "})), **failing)
    assert (silent.status, silent.ignored) == ("waiting", ("entry 4: override by uma does not count: an override needs a reason",))
    enough = now_of(ledger(*asked, ("override", "tim"), ("override", "uma")), **failing)
    assert (enough.status, enough.overridden_by, enough.failed) == ("approved", ("tim", "uma"), ("audit",))
    # overrides alone are no approval
    assert now_of(ledger(asked[0], ("override", "tim"), ("override", "uma")), **failing).lacking == ("1 of 1 approvals",)


def test_evidence_that_was_not_checked_did_not_pass():
    assert now_of(ledger(("request", "rob"), ("approve", "sue")), passed=()).failed == ALL
    assert now_of(ledger(("request", "rob"), ("approve", "sue")), ApprovalRule(evidence=()), passed=()).status == "approved"


@pytest.mark.parametrize("wrong", [{"approvals": 0}, {"overrides": 1}, {"expires_days": 0}, {"evidence": ("taste",)}, {"who": ("sue",)}])
def test_a_rule_that_means_nothing_is_refused(wrong):
    with pytest.raises(ValidationError):
        ApprovalRule(**wrong)
