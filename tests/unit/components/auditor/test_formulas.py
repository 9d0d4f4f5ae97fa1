import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from components.auditor import formulas
from components.core.contracts import METRICS


@pytest.fixture(scope="module")
def scored() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    positives = generator.random(400) < 0.3
    # two decimals: many ties, also at the threshold of 0.5
    scores = np.clip(generator.normal(0.4 + 0.2 * positives, 0.2), 0, 1).round(2).astype(np.float32).astype(np.float64)
    return scores, positives


def point(scores, positives, threshold: float = 0.5) -> dict[str, float]:
    found = formulas.resampled_metrics(scores, positives, np.ones((1, len(scores))), threshold=threshold)
    return {name: float(values[0]) for name, values in found.items()}


@pytest.mark.parametrize("threshold", [0.5, 0.37])
def test_every_metric_equals_scikit_learn(scored, threshold):
    scores, positives = scored
    called = scores >= threshold
    expected = {
        "auc": sklearn_metrics.roc_auc_score(positives, scores),
        "auc_precision_recall": sklearn_metrics.average_precision_score(positives, scores),
        "binary_accuracy": sklearn_metrics.accuracy_score(positives, called),
        "precision": sklearn_metrics.precision_score(positives, called),
        "recall": sklearn_metrics.recall_score(positives, called),
        "binary_crossentropy": sklearn_metrics.log_loss(positives, scores.astype(np.float32)),
        "brier_score": sklearn_metrics.brier_score_loss(positives, scores),
        "calibration": np.mean(scores) / np.mean(positives),
    }
    assert set(expected) == set(METRICS)
    assert point(scores, positives, threshold) == pytest.approx(expected, abs=1e-6)


def test_weights_are_repetitions(scored):
    scores, positives = scored
    weights = np.random.default_rng(2).integers(0, 4, size=(3, len(scores))).astype(np.float64)
    found = formulas.resampled_metrics(scores, positives, weights, threshold=0.5)
    for row, counts in enumerate(weights.astype(int)):
        expected = point(np.repeat(scores, counts), np.repeat(positives, counts))
        assert {name: values[row] for name, values in found.items()} == pytest.approx(expected, abs=1e-12)


def test_by_hand():
    # positives 0.9, 0.4; negatives 0.6, 0.4: pairs won 2, tied 1, lost 1 of 4
    found = point(np.array([0.9, 0.6, 0.4, 0.4]), np.array([True, False, True, False]))
    assert found["auc"] == pytest.approx(2.5 / 4)
    assert found["auc_precision_recall"] == pytest.approx(0.5 * 1.0 + 0.5 * 0.5)
    assert found["precision"] == 0.5
    assert found["recall"] == 0.5
    assert found["calibration"] == pytest.approx(2.3 / 2)


@pytest.mark.parametrize("label", [True, False])
def test_one_class_has_no_ranking(label):
    found = point(np.array([0.2, 0.7]), np.array([label, label]))
    assert np.isnan(found["auc"])
    assert np.isnan(found["auc_precision_recall"])
    assert np.isnan(found["recall"]) == (not label)
    assert np.isnan(found["calibration"]) == (not label)
    assert found["binary_accuracy"] == 0.5


def test_nothing_predicted_positive_has_no_precision():
    found = point(np.array([0.2, 0.3]), np.array([True, False]))
    assert np.isnan(found["precision"])
    assert found["recall"] == 0.0


def test_a_saturated_score_has_a_finite_loss():
    found = point(np.array([1.0, 0.0]), np.array([True, False]))
    assert found["binary_crossentropy"] == pytest.approx(0.0, abs=1e-6)
    worst = point(np.array([0.0, 1.0]), np.array([True, False]))
    assert worst["binary_crossentropy"] == pytest.approx(-np.log(np.finfo(np.float32).eps), rel=1e-6)


def test_a_score_at_the_threshold_counts_as_positive():
    assert point(np.array([0.5]), np.array([True]))["recall"] == 1.0
