"""The whole pipeline on the real data: one run, then what can be asked about it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from tests.e2e.desk import ROOT, Answer, Desk

pytestmark = pytest.mark.slow
FRAMEWORKS = ("keras", "lightning")


@pytest.fixture(scope="module")
def comparison(credit: tuple[Desk, Answer]) -> dict[str, Any]:
    answer = credit[0].call("compare", "--json")
    assert answer.code == 0, answer.err
    document: dict[str, Any] = answer.json()
    return document


def test_every_stage_runs_to_its_end(credit: tuple[Desk, Answer]) -> None:
    desk, answer = credit
    assert answer.code == 0, answer.err
    run = desk.newest_run()
    assert run["state"] == "succeeded"
    assert len(run["stages"]) == 16
    assert {stage["state"] for stage in run["stages"]} == {"complete"}
    assert "Traceback" not in answer.err
    assert re.search(r"pushed credit-risk/\d+ \((keras|lightning)\)", answer.err)


def test_both_candidates_are_blessed_and_close(comparison: dict[str, Any]) -> None:
    candidates = {candidate["framework"]: candidate for candidate in comparison["candidates"]}
    assert set(candidates) == set(FRAMEWORKS)
    assert all(candidate["blessed"] for candidate in candidates.values())
    assert all(candidate["metrics"]["auc"] >= 0.83 for candidate in candidates.values())
    assert abs(candidates["keras"]["metrics"]["auc"] - candidates["lightning"]["metrics"]["auc"]) <= 0.02
    assert len({candidate["digest"] for candidate in candidates.values()}) == 2
    assert {candidate["model"] for candidate in candidates.values()} == {"credit-risk"}


def test_the_audit_agrees_with_scikit_learn_on_the_predictions(credit: tuple[Desk, Answer], comparison: dict[str, Any]) -> None:
    record = json.loads(next((credit[0].folder / ".tandem/runs").glob("*/run.json")).read_text())
    for candidate in comparison["candidates"]:
        folder = Path(record["artifacts"][f"{candidate['framework']}-auditor/predictions"])
        predictions = pd.read_parquet(folder / "predictions.parquet")
        expected = roc_auc_score(predictions["label"] == "bad", predictions["positive_score"])
        assert candidate["metrics"]["auc"] == pytest.approx(expected, abs=1e-6)


def test_what_was_pushed_is_what_was_audited(credit: tuple[Desk, Answer], comparison: dict[str, Any]) -> None:
    from components.core.files import tree_digest

    (pushed,) = (credit[0].folder / "serving/staging/credit-risk").glob("[0-9]*")
    digests = {candidate["version"]: candidate["digest"] for candidate in comparison["candidates"]}
    assert tree_digest(pushed) == digests[pushed.name]


def test_the_pushed_model_answers_alone_in_a_fresh_process(credit: tuple[Desk, Answer], tmp_path: Path) -> None:
    (pushed,) = (credit[0].folder / "serving/staging/credit-risk").glob("[0-9]*")
    script = f"""
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('torch', 'tensorflow_transform', 'tfx', 'pipelines', 'components', 'trainers'):
            raise ImportError(name)
sys.meta_path.insert(0, Blocker())
import json, tensorflow as tf
model = tf.saved_model.load({str(pushed)!r})
raw = model.signatures['serving_raw']
rows = {{'Seniority': [9., 0.], 'Time': [60., 36.], 'Age': [30., 26.], 'Expenses': [73., 46.], 'Income': [129., float('nan')],
         'Assets': [0., float('nan')], 'Debt': [0., 0.], 'Amount': [800., 310.], 'Price': [846., 910.],
         'Home': ['rent', ''], 'Marital': ['married', 'single'], 'Records': ['no', 'yes'], 'Job': ['freelance', 'never seen']}}
tensors = {{key: tf.constant(value, tf.string if isinstance(value[0], str) else tf.float64) for key, value in rows.items()}}
answer = raw(**tensors)
classes = [[name.decode() for name in row] for row in answer['classes'].numpy()]
print(json.dumps({{'scores': answer['scores'].numpy().tolist(), 'classes': classes}}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["classes"] == [["good", "bad"], ["good", "bad"]]
    assert np.allclose(np.sum(answer["scores"], axis=1), 1.0, atol=1e-6)
    assert answer["scores"][1][1] > answer["scores"][0][1]


def test_mlflow_and_ml_metadata_point_at_each_other(credit: tuple[Desk, Answer]) -> None:
    from components.core.lineage import MetadataStore

    desk = credit[0]
    runs = {run.info.run_id: run for run in desk.mlflow_runs()}
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    executions = MetadataStore(desk.folder / ".tandem" / "metadata.db").executions_of_run(desk.newest_run()["id"])
    assert len(executions) == 16
    with_run = [execution for execution in executions if "mlflow_run_id" in execution.properties]
    assert len(with_run) >= 10
    for execution in with_run:
        run = runs[str(execution.properties["mlflow_run_id"])]
        assert run.data.tags["mlmd_execution_id"] == str(execution.id)
        assert run.data.tags["stage"] == execution.stage


def test_both_trainings_overlay_in_the_same_charts(credit: tuple[Desk, Answer]) -> None:
    trainings = {run.data.tags["framework"]: run for run in credit[0].mlflow_runs() if run.data.tags["stage"].endswith("-trainer")}
    assert set(trainings) == set(FRAMEWORKS)
    keras, lightning = trainings["keras"].data, trainings["lightning"].data
    assert set(keras.metrics) == set(lightning.metrics)
    assert {"train/loss", "val/loss", "val/auc"} <= set(keras.metrics)
    assert set(keras.params) == set(lightning.params)
    assert keras.params["parameter_count"] == lightning.params["parameter_count"]
    datasets = [{item.dataset.digest for item in run.inputs.dataset_inputs} for run in trainings.values()]
    assert datasets[0] == datasets[1] != set()


def test_lineage_leads_from_the_pushed_version_to_the_data(credit: tuple[Desk, Answer]) -> None:
    from components.core.files import file_digest

    desk = credit[0]
    (pushed,) = (desk.folder / "serving/staging/credit-risk").glob("[0-9]*")
    answer = desk.call("lineage", f"credit-risk/{pushed.name}", "--json")
    assert answer.code == 0, answer.err
    assert file_digest(ROOT / "pipelines/credit_risk/data/credit.csv") in answer.out
    by_folder = desk.call("lineage", str(pushed))
    assert by_folder.code == 0, by_folder.err
    assert "ingest" in by_folder.out


def test_why_says_what_the_next_run_would_do(credit: tuple[Desk, Answer]) -> None:
    answer = credit[0].call("why")
    assert answer.code == 0, answer.err
    assert "pusher" in answer.out


def test_compare_is_readable_by_people(credit: tuple[Desk, Answer]) -> None:
    answer = credit[0].call("compare")
    assert answer.code == 0, answer.err
    assert "auc" in answer.out
    assert "keras" in answer.out
    assert "lightning" in answer.out


def test_an_unchanged_run_takes_everything_from_the_cache(credit: tuple[Desk, Answer]) -> None:
    desk = credit[0]
    versions_before = sorted(path.name for path in (desk.folder / "serving/staging/credit-risk").glob("[0-9]*"))
    answer = desk.call("run", "credit_risk")
    assert answer.code == 0, answer.err
    states = desk.states()
    assert states.pop("pusher") == "complete"
    assert set(states.values()) == {"cached"}
    assert sorted(path.name for path in (desk.folder / "serving/staging/credit-risk").glob("[0-9]*")) == versions_before


def test_a_floor_that_nothing_reaches_is_said_plainly(credit: tuple[Desk, Answer]) -> None:
    desk = credit[0]
    answer = desk.call("run", "credit_risk", "--set", "audit.floors.auc=0.99")
    assert answer.code == 3, answer.err
    assert "nothing was blessed" in answer.err
    states = desk.states()
    assert states["lightning-xla-compiler"] == "cached"
    assert states["lightning-auditor"] == "complete"
    why = desk.call("why")
    assert why.code == 0, why.err
    assert "floor/auc" in why.out
    assert "0.99" in why.out


def test_a_part_can_be_run(credit: tuple[Desk, Answer]) -> None:
    desk = credit[0]
    answer = desk.call("run", "credit_risk", "--from", "keras-auditor", "--to", "keras-registrar")
    assert answer.code == 0, answer.err
    states = desk.states()
    assert states["keras-auditor"] in ("cached", "complete")
    assert states["ingest"] == states["pusher"] == "skipped"
