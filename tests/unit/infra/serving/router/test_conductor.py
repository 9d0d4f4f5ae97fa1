"""Steps, rollbacks and what a guard does while the ledger cannot be written."""

import datetime
import logging
import time

import numpy as np
import pytest

from components.core.errors import DecisionError, ServingError
from components.core.rollout import Guards, RolloutRule, bucket
from infra.serving.router.conductor import Conductor
from infra.serving.router.ledger_follower import LedgerFollower
from infra.serving.router.observations import Observation
from tests.unit.infra.serving.router.rollout_ledger import MODEL, RolloutLedger, version

GUARDS = Guards(window_s=60, min_requests=20, max_error_share=0.1)
RULE = RolloutRule(steps=(50, 80, 100), step_s=86_400, step_requests=20, guards=GUARDS)


def until(condition, timeout_s=10.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.01)


@pytest.fixture
def ledger(tmp_path):
    made = RolloutLedger(tmp_path)
    made.begin("1", 100)
    made.begin("2", 50, RULE)
    return made


@pytest.fixture
def mirrored():
    return []


@pytest.fixture
def conductor(ledger, mirrored):
    made = Conductor(LedgerFollower(ledger.spec), on_change=mirrored.append, poll_s=0.05)
    made.start()
    yield made
    made.stop()


def see(conductor, count, *, number="2", failed=False):
    for _ in range(count):
        conductor.saw(MODEL, version(number), Observation(time.monotonic(), failed, 1.0))


def served(conductor):
    keys = [f"user-{number}".encode() for number in range(100)]
    return {conductor.split(MODEL).version_for(key).version for key in keys}


def test_a_guard_rolls_back(ledger, conductor):
    assert served(conductor) == {"1", "2"}
    see(conductor, 30, failed=True)
    until(lambda: ledger.kinds()[-1] == "rollback")
    until(lambda: conductor.split(MODEL).canary is None)
    assert (served(conductor), conductor.problem, conductor.held()) == ({"1"}, "", {})
    assert conductor.report()["models"][MODEL]["rolled_back"]["2"].startswith("errors: 100.00% of the canary's answers are errors")


def test_a_guard_does_not_wait_for_a_ledger_that_does_not_hold(ledger, conductor):
    whole = ledger.rows()
    ledger.sql(('UPDATE ledger_entries SET entry = replace(entry, \'"share":"50"\', \'"share":"51"\') WHERE sequence = 6',))
    until(lambda: "does not hold" in conductor.problem)
    assert served(conductor) == {"1", "2"}
    see(conductor, 30, failed=True)
    until(lambda: served(conductor) == {"1"})
    assert conductor.held()[MODEL].startswith("errors: ")
    assert conductor.report()["models"][MODEL]["held"].startswith("errors: ")
    assert len(ledger.rows()) == 6
    ledger.sql(("UPDATE ledger_entries SET entry = ? WHERE sequence = 6", (whole[5],)))
    until(lambda: ledger.kinds()[-1] == "rollback", timeout_s=25)
    until(lambda: conductor.problem == "")


def test_a_hold_outlives_the_window(ledger, tmp_path):
    """Without requests the window empties; the canary stays without traffic all the same."""
    short = RULE.model_copy(update={"guards": GUARDS.model_copy(update={"window_s": 0.2})})
    ledger.book.enter("rollback", version("2"), reason="test")
    ledger.begin("3", 50, short)
    conductor = Conductor(LedgerFollower(ledger.spec), on_change=lambda entries: None, poll_s=0.05)
    conductor.start()
    try:
        ledger.sql(("INSERT INTO ledger_entries VALUES (99, 'x', '{}')",))
        until(lambda: conductor.problem)
        for _ in range(30):
            conductor.saw(MODEL, version("3"), Observation(time.monotonic(), True, 1.0))
        until(conductor.held)
        time.sleep(0.5)
        assert served(conductor) == {"1"}
    finally:
        conductor.stop()


def test_a_step_needs_requests_and_keeps_what_the_guards_saw(ledger, conductor):
    """15 errors before the step and 15 after it are 30 in the window: the step does not make the guards forget."""
    see(conductor, 15, failed=True)
    ledger.step("2", 80)
    until(lambda: conductor.split(MODEL).share == 80)
    assert conductor.report()["models"][MODEL]["step_requests"] == 0
    see(conductor, 15, failed=True)
    until(lambda: ledger.kinds()[-1] == "rollback")


def test_the_next_step_is_told(ledger, conductor):
    see(conductor, 4)
    report = conductor.report()["models"][MODEL]
    assert report["since"] == ledger.book.traffic(MODEL).since
    assert (report["next_step"]["share"], report["next_step"]["requests_lacking"]) == (80, 16)
    begun, not_before = (datetime.datetime.fromisoformat(moment) for moment in (report["since"], report["next_step"]["not_before"]))
    assert not_before - begun == datetime.timedelta(days=1)
    assert report["window"]["canary"]["requests"] == 4


def test_steps_follow_one_another_to_the_end(tmp_path):
    ledger = RolloutLedger(tmp_path)
    ledger.begin("1", 100)
    ledger.begin("2", 50, RULE.model_copy(update={"step_s": 0.0}))
    conductor = Conductor(LedgerFollower(ledger.spec), on_change=lambda entries: None, poll_s=0.05)
    conductor.start()
    try:
        see(conductor, 19)
        time.sleep(0.3)
        assert conductor.split(MODEL).share == 50
        see(conductor, 1)
        until(lambda: conductor.split(MODEL).share == 80)
        time.sleep(0.3)
        assert conductor.split(MODEL).share == 80
        see(conductor, 20)
        until(lambda: conductor.split(MODEL).labels == {"champion": "2", "previous": "1"})
        assert ledger.kinds().count("rollout_step") == 4
    finally:
        conductor.stop()


def test_keys_on_the_canary_stay_there_while_the_share_grows(ledger, conductor):
    keys = [f"user-{number}".encode() for number in range(1000)]
    before = {key for key in keys if conductor.split(MODEL).version_for(key).version == "2"}
    assert before == {key for key in keys if bucket(MODEL, key) < 5000}
    ledger.step("2", 80)
    until(lambda: conductor.split(MODEL).share == 80)
    after = {key for key in keys if conductor.split(MODEL).version_for(key).version == "2"}
    assert before < after


def test_what_both_said_to_the_same_request_is_compared(conductor):
    conductor.compared(MODEL, np.array([[0.4, 0.6], [0.9, 0.1]]), np.array([[0.6, 0.4], [0.9, 0.1]]))
    conductor.compared(MODEL, None, np.array([[0.6, 0.4]]))
    conductor.compared("unknown", np.array([[0.4, 0.6]]), np.array([[0.6, 0.4]]))
    found = conductor.report()["models"][MODEL]["comparison"]
    assert found == {"rows": 2, "mean_absolute_difference": pytest.approx(0.1), "label_agreement": 0.5}


def test_a_mirror_is_tried_until_it_is_done(ledger, monkeypatch, caplog):
    monkeypatch.setattr("infra.serving.router.conductor._MIRROR_RETRY_S", 0.05)
    faults = [ServingError("the server sleeps"), RuntimeError("a library's own"), OSError("disk")]
    done = []

    def on_change(entries):
        if faults:
            raise faults.pop(0)
        done.append(len(entries))

    conductor = Conductor(LedgerFollower(ledger.spec), on_change=on_change, poll_s=0.05)
    with caplog.at_level(logging.WARNING, "tandem.route"):
        conductor.start()
        until(lambda: done == [6])
        ledger.step("2", 80)
        until(lambda: done == [6, 7])
    conductor.stop()
    assert "the server sleeps" in caplog.text


def test_a_ledger_that_does_not_hold_at_the_start_is_refused(ledger):
    ledger.sql(('UPDATE ledger_entries SET entry = replace(entry, \'"share":"50"\', \'"share":"99"\')',))
    with pytest.raises(DecisionError, match="entry 6"):
        Conductor(LedgerFollower(ledger.spec), on_change=lambda entries: None).start()
