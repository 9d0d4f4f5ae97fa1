"""The stage as a launcher runs it: one Beam pipeline a scenario."""

import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow_model_analysis as tfma
from mlflow.tracking import MlflowClient
from sklearn import metrics as sklearn_metrics

from components.core.contracts import METRICS, AuditSpec
from components.core.errors import AuditError

AUDIT = AuditSpec(
    floors={"auc": 0.6},
    ceilings={"brier_score": 0.3},
    slice_floors={"auc": 0.5, "binary_accuracy": 0.1},
    change={"auc": 0.0, "brier_score": -0.01},
    min_slice_size=20,
    bootstrap_samples=100,
)


@pytest.fixture(scope="module")
def alone(audit_stage, good_model, examples, parity, compiled):
    """A good candidate without a champion."""
    return audit_stage(good_model, examples, AUDIT, parity=parity(), compiled=compiled(good_model))


def test_metrics_equal_scikit_learn(alone, rows):
    scores, positives = rows.scores(2.0, 0.0).astype(np.float64), rows.positives
    called = scores >= 0.5
    expected = {
        "auc": sklearn_metrics.roc_auc_score(positives, scores),
        "auc_precision_recall": sklearn_metrics.average_precision_score(positives, scores),
        "binary_accuracy": sklearn_metrics.accuracy_score(positives, called),
        "precision": sklearn_metrics.precision_score(positives, called),
        "recall": sklearn_metrics.recall_score(positives, called),
        "binary_crossentropy": sklearn_metrics.log_loss(positives, scores),
        "brier_score": sklearn_metrics.brier_score_loss(positives, scores),
        "calibration": scores.mean() / positives.mean(),
    }
    assert {name: value.value for name, value in alone.report.metrics.items()} == pytest.approx(expected, abs=1e-6)
    assert all(value.lower <= value.value <= value.upper for value in alone.report.metrics.values())
    assert alone.report.size == len(rows.labels)


def test_slices_small_and_of_one_class(alone, rows):
    slices = {(found.key, found.value): found for found in alone.report.slices}
    assert set(slices) == {("Home", name) for name in ("owner", "rent", "small", "only good")} | {("x_band", "<0"), ("x_band", ">=0")}
    small, single, owner = slices["Home", "small"], slices["Home", "only good"], slices["Home", "owner"]
    assert (small.size, small.judged) == (5, False)
    assert small.metrics["binary_accuracy"].value is not None
    assert (single.size, single.positives, single.judged) == (60, 0, True)
    assert single.metrics["auc"].value is None
    assert single.metrics["auc"].note == "undefined: one class only"
    assert single.metrics["recall"].note == "undefined: no row of the positive class"
    assert single.metrics["binary_accuracy"].value is not None
    taken = np.array(rows.homes) == "owner"
    expected = sklearn_metrics.roc_auc_score(rows.positives[taken], rows.scores(2.0, 0.0)[taken])
    assert owner.metrics["auc"].value == pytest.approx(expected, abs=1e-6)


def test_without_a_champion_relative_checks_are_listed_as_not_done(alone):
    gate = alone.gate("change/auc")
    assert (gate.status, gate.required) == ("not checked", False)
    assert "change/auc: there is no champion to compare with" in alone.report.not_done
    assert "slice_floor/auc on Home=only good: undefined: one class only" in alone.report.not_done
    assert alone.report.champion is None
    assert [gate.name for gate in alone.report.gates] == [
        "parity",
        "xla_numerics",
        "plain_without_xla",
        "service_level",
        "floor/auc",
        "ceiling/brier_score",
        "slice_floor/auc",
        "slice_floor/binary_accuracy",
        "change/auc",
        "change/brier_score",
    ]


def test_blessing_is_as_that_of_the_evaluator(alone, good_model):
    assert alone.report.blessed
    assert [path.name for path in (alone.folder / "blessing").iterdir()] == ["BLESSED"]
    assert alone.blessing.get_int_custom_property("blessed") == 1
    assert alone.blessing.get_string_custom_property("current_model") == str(good_model)
    assert alone.blessing.get_int_custom_property("current_model_id") == 11


def test_evaluation_is_read_by_tfma(alone):
    path = str(alone.folder / "evaluation")
    assert tfma.load_validation_result(path).validation_ok
    result = tfma.load_eval_result(path)
    whole = next(metrics for name, metrics in result.slicing_metrics if name == ())
    (by_class,) = [values for values in whole[""].values() if "auc" in values]
    assert by_class["auc"]["doubleValue"] == alone.report.metrics["auc"].value


def test_predictions_are_in_the_order_of_the_split(alone, rows):
    table = pq.read_table(alone.folder / "predictions" / "predictions.parquet")
    assert table.column_names == [
        "row",
        "label",
        "positive_score",
        "score_good",
        "score_bad",
        "slice_Home",
        "slice_x_band",
        "example_digest",
    ]
    assert table["row"].to_pylist() == list(range(len(rows.labels)))
    assert table["label"].to_pylist() == rows.labels
    assert table["slice_Home"].to_pylist() == rows.homes
    assert table["positive_score"].to_numpy() == pytest.approx(rows.scores(2.0, 0.0), abs=1e-6)
    assert {len(digest) for digest in table["example_digest"].to_pylist()} == {64}


def test_mlflow_shows_the_audit(alone, tracking):
    client = MlflowClient(tracking_uri=tracking.uri)
    run = client.get_run(alone.properties["mlflow_run_id"])
    assert run.info.run_name == "audit-keras"
    assert run.info.status == "FINISHED"
    assert (run.data.tags["framework"], run.data.tags["pipeline_run_id"], run.data.tags["mlmd_execution_id"]) == ("keras", "run-1", "5")
    report = alone.report
    for name in METRICS:
        assert run.data.metrics[f"eval/{name}"] == report.metrics[name].value
        assert run.data.metrics[f"eval/{name}_lower"] == report.metrics[name].lower
        assert run.data.metrics[f"eval/{name}_upper"] == report.metrics[name].upper
    assert run.data.metrics["slice/x_band/:3C0/recall"] == next(s for s in report.slices if s.value == "<0").metrics["recall"].value
    assert run.data.tags["undefined.slice/Home/only good/auc"] == "None"
    assert {file.path for file in client.list_artifacts(run.info.run_id)} == {"audit.json", "slices.json"}
    assert json.loads(run.data.tags["mlflow.loggedArtifacts"]) == [{"path": "slices.json", "type": "table"}]
    assert alone.properties["digest"] == report.digest
    assert alone.properties["blessed"] == 1


def test_a_candidate_is_not_compared_with_itself(audit_stage, good_model, examples, parity, compiled, champion):
    found = audit_stage(good_model, examples, AUDIT, parity=parity(), compiled=compiled(good_model), champion=champion(good_model))
    gate = found.gate("change/auc")
    assert (gate.status, gate.required) == ("not checked", False)
    assert any("the candidate is the champion" in line for line in found.report.not_done)
    assert found.report.blessed
    assert found.report.champion == "tiny-prod/3"
    assert found.report.champion_metrics == {}


def test_a_better_candidate_beats_the_champion(audit_stage, good_model, poor_model, examples, rows, parity, compiled, champion):
    found = audit_stage(good_model, examples, AUDIT, parity=parity(), compiled=compiled(good_model), champion=champion(poor_model))
    aucs = [sklearn_metrics.roc_auc_score(rows.positives, rows.scores(weight, 0.0)) for weight in (2.0, -1.0)]
    assert found.gate("change/auc").value == pytest.approx(aucs[0] - aucs[1], abs=1e-6)
    assert found.gate("change/brier_score").value > 0
    assert found.report.blessed
    assert found.report.champion_metrics["auc"].value == pytest.approx(aucs[1], abs=1e-6)
    table = pq.read_table(found.folder / "predictions" / "predictions.parquet")
    assert table["champion_positive_score"].to_numpy() == pytest.approx(rows.scores(-1.0, 0.0), abs=1e-6)


def test_a_worse_candidate_loses_and_floors_say_where(audit_stage, good_model, poor_model, examples, parity, compiled, champion):
    found = audit_stage(poor_model, examples, AUDIT, parity=parity(), compiled=compiled(poor_model), champion=champion(good_model))
    failed = {gate.name for gate in found.report.gates if gate.status == "failed"}
    assert failed >= {"floor/auc", "ceiling/brier_score", "slice_floor/auc", "change/auc", "change/brier_score"}
    assert "Home=" in found.gate("slice_floor/auc").detail or "x_band=" in found.gate("slice_floor/auc").detail
    assert not found.report.blessed
    assert [path.name for path in (found.folder / "blessing").iterdir()] == ["NOT_BLESSED"]
    assert found.blessing.get_int_custom_property("blessed") == 0
    assert not tfma.load_validation_result(str(found.folder / "evaluation")).validation_ok


def test_a_nan_score_fails(audit_stage, good_model, rows, write_examples, parity, compiled):
    x = rows.x.copy()
    x[100] = np.nan
    found = audit_stage(good_model, write_examples(dataclasses.replace(rows, x=x)), AUDIT, parity=parity(), compiled=compiled(good_model))
    assert found.gate("floor/auc").status == "failed"
    assert found.report.metrics["binary_accuracy"].value is None
    assert found.report.metrics["auc"].note == "undefined: 1 of 200 scores are not finite"
    assert next(s for s in found.report.slices if s.value == ">=0").metrics["binary_accuracy"].value is not None
    assert not found.report.blessed


def test_a_stopped_candidate_is_not_evaluated(audit_stage, good_model, examples, parity, compiled):
    found = audit_stage(good_model, examples, AUDIT, parity=parity(passed=False), compiled=compiled(good_model, compiled=False))
    statuses = {gate.name: gate.status for gate in found.report.gates}
    assert statuses.pop("parity") == "failed"
    assert set(statuses.values()) == {"not checked"}
    assert len(statuses) == 9
    assert not found.report.blessed
    assert (found.folder / "evaluation").is_dir()
    assert [path.name for path in (found.folder / "blessing").iterdir()] == ["NOT_BLESSED"]
    assert found.properties["blessed"] == 0


def test_refusals(audit_stage, good_model, poor_model, write_model, examples, tmp_path, parity, compiled, champion):
    report = compiled(good_model)
    with pytest.raises(AuditError, match=r"champion tiny-prod/3 .* does not verify"):
        broken = champion(poor_model).model_copy(update={"digest": "0" * 64})
        audit_stage(good_model, examples, AUDIT, parity=parity(), compiled=report, champion=broken)
    with pytest.raises(AuditError, match="the folder is not there"):
        gone = champion(poor_model).model_copy(update={"path": str(tmp_path / "gone")})
        audit_stage(good_model, examples, AUDIT, parity=parity(), compiled=report, champion=gone)
    with pytest.raises(AuditError, match="something changed it after the XLA stage"):
        audit_stage(poor_model, examples, AUDIT, parity=parity(), compiled=report)
    with pytest.raises(AuditError, match="audits nothing"):
        audit_stage(good_model, examples, AuditSpec.model_construct(slice_floors={"auc": 0.1}), parity=parity(), compiled=report)
    with pytest.raises(AuditError, match=r"parity tolerance was 0\.1"):
        audit_stage(good_model, examples, AUDIT, parity=parity().model_copy(update={"tolerance": 0.1}), compiled=report)
    with pytest.raises(AuditError, match="is of lightning, the candidate of keras"):
        audit_stage(good_model, examples, AUDIT, parity=parity().model_copy(update={"framework": "lightning"}), compiled=report)
    turned = write_model(2.0, classes=("bad", "good"))
    with pytest.raises(AuditError, match=r"classes are \['bad', 'good'\]"):
        audit_stage(turned, examples, AUDIT, parity=parity(), compiled=compiled(turned))
