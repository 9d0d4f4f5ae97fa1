"""Who was champion when, and which candidate stands where on the first page."""

import datetime

import pytest

from components.core.approval import ApprovalRule
from components.core.contracts import AuditSpec
from components.core.ledger import EMPTY, Draft, Subject, make_entry
from components.core.signing import PrivateKey
from infra.console.candidates import Listed
from infra.console.history import reigns
from infra.console.overview import overview, row_of
from infra.console.settings import ConsoleSettings, ModelSettings

KEY = PrivateKey.generate()
NOW = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)


def subject(version):
    return Subject(model="credit", version=version, model_digest="a" * 64, dossier_digest="b" * 64)


def ledger(*lines):
    """Entries a day apart from (kind, candidate, production version, share) on."""
    entries, head = [], EMPTY
    for day, (kind, candidate, version, share) in enumerate(lines, 1):
        details = {key: value for key, value in (("production_version", version), ("share", share)) if value}
        actor = "theo" if kind == "request" else "anna"
        draft = Draft(kind=kind, subject=subject(candidate), actor=actor, known_by="personal_key", reason="because", details=details)
        entry = make_entry(draft, head, KEY, at=datetime.datetime(2026, 2, day, tzinfo=datetime.UTC))
        entries.append(entry)
        head = entry.head
    return entries


def champion_of(candidate, version):
    return [("promote", candidate, version, ""), ("push", candidate, version, ""), ("rollout_step", candidate, version, "100")]


def test_reigns_follow_each_other_and_a_rollback_brings_the_old_one_back():
    entries = ledger(*champion_of("1", "1"), *champion_of("2", "2"), ("rollback", "2", "2", ""))
    found = reigns(entries, "credit")
    assert [(reign.version.version, reign.begun[8:10], reign.ended[8:10], reign.entry) for reign in found] == [
        ("1", "07", "", 7),
        ("2", "06", "07", 6),
        ("1", "03", "06", 3),
    ]
    assert reigns(entries, "another") == []


def test_a_canary_reigns_not():
    entries = ledger(*champion_of("1", "1"), ("promote", "2", "2", ""), ("push", "2", "2", ""), ("rollout_step", "2", "2", "20"))
    assert [reign.version.version for reign in reigns(entries, "credit")] == ["1"]


@pytest.fixture
def settings():
    model = ModelSettings(use_case="credit", rule=ApprovalRule(), audit=AuditSpec(floors={"auc": 0.5}), p99_ms=50.0, max_batch=64)
    return ConsoleSettings(
        ledger_url="x", public_keys="x", service_key="", tracking_uri="x", artifact_root="x", metadata_store="x", models={"credit": model}
    )


class Registered:
    """Candidates that are there already."""

    def __init__(self, *listed):
        self.all = {one.version.version: one for one in listed}

    def versions(self, name):
        return [one.version for one in self.all.values() if one.version.name == name]

    def listed(self, version):
        return self.all[version.version]


def listed(evidence, number, **more):
    import dataclasses

    made = evidence(**more)
    version = dataclasses.replace(made.version, version=number)
    return Listed(version, dataclasses.replace(made, version=version, subject=subject(number)), "")


def test_the_first_page_sorts_by_what_is_to_be_done_and_shows_what_failed_first(evidence, settings):
    registered = Registered(
        *(listed(evidence, number, passed=number != "3") for number in ("1", "2", "3", "4", "5", "6")),
        Listed(evidence().version, None, "its bytes changed"),
    )
    entries = ledger(
        ("request", "1", "", ""),
        ("approve", "1", "", ""),
        *champion_of("1", "1"),
        ("request", "2", "", ""),
        ("request", "3", "", ""),
        ("request", "4", "", ""),
        ("reject", "4", "", ""),
        ("request", "5", "", ""),
        ("approve", "5", "", ""),
    )
    registered.all["3"] = listed(evidence, "3", passed=False)
    found = overview(registered, ["credit", "unheard"], entries, settings=settings, now=NOW)
    assert [row.listed.version.version for row in found.waiting] == ["3", "2"]
    assert [row.alarming for row in found.waiting] == [True, False]
    assert [row.listed.version.version for row in found.approved] == ["5"]
    assert [row.listed.version.version for row in found.unrequested] == ["6"]
    assert [split.champion.version for split in found.production] == ["1"]


def test_an_approved_candidate_that_was_rolled_back_says_so_until_it_serves_again(evidence, settings):
    registered = Registered(*(listed(evidence, number) for number in ("1", "2")))
    decided = [(kind, number, "", "") for number in ("1", "2") for kind in ("request", "approve")]
    back = [*decided, *champion_of("1", "1"), *champion_of("2", "2"), ("rollback", "2", "2", "")]

    def approved(lines):
        found = overview(registered, ["credit"], ledger(*lines), settings=settings, now=NOW)
        return [(row.listed.version.version, row.rolled_back, row.alarming) for row in found.approved]

    assert approved([*decided, *champion_of("1", "1")]) == [("2", "", False)]
    assert approved(back) == [("2", "because", True)]
    assert approved([*back, *champion_of("2", "3")]) == []


def test_older_candidates_are_counted_and_left_out(evidence, settings):
    registered = Registered(*(listed(evidence, str(number)) for number in range(9, 0, -1)))
    found = overview(registered, ["credit"], [], settings=settings, now=NOW)
    assert [row.listed.version.version for row in found.unrequested] == ["9", "8", "7", "6", "5", "4"]
    assert found.more == 3


def test_a_candidate_that_cannot_be_read_or_has_no_rule_says_so(evidence, settings):
    broken = row_of(Listed(evidence().version, None, "its bytes changed"), [], settings, now=NOW)
    assert (broken.problem, broken.standing, broken.alarming) == ("its bytes changed", None, True)
    nameless = row_of(Listed(evidence().version, evidence(), ""), [], settings.model_copy(update={"models": {}}), now=NOW)
    assert "no rule is known" in nameless.problem
