"""The split as an HTTPRoute."""

import pytest

from components.core.errors import ConfigError
from components.core.ledger import Subject
from components.core.rollout import ServedVersion, Traffic
from infra.serving.router.gateway import http_route


def version(number):
    return ServedVersion(version=number, subject=Subject(model="m", version=number, model_digest="a" * 64, dossier_digest="b" * 64))


def chosen(route, path):
    """Backends of the rule that a gateway takes: an exact match first, then the longest prefix, whole path elements only."""
    found = []
    for rule in route["spec"]["rules"]:
        for match in rule["matches"]:
            kind, value = match["path"]["type"], match["path"]["value"]
            parts = value.split("/")
            holds = path == value if kind == "Exact" else path.split("/")[: len(parts)] == parts
            found += [((kind == "Exact", len(value)), rule["backendRefs"])] if holds else []
    return {backend["name"]: backend.get("weight") for backend in max(found, key=lambda one: one[0])[1]} if found else None


def test_weights_are_the_shares():
    route = http_route(Traffic(model="credit-risk", champion=version("1"), canary=version("2"), share=20), namespace="prod")
    assert (route["apiVersion"], route["kind"]) == ("gateway.networking.k8s.io/v1", "HTTPRoute")
    assert route["metadata"]["namespace"] == "prod"
    for verb in ("predict", "classify", "regress"):
        assert chosen(route, f"/v1/models/credit-risk:{verb}") == {"credit-risk-champion": 80, "credit-risk-canary": 20}


def test_what_names_a_version_or_a_label_goes_there():
    route = http_route(Traffic(model="credit-risk", champion=version("1"), canary=version("2"), share=20))
    assert chosen(route, "/v1/models/credit-risk/versions/2:predict") == {"credit-risk-canary": None}
    assert chosen(route, "/v1/models/credit-risk/versions/1:predict") == {"credit-risk-champion": None}
    assert chosen(route, "/v1/models/credit-risk/labels/canary:classify") == {"credit-risk-canary": None}
    assert chosen(route, "/v1/models/credit-risk/metadata") == {"credit-risk-champion": None}
    assert chosen(route, "/v1/models/credit-risk-2:predict") is None


def test_without_a_canary_everything_goes_to_the_champion():
    route = http_route(Traffic(model="m", champion=version("1"), previous=version("3")))
    assert chosen(route, "/v1/models/m:predict") == {"m-champion": 100}
    assert "m-previous" not in str(route)


@pytest.mark.parametrize("model", ["Credit", "a_b", "x" * 60, "-a"])
def test_what_cannot_name_a_service_is_refused(model):
    with pytest.raises(ConfigError, match="cannot name a Kubernetes service"):
        http_route(Traffic(model=model, champion=version("1")))


def test_nothing_in_production_is_no_route():
    with pytest.raises(ConfigError, match="nothing of m is in production yet"):
        http_route(Traffic(model="m"))
