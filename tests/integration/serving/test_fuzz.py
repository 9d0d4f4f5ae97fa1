"""Requests that nobody would write, by hypothesis: no worker ends, and no caller sees another model's answers."""

import contextlib
import http.client
import json
import threading

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    input_pb2,
    model_pb2,
    predict_pb2,
    regression_pb2,
)

from tests.integration.serving.served import make_model, running

FUZZED = settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
SCALES = {"m": 2.0, "other": 4096.0}
SIGNATURES = ("double", "raw", "serving_default", "classify", "regress", "checked", "", "none")
REFUSALS = {400, 404, 405, 413}
CODES = {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "UNIMPLEMENTED", "OUT_OF_RANGE"}


class Bystander:
    """Somebody who asks both models all the time, in requests that share calls with everybody's, and checks each answer."""

    def __init__(self, server):
        self._port, self._stopping = server.rest_port, threading.Event()
        self.checked, self.wrong = 0, []
        self._threads = [threading.Thread(target=self._ask, args=(model,)) for model in SCALES]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, model):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        number = 0
        while not self._stopping.is_set():
            number += 1
            values = [float(number % 97), float(number % 89)]
            connection.request("POST", f"/v1/models/{model}:predict", json.dumps({"signature_name": "double", "instances": values}))
            response = connection.getresponse()
            said = response.status, json.loads(response.read())
            if said != (200, {"predictions": [SCALES[model] * value for value in values]}):
                self.wrong.append((model, values, said))
            self.checked += 1
        connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    words = []
    for name, scale in SCALES.items():
        make_model(folder / name / "1", scale)
        words += ["--model", f"{name}={folder / name}"]
    with running(
        "serve", *words, "--grpc-port", "0", "--rest-port", "0", "--batching", "--max-body-mb", "1", cwd=folder, ready="/readyz"
    ) as server:
        yield server


@pytest.fixture
def bystander(server):
    with Bystander(server) as bystander:
        yield bystander
    assert bystander.wrong == []
    assert bystander.checked > 100
    assert server.process.poll() is None


numbers = st.integers(-(2**70), 2**70) | st.floats(width=64) | st.sampled_from([0, 1, -1, 1e39, 2**31, 2**63])
texts = st.text(max_size=12) | st.builds(lambda text: {"b64": text}, st.text("AQgw=é", max_size=8))
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["x", "name", "examples", "b64", "é"]), inner, max_size=3),
    max_leaves=12,
)
bodies = st.one_of(
    st.builds(
        lambda name, rows: json.dumps({"signature_name": name, "instances": rows}).encode(),
        st.sampled_from(["double", "checked", "raw"]),
        st.lists(st.floats(width=32), min_size=1, max_size=3),
    ),
    st.binary(max_size=60),
    st.builds(lambda value: json.dumps(value).encode(), values),
    st.fixed_dictionaries(
        {},
        optional={
            "signature_name": st.sampled_from(SIGNATURES) | values,
            "instances": st.lists(numbers, max_size=4) | values,
            "inputs": st.lists(numbers, max_size=4) | values,
            "examples": st.lists(st.dictionaries(st.sampled_from(["x", "y"]), values, max_size=2), max_size=3) | values,
            "context": values,
        },
    ).map(lambda body: json.dumps(body).encode()),
)
paths = st.builds(
    "/v1/models/{}{}{}".format,
    st.sampled_from(["m", "M", "none", "%00", "..%2fother", "m%3apredict", "", "é".encode().decode("latin-1")]),
    st.sampled_from(["", "", "", "/versions/1", "/versions/2", "/versions/" + "9" * 25, "/versions/-1", "/labels/stable", "/metadata"]),
    st.sampled_from([":predict", ":predict", ":classify", ":regress", ":nothing", "", ":predict:predict", "/"]),
)


class AnyBytes(http.client.HTTPConnection):
    """A client that sends a path as it is."""

    def _encode_request(self, request):
        return request.encode("latin-1")


@given(method=st.sampled_from(["POST", "POST", "POST", "GET", "PUT", "DELETE"]), path=st.just("/v1/models/m:predict") | paths, body=bodies)
@FUZZED
def _ask_rest(port, seen, method, path, body):
    connection = AnyBytes("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.putrequest(method, path, skip_accept_encoding=True)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        text = response.read()
    if not path.isascii():
        assert response.status == 400  # no HTTP: refused before anybody looks at it
        return
    said = json.loads(text)
    seen.add(response.status)
    assert isinstance(said, dict)
    assert b"Traceback" not in text
    assert response.status == 200 or (response.status in REFUSALS and said["error"])


def test_no_rest_request_ends_a_worker_or_mixes_models(server, bystander):
    seen = set()
    _ask_rest(server.rest_port, seen)
    assert {200, 400, 404} <= seen


specs = st.builds(
    model_pb2.ModelSpec,
    name=st.sampled_from(["m", "m", "m", "none", "", "é"]),
    signature_name=st.sampled_from(SIGNATURES),
)
shapes = st.lists(st.integers(-2, 3) | st.sampled_from([2**31, 2**62, -(2**63)]), max_size=4)


@st.composite
def tensors(draw):
    """Tensors whose parts do not fit together."""
    made = tensor_pb2.TensorProto(dtype=draw(st.integers(0, 30) | st.sampled_from([1, 1, 1, 7, 7])))
    made.tensor_shape.unknown_rank = draw(st.booleans()) and draw(st.booleans())
    for size in draw(shapes):
        made.tensor_shape.dim.add(size=size)
    made.float_val.extend(draw(st.lists(st.floats(width=32), max_size=4)))
    made.int64_val.extend(draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=2)))
    made.string_val.extend(draw(st.lists(st.binary(max_size=6), max_size=3)))
    made.tensor_content = draw(st.binary(max_size=16))
    return made


@st.composite
def inputs(draw):
    """Examples, some of them no tf.Example."""
    made = input_pb2.Input()
    for _ in range(draw(st.integers(0, 3))):
        example = made.example_list.examples.add()
        example.features.feature[draw(st.sampled_from(["x", "y"]))].float_list.value.extend(draw(st.lists(st.floats(width=32), max_size=3)))
    return made


def predictions(draw):
    """PredictRequest."""
    made = predict_pb2.PredictRequest(
        model_spec=draw(specs), output_filter=draw(st.lists(st.sampled_from(["y", "scores", "z"]), max_size=3))
    )
    for name in draw(st.lists(st.sampled_from(["x", "name", "examples", "inputs", "z"]), max_size=3)):
        made.inputs[name].CopyFrom(draw(tensors()))
    if draw(st.booleans()):
        made.model_spec.version.value = draw(st.sampled_from([1, 1, 0, 2, -1, 2**62]))
    return made


def inferences(draw):
    """MultiInferenceRequest."""
    made = inference_pb2.MultiInferenceRequest(input=draw(inputs()))
    for _ in range(draw(st.integers(0, 3))):
        method = draw(st.sampled_from(["tensorflow/serving/classify", "tensorflow/serving/regress", "tensorflow/serving/predict", ""]))
        made.tasks.add(model_spec=draw(specs), method_name=method)
    return made


METHODS = {
    "PredictionService/Predict": predictions,
    "PredictionService/Classify": lambda draw: classification_pb2.ClassificationRequest(model_spec=draw(specs), input=draw(inputs())),
    "PredictionService/Regress": lambda draw: regression_pb2.RegressionRequest(model_spec=draw(specs), input=draw(inputs())),
    "PredictionService/MultiInference": inferences,
    "PredictionService/GetModelMetadata": lambda draw: get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec=draw(specs), metadata_field=draw(st.lists(st.sampled_from(["signature_def", "x"]), max_size=2))
    ),
    "ModelService/GetModelStatus": lambda draw: get_model_status_pb2.GetModelStatusRequest(model_spec=draw(specs)),
}


@st.composite
def messages(draw):
    """(method, bytes)."""
    method = draw(st.sampled_from(["PredictionService/Predict", *METHODS]))
    return method, METHODS[method](draw).SerializeToString()


@given(message=messages())
@FUZZED
def _ask_grpc(channel, seen, message):
    method, content = message
    try:
        channel.unary_unary(f"/tensorflow.serving.{method}")(content, timeout=60)
        code = "OK"
    except grpc.RpcError as error:
        code = error.code().name
        assert error.details()
        assert "Traceback" not in error.details()
    assert code in CODES
    seen.add(code)


def test_no_grpc_message_ends_a_worker_or_mixes_models(server, bystander):
    seen = set()
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        _ask_grpc(channel, seen)
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND"} <= seen
