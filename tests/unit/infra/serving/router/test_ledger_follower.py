"""A ledger that goes on, and ledgers that somebody changed behind the router's back."""

import datetime

import pytest

from components.core.errors import ConfigError, DecisionError
from components.core.ledger import EMPTY, Draft, make_entry
from components.core.ledger_store import HeadMoved
from components.core.rollout import traffic
from components.core.signing import PrivateKey, PublicKey, PublicKeys
from infra.serving.router import ledger_follower
from infra.serving.router.ledger_follower import LedgerFollower
from tests.unit.infra.serving.router.rollout_ledger import ENROLLED, MODEL, RolloutLedger, version


@pytest.fixture
def ledger(tmp_path):
    made = RolloutLedger(tmp_path)
    made.begin("1", 100)
    return made


@pytest.fixture
def follower(ledger):
    made = LedgerFollower(ledger.spec)
    assert made.follow()
    return made


def forged(ledger, share="100"):
    """A step by a key that nobody enrolled."""
    details = {"production_version": "2", "share": share}
    draft = Draft(kind="rollout_step", subject=version("2").subject, actor="router", known_by="service", details=details)
    return make_entry(draft, ledger.book.store.head(), PrivateKey.generate())


def test_it_follows_what_is_entered(ledger, follower):
    assert (len(follower.entries), follower.follow()) == (3, False)
    ledger.begin("2", 5)
    assert follower.follow()
    assert (len(follower.entries), follower.problem) == (6, "")
    assert follower.head == ledger.book.store.head()
    assert traffic(follower.entries, MODEL).share == 5


def test_only_new_entries_are_checked(ledger, follower, monkeypatch):
    """Checking all of 3,000 entries takes 0.7 s: a rollback could not come within two seconds."""
    checked = []
    real = ledger_follower.entry_problem
    monkeypatch.setattr(ledger_follower, "entry_problem", lambda entry, *more: checked.append(entry) or real(entry, *more))
    monkeypatch.setattr(ledger_follower, "verify", None)
    ledger.begin("2", 5)
    assert follower.follow()
    assert [entry.statement.sequence for entry in checked] == [4, 5, 6]


def test_what_is_forged_does_not_count_and_what_is_good_before_it_does(ledger, follower):
    ledger.begin("2", 5)
    ledger.insert(forged(ledger))
    assert follower.follow()
    assert len(follower.entries) == 6
    assert "does not hold: entry 7: signed by key" in follower.problem
    assert not follower.follow()
    with pytest.raises(DecisionError, match="entry 7"):
        follower.enter("rollback", version("2"))


@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_changed_row_is_told_when_the_ledger_goes_on(ledger, follower, place):
    ledger.sql(("UPDATE ledger_entries SET entry = replace(entry, '\"op\"', '\"xx\"') WHERE sequence = ?", (place,)))
    if place < 3:
        ledger.book.store.append(Draft(kind="request", subject=version("3").subject, actor="op", known_by="personal_key"), ledger.admin)
    before = list(follower.entries)
    assert not follower.follow()
    assert f"entry {place}: " in follower.problem
    assert follower.entries == before


def test_a_shortened_ledger_is_no_way_back(ledger, follower):
    """Who can write the database takes the last rollback away: the entries that are left hold, the router was further."""
    whole = list(follower.entries)
    ledger.replace_all(whole[:2])
    assert not follower.follow()
    assert "entries 3 to 3 are missing: the kept head is entry 3" in follower.problem
    assert follower.entries == whole
    ledger.replace_all(whole)
    follower._seen = ()
    assert not follower.follow()
    assert follower.problem == ""


def test_a_ledger_made_anew_with_enrolled_keys_is_refused(ledger, follower):
    before, head, anew = list(follower.entries), EMPTY, []
    for number in range(5):
        draft = Draft(kind="request", subject=version("3").subject, actor="op", known_by="personal_key", reason=str(number))
        anew.append(make_entry(draft, head, ledger.admin))
        head = anew[-1].head
    ledger.replace_all(anew)
    assert not follower.follow()
    assert "entry 3: not the one whose digest was kept" in follower.problem
    assert follower.entries == before


def test_a_key_that_is_enrolled_later_counts_without_a_restart(ledger, follower):
    ledger.enrol_ben()
    ledger.said_by_ben()
    assert follower.follow()
    assert follower.problem == ""


def test_a_key_that_is_enrolled_after_its_entry_heals_the_ledger(ledger, follower):
    ledger.said_by_ben()
    assert not follower.follow()
    assert "which no admin enrolled" in follower.problem
    ledger.enrol_ben()
    assert follower.follow()
    assert follower.problem == ""


def test_a_revocation_counts_without_a_restart(ledger, follower):
    ledger.enrol_ben()
    ledger.said_by_ben()
    assert follower.follow()
    ledger.revoke_ben(datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"))
    ledger.said_by_ben()
    assert not follower.follow()
    assert "entry 5: signed at" in follower.problem
    assert "was not valid then" in follower.problem


def test_a_revocation_from_before_an_accepted_entry_stays_a_problem(ledger, follower):
    ledger.enrol_ben()
    ledger.said_by_ben()
    assert follower.follow()
    ledger.revoke_ben("2026-06-01T00:00:00.000000+00:00")
    for _ in range(2):
        ledger.book.store.append(Draft(kind="request", subject=version("3").subject, actor="op", known_by="personal_key"), ledger.admin)
        assert not follower.follow()
        assert "entry 4: signed at" in follower.problem
    assert len(follower.entries) == 4


def test_another_root_of_keys_is_not_taken(ledger, follower):
    stranger = PrivateKey.generate()
    root = PublicKey(public=stranger.public, owner="op", role="admin", enrolled_by=stranger.key_id, enrolled_at=ENROLLED)
    PublicKeys([root.signed_by(stranger)]).write(ledger.keys_file)
    ledger.insert(forged(ledger))
    for _ in range(2):
        assert not follower.follow()
        assert "begins with another admin's key" in follower.problem


def test_a_list_of_keys_that_is_gone_or_broken_is_told_and_passes(ledger, follower):
    kept = ledger.keys_file.read_bytes()
    ledger.keys_file.write_text("{}")
    with pytest.raises(ConfigError, match="no list of public keys"):
        follower.follow()
    ledger.keys_file.write_bytes(kept)
    ledger.begin("2", 5)
    assert follower.follow()


def test_it_enters_behind_what_it_followed_only(ledger, follower):
    ledger.begin("2", 5)
    with pytest.raises(HeadMoved):
        follower.enter("rollback", version("2"))
    follower.follow()
    follower.enter("rollback", version("2"), reason="r")
    said = ledger.book.entries()[-1].statement
    assert (said.kind, said.actor, said.known_by, said.reason) == ("rollback", "router", "service", "r")
    assert said.details == {"production_version": "2"}
