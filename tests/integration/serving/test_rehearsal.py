"""Logged requests through two small models in a real server."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from components.core.rollout import Guards
from infra.serving.rehearsal import Contestant, rehearse
from infra.serving.router.request_log import LoggedRequest, key_digest

VALUES = np.linspace(0.1, 4.9, 60)
GUARDS = Guards(min_requests=20, max_p99_ratio=None)


def logged(request, *, protocol="rest", method="predict"):
    return LoggedRequest(
        at=0, model="m", version="1", role="champion", key_digest=key_digest(b"k"), protocol=protocol, method=method, request=request,
        scores=[], status="200", latency_ms=1.0,
    )  # fmt: skip


def requests():
    """Half by REST, half by gRPC: `raw` answers scores [1 - scale x / 10, scale x / 10]."""
    for number, value in enumerate(VALUES):
        if number % 2:
            yield logged(json.dumps({"signature_name": "raw", "instances": [{"x": float(value), "name": "a"}]}).encode())
        else:
            message = predict_pb2.PredictRequest()
            message.model_spec.name, message.model_spec.signature_name = "m", "raw"
            message.inputs["x"].CopyFrom(tf.make_tensor_proto(np.array([value], np.float32)))
            message.inputs["name"].CopyFrom(tf.make_tensor_proto([b"a"]))
            yield logged(message.SerializeToString(), protocol="grpc", method="Predict")


def contestants(models, candidate):
    return {
        "candidate": Contestant("m/7", models / "m" / candidate, "a" * 64),
        "champion": Contestant("m-prod/1", models / "m" / "1", "b" * 64),
    }


def test_the_same_model_passes_and_the_way_back_works(models):
    report = rehearse(list(requests()), model="m", guards=GUARDS, **contestants(models, "1"))
    assert (report.passed, report.rollback, report.complaint) == (True, True, "")
    assert (report.compared, report.largest_absolute_difference, report.ks_distance, report.label_changes) == (60, 0.0, 0.0, 0)
    assert {side.requests for side in report.sides.values()} == {60}
    assert {side.error_share for side in report.sides.values()} == {0.0}


def test_other_scores_are_told_and_do_not_pass(models):
    report = rehearse(list(requests()), model="m", guards=GUARDS, **contestants(models, "2"))
    assert report.mean_absolute_difference == pytest.approx(VALUES.mean() / 10, abs=1e-6)
    assert report.largest_absolute_difference == pytest.approx(0.49, abs=1e-6)
    assert report.label_changes == int(((2 * VALUES / 10 > 0.5) != (VALUES / 10 > 0.5)).sum())
    assert report.complaint.startswith("score shift")
    assert (report.passed, report.rollback) == (False, True)


def test_refused_requests_are_told_and_are_the_callers(models):
    bad = [logged(b'{"signature_name": "checked", "instances": [-1.0]}')] * 30
    report = rehearse(bad, model="m", guards=GUARDS, **contestants(models, "2"))
    assert report.sides["candidate"].error_share == 0.0
    assert "x is negative" in report.sides["candidate"].errors[0]
    assert (report.compared, report.ks_distance, report.passed) == (0, None, True)
