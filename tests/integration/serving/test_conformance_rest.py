"""The REST interface of TensorFlow Serving, expectation by expectation.

Each rests on the documentation "RESTful API" (https://www.tensorflow.org/tfx/serving/api_rest) or on a line of the server's source,
named in the test's comment or in the parameters. The same tests run against the tensorflow_model_server that TANDEM_TF_SERVING names.
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


PREDICT = "/v1/models/m:predict"
SPEC, CORE, API, JSON, EXAMPLES = (
    "manager: Servable not found",
    "server_core.cc",
    "http_rest_api_handler.cc",
    "json_tensor.cc",
    "classifier.cc",
)


def double(**more):
    return {"signature_name": "double", **more}


def raw(**more):
    return {"signature_name": "raw", **more}


# Words and codes of the real server's source: `origin` is the file that they stand in; HTTP codes: http_server.cc, ToHTTPStatusCode.
@pytest.mark.parametrize(
    ("origin", "path", "body", "status", "words"),
    [
        (SPEC, "/v1/models/half:predict", {"instances": [1.0]}, 404, "Servable not found for request: Latest(half)"),
        (SPEC, "/v1/models/m/versions/9:predict", {"instances": [1.0]}, 404, "Servable not found for request: Specific(m, 9)"),
        (CORE, "/v1/models/m/labels/none:predict", {"instances": [1.0]}, 400, "Unrecognized servable version label: none"),
        (API, PREDICT, {"signature_name": "S", "instances": [1]}, 400, 'Serving signature name: "S" not found in signature def'),
        (API, "/v1/models/m:nothing", {"instances": [1.0]}, 400, "Malformed request: POST /v1/models/m:nothing"),
        (API, f"/v1/models/m/versions/{2**63}:predict", {}, 400, f"Failed to convert version: {2**63} to numeric."),
        (JSON, PREDICT, b"", 400, "JSON Parse error: The document is empty"),
        (JSON, PREDICT, b"{", 400, "JSON Parse error"),
        (JSON, PREDICT, b"[1]", 400, "JSON Value: [1] Is not object"),
        (JSON, PREDICT, {"signature_name": 3, "instances": [1.0]}, 400, "'signature_name' key must be a string value."),
        (JSON, PREDICT, double(), 400, "Missing 'inputs' or 'instances' key"),
        (JSON, PREDICT, double(instances=[1], inputs=[1]), 400, "expecting only one of 'inputs' or 'instances' keys to exist"),
        (JSON, PREDICT, double(instances=1.0), 400, "Expecting 'instances' to be an list/array"),
        (JSON, PREDICT, double(instances=[]), 400, "No values in 'instances' array"),
        (JSON, PREDICT, double(instances=["a"]), 400, "Failed to process element: 0 of 'instances' list."),
        (JSON, PREDICT, double(instances=["a"]), 400, 'JSON Value: "a" Type: String is not of expected type: float'),
        (JSON, PREDICT, double(instances=[1, None]), 400, "Failed to process element: 1 of 'instances' list."),
        (JSON, PREDICT, double(instances=[None]), 400, "JSON Value: null Type: Null is not of expected type: float"),
        (JSON, PREDICT, double(instances=[True]), 400, "is not of expected type: float"),
        (JSON, PREDICT, double(instances=[{"b64": "AA=="}]), 400, "is not of expected type: float"),
        (JSON, PREDICT, double(instances=[1.0, [2.0]]), 400, "Expecting shape [] but got: [1]"),
        (JSON, PREDICT, double(instances=[[1.0, 2.0], [2.0]]), 400, "Expecting tensor size: 2 but got: 1"),
        (JSON, PREDICT, double(instances=[1.0, {"x": 2.0}]), 400, "Expecting value/list but got object at item 1 of input list"),
        (JSON, PREDICT, double(instances=[{"x": 2.0}, 1.0]), 400, "Expecting object but got list at item 1 of input list"),
        (JSON, PREDICT, double(inputs=[[1.0], 2.0]), 400, "found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
        (JSON, PREDICT, double(inputs=[[1.0], [2.0, 3.0]]), 400, "Encountered list at unexpected size: 2 at level: 1 expected size: 1"),
        (JSON, PREDICT, double(inputs=[1.0, [2.0]]), 400, "Encountered list at unexpected level: 1 expected < 1"),
        (JSON, PREDICT, raw(instances=[1.0]), 400, "instances is a plain list, but expecting list of objects"),
        (JSON, PREDICT, raw(inputs=[1.0]), 400, "inputs is a plain value/list, but expecting an object"),
        (JSON, PREDICT, raw(inputs={"x": [1.0]}), 400, "Missing named input: name in 'inputs' object."),
        (JSON, PREDICT, raw(instances=[{"x": 1.0}]), 400, "keys must be equal to: name,x"),
        (JSON, PREDICT, raw(instances=[{"x": 1.0, "y": 1}]), 400, "JSON object: does not have named input: y"),
        (JSON, PREDICT, raw(instances=[{"x": 1.0, "name": {"b64": "!"}}]), 400, "Unable to base64 decode"),
        (JSON, PREDICT, raw(instances=[{"x": 1.0, "name": {"b": 1}}]), 400, "not formatted correctly for base64 data"),
        (JSON, PREDICT, raw(instances=[{"x": 1.0, "name": 1}]), 400, "JSON Value: 1 Type: Number is not of expected type: string"),
        ("the model's own assertion", PREDICT, {"signature_name": "checked", "instances": [-1.0]}, 400, "x is negative"),
        (JSON, "/v1/models/m:classify", {"signature_name": "classify"}, 400, "key 'examples' is expected and was not found"),
        (JSON, "/v1/models/m:classify", {"examples": {}}, 400, "Expecting 'examples' value to be an list/array"),
        (JSON, "/v1/models/m:regress", {"examples": []}, 400, "'examples' value is an empty array"),
        (JSON, "/v1/models/m:regress", {"examples": [1]}, 400, "Example must be JSON object but got JSON Number"),
        (JSON, "/v1/models/m:regress", {"examples": [{"x": None}]}, 400, "Feature: x has element with unexpected JSON type: Null"),
        (JSON, "/v1/models/m:regress", {"examples": [{"x": [1, 0.5]}]}, 400, "Unexpected element type in feature: x expecting type: int64"),
        (JSON, "/v1/models/m:regress", {"examples": [{"x": 2**63}]}, 400, "has uint64_t element. Only int64_t is supported."),
        (EXAMPLES, "/v1/models/m:classify", {"signature_name": "S", "examples": [{}]}, 400, "No signature was found with the name: S"),
        (EXAMPLES, "/v1/models/m:classify", {"signature_name": "raw", "examples": [{}]}, 400, "Expected one input Tensor."),
        (EXAMPLES, "/v1/models/m:classify", {"signature_name": "double", "examples": [{}]}, 400, "No classification inputs found"),
    ],
)  # fmt: skip
def test_refusals(server, origin, path, body, status, words):
    del origin
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
    assert ':tensorflow:serving:request_latency_bucket{model_name="m",API="predict",entrypoint="REST",le="10"}' in text
    assert ":tensorflow:serving:runtime_latency_count" in text


# json_tensor.cc, ParseJson: kParseStopWhenDoneFlag; WriteDecimal: six digits where they read back as the same float, else nine.
def test_what_stands_behind_the_object_is_not_read_and_numbers_are_short(server):
    status, body = predict(server, b'{"signature_name": "double", "inputs": [0.1, 0.123456789]} and more', "/v1/models/m/versions/1")
    assert (status, body) == (200, {"outputs": [0.1, 0.123456791]})


# json_tensor.cc, AddValueToFeature: a boolean is an int64, a number with a point a float; the example's feature goes before the context's.
def test_features_of_examples(server):
    body = {"signature_name": "regress", "context": {"x": 5.0}, "examples": [{}, {"x": [2.5]}]}
    assert server.rest("/v1/models/m/versions/1:regress", body)[:2] == (200, {"results": [5.0, 2.5]})
    status, answer, _ = server.rest("/v1/models/m:regress", {"signature_name": "regress", "examples": [{"x": True}]})
    assert (status, "x" in answer["error"]) == (400, True)  # an int64 feature, where the model parses a float one
