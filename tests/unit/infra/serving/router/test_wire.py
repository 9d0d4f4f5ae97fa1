"""The wire reader against protobuf's own messages."""

import random

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    regression_pb2,
)

from infra.serving.router import wire

REQUESTS = {
    "Predict": predict_pb2.PredictRequest,
    "Classify": classification_pb2.ClassificationRequest,
    "Regress": regression_pb2.RegressionRequest,
    "GetModelMetadata": get_model_metadata_pb2.GetModelMetadataRequest,
    "GetModelStatus": get_model_status_pb2.GetModelStatusRequest,
}


@pytest.mark.parametrize("method", REQUESTS)
def test_the_model_is_read_and_the_version_pinned(method):
    request = REQUESTS[method]()
    request.model_spec.name = "credit-risk"
    request.model_spec.signature_name = "serving_default"
    data = request.SerializeToString()
    assert wire.target(method, data) == wire.Target("credit-risk", pinned=False)
    pinned = REQUESTS[method].FromString(wire.pin(method, data, 300))
    request.model_spec.version.value = 300
    assert pinned == request
    assert wire.target(method, pinned.SerializeToString()).pinned


def test_inputs_stay_as_they_are():
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "m"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.arange(600, dtype=np.float32)))
    pinned = predict_pb2.PredictRequest.FromString(wire.pin("Predict", request.SerializeToString(), 2))
    request.model_spec.version.value = 2
    assert pinned == request


def test_a_label_is_a_pin():
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "m"
    request.model_spec.version_label = "canary"
    assert wire.target("Predict", request.SerializeToString()) == wire.Target("m", pinned=True)


def test_each_task_of_multi_inference_is_pinned():
    request = inference_pb2.MultiInferenceRequest()
    for key in ("a", "b"):
        task = request.tasks.add(method_name="tensorflow/serving/classify")
        task.model_spec.name, task.model_spec.signature_name = "m", key
    request.input.example_list.examples.add().features.feature["x"].float_list.value.append(1.5)
    data = request.SerializeToString()
    assert wire.target("MultiInference", data) == wire.Target("m", pinned=False)
    pinned = inference_pb2.MultiInferenceRequest.FromString(wire.pin("MultiInference", data, 7))
    for task in request.tasks:
        task.model_spec.version.value = 7
    assert pinned == request


def test_no_model():
    assert wire.target("Predict", b"") == wire.Target("", pinned=False)


@pytest.mark.parametrize("typed", [True, False])
def test_scores_of_an_answer(typed):
    expected = np.array([[0.25, 0.75], [0.5, 0.5], [np.nan, 1.0]], np.float32)
    response = predict_pb2.PredictResponse()
    response.model_spec.name = "m"
    response.outputs["classes"].CopyFrom(tf.make_tensor_proto([["good", "bad"]] * 3))
    tensor = response.outputs["scores"]
    tensor.dtype = 1
    for size in expected.shape:
        tensor.tensor_shape.dim.add(size=size)
    if typed:
        tensor.float_val.extend(expected.ravel().tolist())
    else:
        tensor.tensor_content = expected.tobytes()
    np.testing.assert_array_equal(wire.scores(response.SerializeToString()), expected)


@pytest.mark.parametrize("typed", [True, False])
def test_scores_of_double_precision(typed):
    """Their bytes read as floats would be other numbers, NaN among them, and roll a good candidate back."""
    response = predict_pb2.PredictResponse()
    tensor = response.outputs["scores"]
    tensor.dtype = 2
    expected = np.array([[0.25, 0.75], [1e-300, -1.0]])
    for size in expected.shape:
        tensor.tensor_shape.dim.add(size=size)
    if typed:
        tensor.double_val.extend(expected.ravel().tolist())
    else:
        tensor.tensor_content = expected.tobytes()
    found = wire.scores(response.SerializeToString())
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)


def test_one_value_for_a_whole_tensor():
    response = predict_pb2.PredictResponse()
    tensor = response.outputs["scores"]
    tensor.dtype = 1
    for size in (3, 2):
        tensor.tensor_shape.dim.add(size=size)
    tensor.float_val.append(0.5)
    np.testing.assert_array_equal(wire.scores(response.SerializeToString()), np.full((3, 2), 0.5, np.float32))


@pytest.mark.parametrize("value", [tf.constant(["a"]), tf.constant([1], tf.int64), tf.constant([0.5], tf.bfloat16)])
def test_scores_of_other_types_are_not_read(value):
    response = predict_pb2.PredictResponse()
    response.outputs["scores"].CopyFrom(tf.make_tensor_proto(value))
    assert wire.scores(response.SerializeToString()) is None


def test_version_zero_and_an_empty_label_are_pins():
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "m"
    request.model_spec.version.value = 0
    assert wire.target("Predict", request.SerializeToString()).pinned
    request.model_spec.version_label = ""
    assert wire.target("Predict", request.SerializeToString()).pinned


def test_an_answer_without_scores():
    response = predict_pb2.PredictResponse()
    response.outputs["value"].CopyFrom(tf.make_tensor_proto([1.0]))
    assert wire.scores(response.SerializeToString()) is None


TOO_LONG = b"\x0a" + b"\xff" * 10 + b"\x01"


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\x05ab", b"\xff" * 12, b"\x0b", TOO_LONG, b"\x02"])
def test_what_is_no_message_is_refused(data):
    with pytest.raises(wire.Malformed):
        wire.target("Predict", data)


def test_random_bytes_are_read_or_refused():
    chance = random.Random(7)
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "m"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0, 2.0]))
    valid = request.SerializeToString()
    refused = 0
    for _ in range(3000):
        data = bytearray(valid)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            found = wire.target("Predict", bytes(data))
        except wire.Malformed:
            refused += 1
        else:
            assert isinstance(found.name, str)
    assert 0 < refused < 3000
