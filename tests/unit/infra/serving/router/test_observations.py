"""The guards on hand-made windows; the distance against SciPy's."""

import numpy as np
import pytest
from scipy import stats

from components.core.rollout import Guards
from infra.serving.router.observations import Observation, Window, complaint, ks_distance, observed, summary

GUARDS = Guards(window_s=60, min_requests=50, max_error_share=0.02, max_p99_ms=40, max_p99_ratio=3, max_score_shift=0.25)


def seen(count, *, failed=0, latency_ms=10.0, scores=()):
    return [Observation(0.0, number < failed, latency_ms, scores) for number in range(count)]


def test_all_is_well():
    assert complaint(seen(200), seen(200), GUARDS) == ""


def test_too_few_requests_are_not_judged():
    assert complaint(seen(49, failed=49, latency_ms=1000), seen(200), GUARDS) == ""


def test_errors_beyond_the_share():
    assert complaint(seen(100, failed=2), [], GUARDS) == ""
    assert complaint(seen(100, failed=3), [], GUARDS).startswith(
        "errors: 3.00% of the canary's answers are errors, limit 2.00%, over 100 req"
    )


def test_latency_beyond_the_limit():
    assert complaint(seen(100, latency_ms=41), [], GUARDS).startswith("p99: 41.0 ms, limit 40 ms")


def test_latency_beyond_the_champions():
    assert complaint(seen(100, latency_ms=30), seen(100, latency_ms=10), GUARDS) == ""
    assert complaint(seen(100, latency_ms=31), seen(100, latency_ms=10), GUARDS).startswith("p99: 3.10 times the champion's, limit 3")
    assert complaint(seen(100, latency_ms=31), seen(49, latency_ms=10), GUARDS) == ""


def test_one_score_that_is_not_finite_is_enough():
    bad = observed(0.0, failed=False, latency_ms=5, scores=np.array([[0.5, np.nan]]))
    assert complaint([bad], [], GUARDS).startswith("nan: ")
    assert complaint([observed(0.0, failed=False, latency_ms=5, scores=np.array([[np.inf, 0.5]]))], [], GUARDS).startswith("nan: ")


def test_a_shift_of_the_scores():
    chance = np.random.default_rng(3)
    ours = [Observation(0.0, False, 5, (float(score),)) for score in chance.uniform(0.3, 1.0, 300)]
    theirs = [Observation(0.0, False, 5, (float(score),)) for score in chance.uniform(0.0, 0.7, 300)]
    assert complaint(theirs, theirs, GUARDS) == ""
    said = complaint(ours, theirs, GUARDS)
    distance = stats.ks_2samp([one.scores[0] for one in ours], [one.scores[0] for one in theirs]).statistic
    assert said.startswith(f"score shift: Kolmogorov-Smirnov distance {distance:.3f} to the champion, limit 0.25")


def test_a_distance_that_chance_explains_is_no_shift():
    """With 50 against 50 scores the critical value is 1.95 * sqrt(100 / 2500) = 0.39: a distance of 0.3 says nothing."""
    ours = [Observation(0.0, False, 5, (float(score),)) for score in range(50)]
    theirs = [Observation(0.0, False, 5, (float(score + 15),)) for score in range(50)]
    assert ks_distance([one.scores[0] for one in ours], [one.scores[0] for one in theirs]) == pytest.approx(0.3)
    assert complaint(ours, theirs, GUARDS) == ""


@pytest.mark.parametrize("seed", range(5))
def test_the_distance_is_scipys(seed):
    chance = np.random.default_rng(seed)
    ours, theirs = chance.integers(0, 20, 70) / 20, chance.normal(0.5, 0.3, 90)
    assert ks_distance(ours, theirs) == pytest.approx(stats.ks_2samp(ours, theirs).statistic, abs=1e-12)


def test_a_window_forgets_what_is_old():
    now = [100.0]
    window = Window(clock=lambda: now[0])
    for at in (10.0, 50.0, 95.0):
        window.add(Observation(at, False, 1.0))
    assert [one.at for one in window.last(60)] == [50.0, 95.0]
    assert window.total == 3


def test_the_last_class_of_at_most_64_rows_is_kept():
    scores = np.stack([np.zeros(100), np.arange(100)], axis=1)
    kept = observed(0.0, failed=False, latency_ms=1, scores=scores)
    assert kept.scores == tuple(map(float, range(64)))


def test_figures_of_a_window():
    assert summary([]) == {"requests": 0, "error_share": None, "p50_ms": None, "p99_ms": None}
    found = summary([Observation(0, number == 0, float(number)) for number in range(101)])
    assert (found["requests"], found["p50_ms"], found["p99_ms"]) == (101, 50.0, 99.0)
    assert found["error_share"] == pytest.approx(1 / 101)
