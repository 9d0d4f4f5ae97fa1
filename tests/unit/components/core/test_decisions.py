"""Decisions on a real SQLite ledger with real keys: what counts is entered, what does not is refused with the reason."""

import datetime
import sqlite3

import pytest

from components.core.approval import ApprovalRule, Candidate
from components.core.decisions import Decisions, known_by
from components.core.errors import DecisionError
from components.core.ledger import Subject
from components.core.ledger_store import LedgerStore
from components.core.signing import PrivateKey, Revocation
from tests.enrolled import enrolled

SUBJECT = Subject(model="credit-risk", version="3", model_digest="a" * 64, dossier_digest="b" * 64)
ALL = ("audit", "parity", "xla_numerics", "service_level", "dossier")
RULE = ApprovalRule()


def candidate(**changes):
    return Candidate(**{"subject": SUBJECT, "author": "ann", "passed": ALL, **changes})


class People:
    """Keys of root (admin), rob, sue, tim, ann, and of the service `console`."""

    def __init__(self):
        roles = {"root": "admin", "rob": "person", "sue": "person", "tim": "person", "ann": "person", "console": "service"}
        self.keys, self.list = enrolled(roles)
        self.keys["stranger"] = PrivateKey.generate()


@pytest.fixture
def people():
    return People()


@pytest.fixture
def desk(people, tmp_path):
    return Decisions(LedgerStore(f"sqlite:///{tmp_path / 'ledger.db'}"), people.list)


def enter(desk, people, kind, who, *, reason="seen", about=None, rule=RULE, login=None):
    return desk.decide(kind, about or candidate(), rule, signer=people.keys[who], reason=reason, login=login)


def test_request_and_approval_by_another_person_make_it_approved(desk, people):
    enter(desk, people, "request", "rob")
    entry = enter(desk, people, "approve", "sue", reason=" figures hold ")
    assert (entry.statement.actor, entry.statement.known_by, entry.statement.reason) == ("sue", "personal_key", "figures hold")
    assert desk.standing(candidate(), RULE).status == "approved"


@pytest.mark.parametrize(
    ("kind", "who", "changed", "why"),
    [
        ("approve", "rob", {}, "who asked does not decide"),
        ("approve", "ann", {}, "the author does not decide"),
        ("approve", "tim", {"rule": ApprovalRule(approvers=("sue",))}, "not among the approvers"),
        ("reject", "sue", {"reason": "  "}, "needs a reason"),
        ("override", "sue", {"reason": ""}, "needs a reason"),
        ("override", "sue", {}, "nothing to override"),
        ("request", "tim", {}, "asked already"),
        ("promote", "sue", {}, "is no decision"),
        ("approve", "stranger", {}, "no admin enrolled it"),
        ("approve", "console", {}, "cannot approve by itself"),
        ("approve", "sue", {"login": "tim"}, "only a service's key can vouch"),
    ],
)
def test_what_would_not_count_is_refused_and_not_entered(desk, people, kind, who, changed, why):
    enter(desk, people, "request", "rob")
    with pytest.raises(DecisionError, match=why):
        enter(desk, people, kind, who, **changed)
    assert len(desk.entries()) == 1


def test_nothing_is_decided_before_a_request(desk, people):
    with pytest.raises(DecisionError, match="not requested"):
        enter(desk, people, "approve", "sue")


def test_the_same_person_counts_once(desk, people):
    enter(desk, people, "request", "rob")
    enter(desk, people, "approve", "sue", rule=ApprovalRule(approvals=2))
    with pytest.raises(DecisionError, match="sue did approve"):
        enter(desk, people, "approve", "sue", rule=ApprovalRule(approvals=2))


def test_failed_evidence_needs_two_people_with_reasons(desk, people):
    weak = candidate(passed=("audit", "parity", "xla_numerics", "dossier"))
    enter(desk, people, "request", "rob", about=weak)
    enter(desk, people, "approve", "sue", about=weak)
    assert desk.standing(weak, RULE).lacking == ("2 of 2 overrides of service_level",)
    enter(desk, people, "override", "sue", about=weak, reason="the machine was busy")
    assert desk.standing(weak, RULE).status == "waiting"
    enter(desk, people, "override", "tim", about=weak, reason="measured again by hand")
    found = desk.standing(weak, RULE)
    assert (found.status, found.failed, found.overridden_by) == ("approved", ("service_level",), ("sue", "tim"))


def test_a_changed_digest_voids_what_was_decided(desk, people):
    enter(desk, people, "request", "rob")
    enter(desk, people, "approve", "sue")
    changed = candidate(subject=SUBJECT.model_copy(update={"dossier_digest": "c" * 64}))
    assert desk.standing(changed, RULE).status == "voided"
    with pytest.raises(DecisionError, match="voided"):
        enter(desk, people, "approve", "tim", about=changed)


def test_the_console_vouches_for_a_login(desk, people):
    enter(desk, people, "request", "console", login="rob")
    entry = enter(desk, people, "approve", "console", login="sue")
    assert (entry.statement.actor, entry.statement.known_by) == ("sue", "console_login")
    assert desk.standing(candidate(), RULE).approved_by == ("sue",)


def test_a_revoked_key_decides_nothing_more(desk, people):
    enter(desk, people, "request", "rob")
    root, sue = people.keys["root"], people.keys["sue"]
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
    ended = people.list.with_end(Revocation(key_id=sue.key_id, revoked_by=root.key_id, revoked_at=now).signed_by(root))
    with pytest.raises(DecisionError, match="was revoked"):
        Decisions(desk.store, ended).decide("approve", candidate(), RULE, signer=sue)


def test_nothing_is_decided_on_a_ledger_that_does_not_hold(desk, people, tmp_path):
    enter(desk, people, "request", "rob")
    with sqlite3.connect(tmp_path / "ledger.db") as database:
        database.execute("DROP TRIGGER ledger_no_update")
        database.execute("UPDATE ledger_entries SET entry = replace(entry, '\"rob\"', '\"sue\"')")
    with pytest.raises(DecisionError, match="entry 1"):
        enter(desk, people, "approve", "rob")


def test_a_database_writer_without_a_key_makes_no_decision_that_counts(desk, people, tmp_path):
    """Access to the file, the right form, even the right chain: without an enrolled key the whole ledger is refused."""
    from components.core.ledger import Draft, make_entry

    enter(desk, people, "request", "rob")
    head = desk.store.head()
    forged = make_entry(Draft(kind="approve", subject=SUBJECT, actor="sue", known_by="personal_key"), head, people.keys["stranger"])
    with sqlite3.connect(tmp_path / "ledger.db") as database:
        database.execute("INSERT INTO ledger_entries VALUES (2, ?, ?)", (forged.digest, forged.to_json()))
    with pytest.raises(DecisionError, match="no admin enrolled"):
        desk.standing(candidate(), RULE)


def test_who_a_key_is(people):
    assert known_by(people.keys["sue"], people.list) == ("sue", "personal_key")
    assert known_by(people.keys["console"], people.list) == ("console", "service")
