"""TFMA over predictions against TFX's Evaluator on the SavedModels themselves."""

from pathlib import Path

import pytest
import tensorflow_model_analysis as tfma
from google.protobuf import json_format
from tensorflow_model_analysis.proto import config_pb2
from tfx.components.evaluator.executor import Executor
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.types import artifact_utils, standard_artifacts

from components.auditor import evaluation, predictions
from components.auditor.component import Auditor
from components.auditor.slices import WHOLE, SliceRows
from components.core import artifacts
from components.core.contracts import METRICS, AuditSpec
from components.core.errors import AuditError

AUDIT = AuditSpec(
    floors={"auc": 0.6},
    slice_floors={"auc": 0.99},
    change={"auc": 0.0, "brier_score": 0.0},
    min_slice_size=20,
    operating_threshold=0.3,
)
STOCK = {
    "binary_accuracy": ("BinaryAccuracy", '{"name": "stock_binary_accuracy", "threshold": 0.3}'),
    "precision": ("Precision", '{"name": "stock_precision", "thresholds": 0.3}'),
    "recall": ("Recall", '{"name": "stock_recall", "thresholds": 0.3}'),
    "binary_crossentropy": ("BinaryCrossEntropy", '{"name": "stock_binary_crossentropy"}'),
    "brier_score": ("MeanSquaredError", '{"name": "stock_brier_score"}'),
    "calibration": ("Calibration", '{"name": "stock_calibration"}'),
    "auc": ("AUC", '{"name": "stock_auc"}'),
}


@pytest.fixture(scope="module")
def scored(examples, data_spec, good_model, poor_model) -> predictions.Predictions:
    split = predictions.read_eval_split(examples / "Split-eval", data_spec)
    loaded = predictions.LoadedModel(good_model / "Format-Serving", data_spec)
    return predictions.predict(split, data_spec, candidate=loaded, champion=poor_model / "Format-Serving")


@pytest.fixture(scope="module")
def config(scored, data_spec) -> config_pb2.EvalConfig:
    judged = [(metric, *found) for metric, found in SliceRows.of(scored, AUDIT).judged]
    return evaluation.build_eval_config(data_spec, AUDIT, judged=judged, with_champion=True)


@pytest.fixture(scope="module")
def ours(scored, config, tmp_path_factory) -> str:
    import apache_beam as beam

    folder = str(tmp_path_factory.mktemp("ours"))
    pipeline = beam.Pipeline(argv=["--runner=FnApiRunner", "--sdk_container_image=none"])
    evaluation.run_tfma(scored, config, pipeline, output_path=folder)
    return folder


@pytest.fixture(scope="module")
def reference(config, examples, good_model, poor_model, tmp_path_factory) -> str:
    """TFX's own Evaluator: the same EvalConfig and, beside it, TFMA's stock metrics."""
    folder = tmp_path_factory.mktemp("reference")
    wider = config_pb2.EvalConfig()
    wider.CopyFrom(config)
    (ours,) = [spec for spec in wider.metrics_specs if spec.HasField("binarize")]
    ours.metrics.extend(config_pb2.MetricConfig(class_name=name, config=options) for name, options in STOCK.values())

    def artifact(kind, uri: Path):
        made = kind()
        made.uri = str(uri)
        return made

    split = artifact(standard_artifacts.Examples, examples)
    split.split_names = artifact_utils.encode_split_names(["eval"])
    Executor(BaseBeamExecutor.Context(beam_pipeline_args=["--runner=FnApiRunner", "--sdk_container_image=none"])).Do(
        {
            "examples": [split],
            "model": [artifact(standard_artifacts.Model, good_model)],
            "baseline_model": [artifact(standard_artifacts.Model, poor_model)],
        },
        {
            "evaluation": [artifact(standard_artifacts.ModelEvaluation, folder / "evaluation")],
            "blessing": [artifact(standard_artifacts.ModelBlessing, folder / "blessing")],
        },
        {"eval_config": json_format.MessageToJson(wider, preserving_proto_field_name=True), "example_splits": "null"},
    )
    return str(folder / "evaluation")


@pytest.mark.parametrize("champion", [False, True])
def test_the_evaluator_gives_the_same_numbers(ours, reference, champion):
    found, expected = (evaluation.read_points(folder, champion=champion) for folder in (ours, reference))
    assert set(found) == set(expected)
    assert len(found) == 7
    for name, metrics in expected.items():
        assert set(metrics) == {*METRICS, "example_count"}
        assert found[name] == pytest.approx(metrics, abs=1e-6, nan_ok=True)


def test_the_evaluator_breaks_the_same_thresholds(ours, reference):
    found = evaluation.read_failures(ours)
    assert found == evaluation.read_failures(reference)
    assert {metric for _, metric in found} == {"auc"}
    assert (WHOLE, "auc") not in found
    assert (("Home", "owner"), "auc") in found
    assert (("Home", "small"), "auc") not in found


def test_stock_metrics_of_tfma_agree(reference):
    whole = next(proto for proto in tfma.load_metrics(reference) if not proto.slice_key.single_slice_keys)
    values = {
        pair.key.name: pair.value.double_value.value
        for pair in whole.metric_keys_and_values
        if pair.key.model_name == "candidate" and not pair.key.is_diff
    }
    for name in STOCK:
        # TFMA's AUC counts scores in 10,000 buckets
        tolerance = 1e-4 if name == "auc" else 1e-6
        assert values[f"stock_{name}"] == pytest.approx(values[name], abs=tolerance), name


def test_one_config_for_both_frameworks_names_no_model(data_spec, config):
    assert evaluation.build_eval_config(data_spec, AUDIT) == evaluation.build_eval_config(data_spec, AUDIT)
    assert [spec.name for spec in config.model_specs] == ["candidate", "champion"]
    assert [list(spec.feature_keys) for spec in config.slicing_specs] == [[], ["slice_Home"], ["slice_x_band"]]


def test_a_config_without_thresholds_is_refused(data_spec):
    with pytest.raises(AuditError, match="no floors and no ceilings"):
        evaluation.build_eval_config(data_spec, AuditSpec.model_construct(floors={}, ceilings={}))


def test_a_label_that_is_no_class_is_refused(rows, write_examples, data_spec):
    import dataclasses

    folder = write_examples(dataclasses.replace(rows, labels=["ugly", *rows.labels[1:]]))
    with pytest.raises(AuditError, match="eval row 0: Status is 'ugly'; allowed: good, bad"):
        predictions.read_eval_split(folder / "Split-eval", data_spec)


def test_an_empty_split_is_refused(tmp_path, data_spec):
    with pytest.raises(AuditError, match="has no rows"):
        predictions.read_eval_split(tmp_path, data_spec)


def test_the_component_extends_the_evaluator():
    from tfx import types
    from tfx.components import Evaluator

    channels = {
        "examples": types.Channel(type=standard_artifacts.Examples),
        "model": types.Channel(type=standard_artifacts.Model),
        "parity": types.Channel(type=artifacts.ParityReport),
        "compile_report": types.Channel(type=artifacts.CompileReport),
        "model_run": types.Channel(type=standard_artifacts.ModelRun),
    }
    names = ("data_spec", "audit_spec", "serving_spec", "champion", "tracking", "framework", "code_fingerprint")
    stage = Auditor(**channels, **dict.fromkeys(names, ""))
    assert isinstance(stage, Evaluator)
    assert {name: channel.type_name for name, channel in stage.outputs.items()} == {
        "evaluation": "ModelEvaluation",
        "blessing": "ModelBlessing",
        "predictions": "components.Predictions",
        "audit": "components.AuditReport",
    }
