"""`tandem why`: what stopped a run, and what the next one executes."""

import json
import pathlib
import shutil

import pytest

from components.core.measurements import Gate, PushReport, WorstRow
from components.ingest.digest import data_digest
from pipelines.cli import main
from pipelines.config import find_use_case, load_config
from pipelines.diagnosis import diagnose
from pipelines.diagnosis_view import diagnosis_text
from pipelines.plan import plan_training
from pipelines.run_facts import read_run_facts
from pipelines.scaffold import create_use_case


@pytest.fixture
def use_case(tmp_path, home, monkeypatch):
    """A real use case, whose runs go to `home`."""
    home.use_case = create_use_case("my_case", tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (home.use_case / "pipeline.toml").read_text()
    (home.use_case / "pipeline.toml").write_text(text.replace('home = ".tandem"', 'home = "home"'))
    return home.use_case


@pytest.fixture
def planned(use_case):
    config = load_config(find_use_case(str(use_case)))
    return {stage.name: dict(stage.parameters) for stage in plan_training(config, data_digest=data_digest(config.data_path)).stages}


def why(record, home, **options):
    return diagnose(read_run_facts(record), home=home.path, **options)


def test_the_gate_slice_and_remedy_that_stopped_a_candidate(home, made):
    gate = Gate(name="slice_floor/auc", status="failed", value=0.52, limit=0.6, detail="worst of 3: Home=rent", remedy="more data for them")
    slices = (made.slice("Home", "rent", 0.52), made.slice("Home", "own", 0.7), made.slice("Job", "x", 0.1, size=9, judged=False))
    audit = made.audit("keras", blessed=False, gates=(Gate(name="floor/auc", status="passed", value=0.8, limit=0.7), gate), slices=slices)
    record = home.add_run([audit, PushReport(pushed=False, name="n", reason="nothing to push: keras")], state="nothing blessed")
    document = why(record, home)
    candidate = document["candidates"][0]
    assert candidate["stopped_by"] == ["slice_floor/auc"]
    assert candidate["gates"][0]["slices"] == [{"key": "Home", "value": "rent", "size": 200, "positives": 50, "metric": 0.52}]
    text = diagnosis_text(document, 120)
    for part in (
        "keras: not blessed, stopped by slice_floor/auc",
        "slice_floor/auc failed 0.52 (limit 0.6): worst of 3: Home=rent",
        "slice Home=rent: 0.5200, 200 rows, 50 positive",
        "remedy: more data for them",
        "nothing pushed: nothing to push: keras",
    ):
        assert part in text
    assert document["failure"] is None


def test_every_key_is_documented(home, made):
    text = (pathlib.Path(__file__).resolve().parents[3] / "docs/json.md").read_text()
    document = why(home.add_run([made.audit("keras")]), home)
    assert [key for key in {*document, *document["candidates"][0]} if f"`{key}`" not in text] == []
    assert [key for key in document["next_run"] if key not in text] == []


def test_the_worst_row_of_a_failed_parity(home, made):
    row = WorstRow(
        source="edge:all missing", index=0, native=(0.25, 0.75), exported=(None, None), features={"Age": "(missing)", "Home": "own\x1b"}
    )
    record = home.add_run([made.parity("keras", passed=False, worst_row=row, largest_absolute_difference=None, reason="not finite")])
    document = why(record, home)
    assert document["candidates"][0]["parity_worst_row"]["source"] == "edge:all missing"
    text = diagnosis_text(document, 120)
    assert "worst row: 0 of edge:all missing" in text
    assert "native scores [0.25, 0.75], exported [undefined, undefined]" in text
    assert "Age=(missing), Home=own\\x1b" in text
    assert "parity: not finite" in text


def test_the_buckets_behind_a_broken_service_level(home, made):
    slow = made.bucket(64, plain_p99_ms=61.0, xla_p99_ms=58.5, within_slo=False)
    gates = (Gate(name="service_level", status="failed", value=61.0, limit=50.0, remedy="make the model smaller"),)
    record = home.add_run([made.compiled("keras", buckets=(made.bucket(1), slow)), made.audit("keras", blessed=False, gates=gates)])
    text = diagnosis_text(why(record, home), 120)
    assert "batch 64: p99 plain 61.00 ms, XLA 58.50 ms" in text
    assert "batch 1:" not in text


def test_a_failed_stage_with_its_error_and_log(home, use_case, planned):
    states = dict.fromkeys(planned, "skipped") | {"ingest": "complete", "statistics": "failed"}
    record = home.add_run(
        plan=planned, states=states, state="failed", error="statistics: MemoryError: no message", error_stage="statistics"
    )
    log = home.path / "runs" / record.id / "logs" / "statistics.log"
    log.write_text("Traceback\n")
    document = why(record, home)
    assert document["failure"] == {"stage": "statistics", "error": "statistics: MemoryError: no message", "log": str(log)}
    stages = {stage["name"]: stage for stage in document["next_run"]["stages"]}
    assert stages["ingest"]["decision"] == "cached"
    assert stages["statistics"]["reasons"] == [f"it failed in run {record.id}"]
    assert stages["schema"]["reasons"] == [f"it was not reached in run {record.id}", "because statistics executes"]
    text = diagnosis_text(document, 300)
    assert "stopped at: stage statistics" in text
    assert f"log: {log}" in text
    assert "from the cache: ingest" in text


def test_a_changed_key_of_a_real_use_case(home, use_case, planned):
    record = home.add_run(plan=planned)
    document = why(record, home, overrides=["training.epochs=3"])
    stages = {stage["name"]: stage for stage in document["next_run"]["stages"]}
    assert document["next_run"]["problem"] == ""
    assert stages["transform"]["decision"] == "cached"
    assert stages["keras-trainer"]["reasons"] == ["key training.epochs 40 -> 3"]
    assert stages["keras-exporter"]["reasons"] == ["because keras-trainer executes"]
    assert stages["pusher"]["reasons"][-1] == "it always runs"


def test_changed_data_and_code_of_a_real_use_case(home, use_case, planned):
    record = home.add_run(plan=planned)
    with (use_case / "data" / "customers.csv").open("a") as file:
        file.write("601,1,1,9.0,1.0,pro,east,no\n")
    (use_case / "keras_model.py").write_text("# another one\n")
    stages = {stage["name"]: stage for stage in why(record, home)["next_run"]["stages"]}
    assert stages["ingest"]["reasons"][0].startswith("data changed (SHA-256 ")
    assert "code changed (trainers, components/core or the use case's model)" in stages["keras-trainer"]["reasons"]
    assert not any("code" in reason for reason in stages["lightning-trainer"]["reasons"])


def test_a_use_case_that_vanished_or_broke_still_gets_the_first_half(home, use_case, planned, made):
    record = home.add_run([made.audit("keras")], plan=planned)
    (use_case / "pipeline.toml").write_text("name = 1\n")
    document = why(record, home)
    assert "pipeline.toml: " in document["next_run"]["problem"]
    shutil.rmtree(use_case)
    document = why(record, home)
    assert document["next_run"]["problem"].startswith("the next run could not begin: no use case ")
    assert document["next_run"]["stages"] == []
    assert "keras: blessed" in diagnosis_text(document, 80)


def test_another_home_is_said(home, use_case, planned):
    record = home.add_run(plan=planned)
    document = why(record, home, overrides=["directories.home=elsewhere"])
    assert document["next_run"]["problem"].startswith("it would use another home: ")
    assert {stage["decision"] for stage in document["next_run"]["stages"]} == {"execute"}


def test_the_command(home, made, capsys):
    record = home.add_run([made.audit("keras")])
    assert main(["why", record.id, "--home", str(home.path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema_version"], document["run"]["id"], document["run"]["state"]) == (1, record.id, "succeeded")
    assert main(["why", "--home", str(home.path)]) == 0
    assert f"run {record.id} of credit_risk: succeeded" in capsys.readouterr().out
