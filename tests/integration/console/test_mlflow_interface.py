"""What the console relies on in the MLflow that is locked; its interface for applications is experimental."""

import importlib.metadata
import inspect
import pathlib

import pytest

from infra.console.guards import GUARDS, PROMPTLAB, _parsed


@pytest.fixture(scope="module")
def auth(tmp_path_factory):
    """MLflow's module, which reads its configuration when it is imported."""
    folder = tmp_path_factory.mktemp("auth")
    (folder / "basic_auth.ini").write_text(f"[mlflow]\ndefault_permission = READ\ndatabase_uri = sqlite:///{folder / 'logins.db'}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_AUTH_CONFIG_PATH", str(folder / "basic_auth.ini"))
        from mlflow.server import auth

        yield auth


def test_mlflow_finds_our_application():
    (found,) = [point for point in importlib.metadata.entry_points(group="mlflow.app") if point.name == "tandem"]
    assert inspect.isfunction(found.load())
    assert importlib.metadata.version("mlflow").startswith("3.17.")


def test_what_is_used_of_the_login_is_there(auth):
    assert isinstance(auth.BEFORE_REQUEST_VALIDATORS, dict)
    assert "BEFORE_REQUEST_VALIDATORS.get((req.path, req.method))" in inspect.getsource(auth._find_validator)
    assert "g.mlflow_authenticated_user = authorization.username" in inspect.getsource(auth._before_request)
    assert list(inspect.signature(auth._get_registered_model_permission).parameters) == ["name"]
    assert not any(path.startswith("/tandem") for path in auth._UNPROTECTED_PATH_PREFIXES)
    source = inspect.getsource(auth.create_app)
    assert source.index("app.before_request(_before_request)") < source.index("create_fastapi_app(app)")


def test_a_path_that_mlflow_does_not_know_is_refused_and_ours_is_not(auth):
    from infra.console.protection import Validators

    table = Validators(auth.BEFORE_REQUEST_VALIDATORS)
    assert table.get(("/tandem/models/a/1", "GET"))()
    assert table.get(("/tandem", "GET"))()
    assert table.get(("/tandemonium", "GET")) is None
    assert table.get(("/api/2.0/mlflow/runs/create", "POST")) is auth.BEFORE_REQUEST_VALIDATORS["/api/2.0/mlflow/runs/create", "POST"]


def test_every_guarded_handler_is_a_route_of_mlflow_and_its_request_is_read_by_mlflow():
    from mlflow.server import app

    routes = {}
    for rule in app.url_map.iter_rules():
        routes.setdefault(rule.endpoint, []).append(rule.rule)
    assert PROMPTLAB in routes
    for endpoint, guard in GUARDS.items():
        assert {path.split("/mlflow/")[0] for path in routes[endpoint]} == {"/api/2.0", "/ajax-api/2.0"}, endpoint
        with app.test_request_context(method="POST", json={}):
            assert type(_parsed(guard.message)).__name__ == guard.message


def test_no_other_route_of_mlflow_writes_the_registry_or_the_tags_of_runs():
    from mlflow.server import app

    writing = {
        rule.endpoint
        for rule in app.url_map.iter_rules()
        if (rule.methods or set()) & {"POST", "PUT", "PATCH", "DELETE"}
        and any(part in rule.rule for part in ("/registered-models/", "/model-versions/", "/mlflow/runs/"))
    }
    harmless = {
        *("_update_registered_model", "_update_model_version", "_get_latest_versions"),
        *(
            "_delete_run",
            "_restore_run",
            "_update_run",
            "_search_runs",
            "_log_metric",
            "_log_param",
            "_log_model",
            "_log_inputs",
            "_log_outputs",
        ),
    }
    assert writing - set(GUARDS) - harmless - {PROMPTLAB} == set()


def test_graphql_has_no_mutation_that_writes():
    from mlflow.server.graphql.graphql_schema_extensions import schema

    names = set(schema.graphql_schema.mutation_type.fields)
    assert names == {"testMutation", "mlflowSearchDatasets", "mlflowSearchRuns"}


def test_mlflows_page_is_one_that_takes_our_link():
    import mlflow

    page = (pathlib.Path(mlflow.__file__).parent / "server/js/build/index.html").read_bytes()
    assert page.count(b"</body>") == 1


def test_the_link_is_in_mlflows_page_and_leads_to_ours(people):
    page = people["otto"].get("/")
    assert page.status_code == 200
    assert '<a href="/tandem/"' in page.text
    assert "ETag" not in page.headers
    assert people["otto"].get("/tandem/").status_code == 200
    assert 'href="/"' in people["otto"].get("/tandem/").text
