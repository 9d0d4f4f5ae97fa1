import math

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from trainers.facts import parameter_facts
from trainers.metrics import log_softmax, rank_auc, validation_metrics


def test_auc_by_hand():
    # pairs (positive, negative): 0.8>0.1, 0.8>0.4, 0.4>0.1, 0.4=0.4 counts half: 3.5 of 4
    scores = np.array([0.1, 0.4, 0.4, 0.8])
    assert rank_auc(scores, np.array([False, False, True, True])) == 3.5 / 4


@pytest.mark.parametrize("decimals", [1, 2, 9])
def test_auc_equals_scikit_learn_with_and_without_ties(decimals):
    random = np.random.default_rng(decimals)
    scores = random.random(1000).round(decimals)
    positive = random.random(1000) < 0.3
    assert rank_auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)


def test_auc_is_undefined_for_one_class_and_for_nan():
    scores = np.array([0.1, 0.2])
    assert math.isnan(rank_auc(scores, np.array([True, True])))
    assert math.isnan(rank_auc(scores, np.array([False, False])))
    assert math.isnan(rank_auc(np.array([0.1, np.nan]), np.array([True, False])))


def test_log_softmax_does_not_overflow():
    np.testing.assert_allclose(log_softmax(np.array([[1e4, 0.0]], np.float32)), [[0.0, -1e4]])


def test_validation_metrics_equal_scikit_learn():
    random = np.random.default_rng(0)
    logits, labels = random.normal(size=(200, 3)).astype(np.float32), random.integers(0, 3, 200)
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    metrics = validation_metrics(logits, labels, positive_index=2)
    assert metrics["val/loss"] == pytest.approx(log_loss(labels, scores), rel=1e-6)
    assert metrics["val/accuracy"] == np.mean(scores.argmax(axis=1) == labels)
    assert metrics["val/auc"] == pytest.approx(roc_auc_score(labels == 2, scores[:, 2]), abs=1e-9)


def test_parameter_facts_by_hand():
    facts = parameter_facts("kernel", np.array([[3.0, 0.0], [0.0, 4.0]], np.float32), trainable=True, gradient_norm=0.5)
    assert (facts.weight_norm, facts.gradient_norm, facts.shape) == (5.0, 0.5, (2, 2))
    # 20 bins from 0 to 4: two zeros in the first, 3 begins the 16th, 4 closes the last
    assert [(index, count) for index, count in enumerate(facts.histogram.counts) if count] == [(0, 2), (15, 1), (19, 1)]
    assert len(facts.histogram.edges) == 21


@pytest.mark.parametrize(("trainable", "norm"), [(False, 0.5), (True, None), (True, math.nan)])
def test_frozen_and_untouched_parameters_have_no_gradient_norm(trainable, norm):
    assert parameter_facts("bias", np.zeros(2, np.float32), trainable=trainable, gradient_norm=norm).gradient_norm is None


def test_weights_that_are_not_finite_are_reported_as_undefined():
    facts = parameter_facts("kernel", np.array([1.0, np.inf, np.nan], np.float32), trainable=True, gradient_norm=1.0)
    assert facts.weight_norm is None
    assert sum(facts.histogram.counts) == 1
