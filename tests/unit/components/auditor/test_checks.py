"""Calibration, fairness, leakage, parameters and graph: values by hand or by scikit-learn."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import roc_auc_score

from components.auditor.checks.calibration import BINS, calibration_checks
from components.auditor.checks.fairness import fairness_checks, groups_of
from components.auditor.checks.graph import graph_checks
from components.auditor.checks.leakage import Rows, feature_auc, leakage_checks, rows_of
from components.auditor.checks.parameters import parameter_checks
from components.auditor.checks.robustness import robustness_checks, sample_of
from components.auditor.predictions import read_eval_split, read_serialized
from components.core.contracts import AuditSpec
from components.core.errors import AuditError
from tests.unit.components.auditor.conftest import parameter, training_facts


def by_name(checks):
    return {check.name: check for check in checks}


def test_calibration_by_hand():
    """Ten bins of ten rows; the model says 0.05, 0.15, ... and all bins but the last hold what it says."""
    scores = np.repeat(np.arange(10) / 10 + 0.05, 10)
    positives = np.concatenate([[True] * number + [False] * (10 - number) for number in (0, 1, 2, 3, 4, 5, 6, 7, 8, 0)])
    checks, bins = calibration_checks(scores, positives)
    found = by_name(checks)
    gaps = [0.05] * 9 + [0.95]
    assert found["calibration/expected_error"].value == pytest.approx(sum(gaps) / 10)
    assert found["calibration/largest_gap"].value == pytest.approx(0.95)
    assert "mean score 0.950, 0 of 10 rows positive" in found["calibration/largest_gap"].detail
    assert [(one.size, one.positives) for one in bins] == [(10, number) for number in (0, 1, 2, 3, 4, 5, 6, 7, 8, 0)]


@pytest.mark.parametrize(("scores", "words"), [(np.full(99, 0.5), "99 rows"), (np.full(200, np.nan), "not finite")])
def test_calibration_says_why_it_was_not_checked(scores, words):
    checks, bins = calibration_checks(scores, np.zeros(len(scores), bool))
    assert bins == ()
    assert {(check.outcome, check.value) for check in checks} == {("not checked", None)}
    assert all(words in check.detail for check in checks)


def test_calibration_takes_scores_in_any_order():
    chance = np.random.default_rng(1)
    scores = chance.random(500)
    positives = chance.random(500) < scores
    turned = chance.permutation(500)
    one, other = calibration_checks(scores, positives), calibration_checks(scores[turned], positives[turned])
    assert [check.value for check in one[0]] == pytest.approx([check.value for check in other[0]])
    assert sum(found.size for found in one[1]) == 500
    assert len(one[1]) == BINS


def groups(sizes):
    """Group -> (rows, positives, decided positive, true positive) as slices, scores and labels."""
    scores, positives, values = [], [], []
    for value, (size, positive, decided, hit) in sizes.items():
        labels = [True] * positive + [False] * (size - positive)
        marks = [True] * hit + [False] * (positive - hit) + [True] * (decided - hit) + [False] * (size - positive - decided + hit)
        scores += [0.9 if mark else 0.1 for mark in marks]
        positives += labels
        values += [value] * size
    return groups_of(np.array(scores), np.array(positives), {"Home": values}, threshold=0.5, min_size=100)


def test_fairness_by_hand():
    found = groups({"owner": (200, 40, 20, 10), "rent": (100, 40, 40, 30), "few": (10, 5, 5, 5)})
    assert [(group.value, group.decided_positive, group.true_positive, group.judged) for group in found] == [
        ("few", 5, 5, False), ("owner", 20, 10, True), ("rent", 40, 30, True),
    ]  # fmt: skip
    checks = by_name(fairness_checks(found, classes=("good", "bad")))
    assert checks["fairness/Home/demographic_parity_difference"].value == pytest.approx(0.4 - 0.1)
    assert checks["fairness/Home/equal_opportunity_difference"].value == pytest.approx(30 / 40 - 10 / 40)
    bad, good = checks["fairness/Home/four_fifths_bad"], checks["fairness/Home/four_fifths_good"]
    assert (bad.outcome, bad.value, bad.limit) == ("failed", pytest.approx(0.25), 0.8)
    assert (good.outcome, good.value) == ("failed", pytest.approx(0.6 / 0.9))
    assert bad.detail == "decided bad: from owner 10.0% of 200 rows to rent 40.0% of 100 rows"
    assert bad.remedy


def test_alike_groups_pass_and_too_few_are_not_checked():
    alike = by_name(fairness_checks(groups({"a": (100, 20, 20, 10), "b": (100, 20, 18, 10)}), classes=("good", "bad")))
    assert {check.outcome for check in alike.values()} == {"passed", "measured"}
    alone = fairness_checks(groups({"a": (100, 20, 20, 10), "b": (10, 2, 2, 1)}), classes=("good", "bad"))
    assert {check.outcome for check in alone} == {"not checked"}
    nobody = by_name(fairness_checks(groups({"a": (100, 20, 0, 0), "b": (100, 20, 0, 0)}), classes=("good", "bad")))
    assert nobody["fairness/Home/four_fifths_bad"].outcome == "not checked"


@pytest.fixture
def split():
    """A number that says something, one that says nothing, a category, and the label in another form."""
    chance = np.random.default_rng(5)

    def rows(count):
        positives = chance.random(count) < 0.4
        return Rows(
            {
                "income": np.where(chance.random(count) < 0.1, np.nan, chance.normal(size=count) + positives),
                "noise": chance.normal(size=count),
                "home": np.where(positives & (chance.random(count) < 0.5), "rent", "owner").astype(object),
                "outcome": np.where(positives, "unpaid", "").astype(object),
            },
            positives,
        )

    return rows(2000), rows(1000)


def test_a_feature_alone_is_scored_as_scikit_learn_does(split):
    train, held_out = split
    shares = {value: train.positives[train.columns["home"] == value].mean() for value in ("rent", "owner")}
    expected = roc_auc_score(held_out.positives, [shares[value] for value in held_out.columns["home"]])
    assert feature_auc(train.columns["home"], train, held_out.columns["home"], held_out.positives) == pytest.approx(expected, abs=1e-12)
    assert feature_auc(train.columns["noise"], train, held_out.columns["noise"], held_out.positives) == pytest.approx(0.5, abs=0.06)
    present = ~np.isnan(held_out.columns["income"])
    bound = roc_auc_score(held_out.positives[present], held_out.columns["income"][present])
    assert feature_auc(train.columns["income"], train, held_out.columns["income"], held_out.positives) == pytest.approx(bound, abs=0.05)


def test_the_label_in_another_form_is_named(split):
    checks = by_name(leakage_checks(*split))
    assert (checks["leakage/single_feature_auc"].outcome, checks["leakage/single_feature_auc"].value) == ("failed", 1.0)
    assert "outcome 1.000" in checks["leakage/single_feature_auc"].detail
    assert (checks["leakage/label_in_features"].outcome, checks["leakage/label_in_features"].value) == ("failed", 1)
    assert checks["leakage/rows_in_both_splits"].outcome == "passed"


def test_rows_of_both_splits_are_counted(split):
    train, _ = split
    some = Rows({name: column[:40] for name, column in train.columns.items()}, train.positives[:40])
    check = by_name(leakage_checks(train, some))["leakage/rows_in_both_splits"]
    assert (check.outcome, check.value, check.limit) == ("failed", 1.0, 0.01)
    assert "40 of 40 eval rows" in check.detail


def test_leakage_is_not_checked_where_there_is_one_class(split):
    train, held_out = split
    one_class = Rows(held_out.columns, np.zeros(len(held_out.positives), bool))
    assert [check.outcome for check in leakage_checks(train, one_class)] == ["not checked", "not checked", "passed"]


def test_rows_are_read_as_they_were_written(rows, examples, data_spec):
    found = rows_of(read_serialized(examples / "Split-eval"), data_spec)
    np.testing.assert_array_equal(found.columns["x"], rows.x)
    assert found.columns["Home"].tolist() == rows.homes
    assert found.positives.tolist() == rows.positives.tolist()
    assert len(read_serialized(examples / "Split-train", at_most=120)) == 120
    assert len(read_serialized(examples / "Split-eval", at_most=150)) == 150


@pytest.fixture
def sample(rows, examples, data_spec):
    """The eval rows; the model is 1 / (1 + exp(-2 x)), Home counts for nothing, a missing x is a score of 0.5."""
    serialized = read_eval_split(examples / "Split-eval", data_spec).examples

    def score(inputs):
        x = inputs["x"].astype(np.float64)
        positive = np.where(np.isnan(x), 0.5, 1 / (1 + np.exp(-2 * x)))
        return np.stack([1 - positive, positive], axis=1).astype(np.float32)

    scores = score({"x": rows.x})[:, 1]
    return sample_of(data_spec, serialized, positives=rows.positives, scores=scores, threshold=0.5, seed=0), score


def test_what_counts_loses_when_it_is_shuffled_and_what_does_not_count_loses_nothing(sample, data_spec, rows):
    found = by_name(robustness_checks(*sample, data_spec, seed=3))
    assert found["importance/Home"].value == 0.0
    auc = roc_auc_score(rows.positives, rows.x)
    assert found["importance/x"].value == pytest.approx(auc - 0.5, abs=0.12)
    assert f"loss of AUC ({auc:.4f})" in found["importance/x"].detail


def test_a_feature_left_out_flips_the_rows_that_rested_on_it(sample, data_spec, rows):
    """Without x every score is 0.5 and every row is decided positive: those with x below 0 flip."""
    found = by_name(robustness_checks(*sample, data_spec, seed=3))["robustness/missing_feature"]
    assert found.value == pytest.approx(np.mean(rows.x < 0))
    assert found.detail.endswith(f"x {np.mean(rows.x < 0):.1%}")


def test_noise_moves_numbers_by_a_hundredth_of_their_spread(sample, data_spec, rows):
    found = by_name(robustness_checks(*sample, data_spec, seed=3))["robustness/noise"]
    spread = np.std(rows.x) / 100
    near = np.mean(np.abs(rows.x) < 4 * spread)
    assert 0 <= found.value <= near
    largest = float(found.detail.rpartition(" ")[2])
    assert 0.25 * 2 * spread < largest < 0.5 * 5 * spread


def test_the_same_seed_gives_the_same_checks(sample, data_spec):
    assert robustness_checks(*sample, data_spec, seed=3) == robustness_checks(*sample, data_spec, seed=3)
    assert robustness_checks(*sample, data_spec, seed=3) != robustness_checks(*sample, data_spec, seed=4)


def test_scores_that_are_not_finite_are_not_checked(sample, data_spec):
    taken, score = sample
    broken = dataclasses.replace(taken, scores=np.full(len(taken.scores), np.nan))
    assert {check.outcome for check in robustness_checks(broken, score, data_spec, seed=3)} == {"not checked"}


def test_a_large_split_is_sampled(examples, data_spec, rows):
    serialized = read_eval_split(examples / "Split-eval", data_spec).examples * 10
    x = np.tile(rows.x, 10)
    taken = sample_of(data_spec, serialized, positives=x > 0, scores=x, threshold=0.5, seed=1)
    assert taken.size == 1000
    np.testing.assert_allclose(taken.inputs["x"], taken.scores)
    assert ((taken.inputs["x"] > 0) == taken.positives).all()


def test_parameters_are_named():
    facts = training_facts(
        parameter("a"),
        parameter("embedding", trainable=False, gradient=None),
        parameter("dead/kernel", weight=0.0),
        parameter("lost/bias", gradient=None),
        parameter("broken", weight=None),
    )
    found = by_name(parameter_checks(facts))
    assert {name: (check.outcome, check.value) for name, check in found.items()} == {
        "parameters/not_finite": ("failed", 1),
        "parameters/dead": ("failed", 1),
        "parameters/no_gradient": ("failed", 1),
        "parameters/frozen": ("measured", 1),
    }
    assert found["parameters/no_gradient"].detail == "1 of 5 tensors: lost/bias"
    assert {check.outcome for check in parameter_checks(training_facts())} == {"passed", "measured"}


def test_the_graph_of_a_plain_model(good_model):
    found = by_name(graph_checks(good_model / "Format-Serving"))
    assert {name for name, check in found.items() if check.outcome == "failed"} == set()
    assert found["graph/signatures"].detail == "serving_default, serving_raw"
    assert found["graph/string_ops"].value > 0


def test_what_a_graph_should_not_hold_is_named(tmp_path):
    class Bad(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float64, name="x")])
        def serve(self, x):
            table = tf.constant(np.random.default_rng(0).random(200_000))
            return {"scores": x + tf.random.uniform([], dtype=tf.float64) + table[0]}

    model = Bad()
    tf.saved_model.save(model, str(tmp_path), signatures={"serving_default": model.serve})
    found = by_name(graph_checks(tmp_path))
    assert (found["graph/nondeterministic_ops"].outcome, found["graph/large_constants"].outcome) == ("failed", "failed")
    assert "RandomUniform" in found["graph/nondeterministic_ops"].detail
    assert found["graph/stateful_ops"].outcome == "passed"
    assert found["graph/float64_ops"].value >= 3


def test_no_saved_model_is_told(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\xff")
    with pytest.raises(AuditError, match="is no SavedModel"):
        graph_checks(tmp_path)


def test_the_audit_holds_every_kind_of_check(audit_stage, good_model, examples, parity, compiled):
    spec = AuditSpec(floors={"auc": 0.5}, min_slice_size=50)
    report = audit_stage(good_model, examples, spec, parity=parity(), compiled=compiled(good_model)).report
    kinds = {check.name.split("/")[0] for check in report.checks}
    assert kinds == {"calibration", "fairness", "leakage", "robustness", "importance", "parameters", "graph"}
    assert report.blessed
    assert sum(found.size for found in report.reliability) == 200
    assert {(group.key, group.value) for group in report.groups} >= {("Home", "rent"), ("x_band", "<0")}
