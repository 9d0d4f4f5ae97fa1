"""The guards on hand-made windows; the distance against SciPy's."""

import time

import numpy as np
import pytest
from scipy import stats

from components.core.rollout import Guards
from infra.serving.router.observations import (
    Comparison,
    Observation,
    Window,
    chance_distance,
    chance_of,
    complaint,
    ks_distance,
    observed,
    score_distance,
    summary,
)

GUARDS = Guards(window_s=60, min_requests=50, max_error_share=0.02, max_p99_ms=40, max_p99_ratio=3, max_score_shift=0.25)


def seen(count, *, failed=0, latency_ms=10.0, scores=()):
    return [Observation(0.0, number < failed, latency_ms, scores) for number in range(count)]


def test_all_is_well():
    assert complaint(seen(200), seen(200), GUARDS) == ""


def test_too_few_requests_are_not_judged():
    assert complaint(seen(49, failed=49, latency_ms=1000), seen(200), GUARDS) == ""


def test_errors_beyond_the_share():
    """At a limit of 2 %, 8 of 100 have a chance of 0.0009 and 7 of 0.0041 (binomial)."""
    assert complaint(seen(100, failed=7), [], GUARDS) == ""
    assert complaint(seen(100, failed=8), [], GUARDS).startswith(
        "errors: 8.00% of the canary's answers are errors, limit 2.00%, over its newest 100 req"
    )
    assert complaint(seen(10_000, failed=250), [], GUARDS).startswith("errors: 2.50%")
    assert complaint(seen(100, failed=1), [], GUARDS.model_copy(update={"max_error_share": 0.0})).startswith("errors: 1.00%")


def with_slow(slow, latency_ms):
    """Of 100 requests: 10 ms, but some."""
    return [*seen(100 - slow), *seen(slow, latency_ms=latency_ms)]


def test_latency_beyond_the_limit():
    """At p99, 6 slow ones of 100 have a chance of 0.0005 and 5 of 0.0034 (binomial with 1 %)."""
    assert complaint(seen(100, latency_ms=41), [], GUARDS).startswith("p99: 41.0 ms, limit 40 ms")
    assert complaint(with_slow(6, 41), [], GUARDS).startswith("p99: 41.0 ms, limit 40 ms")
    assert complaint(with_slow(5, 41), [], GUARDS) == ""
    assert complaint(with_slow(6, 40), [], GUARDS) == ""


def test_latency_beyond_the_champions():
    assert complaint(seen(100, latency_ms=30), seen(100, latency_ms=10), GUARDS) == ""
    assert complaint(seen(100, latency_ms=31), seen(100, latency_ms=10), GUARDS).startswith("p99: 3.10 times the champion's, limit 3")
    assert complaint(with_slow(5, 31), seen(100, latency_ms=10), GUARDS) == ""
    assert complaint(with_slow(6, 31), seen(100, latency_ms=10), GUARDS).startswith("p99: 3.10 times")
    assert complaint(seen(100, latency_ms=31), seen(49, latency_ms=10), GUARDS) == ""


@pytest.mark.parametrize(("count", "of", "share"), [(0, 50, 0.01), (5, 50, 0.01), (50, 50, 0.3), (260, 20_000, 0.01), (1, 1, 0.999)])
def test_the_chance_is_scipys(count, of, share):
    assert chance_of(count, of, share) == pytest.approx(stats.binom.sf(count - 1, of, share), rel=1e-8)


def test_the_distance_by_chance_is_scipys():
    for first, second in ((50, 50), (50, 1200), (5000, 7000)):
        scaled = chance_distance(first, second) * np.sqrt(first * second / (first + second))
        assert stats.kstwobign.sf(scaled) == pytest.approx(0.001, rel=1e-6)


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


def scored(count, step=0):
    """Scores 0 to 1, evenly; `step` of them moved above all others: the distance to the unmoved ones is step / count."""
    return [Observation(0.0, False, 5, ((2.0 if number < step else number / count),)) for number in range(count)]


def test_a_distance_that_chance_explains_is_no_shift():
    """With 50 against 1,200 scores chance adds 1.9495 * sqrt(1250 / 60000) = 0.281: below 0.531 a distance may be one of 0.25 or less."""
    champion = scored(1200)
    assert ks_distance([one.scores[0] for one in scored(50, 26)], [one.scores[0] for one in champion]) == pytest.approx(0.52, abs=0.001)
    assert complaint(scored(50, 26), champion, GUARDS) == ""
    assert complaint(scored(50, 27), champion, GUARDS).startswith("score shift: Kolmogorov-Smirnov distance 0.540")


def test_a_canary_as_far_from_the_champion_as_allowed_is_left_alone():
    """400 looks at fresh samples whose true distance is the limit: at a level of 0.1 % three complaints would be many."""
    chance = np.random.default_rng(11)
    champion = [Observation(0.0, False, 5, (float(score),)) for score in chance.uniform(0, 1, 1000)]
    complaints = 0
    for _ in range(400):
        scores = chance.uniform(0.25, 1.25, 60)
        complaints += bool(complaint([Observation(0.0, False, 5, (float(score),)) for score in scores], champion, GUARDS))
    assert complaints <= 2


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


def test_little_traffic_is_judged_by_the_newest():
    window = Window(clock=lambda: 1000.0)
    for at in range(30):
        window.add(Observation(float(at), False, 1.0))
    assert [one.at for one in window.last(60, at_least=20)] == [float(at) for at in range(10, 30)]
    window.add(Observation(990.0, False, 1.0))
    assert len(window.last(60, at_least=20)) == 20
    assert len(window.last(2000, at_least=20)) == 20


def test_the_last_class_of_at_most_64_rows_is_kept():
    scores = np.stack([np.zeros(100), np.arange(100)], axis=1)
    kept = observed(0.0, failed=False, latency_ms=1, scores=scores)
    assert kept.scores == tuple(map(float, range(64)))


def test_figures_of_a_window():
    assert summary([]) == {"requests": 0, "error_share": None, "p50_ms": None, "p99_ms": None}
    found = summary([Observation(0, number == 0, float(number)) for number in range(101)])
    assert (found["requests"], found["p50_ms"], found["p99_ms"]) == (101, 50.0, 99.0)
    assert found["error_share"] == pytest.approx(1 / 101)


def test_one_large_request_is_no_distribution():
    """64 rows of one caller are one request: the champion has fewer than 50."""
    ours = [Observation(0.0, False, 5, (1.0,)) for _ in range(100)]
    theirs = [Observation(0.0, False, 5, (0.0,) * 64) for _ in range(49)]
    assert complaint(ours, theirs, GUARDS) == ""
    assert complaint(ours, [*theirs, theirs[0]], GUARDS).startswith("score shift: Kolmogorov-Smirnov distance 1.000")


def test_the_newest_scores_are_compared():
    old = [Observation(0.0, False, 5, (0.0,) * 64) for _ in range(500)]
    new = [Observation(1.0, False, 5, (1.0,) * 64) for _ in range(157)]
    assert score_distance([*old, *new], new) == 0.0
    assert score_distance([*new, *old], new) == 1.0
    assert score_distance([], new) is None


def test_judging_full_windows_takes_milliseconds():
    chance = np.random.default_rng(1)
    full = [observed(0.0, failed=False, latency_ms=5, scores=chance.random((32, 2))) for _ in range(20_000)]
    began = time.process_time()
    assert complaint(full, full, GUARDS) == ""
    assert time.process_time() - began < 0.2


def test_comparison():
    compared = Comparison()
    assert compared.summary() is None
    compared.add(np.array([[0.4, 0.6], [0.9, 0.1]], np.float32), np.array([[0.6, 0.4], [0.9, 0.1]]))
    compared.add(np.array([[np.nan, 0.6]]), np.array([[0.6, 0.4]]))
    compared.add(np.array([[0.6]]), np.array([[0.6, 0.4]]))
    assert compared.summary() == {"rows": 2, "mean_absolute_difference": pytest.approx(0.1), "label_agreement": 0.5}
    binary = Comparison()
    binary.add(np.array([[0.4], [0.6], [0.5]]), np.array([[0.6], [0.7], [0.9]]))
    assert binary.summary()["label_agreement"] == pytest.approx(2 / 3)
