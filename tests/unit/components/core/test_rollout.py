"""The split of traffic as a fold of hand-written ledgers."""

import datetime
import hashlib

import pytest
from pydantic import ValidationError

from components.core.ledger import EMPTY, Draft, Subject, make_entry
from components.core.rollout import RolloutRule, bucket, traffic
from components.core.signing import PrivateKey

KEY = PrivateKey.generate()
START = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


def subject(version):
    return Subject(model="credit-risk", version=version, model_digest=version * 64, dossier_digest="d" * 64)


def ledger(*said):
    """Entries of (kind, production version[, details]), a minute apart; production version 1 was made from candidate 1, and so on."""
    entries, head = [], EMPTY
    for number, (kind, version, *more) in enumerate(said):
        details = {"production_version": version, **(more[0] if more else {})}
        reason = details.pop("reason", "")
        draft = Draft(kind=kind, subject=subject(version), actor="svc", known_by="service", reason=reason, details=details)
        entries.append(make_entry(draft, head, KEY, at=START + datetime.timedelta(minutes=number)))
        head = entries[-1].head
    return entries


def started(version, share, **more):
    return [("promote", version), ("push", version), ("rollout_step", version, {"share": share, **more})]


def split(*said):
    return traffic(ledger(*said), "credit-risk")


def labels(*said):
    found = split(*said)
    return found.labels, found.share


FIRST = started("1", "100")
CANARY = [*FIRST, *started("2", "5")]


def test_nothing_is_in_production_before_the_first_promotion():
    found = split(("request", "1"), ("approve", "1"))
    assert (found.champion, found.canary, found.labels, found.version_for(b"k"), found.odd) == (None, None, {}, None, ())


def test_promoted_and_pushed_alone_takes_no_traffic():
    found = split(("promote", "1"))
    assert (found.labels, [held.version for held in found.promoted], found.served) == ({}, ["1"], ())
    found = split(("promote", "1"), ("push", "1"))
    assert (found.labels, [held.version for held in found.served]) == ({}, ["1"])


def test_the_first_version_is_champion_whatever_its_share():
    assert labels(*FIRST) == ({"champion": "1"}, 0)
    assert labels(*started("1", "5")) == ({"champion": "1"}, 0)


def test_steps_move_the_canary_on_until_it_is_champion():
    assert labels(*CANARY) == ({"champion": "1", "canary": "2"}, 5)
    assert labels(*CANARY, ("rollout_step", "2", {"share": "20"})) == ({"champion": "1", "canary": "2"}, 20)
    assert labels(*CANARY, ("rollout_step", "2", {"share": "100"})) == ({"champion": "2", "previous": "1"}, 0)


def test_a_step_tells_since_when():
    assert split(*CANARY).since == "2026-03-01T12:05:00.000000+00:00"


def test_a_rollback_of_the_canary_leaves_the_champion():
    found = split(*CANARY, ("rollback", "2", {"reason": "errors: 4 %"}))
    assert (found.labels, found.share, found.rolled_back) == ({"champion": "1"}, 0, {"2": "errors: 4 %"})


def test_a_rollback_of_the_champion_leads_to_the_one_before():
    found = split(*CANARY, ("rollout_step", "2", {"share": "100"}), ("rollback", "2", {"reason": "late"}))
    assert (found.labels, found.odd) == ({"champion": "1"}, ())


def test_what_was_rolled_back_may_be_promoted_again():
    found = split(*CANARY, ("rollback", "2", {"reason": "x"}), *started("2", "5"))
    assert (found.labels, found.rolled_back) == ({"champion": "1", "canary": "2"}, {})


def test_retiring_takes_a_version_that_serves_nothing():
    done = [*CANARY, ("rollout_step", "2", {"share": "100"}), ("retire", "1")]
    found = split(*done)
    assert (found.labels, found.retired, [held.version for held in found.served]) == ({"champion": "2"}, ("1",), ["2"])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([("push", "1")], "it was not promoted with these digests"),
        ([("rollout_step", "1", {"share": "5"})], "it was not promoted and pushed with these digests"),
        ([("promote", "1"), ("rollout_step", "1", {"share": "5"})], "it was not promoted and pushed with these digests"),
        ([*CANARY, ("promote", "3"), ("push", "3"), ("rollout_step", "3", {"share": "5"})], "version 2 is being rolled out"),
        ([*FIRST, ("promote", "1")], "it was promoted before"),
        ([*FIRST, ("rollback", "1")], "there is no version before it"),
        ([*FIRST, ("rollback", "7")], "it serves nothing"),
        ([*FIRST, ("retire", "1")], "it serves; roll it back first"),
        ([*FIRST, ("promote", "2"), ("push", "2"), ("rollout_step", "2", {"share": "101"})], "a share of 101 %"),
        ([*FIRST, ("promote", "2"), ("push", "2"), ("rollout_step", "2", {"share": "many"})], "its share or its rule cannot be read"),
        ([*FIRST, ("promote", "2"), ("push", "2"), ("rollout_step", "2", {"share": "5", "rollout": "{}x"})], "its share or its rule"),
    ],
)
def test_what_does_not_fit_changes_nothing_and_is_told(said, why):
    before, after = split(*said[:-1]), split(*said)
    assert after.odd[0].startswith(f"entry {len(said)}: ")
    assert why in after.odd[0]
    assert after.model_copy(update={"odd": ()}) == before


def test_a_step_of_other_bytes_under_the_same_number_changes_nothing():
    entries = ledger(*FIRST, ("promote", "2"), ("push", "2"))
    forged = Draft(
        kind="rollout_step", subject=subject("9"), actor="svc", known_by="service", details={"production_version": "2", "share": "100"}
    )
    found = traffic([*entries, make_entry(forged, entries[-1].head, KEY)], "credit-risk")
    assert found.labels == {"champion": "1"}
    assert "with these digests" in found.odd[0]


def test_models_do_not_touch_each_other():
    assert traffic(ledger(*CANARY), "other").labels == {}


def test_a_key_lies_where_its_digest_says():
    digest = hashlib.sha256(b"credit-risk\0user-17").digest()
    assert bucket("credit-risk", b"user-17") == int.from_bytes(digest[:8], "big") % 10_000


def test_ten_thousand_keys_split_within_three_sigma():
    found = split(*CANARY)
    on_canary = sum(found.version_for(f"user-{number}".encode()) == found.canary for number in range(10_000))
    sigma = (10_000 * 0.05 * 0.95) ** 0.5
    assert abs(on_canary - 500) <= 3 * sigma


def test_a_key_that_moved_to_the_canary_stays_there_while_the_share_grows():
    five, twenty = split(*CANARY), split(*CANARY, ("rollout_step", "2", {"share": "20"}))
    keys = [f"user-{number}".encode() for number in range(2000)]
    moved = {key for key in keys if five.version_for(key) == five.canary}
    assert moved
    assert moved < {key for key in keys if twenty.version_for(key) == twenty.canary}


def test_in_shadow_mode_the_champion_answers_everything():
    found = split(*FIRST, *started("2", "0", rollout=RolloutRule(shadow=True).to_json()))
    assert (found.labels, found.share, found.rule.shadow) == ({"champion": "1", "canary": "2"}, 0, True)
    assert {found.version_for(f"{number}".encode()).version for number in range(200)} == {"1"}


@pytest.mark.parametrize("steps", [(), (5, 20), (20, 5, 100), (0, 100), (5, 5, 100), (5, 100, 120)])
def test_steps_that_are_no_rollout_are_refused(steps):
    with pytest.raises(ValidationError, match="ascend to 100"):
        RolloutRule(steps=steps)


def test_the_next_step():
    rule = RolloutRule(steps=(5, 20, 100))
    assert [rule.next_share(share) for share in (0, 5, 7, 20, 100)] == [5, 20, 20, 100, None]
