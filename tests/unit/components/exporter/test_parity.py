"""Parity: a model that differs from its native form is stopped, and the report names the worst row."""

import dataclasses
import json

import numpy as np
import pytest

from components.core.contracts import ModelSpec, TransformedFeature
from components.core.errors import ExportError


@pytest.fixture(scope="module")
def keras_native(export_inputs):
    from components.exporter.native import load_native

    return load_native(export_inputs["keras"].native)


@pytest.fixture(scope="module")
def transform(export_inputs):
    from components.exporter.serving import TransformGraph

    return TransformGraph(export_inputs["keras"].transform, export_inputs["keras"].data)


def _check(native, transform, served, inputs, examples):
    from components.exporter.edge_rows import make_edge_rows
    from components.exporter.parity import check_parity, edge_rows, eval_rows

    rows = [eval_rows(examples), edge_rows(make_edge_rows(inputs.data, examples))]
    return check_parity(native, transform, served, data=inputs.data, rows=rows, tolerance=1e-5)


def test_a_broken_weight_fails_and_names_the_row_where_it_shows_most(export_inputs, keras_native, transform, served_case, tmp_path):
    import tensorflow as tf

    from components.exporter.export import export

    inputs = export_inputs["keras"]
    export(inputs, tmp_path / "model", report_folder=tmp_path / "parity")
    served = tf.saved_model.load(str(tmp_path / "model"))
    embedding = next(weight for weight in served.scorer.weights if tuple(weight.shape) == (4, 3))
    broken = embedding.numpy()
    broken[0] += 1.0  # id 0 is the first line of the vocabulary
    embedding.assign(broken)

    report = _check(keras_native, transform, served, inputs, served_case.examples)

    assert not report.passed
    assert report.largest_absolute_difference > 1e-3
    assert "scores differ by" in report.reason and "allowed 1e-05" in report.reason
    first = (tmp_path / "model" / "assets" / "home").read_text(encoding="utf-8").split("\n")[0]
    assert report.worst_row.features["Home"] == first
    assert report.worst_row.native != report.worst_row.exported
    gap = max(abs(a - b) for a, b in zip(report.worst_row.native, report.worst_row.exported, strict=True))
    assert gap == pytest.approx(report.largest_absolute_difference)


def test_a_score_that_is_not_finite_fails_even_if_both_sides_agree(export_inputs, keras_native, transform, exported, served_case):
    import tensorflow as tf

    served = tf.saved_model.load(str(exported[1]))

    def scores(features):
        given = keras_native.scores(features)
        return np.full_like(given, np.nan)

    report = _check(dataclasses.replace(keras_native, scores=scores), transform, served, export_inputs["keras"], served_case.examples[:9])
    assert not report.passed
    assert report.largest_absolute_difference is None
    assert "a score is not finite in row 0 (eval)" in report.reason
    assert report.worst_row.native == (None, None)


def test_an_id_outside_its_table_fails_although_scores_agree(export_inputs, keras_native, transform, exported, served_case):
    import tensorflow as tf

    served = tf.saved_model.load(str(exported[1]))
    floats = [feature for feature in keras_native.description.spec.features if feature.dtype == "float32"]
    small = ModelSpec(features=(*floats, TransformedFeature(name="Home", dtype="int64", vocabulary_size=3)), classes=("good", "bad"))
    native = dataclasses.replace(keras_native, description=keras_native.description.model_copy(update={"spec": small}))
    report = _check(native, transform, served, export_inputs["keras"], served_case.examples)
    assert not report.passed
    assert "'Home' must be at least 0 and below 3" in report.reason


def test_parity_file_and_edge_rows_are_written(exported):
    from components.core.measurements import ParityReport, read_measurement
    from components.core.served_model import read_examples

    framework, _, folder, report = exported
    assert read_measurement(ParityReport, str(folder), "parity.json") == report
    assert len(read_examples(folder / "edge_rows.tfrecord.gz")) == report.edge_rows
    assert json.loads((folder / "parity.json").read_text())["framework"] == framework
    assert report.ops["ParseExampleV2"] >= 1 and "XlaCallModule" not in report.ops


def test_the_other_frameworks_model_is_refused(export_inputs, tmp_path):
    from components.exporter.export import export

    with pytest.raises(ExportError, match="is a keras model, not lightning"):
        export(dataclasses.replace(export_inputs["keras"], framework="lightning"), tmp_path / "model", report_folder=tmp_path)
    assert not (tmp_path / "model").exists()


def test_a_model_feature_made_from_the_label_is_refused(export_inputs, keras_native, transform, served_case):
    from components.exporter.serving import ServedModel

    leaking = ModelSpec(features=(TransformedFeature(name="Status", dtype="int64", vocabulary_size=2),), classes=("good", "bad"))
    model = ServedModel(transform, keras_native.scorer, data=served_case.data, model=leaking)
    with pytest.raises(ExportError, match="'Status' cannot be made from the raw features alone"):
        model.transform_examples.get_concrete_function()


def test_a_function_marked_for_xla_is_refused(tmp_path):
    import tensorflow as tf

    from components.exporter.plain_ops import count_ops

    module = tf.Module()
    module.call = tf.function(lambda x: x + 1.0, input_signature=[tf.TensorSpec([None])], jit_compile=True)
    tf.saved_model.save(module, str(tmp_path / "model"))
    with pytest.raises(ExportError, match="marked jit_compile=True"):
        count_ops(tmp_path / "model")


def test_python_calls_are_refused_by_name(tmp_path):
    import tensorflow as tf

    from components.exporter.plain_ops import count_ops

    module = tf.Module()
    module.call = tf.function(lambda x: tf.numpy_function(np.sin, [x], tf.float32), input_signature=[tf.TensorSpec([None])])
    tf.saved_model.save(module, str(tmp_path / "model"))
    with pytest.raises(ExportError, match="PyFunc"):
        count_ops(tmp_path / "model")
