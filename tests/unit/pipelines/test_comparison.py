"""`tandem compare`: the document, its text, and the command."""

import json
import pathlib
import sqlite3

import pytest

from components.core.contracts import AuditSpec
from components.core.errors import ConfigError, StoreError
from components.core.measurements import Gate, MetricValue, PushReport
from pipelines.cli import main
from pipelines.comparison import choose_runs, compare, compare_link, slice_differences
from pipelines.comparison_view import comparison_text
from pipelines.mlflow_store import experiments_of
from pipelines.run_facts import read_run_facts
from pipelines.text_layout import display_width

KERAS_RUN, LIGHTNING_RUN = "1" * 32, "2" * 32


@pytest.fixture
def compared(home, made):
    """One run with both frameworks; Lightning is better and was pushed."""
    slices = {
        "keras": (made.slice("Home", "rent", 0.80), made.slice("Home", "owner", 0.90, size=700), made.slice("Job", "none", None, size=3)),
        "lightning": (
            made.slice("Home", "rent", 0.70),
            made.slice("Home", "owner", 0.91, size=700),
            made.slice("Job", "none", 0.5, size=3),
        ),
    }
    gates = (
        Gate(name="floor/auc", status="passed", value=0.86, limit=0.8),
        Gate(name="change/auc", status="not checked", required=False, limit=-0.01, detail="there is no champion"),
    )
    keras = [*made.candidate("keras", "1")[:3], made.audit("keras", gates=gates, slices=slices["keras"]), made.registration("keras", "1")]
    lightning = [
        *made.candidate("lightning", "2")[:3],
        made.audit("lightning", auc=0.87, slices=slices["lightning"], not_done=("change/auc: there is no champion",)),
        made.registration("lightning", "2"),
    ]
    record = home.add_run([*keras, *lightning, made.push("lightning", "2")])
    return read_run_facts(record)


def document_of(*runs, home):
    return compare(runs, mlflow_store=home.path / "mlflow.db")


def test_the_keys_that_programs_rely_on(compared, home):
    document = document_of(compared, home=home)
    assert document["schema_version"] == 1
    keras, lightning = document["candidates"]
    assert {key: keras[key] for key in ("framework", "model", "version", "run_id", "digest", "blessed")} == {
        "framework": "keras", "model": "credit-risk", "version": "1", "run_id": KERAS_RUN, "digest": "a" * 64, "blessed": True,
    }  # fmt: skip
    assert keras["metrics"] == {"auc": 0.86}
    assert keras["intervals"] == {"auc": {"lower": 0.84, "upper": 0.88, "note": ""}}
    assert lightning["metrics"]["auc"] == 0.87
    assert (keras["pushed"], lightning["pushed"]) == (False, True)
    assert document["runs"][0]["push"]["reason"].startswith("lightning is better")
    assert (keras["size_bytes"], keras["parameter_count"], keras["training_seconds"]) == (2_500_000, 1234, 3.25)
    assert [bucket["batch"] for bucket in keras["latency"]] == [1, 64]
    json.dumps(document, allow_nan=False)


def test_every_key_is_documented(compared, home):
    text = (pathlib.Path(__file__).resolve().parents[3] / "docs/json.md").read_text()
    document = document_of(compared, home=home)
    keys = {*document, *document["candidates"][0], *document["runs"][0]}
    assert [key for key in sorted(keys) if f"`{key}`" not in text] == []
    nested = {*document["candidates"][0]["gates"][0], *document["candidates"][0]["latency"][0], *document["slices"][0]["entries"][0]}
    assert [key for key in sorted(nested) if key not in text] == []


def test_slices_that_differ_most_come_first_and_undefined_ones_last(compared):
    entries = slice_differences(compared)
    assert [(entry["key"], entry["value"]) for entry in entries] == [("Home", "rent"), ("Home", "owner"), ("Job", "none")]
    assert entries[0]["difference"] == pytest.approx(0.10)
    assert entries[1]["difference"] == pytest.approx(-0.01)
    assert entries[1]["sizes"] == {"keras": 700, "lightning": 700}
    assert entries[2]["difference"] is None
    assert entries[2]["values"] == {"keras": None, "lightning": 0.5}


def test_the_metric_is_the_one_that_names_the_better_candidate(home, made):
    spec = AuditSpec(floors={"recall": 0.3}, better_metric="recall")
    record = home.add_run([made.audit("keras")], plan={"keras-auditor": {"audit_spec": spec.to_json()}})
    assert read_run_facts(record).metric == "recall"


def test_the_text_says_all_of_it(compared, home):
    text = comparison_text(document_of(compared, home=home), 120)
    for part in (
        "pushed credit-risk/2 (lightning) to /serving/staging/credit-risk/2: lightning is better",
        "0.8600 [0.8400, 0.8800]",
        "passed 0.86 (limit 0.8)",
        "not checked (limit -0.01, optional)",
        "passed: 2.5e-07 of 1e-05, labels 100.00%",
        "2.50 MB",
        "1,234",
        "3.2 s, best epoch 7 of 12",
        "1.00/2.00, 0.50/1.50: xla is faster",
        "Home=rent  200   0.8000  0.7000     +0.1000",
        "Job=none   3     undefined  0.5000     undefined",
        "lightning, not checked: change/auc: there is no champion",
    ):
        assert " ".join(part.split()) in " ".join(text.split())


@pytest.mark.parametrize("width", [20, 40, 80])
def test_narrow_terminals_lose_nothing_and_break_nothing(compared, home, width):
    text = comparison_text(document_of(compared, home=home), width)
    assert max(display_width(line) for line in text.splitlines()) <= width
    assert "".join(text.split()).count("1" * 8) >= 1


def test_several_runs_are_columns_of_their_own(home, made, compared):
    second = read_run_facts(home.add_run([made.training("keras"), made.audit("keras", auc=0.5, blessed=False)]))
    document = document_of(compared, second, home=home)
    assert [(entry["pipeline_run_id"], entry["framework"]) for entry in document["candidates"]] == [
        (compared.record.id, "keras"), (compared.record.id, "lightning"), (second.record.id, "keras"),
    ]  # fmt: skip
    third = document["candidates"][2]
    assert (third["version"], third["blessed"], third["size_bytes"], third["parity"]) == (None, False, None, None)
    text = comparison_text(document, 200)
    assert f"{second.record.id} keras" in text
    assert "not registered" in text


def test_undefined_metrics_and_stopped_candidates_are_said(home, made):
    record = home.add_run(
        [
            made.parity("keras", passed=False, largest_absolute_difference=None, reason="scores are not finite"),
            made.audit("keras", blessed=False, metrics={"auc": MetricValue(value=None, note="undefined: one class only")}),
            PushReport(pushed=False, name="credit-risk", reason="nothing to push: keras was stopped"),
        ],
        state="nothing blessed",
    )
    document = document_of(read_run_facts(record), home=home)
    assert document["candidates"][0]["metrics"] == {"auc": None}
    assert document["candidates"][0]["stopped"] == "scores are not finite"
    text = comparison_text(document, 100)
    assert "undefined: one class only" in text
    assert "failed: undefined of 1e-05" in text
    assert "nothing pushed: nothing to push: keras was stopped" in text


def test_the_newest_audited_run_is_chosen(home, made):
    with pytest.raises(ConfigError, match=r"there is no run.*tandem run USE_CASE"):
        choose_runs(home.runs, [])
    audited = home.add_run([made.audit("keras")])
    newest = home.add_run([], state="failed")
    assert [record.id for record in choose_runs(home.runs, [])] == [audited.id]
    assert [record.id for record in choose_runs(home.runs, [newest.id, audited.id, newest.id])] == [newest.id, audited.id]
    both = home.add_run([made.audit("keras"), made.audit("lightning")])
    home.add_run([made.audit("lightning")])  # a part: one framework alone is nothing to compare
    assert [record.id for record in choose_runs(home.runs, [])] == [both.id]


def test_artifacts_that_are_gone_are_named(home, made):
    record = home.add_run([made.audit("keras"), made.training("keras")])
    (home.path / "artifacts" / record.id / "keras-auditor/audit/audit.json").unlink()
    facts = read_run_facts(record)
    assert facts.candidates[0].audit is None
    assert facts.missing[0].startswith("keras-auditor/audit (")
    assert "gone: keras-auditor/audit" in comparison_text(document_of(facts, home=home), 400)


def test_a_measurement_of_another_version_is_refused(home, made):
    record = home.add_run([made.audit("keras")])
    path = home.path / "artifacts" / record.id / "keras-auditor/audit/audit.json"
    path.write_text(path.read_text().replace('"size"', '"rows"'))
    with pytest.raises(StoreError, match=r"audit\.json is no AuditReport that this version reads"):
        read_run_facts(record)


def make_mlflow_store(path, rows):
    with sqlite3.connect(path) as store:
        store.execute("CREATE TABLE runs (run_uuid TEXT, experiment_id INTEGER)")
        store.executemany("INSERT INTO runs VALUES (?, ?)", rows)


def test_the_link_names_runs_and_experiments(home, compared):
    make_mlflow_store(home.path / "mlflow.db", [(KERAS_RUN, 1), (LIGHTNING_RUN, 1), ("3" * 32, 7)])
    assert document_of(compared, home=home)["mlflow_compare"] == (
        f"http://127.0.0.1:5000/#/compare-runs?runs=%5B%22{KERAS_RUN}%22%2C%22{LIGHTNING_RUN}%22%5D&experiments=%5B%221%22%5D"
    )


def test_no_link_without_two_runs_or_without_their_experiments(tmp_path):
    assert compare_link([KERAS_RUN], ["1"], "http://x") is None
    assert compare_link([KERAS_RUN, LIGHTNING_RUN], [], "http://x") is None
    assert experiments_of(tmp_path / "mlflow.db", [KERAS_RUN]) == []
    (tmp_path / "broken.db").write_text("no database")
    with pytest.raises(StoreError, match="cannot be read as MLflow's store"):
        experiments_of(tmp_path / "broken.db", [KERAS_RUN])


def test_the_command_prints_json_and_text(home, compared, capsys, monkeypatch):
    assert main(["compare", "--home", str(home.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["candidates"][1]["metrics"] == {"auc": 0.87}
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["compare", compared.record.id, "--home", str(home.path)]) == 0
    assert all(len(line) <= 40 for line in capsys.readouterr().out.splitlines() if "http" not in line)


def test_an_unknown_run_is_one_line(home, compared, capsys):
    assert main(["compare", "2020", "--home", str(home.path)]) == 2
    assert "no run '2020'; the newest are" in capsys.readouterr().err
