import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from components.auditor import bootstrap
from components.core.contracts import METRICS, AuditSpec

AUDIT = AuditSpec(floors={"auc": 0.5}, bootstrap_samples=200, confidence=0.9, seed=3)


def sample(size: int = 60, share: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(size)
    positives = generator.random(size) < share
    return np.clip(generator.normal(0.4 + 0.2 * positives, 0.2), 0, 1).round(2), positives


def test_intervals_equal_a_slow_loop_with_scikit_learn():
    scores, positives = sample()
    found = bootstrap.bootstrap_intervals(scores, positives, AUDIT, name="whole")
    slow: dict[str, list[float]] = {name: [] for name in METRICS}
    for part in bootstrap.resample_weights(len(scores), AUDIT.bootstrap_samples, seed=AUDIT.seed, name="whole"):
        for counts in part.astype(int):
            drawn, actual = np.repeat(scores, counts), np.repeat(positives, counts)
            called = drawn >= 0.5
            slow["auc"].append(sklearn_metrics.roc_auc_score(actual, drawn))
            slow["auc_precision_recall"].append(sklearn_metrics.average_precision_score(actual, drawn))
            slow["binary_accuracy"].append(sklearn_metrics.accuracy_score(actual, called))
            slow["precision"].append(sklearn_metrics.precision_score(actual, called))
            slow["recall"].append(sklearn_metrics.recall_score(actual, called))
            slow["binary_crossentropy"].append(sklearn_metrics.log_loss(actual, drawn.astype(np.float32)))
            slow["brier_score"].append(sklearn_metrics.brier_score_loss(actual, drawn))
            slow["calibration"].append(drawn.mean() / actual.mean())
    for name, values in slow.items():
        assert found[name].left_out == 0
        assert (found[name].lower, found[name].upper) == pytest.approx(tuple(np.percentile(values, [5, 95])), abs=1e-6), name


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    scores, positives = sample()
    first = bootstrap.bootstrap_intervals(scores, positives, AUDIT, name="a")
    assert bootstrap.bootstrap_intervals(scores, positives, AUDIT, name="a") == first
    assert bootstrap.bootstrap_intervals(scores, positives, AUDIT.model_copy(update={"seed": 4}), name="a") != first
    assert bootstrap.bootstrap_intervals(scores, positives, AUDIT, name="b") != first


def test_the_bound_on_memory_changes_nothing(monkeypatch):
    scores, positives = sample()
    whole = bootstrap.bootstrap_intervals(scores, positives, AUDIT, name="a")
    monkeypatch.setattr(bootstrap, "CELLS", 7 * len(scores))
    assert bootstrap.bootstrap_intervals(scores, positives, AUDIT, name="a") == whole


def test_resamples_draw_as_many_rows_as_there_are():
    parts = list(bootstrap.resample_weights(9, 100, seed=0, name="x"))
    assert sum(len(part) for part in parts) == 100
    assert all((part.sum(axis=1) == 9).all() for part in parts)


def test_resamples_with_one_class_are_left_out_and_counted():
    scores, positives = np.array([0.1, 0.2, 0.3, 0.4]), np.array([True, True, False, False])
    audit = AUDIT.model_copy(update={"bootstrap_samples": 2000})
    found = bootstrap.bootstrap_intervals(scores, positives, audit, name="a")["auc"]
    # all four draws from one class: 2 * (1/2)^4 = 1/8 of 2,000, give or take four standard deviations
    assert 190 < found.left_out < 310
    assert found.lower == 0.0


def test_fewer_than_half_left_is_no_interval():
    scores, positives = np.array([0.1, 0.9]), np.array([False, False])
    found = bootstrap.bootstrap_intervals(scores, positives, AUDIT, name="a")
    assert found["auc"] == bootstrap.Interval(lower=None, upper=None, left_out=200, samples=200)
    assert found["binary_accuracy"].lower is not None


def test_a_score_that_is_not_finite_leaves_no_interval():
    scores, positives = sample()
    scores[0] = np.nan
    assert all(found.lower is None for found in bootstrap.bootstrap_intervals(scores, positives, AUDIT, name="a").values())


def test_the_interval_covers_the_truth_as_often_as_it_says():
    # accuracy of 0.7 over 100 rows, 200 trials: a 90 % interval misses about 20 times
    generator = np.random.default_rng(0)
    audit = AUDIT.model_copy(update={"bootstrap_samples": 200})
    hits = 0
    for trial in range(200):
        right = generator.random(100) < 0.7
        found = bootstrap.bootstrap_intervals(right.astype(np.float64), np.ones(100, dtype=bool), audit, name=str(trial))["binary_accuracy"]
        hits += found.lower <= 0.7 <= found.upper
    assert 165 <= hits <= 195
