"""The REST interface of TensorFlow Serving, expectation by expectation.

Each rests on the documentation "RESTful API" (https://www.tensorflow.org/tfx/serving/api_rest) or on a line of the server's source,
named in the test's comment. The same file runs against a real server whose REST port TANDEM_TF_SERVING_REST names.
"""

import base64
import math

import pytest


def predict(server, body, path="/v1/models/m", **more):
    return server.rest(f"{path}:predict", body, **more)[:2]


# RESTful API, "Predict API": row format, a list of values where the signature has one input; a single output drops its name.
def test_row_format_with_values(server):
    assert predict(server, {"signature_name": "double", "instances": [1.0, 2.5, -3]}) == (200, {"predictions": [2.0, 5.0, -6.0]})


# RESTful API, "Specifying input tensors in row format": objects with the names of inputs; several outputs keep their names.
def test_row_format_with_names(server):
    instances = [{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}]
    status, body = predict(server, {"signature_name": "raw", "instances": instances})
    assert status == 200
    assert [row["classes"] for row in body["predictions"]] == [["good", "bad"]] * 2
    assert [row["scores"] for row in body["predictions"]] == [[0.8, 0.2], [0.6, 0.4]]


# RESTful API, "Specifying input tensors in column format": `inputs` gives `outputs`.
def test_column_format(server):
    status, body = predict(server, {"signature_name": "raw", "inputs": {"x": [1.0, 2.0], "name": ["a", "b"]}})
    assert (status, body["outputs"]["scores"]) == (200, [[0.8, 0.2], [0.6, 0.4]])
    assert predict(server, {"signature_name": "double", "inputs": [3.0]}) == (200, {"outputs": [6.0]})


# RESTful API, "Encoding binary values": {"b64": ...} in, and out for outputs named *_bytes.
def test_binary_values(server):
    raw = base64.b64encode(b"\x00\xff").decode()
    status, body = predict(server, {"signature_name": "raw", "instances": [{"x": 1.0, "name": {"b64": raw}}]})
    assert (status, body["predictions"][0]["name_bytes"]) == (200, {"b64": raw})


# RESTful API, "JSON conformance": NaN and Infinity are numbers, both ways.
def test_nan_and_infinity(server):
    status, body = predict(server, b'{"signature_name": "double", "instances": [NaN, Infinity, -Infinity]}')
    assert status == 200
    assert math.isnan(body["predictions"][0])
    assert body["predictions"][1:] == [math.inf, -math.inf]


# RESTful API, "URL": versions and labels.
@pytest.mark.parametrize(("path", "factor"), [("", 2.0), ("/versions/1", 1.0), ("/versions/2", 2.0), ("/labels/stable", 1.0)])
def test_versions_and_labels(server, path, factor):
    assert predict(server, {"signature_name": "double", "instances": [3.0]}, f"/v1/models/m{path}") == (200, {"predictions": [3 * factor]})


# model_servers/http_rest_api_handler.cc: the patterns are case-insensitive, (?i).
def test_the_path_is_read_without_case(server):
    assert server.rest("/V1/MODELS/m:PREDICT", {"signature_name": "double", "instances": [1.0]})[:2] == (200, {"predictions": [2.0]})


# RESTful API, "Classify and Regress API": examples with an optional context; [[label, score], ...] and values.
def test_classify(server):
    body = {"signature_name": "classify", "examples": [{"x": 1.0}, {"x": 2.0}]}
    status, answer, _ = server.rest("/v1/models/m:classify", body)
    assert (status, answer) == (200, {"results": [[["good", 0.8], ["bad", 0.2]], [["good", 0.6], ["bad", 0.4]]]})
    body = {"signature_name": "classify", "context": {"x": 2.0}, "examples": [{}]}
    assert server.rest("/v1/models/m/versions/1:classify", body)[1] == {"results": [[["good", 0.8], ["bad", 0.2]]]}


def test_regress(server):
    body = {"signature_name": "regress", "examples": [{"x": 1.5}, {"x": 2.0}]}
    assert server.rest("/v1/models/m:regress", body)[:2] == (200, {"results": [3.0, 4.0]})


# RESTful API, "Model status API".
def test_status(server):
    status, body, _ = server.rest("/v1/models/m")
    ok = {"error_code": "OK", "error_message": ""}
    assert (status, body) == (
        200,
        {"model_version_status": [{"version": number, "state": "AVAILABLE", "status": ok} for number in ("2", "1")]},
    )
    assert [entry["version"] for entry in server.rest("/v1/models/m/versions/1")[1]["model_version_status"]] == ["1"]
    assert [entry["version"] for entry in server.rest("/v1/models/m/labels/stable")[1]["model_version_status"]] == ["1"]


# RESTful API, "Model Metadata API".
def test_metadata(server):
    status, body, _ = server.rest("/v1/models/m/versions/1/metadata")
    assert status == 200
    assert body["model_spec"] == {"name": "m", "signature_name": "", "version": "1"}
    signatures = body["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) >= {"double", "raw", "serving_default", "classify", "regress"}
    assert signatures["double"]["inputs"]["x"]["dtype"] == "DT_FLOAT"
    assert signatures["double"]["inputs"]["x"]["tensor_shape"]["dim"][0]["size"] == "-1"
    assert signatures["classify"]["method_name"] == "tensorflow/serving/classify"


# Words and codes: server_core.cc, servable_state_monitor, http_rest_api_handler.cc, json_tensor.cc; codes: util/net_http ToHTTPStatusCode.
@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/models/half:predict", {"instances": [1.0]}, 404, "Servable not found for request: Latest(half)"),
        ("/v1/models/m/versions/9:predict", {"instances": [1.0]}, 404, "Servable not found for request: Specific(m, 9)"),
        ("/v1/models/m/labels/none:predict", {"instances": [1.0]}, 400, "Unrecognized servable version label: none"),
        ("/v1/models/m/labels/half:predict", {"instances": [1.0]}, 400, "Unrecognized servable version label: half"),
        ("/v1/models/m:predict", {"signature_name": "S", "instances": [1]}, 400, 'Serving signature name: "S" not found in signature def'),
        ("/v1/models/m:predict", b"", 400, "JSON Parse error: The document is empty"),
        ("/v1/models/m:predict", b"{", 400, "JSON Parse error"),
        ("/v1/models/m:predict", b"[1]", 400, "not an object"),
        ("/v1/models/m:predict", {"signature_name": "double"}, 400, "either 'instances' or 'inputs'"),
        ("/v1/models/m:predict", {"signature_name": "double", "instances": [1], "inputs": [1]}, 400, "and not both"),
        ("/v1/models/m:predict", {"signature_name": "double", "instances": []}, 400, "Missing 'instances'"),
        ("/v1/models/m:predict", {"signature_name": "double", "instances": ["a"]}, 400, "not of expected type"),
        ("/v1/models/m:predict", {"signature_name": "double", "instances": [None]}, 400, "not of expected type"),
        ("/v1/models/m:predict", {"signature_name": "double", "instances": [True]}, 400, "not of expected type"),
        ("/v1/models/m:predict", {"signature_name": "double", "instances": [1e39]}, 400, "out of the range of float32"),
        ("/v1/models/m:predict", {"signature_name": "double", "instances": [[1.0], [2.0]]}, 400, "shape"),
        ("/v1/models/m:predict", {"signature_name": "double", "instances": [1.0, [2.0]]}, 400, "equally"),
        ("/v1/models/m:predict", {"signature_name": "double", "inputs": [[1.0], 2.0]}, 400, "equally"),
        ("/v1/models/m:predict", {"signature_name": "raw", "instances": [{"x": 1.0}]}, 400, "Failed to process element: 0"),
        ("/v1/models/m:predict", {"signature_name": "raw", "instances": [{"x": 1.0, "name": {"b64": "!"}}]}, 400, "base64"),
        ("/v1/models/m:predict", {"signature_name": "raw", "inputs": {"x": [1.0]}}, 400, "Missing but required: {name}."),
        ("/v1/models/m:predict", {"signature_name": "checked", "instances": [-1.0]}, 400, "x is negative"),
        ("/v1/models/m:classify", {"signature_name": "double", "examples": [{"x": 1.0}]}, 400, "tensorflow/serving/classify"),
        ("/v1/models/m:regress", {"signature_name": "regress", "examples": []}, 400, "'examples' is expected"),
        ("/v1/models/m:predict", {"signature_name": 3, "instances": [1.0]}, 400, "must be a string"),
        ("/v1/models/m:nothing", {"instances": [1.0]}, 400, "Malformed request: POST /v1/models/m:nothing"),
    ],
)
def test_refusals(server, path, body, status, words):
    found, answer, _ = server.rest(path, body)
    assert (found, set(answer)) == (status, {"error"})
    assert words in answer["error"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/v1/models/half", 404, "Could not find any versions of model half"),
        ("/v1/models/m/versions/9", 404, "Could not find version 9 of model m"),
        ("/v1/models", 400, "Missing model name in request."),
        ("/v1/none", 400, "Malformed request: GET /v1/none"),
        ("/v1/models/half/metadata", 404, "Servable not found for request: Latest(half)"),
    ],
)
def test_refusals_of_questions(server, path, status, words):
    found, answer, _ = server.rest(path)
    assert (found, answer) == (status, {"error": words})


# Prometheus under the names of the real server (servables/tensorflow/util.cc, http_server.cc).
def test_metrics(server):
    predict(server, {"signature_name": "double", "instances": [1.0]})
    text = server.rest("/monitoring/prometheus/metrics")[1]
    assert ':tensorflow:serving:request_count{model_name="m",status="OK"}' in text
    assert ':tensorflow:serving:request_latency_bucket{model_name="m",API="Predict",entrypoint="REST",le="10"}' in text
    assert ":tensorflow:serving:runtime_latency_count" in text


# Our own: what an orchestrator asks.
def test_health(server):
    assert server.rest("/healthz")[:2] == (200, {"status": "ok"})
    assert server.rest("/readyz")[:2] == (200, {"status": "ok"})
