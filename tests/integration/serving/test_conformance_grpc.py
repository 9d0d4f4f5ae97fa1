"""The gRPC interface of TensorFlow Serving, expectation by expectation; what each rests on is named beside it."""

import random

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from tests.integration.serving.served import running, until


class Client:
    """Stubs of one server."""

    def __init__(self, port):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.model = model_service_pb2_grpc.ModelServiceStub(self.channel)


@pytest.fixture(scope="module")
def client(server):
    made = Client(server.grpc_port)
    yield made
    made.channel.close()


def request(inputs, *, name="m", signature="double", version=None, label=""):
    made = predict_pb2.PredictRequest()
    made.model_spec.name, made.model_spec.signature_name = name, signature
    if version is not None:
        made.model_spec.version.value = version
    if label:
        made.model_spec.version_label = label
    for key, value in inputs.items():
        made.inputs[key].CopyFrom(value if hasattr(value, "tensor_shape") else tf.make_tensor_proto(value))
    return made


def floats(*values):
    return np.array(values, np.float32)


def examples(made, *values):
    for value in values:
        made.input.example_list.examples.add().features.feature["x"].float_list.value.append(value)
    return made


# apis/prediction_service.proto, predict.proto: the answer names model, version and signature.
def test_predict(client):
    answer = client.prediction.Predict(request({"x": floats(1, 2.5)}))
    assert (answer.model_spec.name, answer.model_spec.version.value, answer.model_spec.signature_name) == ("m", 2, "double")
    np.testing.assert_array_equal(tf.make_ndarray(answer.outputs["y"]), floats(2, 5))


def test_the_answer_is_that_of_tensorflow_itself_bit_for_bit(client, models):
    values = np.random.default_rng(5).normal(size=257).astype(np.float32)
    answer = client.prediction.Predict(request({"x": values}, version=1))
    direct = tf.saved_model.load(str(models / "m" / "1")).signatures["double"](x=tf.constant(values))["y"].numpy()
    assert tf.make_ndarray(answer.outputs["y"]).tobytes() == direct.tobytes()


# predict.proto: output_filter names the outputs that are wanted.
def test_output_filter(client):
    made = request({"x": floats(1), "name": np.array(["a"], object)}, signature="raw")
    made.output_filter.append("scores")
    assert set(client.prediction.Predict(made).outputs) == {"scores"}


# model.proto: version and version_label.
def test_versions_and_labels(client):
    for spec, factor in (({"version": 1}, 1), ({"version": 2}, 2), ({"label": "stable"}, 1)):
        answer = client.prediction.Predict(request({"x": floats(3)}, **spec))
        assert tf.make_ndarray(answer.outputs["y"]).tolist() == [3.0 * factor]


# classification.proto, regression.proto, inference.proto.
def test_classify_regress_and_both(client):
    made = examples(classification_pb2.ClassificationRequest(), 1.0)
    made.model_spec.name, made.model_spec.signature_name = "m", "classify"
    (classes,) = client.prediction.Classify(made).result.classifications
    assert [(one.label, round(one.score, 6)) for one in classes.classes] == [("good", 0.8), ("bad", 0.2)]
    made = examples(regression_pb2.RegressionRequest(), 1.5, 2.0)
    made.model_spec.name, made.model_spec.signature_name = "m", "regress"
    assert [one.value for one in client.prediction.Regress(made).result.regressions] == [3.0, 4.0]
    made = examples(inference_pb2.MultiInferenceRequest(), 1.0)
    for key in ("classify", "regress"):
        task = made.tasks.add(method_name=f"tensorflow/serving/{key}")
        task.model_spec.name, task.model_spec.signature_name = "m", key
    first, second = client.prediction.MultiInference(made).results
    assert len(first.classification_result.classifications) == 1
    assert [one.value for one in second.regression_result.regressions] == [2.0]


def test_a_context_is_shared_by_all_examples(client):
    made = regression_pb2.RegressionRequest()
    made.model_spec.name, made.model_spec.signature_name = "m", "regress"
    made.input.example_list_with_context.context.features.feature["x"].float_list.value.append(2.0)
    made.input.example_list_with_context.examples.add()
    made.input.example_list_with_context.examples.add().features.feature["x"].float_list.value.append(3.0)
    assert [one.value for one in client.prediction.Regress(made).result.regressions] == [4.0, 6.0]


# get_model_metadata.proto: the one field signature_def.
def test_metadata(client):
    made = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    made.model_spec.name = "m"
    answer = client.prediction.GetModelMetadata(made)
    found = get_model_metadata_pb2.SignatureDefMap()
    assert answer.metadata["signature_def"].Unpack(found)
    assert (answer.model_spec.version.value, found.signature_def["double"].outputs["y"].dtype) == (2, 1)


# get_model_status.proto.
def test_status(client):
    made = get_model_status_pb2.GetModelStatusRequest()
    made.model_spec.name = "m"
    assert [(one.version, one.state) for one in client.model.GetModelStatus(made).model_version_status] == [(2, 30), (1, 30)]


ZEROS = tf.make_tensor_proto(np.zeros(1, np.float32))


def shaped(*dims, content=b""):
    made = type(ZEROS)(dtype=1, tensor_content=content)
    for size in dims:
        made.tensor_shape.dim.add(size=size)
    return made


def filtered(*outputs):
    made = request({"x": floats(1)})
    made.output_filter.extend(outputs)
    return made


# server_core.cc (model, version, label), predict_util.cc (signature, inputs, outputs), cc/saved_model/util.cc (defaults, tensors).
@pytest.mark.parametrize(
    ("made", "code", "words"),
    [
        (request({"x": floats(1)}, name="half"), "NOT_FOUND", "Servable not found for request: Latest(half)"),
        (request({"x": floats(1)}, version=9), "NOT_FOUND", "Servable not found for request: Specific(m, 9)"),
        (request({"x": floats(1)}, label="none"), "INVALID_ARGUMENT", "Unrecognized servable version label: none"),
        (predict_pb2.PredictRequest(), "INVALID_ARGUMENT", "Missing ModelSpec"),
        (request({"x": floats(1)}, signature="S"), "FAILED_PRECONDITION", 'Serving signature key "S" not found.'),
        (
            request({"x": floats(1), "name": np.array(["a"], object)}),
            "INVALID_ARGUMENT",
            "input size does not match signature: 2!=1 len({name,x}) != len({x}). Sent extra: {name}. Missing but required: {}.",
        ),
        (
            request({"x": floats(1)}, signature="raw"),
            "INVALID_ARGUMENT",
            "input size does not match signature: 1!=2 len({x}) != len({name,x}). Sent extra: {}. Missing but required: {name}.",
        ),
        (request({"z": floats(1)}), "INVALID_ARGUMENT", "Signature input alias: x(feed name: double_x:0) not found in request"),
        (request({"x": np.array([1], np.int64)}), "INVALID_ARGUMENT", ""),
        (request({"x": shaped(-1)}), "INVALID_ARGUMENT", "tensor parsing error: x"),
        (request({"x": shaped(2**62, 2**62)}), "INVALID_ARGUMENT", "tensor parsing error: x"),
        (request({"x": shaped(3, content=b"abc")}), "INVALID_ARGUMENT", "tensor parsing error: x"),
        (request({"x": type(ZEROS)(dtype=999)}), "INVALID_ARGUMENT", "tensor parsing error: x"),
        (request({"x": floats(-1)}, signature="checked"), "INVALID_ARGUMENT", "x is negative"),
        (filtered("z"), "INVALID_ARGUMENT", "output tensor alias not found in signature: z Outputs expected to be in the set {y}."),
        (filtered("y", "y"), "INVALID_ARGUMENT", "duplicate output tensor alias: y"),
    ],
)
def test_refusals(client, made, code, words):
    with pytest.raises(grpc.RpcError) as caught:
        client.prediction.Predict(made)
    assert caught.value.code().name == code
    assert words in caught.value.details()


def by_examples(method, signature, *values, name="m"):
    made = {"Classify": classification_pb2.ClassificationRequest, "Regress": regression_pb2.RegressionRequest}[method]()
    made.model_spec.name, made.model_spec.signature_name = name, signature
    return examples(made, *values)


def several(*tasks):
    made = examples(inference_pb2.MultiInferenceRequest(), 1.0)
    for name, signature, method in tasks:
        task = made.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name, task.model_spec.signature_name = name, signature
    return made


BOTH = (("m", "classify", "classify"), ("m", "classify", "regress"))


# classifier.cc, regressor.cc, util.cc (InputToSerializedExampleTensor), multi_inference.cc, get_model_metadata_impl.cc.
@pytest.mark.parametrize(
    ("method", "made", "code", "words"),
    [
        ("Classify", by_examples("Classify", "S", 1.0), "INVALID_ARGUMENT", "No signature was found with the name: S"),
        ("Classify", by_examples("Classify", "raw", 1.0), "INVALID_ARGUMENT", "Expected one input Tensor."),
        ("Classify", by_examples("Classify", "serving_default", 1.0), "INVALID_ARGUMENT", "No classification inputs found"),
        ("Classify", by_examples("Classify", "classify"), "INVALID_ARGUMENT", "Input is empty."),
        ("Classify", by_examples("Classify", "regress", 1.0), "INVALID_ARGUMENT", "contain at least one of"),
        ("Regress", by_examples("Regress", "classify", 1.0), "INVALID_ARGUMENT", "Expected one output Tensor."),
        ("Regress", by_examples("Regress", "regress", 1.0, name="half"), "NOT_FOUND", "Servable not found for request: Latest(half)"),
        ("MultiInference", several(), "INVALID_ARGUMENT", "ModelSpec has no name specified."),
        ("MultiInference", several(*BOTH), "INVALID_ARGUMENT", "Duplicate evaluation of signature: classify"),
        ("MultiInference", several(("m", "classify", "classify"), ("n", "regress", "regress")), "INVALID_ARGUMENT", "the same model name."),
        ("MultiInference", several(("m", "S", "regress")), "INVALID_ARGUMENT", "Requested signature not found in model graph: S"),
        ("MultiInference", several(("m", "regress", "predict")), "UNIMPLEMENTED", "Unsupported signature method_name"),
        ("GetModelMetadata", get_model_metadata_pb2.GetModelMetadataRequest(), "INVALID_ARGUMENT", "Missing ModelSpec"),
    ],
)  # fmt: skip
def test_refusals_of_the_other_methods(client, method, made, code, words):
    with pytest.raises(grpc.RpcError) as caught:
        getattr(client.prediction, method)(made)
    assert caught.value.code().name == code
    assert words in caught.value.details()


def test_random_changes_of_a_request_never_end_the_server(client, server):
    """Bytes of a valid request, changed at random: an answer or a refusal, and the next good request is answered as before."""
    chance = random.Random(11)
    good = request({"x": floats(1, 2)}, version=1)
    valid = good.SerializeToString()
    call = client.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    codes = set()
    for _ in range(600):
        data = bytearray(valid)
        for _ in range(chance.randint(1, 5)):
            place = chance.randrange(len(data))
            change = chance.random()
            if change < 0.5:
                data[place] = chance.randrange(256)
            elif change < 0.75:
                del data[place]
            else:
                data.insert(place, chance.randrange(256))
        try:
            call(bytes(data), timeout=20)
            codes.add("OK")
        except grpc.RpcError as error:
            codes.add(error.code().name)
    assert codes <= {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "INTERNAL", "UNIMPLEMENTED"}
    assert len(codes) >= 3
    assert tf.make_ndarray(client.prediction.Predict(good).outputs["y"]).tolist() == [1.0, 2.0]
    assert server.process.poll() is None


# model_management.proto, server_core.cc: a reload replaces everything; a label needs a version that is available.
def test_a_reload_replaces_the_configuration(own_models, models, tmp_path):
    words = ("serve", "--model", f"m={own_models}/m", "--grpc-port", "0", "--rest-port", "0")
    with running(*words, cwd=tmp_path, ready="/readyz") as server:
        client = Client(server.grpc_port)

        def reload(name, base, label=None):
            made = model_management_pb2.ReloadConfigRequest()
            entry = made.config.model_config_list.config.add(name=name, base_path=str(base), model_platform="tensorflow")
            if label is not None:
                entry.version_labels["canary"] = label
            return client.model.HandleReloadConfigRequest(made, timeout=60)

        reload("other", models / "m")
        assert server.rest("/v1/models/other:predict", {"signature_name": "double", "instances": [1.0]})[1] == {"predictions": [2.0]}
        until(lambda: server.rest("/v1/models/m")[0] == 404)
        with pytest.raises(grpc.RpcError) as caught:
            reload("other", models / "m", label=7)
        assert caught.value.code().name == "FAILED_PRECONDITION"
        assert (
            "Request to assign label to version 7 of model other, which is not currently available for inference" in caught.value.details()
        )
        reload("other", models / "m", label=2)
        assert server.rest("/v1/models/other/labels/canary:predict", {"signature_name": "double", "instances": [1.0]})[0] == 200
        client.channel.close()
