"""`tandem ui` with the real MLflow server and its login."""

import base64
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from components.core.contracts import TrackingSpec
from components.core.errors import EnvironmentFault, StoreError
from components.core.tracking import StageRun
from infra.console.first_start import prepare
from infra.console.settings import ConsoleSettings
from infra.ui_server import serve_ui
from pipelines.cli import main
from pipelines.comparison import compare_link
from pipelines.mlflow_store import champion_of, experiments_of

PROGRAM = "import sys; from pipelines.cli import main; sys.exit(main(sys.argv[1:]))"
ROOT = pathlib.Path(__file__).resolve().parents[2]
PASSWORD = "a-password-of-the-tests"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A home with two MLflow runs and an artifact."""
    home = tmp_path_factory.mktemp("home")
    tracking = TrackingSpec(
        uri=f"sqlite:///{home / 'mlflow.db'}", artifact_root=str(home / "mlflow-artifacts"), experiment="my case", use_case="my_case"
    )
    note = home / "note.txt"
    note.write_text("from the home")
    runs = []
    for framework in ("keras", "lightning"):
        with StageRun(tracking, f"train-{framework}", tags={"framework": framework}) as run:
            run.log_metrics({"val/auc": 0.9})
            run.log_file(note)
            runs.append(run.run_id)
    return home, runs


def environment(home):
    """What the console adds to the server's environment."""
    settings = ConsoleSettings(
        ledger_url=f"sqlite:///{home / 'ledger.db'}",
        public_keys=str(home / "public_keys.json"),
        service_key="",
        tracking_uri=f"sqlite:///{home / 'mlflow.db'}",
        artifact_root=str(home / "mlflow-artifacts"),
        metadata_store=str(home / "metadata.db"),
    )
    return prepare(home, settings, chosen_password=PASSWORD).environment


def ask(address, path, body=None, *, host=None, password=PASSWORD):
    request = urllib.request.Request(f"{address}{path}", data=None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    if password:
        request.add_header("Authorization", f"Basic {base64.b64encode(f'admin:{password}'.encode()).decode()}")
    if host:
        request.add_header("Host", host)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
        return answer.read()


def members(group):
    """Processes of a process group that are no zombies."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, group_id = stat.read_text().rpartition(")")[2].split()[:3]
            if int(group_id) == group and state != "Z":
                found.append(int(stat.parent.name))
    return found


def test_the_command_serves_the_home_and_leaves_nothing(store):
    home, runs = store
    command = [sys.executable, "-u", "-c", PROGRAM, "ui", "--home", str(home), "--port", "0", "--no-browser"]
    told = {**os.environ, "TANDEM_ADMIN_PASSWORD": PASSWORD}
    process = subprocess.Popen(command, cwd=ROOT, env=told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        first = process.stdout.readline()
        assert first.startswith("MLflow UI: http://127.0.0.1:")
        assert first.endswith(" (Ctrl-C ends it)\n")
        address = first.split()[2]
        assert process.stdout.readline() == f"  decisions: {address}/tandem/\n"
        lines = [process.stdout.readline(), process.stdout.readline()]
        assert sorted(lines) == [f"  experiment Default: {address}/#/experiments/0\n", f"  experiment my case: {address}/#/experiments/1\n"]
        assert process.stdout.readline() == "  log in as admin: its password was chosen by TANDEM_ADMIN_PASSWORD\n"
        assert "they decide nothing: there is no service key" in process.stdout.readline()
        for password in ("", "password1234", PASSWORD + "x"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                ask(address, "/tandem/", password=password)
        assert b"Nothing waits." in ask(address, "/tandem/")
        found = json.loads(ask(address, "/api/2.0/mlflow/runs/search", {"experiment_ids": ["1"]}))
        assert {run["info"]["run_id"] for run in found["runs"]} == set(runs)
        assert ask(address, f"/get-artifact?run_uuid={runs[0]}&path=note.txt") == b"from the home"
        assert b"<html" in ask(address, "/").lower()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            ask(address, "/api/2.0/mlflow/experiments/search", {"max_results": 1}, host="attacker.example")
        children = [int(text) for text in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        assert len(children) == 1
        assert len(members(children[0])) >= 2
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert members(children[0]) == []
        assert "the MLflow UI has ended" in process.stdout.read()
    finally:
        process.kill()
        process.communicate()


def test_a_killed_server_takes_its_children_along(store):
    home, _ = store
    with serve_ui(home, environment(home), port=0) as server:
        os.kill(server.process.pid, signal.SIGKILL)
        with pytest.raises(StoreError, match=r"ended \(exit code -9\)"):
            server.wait()
    assert members(server.process.pid) == []


def test_a_port_that_is_taken_is_one_line(store, capsys):
    home, _ = store
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["ui", "--home", str(home), "--port", str(port), "--no-browser"]) == 2
    message = capsys.readouterr().err
    assert message == f"tandem: port {port} on 127.0.0.1 cannot be used: Address already in use; choose another one with --port\n"
    with pytest.raises(EnvironmentFault, match="allowed are 1 to 65535"), serve_ui(home, {}, port=70000):
        pass


def test_a_home_without_a_store_is_one_line(tmp_path, capsys):
    assert main(["ui", "--home", str(tmp_path), "--no-browser"]) == 2
    assert "mlflow.db: no such file; `tandem run USE_CASE` makes it" in capsys.readouterr().err


def test_a_store_that_mlflow_refuses_ends_at_once(tmp_path):
    (tmp_path / "mlflow.db").write_text("this is no database" * 100)
    told = environment(tmp_path)
    with pytest.raises(StoreError, match=r"did not start: .*ui\.log"), serve_ui(tmp_path, told, port=0, start_timeout_s=60):
        pass


def test_a_console_without_its_settings_ends_at_once(store):
    home, _ = store
    told = {**environment(home), "TANDEM_CONSOLE": str(home / "missing.json")}
    with pytest.raises(StoreError, match=r"did not start: .*ui\.log"), serve_ui(home, told, port=0, start_timeout_s=60):
        pass


def test_a_password_that_is_too_short_is_one_line_and_leaves_nothing(store, capsys, monkeypatch, tmp_path):
    home, _ = store
    (tmp_path / "mlflow.db").write_bytes((home / "mlflow.db").read_bytes())
    monkeypatch.setenv("TANDEM_ADMIN_PASSWORD", "short")
    assert main(["ui", "--home", str(tmp_path), "--port", "0", "--no-browser"]) == 2
    assert capsys.readouterr().err == "tandem: TANDEM_ADMIN_PASSWORD has 5 characters; MLflow asks for 12 or more\n"
    assert not (tmp_path / "console").exists()


def test_the_settings_name_the_shipped_models_and_their_rules(store):
    import argparse

    from pipelines.console_settings import console_settings

    home, _ = store
    given = argparse.Namespace(home=str(home), ledger=None, keys=None, service_key=None)
    settings = console_settings(given)
    assert settings.models["credit-risk"].use_case == "credit_risk"
    assert settings.models["credit-risk"].rule.approvals == 1
    assert settings.models["credit-risk"].p99_ms == 50
    assert settings.service_key == str(home / "console" / "service-key.pem")
    assert settings.ledger_url == f"sqlite:///{home / 'ledger.db'}"


def test_questions_to_the_sqlite_file_fit_this_mlflow(store):
    home, runs = store
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{home / 'mlflow.db'}"
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    client.create_registered_model("my-case-prod")
    client.create_model_version("my-case-prod", "file:///a")
    client.create_model_version("my-case-prod", "file:///b", tags={"tree_digest": "d" * 64, "framework": "keras"})
    assert experiments_of(home / "mlflow.db", runs) == ["1"]
    assert champion_of(home / "mlflow.db", "my-case-prod") is None
    client.set_registered_model_alias("my-case-prod", "champion", "2")
    assert champion_of(home / "mlflow.db", "my-case-prod") == ("2", "d" * 64)
    client.set_registered_model_alias("my-case-prod", "champion", "1")
    assert champion_of(home / "mlflow.db", "my-case-prod") == ("1", "")


def test_the_compare_link_is_the_route_of_this_mlflow(store):
    _, runs = store
    link = compare_link(runs, ["1"], "http://127.0.0.1:5000")
    assert link.startswith("http://127.0.0.1:5000/#/compare-runs?runs=%5B%22")
    import mlflow

    scripts = pathlib.Path(mlflow.__file__).parent / "server/js/build/static/js"
    main_script = next(scripts.glob("main.*.js")).read_text()
    assert '"/compare-runs"' in main_script
    assert "?runs=${JSON.stringify(e)}&experiments=${JSON.stringify(t)}" in main_script
