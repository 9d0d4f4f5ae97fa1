"""What MLflow's API refuses here, to an admin too, under every prefix; and who made a run."""

import json

import pytest
from mlflow.tracking import MlflowClient

from tests.integration.console.small_home import PASSWORD

PREFIXES = ("/api/2.0", "/ajax-api/2.0")
JSON = {"Content-Type": "application/json"}
PROD = "guarded-prod"


@pytest.fixture(scope="module")
def production(home):
    """A production model as a promotion leaves it: written past the server."""
    client = home.registry.client
    client.create_registered_model(PROD)
    version = client.create_model_version(PROD, "file:///nothing", tags={"tree_digest": "d" * 64, "promoted_from": "guarded/1"})
    client.set_registered_model_alias(PROD, "champion", version.version)
    return PROD


@pytest.fixture(scope="module")
def decided(candidate, address):
    """A version that the ledger speaks of, and one that it does not."""
    from tests.integration.console.small_home import Client

    page, other = candidate(), candidate()
    assert Client(address, "theo").decide(page, "request").status_code == 303
    return page.rsplit("/", 1)[1], other.rsplit("/", 1)[1]


REFUSED = [
    ("POST", "registered-models/alias", {"name": PROD, "alias": "champion", "version": "1"}),
    ("POST", "registered-models/alias", {"name": PROD, "alias": "Champion", "version": "1"}),
    ("POST", "registered-models/alias", {"name": PROD, "alias": "canary", "version": "1"}),
    ("DELETE", "registered-models/alias", {"name": PROD, "alias": "previous"}),
    ("DELETE", "registered-models/alias", {"name": PROD, "alias": "champion"}),
    ("POST", "registered-models/create", {"name": "another-prod"}),
    ("POST", "registered-models/create", {"name": "another", "tags": [{"key": "tandem.x", "value": "1"}]}),
    ("POST", "registered-models/rename", {"name": PROD, "new_name": "free"}),
    ("POST", "registered-models/rename", {"name": PROD, "newName": "free"}),
    ("POST", "registered-models/rename", {"name": "credit-risk", "new_name": "credit-risk-prod"}),
    ("POST", "registered-models/rename", {"name": "credit-risk", "new_name": "credit"}),
    ("DELETE", "registered-models/delete", {"name": PROD}),
    ("DELETE", "registered-models/delete", {"name": "credit-risk"}),
    ("POST", "registered-models/set-tag", {"name": "credit-risk", "key": "tandem.rule", "value": "1"}),
    ("DELETE", "registered-models/delete-tag", {"name": "credit-risk", "key": "tandem.rule"}),
    ("POST", "model-versions/create", {"name": PROD, "source": "file:///x"}),
    ("POST", "model-versions/create", {"name": "credit-risk", "source": "x", "tags": [{"key": "promoted_from", "value": "a/1"}]}),
    ("POST", "model-versions/transition-stage", {"name": PROD, "version": "1", "stage": "Production", "archive_existing_versions": True}),
    ("DELETE", "model-versions/delete", {"name": PROD, "version": "1"}),
    ("POST", "model-versions/set-tag", {"name": PROD, "version": "1", "key": "tree_digest", "value": "e" * 64}),
    ("POST", "model-versions/set-tag", {"name": PROD, "version": "1", "key": "promoted_from", "value": "a/1"}),
    ("POST", "model-versions/set-tag", {"name": "credit-risk", "version": "1", "key": "tree_digest", "value": "e" * 64}),
    ("DELETE", "model-versions/delete-tag", {"name": "credit-risk", "version": "1", "key": "tree_digest"}),
    ("DELETE", "model-versions/delete-tag", {"name": "credit-risk", "version": "1", "key": "tandem.any"}),
    ("POST", "runs/set-tag", {"run_id": "x", "key": "tandem.author", "value": "anna"}),
    ("POST", "runs/delete-tag", {"run_id": "x", "key": "tandem.author"}),
    ("POST", "runs/log-batch", {"run_id": "x", "tags": [{"key": "a", "value": "b"}, {"key": "tandem.author", "value": "anna"}]}),
    ("POST", "runs/create", {"experiment_id": "0", "tags": [{"key": "tandem.author", "value": "anna"}]}),
]


@pytest.mark.parametrize(("method", "path", "body"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_an_admin_is_refused_with_what_to_use_instead(home, production, decided, admin, method, path, body):
    for prefix in PREFIXES:
        answer = admin.api(method, f"{prefix}/mlflow/{path}", body)
        assert answer.status_code == 403, answer.text
        told = answer.json()
        assert told["error_code"] == "PERMISSION_DENIED"
        assert any(word in told["message"] for word in ("tandem ", "leave it out", "pipeline.toml")), told["message"]
    client = home.registry.client
    assert client.get_registered_model(PROD).aliases == {"champion": 1}
    assert client.get_model_version(PROD, "1").tags["tree_digest"] == "d" * 64
    assert "credit-risk" in home.registry.names()


def test_a_body_that_is_text_twice_over_is_read_as_mlflow_reads_it(admin, production):
    body = json.dumps(json.dumps({"name": PROD, "alias": "champion", "version": "1"}))
    answer = admin.http.post(f"{admin.address}/api/2.0/mlflow/registered-models/alias", data=body, headers=JSON, timeout=60)
    assert answer.status_code == 403
    assert "follows the ledger" in answer.json()["message"]


@pytest.mark.parametrize("body", ["", "{", '{"name": 3}', '{"name": "x", "unknown": 1}'])
def test_what_mlflow_cannot_read_is_answered_by_mlflow(admin, body):
    answer = admin.http.post(f"{admin.address}/api/2.0/mlflow/registered-models/alias", data=body, headers=JSON, timeout=60)
    assert 400 <= answer.status_code < 500, answer.text
    assert "Traceback" not in answer.text


def test_a_version_that_was_decided_on_stays_and_another_can_go(home, decided, admin):
    about, free = decided
    path = "/api/2.0/mlflow/model-versions/delete"
    answer = admin.api("DELETE", path, {"name": "credit-risk", "version": about})
    assert answer.status_code == 403
    assert "stands in the ledger" in answer.json()["message"]
    assert admin.api("DELETE", path, {"name": "credit-risk", "version": free}).status_code == 200
    assert {version.version for version in home.registry.versions("credit-risk")} >= {about}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "registered-models/alias", {"name": "credit-risk", "alias": "best", "version": "{version}"}),
        ("POST", "model-versions/set-tag", {"name": "credit-risk", "version": "{version}", "key": "note", "value": "fine"}),
        ("POST", "registered-models/set-tag", {"name": "credit-risk", "key": "note", "value": "fine"}),
        ("PATCH", "registered-models/update", {"name": PROD, "description": "serves the branch offices"}),
        ("POST", "registered-models/create", {"name": "free-model"}),
        ("POST", "runs/create", {"experiment_id": "0", "tags": [{"key": "note", "value": "fine"}]}),
    ],
)
def test_everything_else_goes_on_as_in_mlflow(production, decided, admin, method, path, body):
    told = {key: value.format(version=decided[0]) if isinstance(value, str) else value for key, value in body.items()}
    answer = admin.api(method, f"/api/2.0/mlflow/{path}", told)
    assert answer.status_code == 200, answer.text


def test_the_server_says_who_made_a_run(home, address, people, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "tina")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", PASSWORD)
    client = MlflowClient(tracking_uri=address, registry_uri=address)
    experiment = client.create_experiment("of tina")
    run = client.create_run(experiment, tags={"mlflow.user": "anna"})
    assert home.registry.author_of(run.info.run_id) == ("tina", True)
    with pytest.raises(Exception, match=r"tandem\.author"):
        client.set_tag(run.info.run_id, "tandem.author", "anna")
    assert home.registry.author_of(run.info.run_id) == ("tina", True)
