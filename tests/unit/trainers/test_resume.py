"""A training that was killed goes on: same MLflow run, no step twice, the same weights as without the kill."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from components.core.measurements import TRAINING_FACTS_FILE, TrainingFacts, read_measurement
from components.core.tracking import StageRun
from trainers.checkpoint import CheckpointSlot
from trainers.job import TrainingJob

BOTH = pytest.mark.parametrize("framework", ["keras", "lightning"])

CHILD = """
import importlib, json, os, signal, sys
from types import SimpleNamespace
sys.path[:0] = json.loads(sys.argv[2])
framework = sys.argv[3]
import trainers.course
trainers.course._FLUSH_S = 0.0
plain = trainers.course.Course.check_loss
def kill(self, epoch, step, loss):
    if (epoch, step) == (3, 2):
        os.kill(os.getpid(), signal.SIGKILL)
    plain(self, epoch, step, loss)
trainers.course.Course.check_loss = kill
importlib.import_module(f"trainers.{framework}.run").run_fn(SimpleNamespace(**json.loads(sys.argv[1])))
"""


def run(workplace, framework, **changes):
    importlib.import_module(f"trainers.{framework}.run").run_fn(workplace.fn_args(framework, **changes))
    return read_measurement(TrainingFacts, str(workplace.root / framework / "model_run"), TRAINING_FACTS_FILE)


def weights(workplace, framework):
    model = importlib.import_module(f"trainers.{framework}.native").NativeScorer(workplace.root / framework / "Format-Serving").model
    return model.get_weights() if framework == "keras" else [tensor.numpy() for tensor in model.state_dict().values()]


@BOTH
def test_after_sigkill_the_result_is_that_of_an_unbroken_training(workplace, client, framework, tiny_models):
    import json

    changes = {"training": {"epochs": 6, "early_stopping_patience": 6}}
    unbroken = run(workplace, framework, **changes)
    expected = weights(workplace, framework)
    fn_args = json.dumps(vars(workplace.fn_args(framework, **changes)))
    paths = json.dumps([str(Path(__file__).parents[3]), tiny_models])
    child = subprocess.run(
        [sys.executable, "-c", CHILD, fn_args, paths, framework], capture_output=True, text=True, timeout=300, check=False
    )
    assert child.returncode == -9, child.stderr
    (folder,) = (workplace.root / "unfinished").iterdir()
    with CheckpointSlot(workplace.root / "unfinished", folder.name) as slot:
        killed = client.get_run(slot.run_id)
        assert slot.load()[0].epoch == 2
    assert killed.info.status == "RUNNING"
    facts = run(workplace, framework, **changes)
    assert (facts.run_id, facts.resumed_from_epoch, facts.epochs_run) == (killed.info.run_id, 2, 6)
    assert client.get_run(facts.run_id).info.status == "FINISHED"
    for name, value in unbroken.metrics.items():
        assert facts.metrics[name] == pytest.approx(value, abs=1e-6)
        assert [entry.step for entry in client.get_metric_history(facts.run_id, name)] == [1, 2, 3, 4, 5, 6]
    assert facts.steps == unbroken.steps
    for resumed, value in zip(weights(workplace, framework), expected, strict=True):
        np.testing.assert_allclose(resumed, value, atol=1e-6)
    assert list((workplace.root / "unfinished").iterdir()) == []


@BOTH
def test_a_step_that_mlflow_has_already_got_is_not_logged_again(workplace, client, framework, monkeypatch):
    """The kill came after the metrics' way to MLflow and before the checkpoint."""
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointSlot, "save", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space left"):
            run(workplace, framework)
    facts = run(workplace, framework)
    assert facts.resumed_from_epoch is None
    assert [entry.step for entry in client.get_metric_history(facts.run_id, "val/auc")] == [1, 2, 3]


@BOTH
def test_a_kill_after_the_last_epoch_fits_nothing_again(workplace, client, framework, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(StageRun, "log_native_model", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            run(workplace, framework)
    expected = weights(workplace, framework)
    facts = run(workplace, framework)
    assert (facts.resumed_from_epoch, facts.epochs_run, facts.steps) == (3, 3, 12)
    assert all(entry.gradient_norm is not None for entry in facts.parameters if entry.trainable)
    for again, value in zip(weights(workplace, framework), expected, strict=True):
        np.testing.assert_array_equal(again, value)
    experiment = client.get_run(facts.run_id).info.experiment_id
    logged = client.search_logged_models([experiment], filter_string=f"source_run_id = '{facts.run_id}'")
    assert [model.model_id for model in logged] == [facts.model_id]


@BOTH
def test_a_damaged_checkpoint_begins_anew_in_the_same_run(workplace, client, framework):
    job = workplace.job(framework)
    with CheckpointSlot(workplace.root / "unfinished", job.input_fingerprint) as slot:
        (slot.folder / "checkpoint.bin").write_bytes(b"not a checkpoint")
    facts = run(workplace, framework)
    assert (facts.resumed_from_epoch, facts.epochs_run) == (None, 3)


@BOTH
def test_a_run_that_was_deleted_is_replaced(workplace, client, framework):
    job = workplace.job(framework)
    with CheckpointSlot(workplace.root / "unfinished", job.input_fingerprint) as slot:
        slot.keep_run("0" * 32)
    assert run(workplace, framework).run_id != "0" * 32


def test_fingerprint_covers_what_decides_the_result(workplace):
    base = workplace.job("keras").input_fingerprint
    changes = [
        {"training": {"learning_rate": 0.06}},
        {"training": {"model": {"units": 3, "dropout": 0.2}}},
        {"code_fingerprint": "other"},
        {"module": "other"},
        {"positive": "no"},
        {"classes": ("yes", "no")},
    ]
    others = {workplace.job("keras", **change).input_fingerprint for change in changes} | {workplace.job("lightning").input_fingerprint}
    assert len(others | {base}) == len(changes) + 2
    same = [{"threads": 2}, {"checkpoint_root": "/elsewhere"}, {"execution": {"stage": "x"}}, {"cache_bytes": 1}]
    assert {workplace.job("keras", **change).input_fingerprint for change in same} == {base}


def test_fingerprint_covers_the_bytes_of_the_examples(workplace, tmp_path):
    import shutil

    fn_args = workplace.fn_args("keras")
    base = TrainingJob.of(fn_args).input_fingerprint
    copy = tmp_path / "copy"
    shutil.copytree(workplace.transformed / "Split-eval", copy)
    fn_args.eval_files = [str(copy / "*")]
    assert TrainingJob.of(fn_args).input_fingerprint == base
    with sorted(copy.iterdir())[0].open("ab") as file:
        file.write(b"\0")
    assert TrainingJob.of(fn_args).input_fingerprint != base
