"""What goes wrong: one line that names stage, cause and remedy, the right exit code, nothing half-written, and the next run goes on."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.desk import Answer, Desk

pytestmark = pytest.mark.slow
SMALL = ("--set", "training.epochs=4", "--set", "serving.batch_buckets=[1, 8]")
LONG = ("--set", "training.epochs=400", "--set", "training.early_stopping_patience=400", "--set", "serving.batch_buckets=[1, 8]")


@pytest.fixture(scope="module")
def small(make_desk: Callable[[str], Desk]) -> Desk:
    """A desk with a scaffolded use case."""
    desk = make_desk("small")
    answer = desk.call("init", "fraud", "--dir", ".")
    assert answer.code == 0, answer.err
    return desk


@pytest.fixture
def case(small: Desk, tmp_path: Path) -> Desk:
    """A fresh desk with a copy of the scaffolded use case."""
    shutil.copytree(small.folder / "fraud", tmp_path / "fraud")
    return Desk(tmp_path)


def one_line(answer: Answer) -> str:
    """The one line of error."""
    lines = [line for line in answer.err.splitlines() if line.startswith("tandem: ")]
    assert len(lines) == 1, answer.err
    assert "Traceback" not in answer.err + answer.out
    return lines[0]


def none_running(desk: Desk) -> bool:
    return all(run.info.status != "RUNNING" for run in desk.mlflow_runs())


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_scaffolded_use_case_outside_the_repository_runs_at_once(small: Desk) -> None:
    answer = small.call("run", "fraud")
    assert answer.code == 0, answer.err
    assert set(small.states().values()) == {"complete"}
    assert "pushed fraud/" in answer.err


def test_a_wrong_path_is_told_before_anything_starts(case: Desk) -> None:
    started = time.monotonic()
    answer = case.call("run", "fraud", "--set", "data.path=data/nothing.csv")
    assert answer.code == 2
    assert "nothing.csv" in one_line(answer)
    assert time.monotonic() - started < 10
    assert not (case.folder / ".tandem").exists()


def test_an_unknown_use_case_and_stage_are_refused(case: Desk) -> None:
    assert "no use case 'fraudd'" in one_line(case.call("run", "fraudd"))
    assert "no stage 'train'" in one_line(case.call("run", "fraud", "--from", "train"))


def test_a_bad_cell_names_file_line_column_and_value(case: Desk) -> None:
    (data,) = (case.folder / "fraud" / "data").glob("*.csv")
    lines = data.read_text().splitlines()
    label = (
        lines[0]
        .split(",")
        .index(re.search(r'^name = "(\w+)"', (case.folder / "fraud/pipeline.toml").read_text().split("[label]")[1], re.M)[1])
    )  # type: ignore[index]
    cells = lines[7].split(",")
    cells[label] = "perhaps"
    lines[7] = ",".join(cells)
    data.write_text("\n".join(lines) + "\n")
    answer = case.call("run", "fraud", *SMALL)
    message = one_line(answer)
    assert answer.code == 2
    assert all(word in message for word in ("ingest", data.name, "perhaps", "8")), message
    assert not list((case.folder / ".tandem/artifacts").rglob("*.gz"))


def test_a_model_class_that_raises_is_told_with_its_line(case: Desk) -> None:
    change(
        case.folder / "fraud/keras_model.py",
        "def build_model(",
        "def build_model(*args, **kwargs):\n    raise ValueError('no such layer')\n\n\ndef was(",
    )
    answer = case.call("run", "fraud", *SMALL)
    message = one_line(answer)
    assert answer.code == 2
    assert all(word in message for word in ("keras-trainer", "no such layer", "keras_model.py")), message
    assert none_running(case)


def test_a_loss_that_is_not_finite_stops_its_trainer(case: Desk) -> None:
    answer = case.call("run", "fraud", *SMALL, "--set", "training.learning_rate=1e20")
    message = one_line(answer)
    assert answer.code == 2
    assert "-trainer" in message
    assert "loss" in message
    assert "FAILED" in {run.info.status for run in case.mlflow_runs()}
    assert none_running(case)


def test_ctrl_c_ends_in_order_and_the_next_run_goes_on(case: Desk) -> None:
    process = case.start("run", "fraud", *LONG)
    case.wait_for_checkpoints(2)
    process.send_signal(signal.SIGINT)
    answer = case.wait(process)
    assert answer.code == 130, answer.err
    assert "interrupted" in one_line(answer)
    assert none_running(case)
    assert "KILLED" in {run.info.status for run in case.mlflow_runs()}
    assert case.newest_run()["state"] == "interrupted"
    again = case.call("run", "fraud", *SMALL)
    assert again.code == 0, again.err
    assert case.states()["transform"] == "cached"


def test_kill_9_leaves_nothing_running_after_the_next_start(case: Desk) -> None:
    process = case.start("run", "fraud", *LONG)
    case.wait_for_checkpoints(2)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    interrupted = {run.data.tags["framework"]: run.info.run_id for run in case.mlflow_runs() if run.data.tags["stage"].endswith("-trainer")}
    assert case.newest_run()["state"] == "died"
    time.sleep(3)
    resumed = case.start("run", "fraud", *LONG, "--to", "lightning-trainer")
    answer = case.wait(resumed)
    assert answer.code == 0, answer.err
    assert "had died" in answer.err
    assert none_running(case)
    after = [run for run in case.mlflow_runs() if run.data.tags["stage"] == "lightning-trainer"]
    assert [run.info.run_id for run in after] == [interrupted["lightning"]]
    assert after[0].info.status == "FINISHED"


def test_kill_9_between_stages_keeps_what_was_finished(case: Desk) -> None:
    process = case.start("run", "fraud", *SMALL)
    assert process.stderr is not None
    for line in process.stderr:
        if "statistics" in line and "complete" in line:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert case.newest_run()["state"] == "died"
    answer = case.call("run", "fraud", *SMALL, "--to", "transform")
    assert answer.code == 0, answer.err
    assert "had died" in answer.err
    states = case.states()
    assert (states["ingest"], states["statistics"], states["transform"]) == ("cached", "cached", "complete")


def test_two_runs_at_once_both_end(case: Desk) -> None:
    shutil.copytree(case.folder / "fraud", case.folder / "other")
    change(case.folder / "other/pipeline.toml", 'name = "fraud"', 'name = "other"')
    processes = [case.start("run", name, *SMALL) for name in ("fraud", "other")]
    answers = [case.wait(process) for process in processes]
    assert [answer.code for answer in answers] == [0, 0], [answer.err for answer in answers]
    runs = case.call("runs", "--json").json()["runs"]
    assert {run["use_case"] for run in runs} == {"fraud", "other"}
    assert all(stage["state"] == "complete" for run in runs for stage in run["stages"])
    for run in runs:
        tagged = [entry for entry in case.mlflow_runs() if entry.data.tags["pipeline_run_id"] == run["id"]]
        assert {entry.data.tags["use_case"] for entry in tagged} == {run["use_case"]}
        assert len(tagged) >= 10
    assert none_running(case)


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is made by mounting tmpfs, which takes root; run the tests as root (CI does)")
def test_a_full_disk_is_told_and_the_next_run_goes_on(case: Desk) -> None:
    home = case.folder / ".tandem"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(home)], check=True)
    try:
        answer = case.call("run", "fraud", *SMALL)
        assert answer.code == 2, answer.err
        assert "space" in one_line(answer)
        subprocess.run(["mount", "-o", "remount,size=200m", str(home)], check=True)
        again = case.call("run", "fraud", *SMALL)
        assert again.code == 0, again.err
        assert none_running(case)
    finally:
        subprocess.run(["umount", "-l", str(home)], check=True)
