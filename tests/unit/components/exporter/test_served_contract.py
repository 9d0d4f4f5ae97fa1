"""The served-model contract: models of both frameworks pass the same tests."""

import subprocess
import sys

import numpy as np
import pytest

from components.core.files import copy_tree
from components.core.served_model import SERVING_DEFAULT, SERVING_RAW, raw_inputs


@pytest.fixture(scope="module")
def served(exported):
    import tensorflow as tf

    return tf.saved_model.load(str(exported[1]))


def _scores(served, examples):
    import tensorflow as tf

    return served.signatures[SERVING_DEFAULT](examples=tf.constant(examples))["scores"].numpy()


def _raw(**changes):
    import tensorflow as tf

    nan = float("nan")
    row = {"Income": [nan], "Age": [30.0], "f_u6bd4_u7387": [nan], "Home": [""]} | changes
    dtypes = {"Income": tf.float64, "Age": tf.float64, "f_u6bd4_u7387": tf.float32, "Home": tf.string}
    return {name: tf.constant(values, dtypes[name]) for name, values in row.items()}


def test_signatures_have_the_same_names_shapes_and_dtypes_in_both_frameworks(served):
    def shape(specs):
        return {name: (spec.dtype.name, tuple(spec.shape)) for name, spec in specs.items()}

    signatures = {
        key: (shape(signature.structured_input_signature[1]), shape(signature.structured_outputs))
        for key, signature in served.signatures.items()
    }
    answer = {"scores": ("float32", (None, 2)), "classes": ("string", (None, 2))}
    raw = {
        "Income": ("float64", (None,)),
        "Age": ("float64", (None,)),
        "f_u6bd4_u7387": ("float32", (None,)),
        "Home": ("string", (None,)),
    }
    assert signatures == {"serving_default": ({"examples": ("string", (None,))}, answer), "serving_raw": (raw, answer)}


def test_parity_holds_on_eval_and_edge_rows(exported):
    framework, _, _, report = exported
    assert report.passed, report.reason
    assert (report.framework, report.eval_rows, report.label_agreement) == (framework, 150, 1.0)
    assert report.edge_rows > 30
    assert report.largest_absolute_difference <= 1e-5


@pytest.mark.parametrize("rows", [1, 2, 7, 32])
def test_any_batch_size_gives_the_scores_of_the_rows_alone(served, served_case, rows):
    together = _scores(served, served_case.examples[:rows])
    alone = np.concatenate([_scores(served, [example]) for example in served_case.examples[:rows]])
    assert together.shape == (rows, 2)
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(together.sum(axis=1), 1.0, atol=1e-6)


def test_no_rows_give_no_scores(served):
    assert _scores(served, np.array([], object)).shape == (0, 2)


def test_classes_stand_in_the_order_of_the_data_spec(served):
    assert served.signatures[SERVING_RAW](**_raw())["classes"].numpy().tolist() == [[b"good", b"bad"]]


def test_the_label_and_slice_keys_are_not_asked_for(served, served_case):
    import tensorflow as tf

    bare = []
    for example in served_case.examples[:20]:
        parsed = tf.train.Example.FromString(example)
        for name in ("Status", "slice_Home"):
            del parsed.features.feature[name]
        bare.append(parsed.SerializeToString())
    np.testing.assert_array_equal(_scores(served, bare), _scores(served, served_case.examples[:20]))


def test_both_signatures_agree_on_rows_with_missing_cells(served, served_case):
    raw = served.signatures[SERVING_RAW](**raw_inputs(served_case.data, served_case.examples))["scores"].numpy()
    np.testing.assert_allclose(raw, _scores(served, served_case.examples), atol=1e-6)


def test_an_optional_input_without_rows_is_a_missing_value(served):
    left_out = served.signatures[SERVING_RAW](**_raw(Age=[30.0, 40.0], Income=[], Home=[], f_u6bd4_u7387=[]))["scores"].numpy()
    nan = float("nan")
    given = _raw(Age=[30.0, 40.0], Income=[nan, nan], Home=["", ""], f_u6bd4_u7387=[nan, nan])
    np.testing.assert_array_equal(left_out, served.signatures[SERVING_RAW](**given)["scores"].numpy())


@pytest.mark.parametrize("value", [0.5, 2.0**53 + 2, float("inf"), -(2.0**60)])
def test_an_integer_input_that_is_no_exact_integer_is_refused_by_name(served, value):
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)whole numbers of at most 2\^53.*Income"):
        served.signatures[SERVING_RAW](**_raw(Income=[value]))


def test_the_largest_exact_integers_are_taken(served):
    assert np.isfinite(served.signatures[SERVING_RAW](**_raw(Income=[2.0**53]))["scores"].numpy()).all()


def test_a_missing_value_that_is_not_optional_is_refused_by_name(served):
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)not optional.*Age"):
        served.signatures[SERVING_RAW](**_raw(Age=[float("nan")]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)not optional.*Age"):
        _scores(served, [b""])


def test_inputs_of_different_lengths_are_refused_by_name(served):
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)same number of rows.*Home"):
        served.signatures[SERVING_RAW](**_raw(Age=[1.0, 2.0, 3.0], Income=[], Home=["a", "b"], f_u6bd4_u7387=[]))


def test_optional_inputs_have_defaults_in_the_signature_def(exported):
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((exported[1] / "saved_model.pb").read_bytes())
    defaults = saved.meta_graphs[0].signature_def[SERVING_RAW].defaults
    assert sorted(defaults) == ["Home", "Income", "f_u6bd4_u7387"]
    assert {tuple(dim.size for dim in value.tensor_shape.dim) for value in defaults.values()} == {(0,)}


FRESH = """
import json, sys
BLOCKED = {"torch", "pytorch_lightning", "tensorflow_transform", "tfx_bsl", "struct2tensor"}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(name)
sys.meta_path.insert(0, Blocker())
import tensorflow as tf
served = tf.saved_model.load(sys.argv[1])
rows = [bytes.fromhex(row) for row in json.load(sys.stdin)]
print(json.dumps(served.signatures["serving_default"](examples=tf.constant(rows))["scores"].numpy().tolist()))
assert not BLOCKED & set(sys.modules)  # keras is loaded by tensorflow itself; the probe of the compiler has no package at all
"""


def test_a_fresh_process_without_the_frameworks_and_the_pipelines_folders_gives_the_same_scores(exported, served, served_case, tmp_path):
    import json

    copy = tmp_path / "moved"
    copy_tree(exported[1], copy)
    hidden = served_case.transform().with_name("transform-gone")
    served_case.transform().rename(hidden)
    try:
        rows = json.dumps([example.hex() for example in served_case.examples[:9]])
        command = [sys.executable, "-c", FRESH, str(copy)]
        done = subprocess.run(command, input=rows, capture_output=True, text=True, timeout=120, check=False)
    finally:
        hidden.rename(served_case.transform())
    assert done.returncode == 0, done.stderr[-2000:]
    np.testing.assert_array_equal(np.float32(json.loads(done.stdout)), _scores(served, served_case.examples[:9]))
