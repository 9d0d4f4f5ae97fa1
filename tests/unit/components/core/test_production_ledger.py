"""How a promotion writes the ledger: once, only what fits, whoever else writes."""

import threading

import pytest

from components.core.errors import ConfigError, GateError
from components.core.ledger import Subject
from components.core.ledger_store import HeadMoved, LedgerStore
from components.core.production_ledger import ProductionLedger
from components.core.promotion import LedgerSpec
from components.core.rollout import ServedVersion
from components.core.signing import PrivateKey
from tests.enrolled import enrolled


def version(number, letter="a"):
    subject = Subject(model="credit-risk", version=number, model_digest=letter * 64, dossier_digest="d" * 64)
    return ServedVersion(version=number, subject=subject)


@pytest.fixture
def spec(tmp_path):
    keys, people = enrolled({"op": "admin"})
    keys["op"].write(tmp_path / "op.pem")
    people.write(tmp_path / "keys.json")
    return LedgerSpec(
        url=f"sqlite:///{tmp_path / 'ledger.db'}", public_keys=str(tmp_path / "keys.json"), private_key=str(tmp_path / "op.pem")
    )


@pytest.fixture
def book(spec):
    return ProductionLedger(spec)


def kinds(book):
    return [entry.statement.kind for entry in book.entries()]


def champion(book, number, letter="a"):
    for kind, details in (("promote", {}), ("push", {}), ("rollout_step", {"share": "100"})):
        book.enter(kind, version(number, letter), details=details)


def test_an_entry_says_who_and_how_it_was_known(book):
    said = book.enter("promote", version("1"), details={"approved_by": "sue"}).statement
    assert (said.actor, said.known_by, said.details) == ("op", "personal_key", {"production_version": "1", "approved_by": "sue"})


def test_the_same_is_entered_once_and_given_again(book):
    first = book.enter("promote", version("1"))
    assert book.enter("promote", version("1")) == first
    book.enter("push", version("1"))
    book.enter("rollout_step", version("1"), details={"share": "100"})
    assert book.enter("push", version("1")).statement.sequence == 2
    assert kinds(book) == ["promote", "push", "rollout_step"]


def test_after_a_rollback_the_same_is_entered_anew(book):
    champion(book, "1")
    champion(book, "2", "b")
    book.enter("rollback", version("2", "b"), reason="late")
    book.enter("promote", version("2", "b"))
    assert kinds(book)[-2:] == ["rollback", "promote"]


@pytest.mark.parametrize(
    ("kind", "number", "details", "why"),
    [
        ("push", "2", {}, "not promoted"),
        ("rollout_step", "2", {"share": "5"}, "not promoted and pushed"),
        ("rollback", "1", {}, "no version before it"),
        ("retire", "1", {}, "roll it back first"),
    ],
)
def test_what_does_not_fit_is_refused_and_not_entered(book, kind, number, details, why):
    champion(book, "1")
    with pytest.raises(GateError, match=why):
        book.enter(kind, version(number), details=details)
    assert len(kinds(book)) == 3


def test_two_at_once_enter_a_step_once(spec):
    book = ProductionLedger(spec)
    champion(book, "1")
    book.enter("promote", version("2", "b"))
    book.enter("push", version("2", "b"))
    gate = threading.Barrier(4)
    found = []

    def step():
        mine = ProductionLedger(spec)
        gate.wait()
        found.append(mine.enter("rollout_step", version("2", "b"), details={"share": "5"}).digest)

    threads = [threading.Thread(target=step) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert kinds(book).count("rollout_step") == 2


def test_an_entry_behind_an_old_head_is_refused(spec, book):
    from components.core.ledger import EMPTY, Draft

    champion(book, "1")
    store = LedgerStore(spec.url)
    draft = Draft(kind="retire", subject=version("1").subject, actor="op", known_by="personal_key")
    with pytest.raises(HeadMoved, match="decide anew"):
        store.append(draft, PrivateKey.generate(), expected=EMPTY)
    assert len(kinds(book)) == 3


def test_a_missing_key_says_how_to_make_one(spec):
    book = ProductionLedger(spec.model_copy(update={"private_key": spec.private_key + ".none"}))
    with pytest.raises(ConfigError, match="tandem keys new"):
        book.enter("promote", version("1"))
