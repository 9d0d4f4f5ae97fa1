"""The split as an HTTPRoute."""

from components.core.ledger import Subject
from components.core.rollout import ServedVersion, Traffic
from infra.serving.router.gateway import http_route


def version(number):
    return ServedVersion(version=number, subject=Subject(model="m", version=number, model_digest="a" * 64, dossier_digest="b" * 64))


def test_weights_are_the_shares():
    route = http_route(Traffic(model="credit-risk", champion=version("1"), canary=version("2"), share=20), namespace="prod")
    assert (route["apiVersion"], route["kind"]) == ("gateway.networking.k8s.io/v1", "HTTPRoute")
    assert route["metadata"]["namespace"] == "prod"
    (rule,) = route["spec"]["rules"]
    paths = [match["path"] for match in rule["matches"]]
    assert {path["type"] for path in paths} == {"Exact"}
    assert [path["value"] for path in paths] == [f"/v1/models/credit-risk:{verb}" for verb in ("predict", "classify", "regress")]
    assert rule["backendRefs"] == [
        {"name": "credit-risk-champion", "port": 8501, "weight": 80},
        {"name": "credit-risk-canary", "port": 8501, "weight": 20},
    ]


def test_without_a_canary_everything_goes_to_the_champion():
    (rule,) = http_route(Traffic(model="m", champion=version("1")))["spec"]["rules"]
    assert [(backend["name"], backend["weight"]) for backend in rule["backendRefs"]] == [("m-champion", 100)]
