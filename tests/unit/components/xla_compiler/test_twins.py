"""XLA twins of models of both frameworks, in the final SavedModel."""

import dataclasses
import shutil

import numpy as np
import pytest

from components.core.files import tree_digest, tree_size_bytes
from components.core.served_model import raw_inputs


@pytest.fixture(scope="module")
def compile_inputs(exported, export_inputs):
    from components.xla_compiler.compile import CompileInputs

    framework, model, parity, _ = exported
    inputs = export_inputs[framework]
    return CompileInputs(
        model=model,
        parity=parity,
        examples=inputs.examples,
        framework=framework,
        model_name="credit-risk",
        data=inputs.data,
        serving=inputs.serving,
    )


@pytest.fixture(scope="module")
def compiled(compile_inputs, tmp_path_factory):
    from components.xla_compiler.compile import compile_candidate

    root = tmp_path_factory.mktemp("compiled")
    report = compile_candidate(compile_inputs, root / "model" / "Format-Serving", report_folder=root / "report")
    return root / "model" / "Format-Serving", root / "report", report


@pytest.fixture(scope="module")
def loaded(compiled):
    import tensorflow as tf

    return tf.saved_model.load(str(compiled[0]))


def _scores(loaded, signature, examples):
    import tensorflow as tf

    return loaded.signatures[signature](examples=tf.constant(examples))["scores"].numpy()


def test_everything_passed_and_is_written(compiled, exported):
    from components.core.measurements import CompileReport, read_measurement

    _, folder, report = compiled
    assert (report.framework, report.compiled) == (exported[0], True)
    assert (report.xla_numerics_passed, report.plain_without_xla_passed) == (True, True)
    assert read_measurement(CompileReport, str(folder), "compile.json") == report


def test_one_compilation_a_bucket(compiled):
    report = compiled[2]
    assert [bucket.batch for bucket in report.buckets] == [1, 8, 64]
    assert report.compilations == 3


def test_bucket_facts_are_those_of_the_network(compiled):
    """Five floats and an embedding of 3 make 8 columns; 8 hidden units, 2 classes: 2 * (8 * 8 + 8 * 2) = 160 operations a row."""
    for bucket in compiled[2].buckets:
        assert bucket.flops == 160 * bucket.batch
        assert bucket.fusions >= 1
        assert bucket.memory_bytes >= 4 * (4 * 3 + 8 * 8 + 8 + 8 * 2 + 2)
        assert 0 < bucket.plain_p50_ms <= bucket.plain_p99_ms
        assert 0 < bucket.xla_p50_ms <= bucket.xla_p99_ms
        assert bucket.calls >= 100
        assert bucket.faster == ("xla" if bucket.xla_p50_ms < bucket.plain_p50_ms else "plain")
        assert bucket.largest_absolute_difference <= 1e-5


def test_identity_and_size_are_those_of_the_folder(compiled):
    folder, _, report = compiled
    assert report.tree_digest == tree_digest(folder)
    assert report.size_bytes == tree_size_bytes(folder)
    assert sorted(path.name for path in (folder / "assets.extra").iterdir()) == [
        "tf_serving_warmup_requests",
        "tf_serving_warmup_requests_xla",
    ]
    assert [path.name for path in (folder / "assets").iterdir()] == ["home"]


def test_plain_signatures_answer_as_before(loaded, exported, served_case):
    import tensorflow as tf

    before = tf.saved_model.load(str(exported[1]))
    np.testing.assert_array_equal(
        _scores(loaded, "serving_default", served_case.examples), _scores(before, "serving_default", served_case.examples)
    )


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 8, 9, 32, 64, 65, 150])
def test_twins_agree_with_plain_below_at_and_above_the_buckets(loaded, served_case, rows):
    examples = np.array(served_case.examples[:rows], object)
    plain = _scores(loaded, "serving_default", examples)
    np.testing.assert_allclose(_scores(loaded, "serving_default_xla", examples), plain, atol=1e-6)
    raw = raw_inputs(served_case.data, served_case.examples[:rows])
    np.testing.assert_allclose(loaded.signatures["serving_raw_xla"](**raw)["scores"].numpy(), plain, atol=1e-6)


def test_padding_does_not_change_a_score(loaded, served_case):
    five = _scores(loaded, "serving_default_xla", served_case.examples[:5])
    eight = _scores(loaded, "serving_default_xla", served_case.examples[:8])
    np.testing.assert_array_equal(five, eight[:5])


def test_twins_refuse_what_plain_signatures_refuse(loaded):
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)not optional.*Age"):
        _scores(loaded, "serving_default_xla", [b""])


def test_plain_signatures_hold_no_function_that_xla_must_compile(compiled):
    from tensorflow.core.protobuf import saved_model_pb2

    meta = saved_model_pb2.SavedModel.FromString((compiled[0] / "saved_model.pb").read_bytes()).meta_graphs[0]
    functions = {function.signature.name: function for function in meta.graph_def.library.function}
    nodes = {node.name: node for node in meta.graph_def.node}

    def reached(names, seen):
        for name in names:
            if name in functions and name not in seen:
                seen.add(name)
                called = [attr.func.name for node in functions[name].node_def for attr in node.attr.values() if attr.func.name]
                called += [func.name for node in functions[name].node_def for attr in node.attr.values() for func in attr.list.func]
                reached(called, seen)
        return seen

    def compiled_by_xla(signature):
        node = nodes[meta.signature_def[signature].outputs["scores"].name.partition(":")[0]]
        return [name for name in reached([node.attr["f"].func.name], set()) if functions[name].attr["_XlaMustCompile"].b]

    assert compiled_by_xla("serving_default") == []
    assert compiled_by_xla("serving_raw") == []
    assert len(compiled_by_xla("serving_default_xla")) == 3
    assert sorted(compiled_by_xla("serving_raw_xla")) == sorted(compiled_by_xla("serving_default_xla"))


def test_optional_inputs_keep_their_defaults(compiled):
    from components.xla_compiler.twins import read_signatures

    signatures = read_signatures(compiled[0])
    assert sorted(signatures["serving_raw"].defaults) == ["Home", "Income", "f_u6bd4_u7387"]
    assert sorted(signatures["serving_raw_xla"].defaults) == ["Home", "Income", "f_u6bd4_u7387"]


@pytest.mark.parametrize(("file", "suffix"), [("tf_serving_warmup_requests", ""), ("tf_serving_warmup_requests_xla", "_xla")])
def test_warmup_records_can_be_replayed(compiled, loaded, file, suffix):
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    records = list(tf.data.TFRecordDataset(str(compiled[0] / "assets.extra" / file)).as_numpy_iterator())
    seen = []
    for record in records:
        request = prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        inputs = {name: tf.constant(tf.make_ndarray(value), tf.as_dtype(value.dtype)) for name, value in request.inputs.items()}
        scores = loaded.signatures[request.model_spec.signature_name](**inputs)["scores"].numpy()
        assert np.isfinite(scores).all()
        seen.append((request.model_spec.name, request.model_spec.signature_name, len(scores)))
    signatures = [f"serving_default{suffix}", f"serving_raw{suffix}"]
    assert sorted(seen) == sorted(("credit-risk", signature, bucket) for signature in signatures for bucket in (1, 8, 64))


def test_the_probe_really_has_xla_switched_off(compiled, served_case):
    import tensorflow as tf

    from components.core.isolated_session import ask, request
    from components.xla_compiler.twins import read_signatures

    signatures = read_signatures(compiled[0])
    inputs = {"examples": tf.constant(served_case.examples[:2])}
    plain, xla = ask(compiled[0], [request(signatures[key], inputs) for key in ("serving_default", "serving_default_xla")])
    assert np.shape(plain) == (2, 2)
    assert "XLA compilation disabled" in xla["error"]


def test_a_stopped_candidate_is_copied_and_nothing_is_claimed(compile_inputs, exported, tmp_path):
    from components.core.files import write_json
    from components.xla_compiler.compile import compile_candidate

    shutil.copytree(compile_inputs.parity, tmp_path / "parity")
    failed = exported[3].model_copy(update={"passed": False, "reason": "scores differ by 0.1"})
    write_json(tmp_path / "parity" / "parity.json", failed.model_dump(mode="json"))
    inputs = dataclasses.replace(compile_inputs, parity=tmp_path / "parity")
    report = compile_candidate(inputs, tmp_path / "model" / "Format-Serving", report_folder=tmp_path / "report")
    assert (report.compiled, report.buckets) == (False, ())
    assert (report.xla_numerics_passed, report.slo_passed, report.plain_without_xla_passed) == (None, None, None)
    assert "scores differ by 0.1" in report.reason
    assert report.tree_digest == tree_digest(compile_inputs.model)
