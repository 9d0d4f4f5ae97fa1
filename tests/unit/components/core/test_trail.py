"""Promotions against the decisions before them, on hand-written ledgers."""

import datetime
import json

import pytest

from components.core.approval import ApprovalRule
from components.core.ledger import EMPTY, Draft, Subject, make_entry
from components.core.signing import PrivateKey
from components.core.trail import uncovered_promotion

START = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
SUBJECT = Subject(model="credit-risk", version="3", model_digest="a" * 64, dossier_digest="b" * 64)
OTHER = SUBJECT.model_copy(update={"model_digest": "c" * 64})
KEY = PrivateKey.generate()


def ledger(*said):
    """Entries of (kind, actor[, changes]), a minute apart."""
    entries, head = [], EMPTY
    for number, (kind, actor, *changes) in enumerate(said):
        fields = {"subject": SUBJECT, "reason": "seen", **(changes[0] if changes else {})}
        draft = Draft(kind=kind, actor=actor, known_by="personal_key", **fields)
        entries.append(make_entry(draft, head, KEY, at=START + datetime.timedelta(minutes=number)))
        head = entries[-1].head
    return entries


def promote(*, rule=None, not_passed=(), author="", **changes):
    details = {"approval_rule": (rule or ApprovalRule()).to_json(), "not_passed": json.dumps(not_passed), "author": author}
    return ("promote", "op", {"details": details, **changes})


REQUEST, APPROVE = ("request", "rob"), ("approve", "sue")


@pytest.mark.parametrize(
    "said",
    [
        (),
        (REQUEST, APPROVE, promote()),
        (REQUEST, APPROVE, promote(), ("push", "op"), promote()),
        (REQUEST, APPROVE, ("override", "sue"), ("override", "tim"), promote(not_passed=("parity",))),
    ],
)
def test_promotions_that_rest_on_their_decisions(said):
    assert uncovered_promotion(ledger(*said)) == ""


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ((promote(),), "entry 1: promotes credit-risk/3, and it was not requested"),
        ((REQUEST, promote()), "entry 2: promotes credit-risk/3, and it was waiting: it lacked 1 of 1 approvals"),
        ((REQUEST, ("approve", "rob"), promote()), "lacked 1 of 1 approvals"),
        ((REQUEST, APPROVE, promote(author="sue")), "lacked 1 of 1 approvals"),
        ((REQUEST, APPROVE, promote(rule=ApprovalRule(approvals=2))), "1 of 2 approvals"),
        ((REQUEST, APPROVE, promote(not_passed=("parity",))), "2 of 2 overrides of parity"),
        ((REQUEST, APPROVE, promote(subject=OTHER)), "it was voided"),
        ((REQUEST, APPROVE, ("revoke", "tim"), promote()), "it was revoked"),
        ((REQUEST, promote(), APPROVE), "entry 2"),
        ((REQUEST, APPROVE, ("promote", "op")), "does not say by which rule"),
    ],
)
def test_promotions_that_do_not_are_named(said, words):
    assert words in uncovered_promotion(ledger(*said))
