"""The router in front of the embedded model server: two versions of a model, told apart by their answers."""

import grpc
import pytest

from components.core.rollout import bucket
from tests.integration.serving.served import running
from tests.integration.serving.test_router import MODEL, Place

ROWS = {"signature_name": "serving_raw", "instances": [{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}]}
COLUMNS = {"signature_name": "double", "inputs": {"x": [1.0, 2.0]}}


class Ports:
    """What a Place needs to know of a backend."""

    def __init__(self, server):
        self.rest_port, self.grpc_port = server.rest_port, server.grpc_port


@pytest.fixture(scope="module")
def router(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("embedded")
    config = folder / "models.config"
    config.write_text(
        f"""model_config_list {{ config {{ name: "{MODEL}" base_path: "{models}/m" model_platform: "tensorflow"
        model_version_policy {{ all {{}} }} version_labels {{ key: "canary" value: 2 }} }} }}"""
    )
    with running("serve", "--config", config, "--grpc-port", "0", "--rest-port", "0", cwd=folder, ready="/readyz") as server:
        place = Place(folder, Ports(server))
        place.begin("1", 100)
        place.begin("2", 50)
        with place.router() as started:
            yield started


def expected(key):
    return 2 if bucket(MODEL, key.encode()) < 5000 else 1


KEYS = [f"user-{number}" for number in range(20)]


def test_rows_and_columns_over_rest(router):
    assert {expected(key) for key in KEYS} == {1, 2}
    for key in KEYS:
        scale = expected(key)
        status, answer, headers = router.rest(f"/v1/models/{MODEL}:predict", ROWS, headers={"x-tandem-key": key})
        assert (status, headers["x-tandem-version"]) == (200, str(scale))
        assert [row["scores"][1] for row in answer["predictions"]] == pytest.approx([0.1 * scale, 0.2 * scale])
        status, answer, _ = router.rest(f"/V1/Models/{MODEL}:predict", COLUMNS, headers={"x-tandem-key": key})
        assert (status, answer["outputs"]) == (200, [1.0 * scale, 2.0 * scale])


def test_labels_versions_status_and_metadata_pass(router):
    for pinned in ("versions/2", "labels/canary"):
        status, answer, headers = router.rest(f"/v1/models/{MODEL}/{pinned}:predict", COLUMNS)
        assert (status, answer["outputs"], headers.get("x-tandem-version")) == (200, [2.0, 4.0], None)
    states = router.rest(f"/v1/models/{MODEL}")[1]["model_version_status"]
    assert sorted(state["version"] for state in states) == ["1", "2"]
    assert "metadata" in router.rest(f"/v1/models/{MODEL}/metadata")[1]
    assert router.rest("/v1/models/unknown:predict", COLUMNS)[0] == 404
    assert router.rest("/readyz")[0] == 200


def test_a_callers_own_mistake_is_told_as_the_server_tells_it(router):
    status, answer, headers = router.rest(f"/v1/models/{MODEL}:predict", {"instances": [{"y": 1.0}], "signature_name": "serving_raw"})
    assert (status, headers["x-tandem-role"] in ("champion", "canary"), set(answer)) == (400, True, {"error"})
    assert router.rest(f"/v1/models/{MODEL}:predict", b"no json")[0] == 400


def test_every_method_over_grpc(router):
    import tensorflow as tf
    from tensorflow_serving.apis import (
        classification_pb2,
        get_model_metadata_pb2,
        get_model_status_pb2,
        inference_pb2,
        model_service_pb2_grpc,
        predict_pb2,
        prediction_service_pb2_grpc,
    )

    predict = predict_pb2.PredictRequest()
    predict.model_spec.name, predict.model_spec.signature_name = MODEL, "double"
    predict.inputs["x"].CopyFrom(tf.make_tensor_proto([1.0, 2.0]))
    classify = classification_pb2.ClassificationRequest()
    classify.model_spec.name, classify.model_spec.signature_name = MODEL, "classify"
    classify.input.example_list.examples.add().features.feature["x"].float_list.value.append(1.0)
    multi = inference_pb2.MultiInferenceRequest(input=classify.input)
    for method in ("classify", "regress"):
        task = multi.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name, task.model_spec.signature_name = MODEL, method
    about = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    about.model_spec.name = MODEL
    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = MODEL
    with grpc.insecure_channel(f"127.0.0.1:{router.grpc_port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        for key in KEYS:
            scale, metadata = expected(key), (("x-tandem-key", key),)
            answer = stub.Predict(predict, metadata=metadata)
            assert tf.make_ndarray(answer.outputs["y"]).tolist() == [scale, 2 * scale]
            answer = stub.Classify(classify, metadata=metadata)
            assert answer.model_spec.version.value == scale
            assert answer.result.classifications[0].classes[1].score == pytest.approx(0.1 * scale)
            results = stub.MultiInference(multi, metadata=metadata).results
            assert [result.model_spec.version.value for result in results] == [scale, scale]
            assert stub.GetModelMetadata(about, metadata=metadata).model_spec.version.value == scale
        states = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(status).model_version_status
        assert sorted(state.version for state in states) == [1, 2]
        predict.model_spec.version_label = "canary"
        assert tf.make_ndarray(stub.Predict(predict).outputs["y"]).tolist() == [2.0, 4.0]
