"""Both trainers from FnArgs to their records: each test runs in Keras and in Lightning, and most of them compare the two."""

import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from components.core.contracts import NATIVE_FILE, WEIGHTS_FILES, NativeModel
from components.core.errors import TrainingError
from components.core.measurements import TRAINING_FACTS_FILE, TrainingFacts, read_measurement
from trainers.course import Course
from trainers.examples import ExampleReader

BOTH = pytest.mark.parametrize("framework", ["keras", "lightning"])
METRICS = {"train/loss", "val/loss", "val/accuracy", "val/auc"}


def run(workplace, framework, **changes):
    importlib.import_module(f"trainers.{framework}.run").run_fn(workplace.fn_args(framework, **changes))
    return read_measurement(TrainingFacts, str(workplace.root / framework / "model_run"), TRAINING_FACTS_FILE)


def load_native(workplace, framework):
    return importlib.import_module(f"trainers.{framework}.native").NativeScorer(workplace.root / framework / "Format-Serving")


def only_run(client, workplace):
    experiment = client.get_experiment_by_name("tiny").experiment_id
    (found,) = client.search_runs([experiment], filter_string=f"tags.code_fingerprint = '{workplace.root.name}'")
    return found


@BOTH
def test_native_model_facts_and_run_agree(workplace, client, framework):
    facts = run(workplace, framework, execution={"stage": "node", "pipeline_run_id": "run-7", "mlmd_execution_id": "12"})
    folder = workplace.root / framework / "Format-Serving"
    assert sorted(path.name for path in folder.iterdir()) == sorted([NATIVE_FILE, WEIGHTS_FILES[framework]])
    native = NativeModel.from_json((folder / NATIVE_FILE).read_text())
    assert (native.framework, native.module, native.training.model["units"]) == (framework, f"tiny_{framework}", 2)
    # ten weights and more: 4 ids x 1, 3 x 2 + 2, 2 x 2 + 2
    assert facts.parameter_count == 4 + 8 + 6
    assert (facts.epochs_run, facts.steps, facts.device, facts.resumed_from_epoch) == (3, 3 * 4, "cpu", None)
    found = client.get_run(facts.run_id)
    assert found.info.status == "FINISHED"
    tags = {"stage": "node", "pipeline_run_id": "run-7", "mlmd_execution_id": "12", "framework": framework}
    assert tags.items() <= found.data.tags.items()
    for name in METRICS:
        history = client.get_metric_history(facts.run_id, name)
        assert [entry.step for entry in history] == [1, 2, 3]
        assert history[facts.best_epoch - 1].value == facts.metrics[name]
    assert "training_facts.json" in [entry.path for entry in client.list_artifacts(facts.run_id)]
    assert list((workplace.root / "unfinished").iterdir()) == []


@BOTH
def test_weights_are_those_of_the_best_epoch(workplace, framework):
    job = workplace.job(framework)
    facts = run(workplace, framework, training={"epochs": 12, "early_stopping_patience": 2, "learning_rate": 0.3})
    scorer = load_native(workplace, framework)
    parts = list(ExampleReader(job.eval_files, job.spec, label="y", batch_size=64).arrays(0))
    features, labels = parts[0]
    scores = scorer.predict(features)
    assert facts.metrics["val/auc"] == pytest.approx(roc_auc_score(labels, scores[:, 1]), abs=0.02)  # rounding breaks ties
    assert facts.metrics["val/accuracy"] == pytest.approx(np.mean(scores.argmax(axis=1) == labels))
    assert facts.metrics["val/loss"] == pytest.approx(-np.log(scores[np.arange(labels.size), labels]).mean(), abs=1e-5)
    assert facts.epochs_run == min(12, facts.best_epoch + 2)


def test_names_are_the_same_in_both_frameworks(workplace, client):
    runs = [client.get_run(run(workplace, framework).run_id) for framework in ("keras", "lightning")]
    assert runs[0].data.params == runs[1].data.params
    expected = {"learning_rate", "batch_size", "epochs", "seed", "precision", "early_stopping_patience", "device", "parameter_count"}
    assert set(runs[0].data.params) == expected | {"model.units", "model.dropout"}
    assert set(runs[0].data.metrics) == set(runs[1].data.metrics) == METRICS
    assert set(runs[0].data.tags) == set(runs[1].data.tags)
    datasets = [found.inputs.dataset_inputs[0].dataset for found in runs]
    assert datasets[0] == datasets[1] or [(each.name, each.digest) for each in datasets] == [("tiny", "d" * 36)] * 2


@BOTH
def test_facts_of_each_parameter(workplace, framework):
    facts = run(workplace, framework)
    by_name = facts.by_name
    (frozen,) = [entry for entry in facts.parameters if not entry.trainable]
    assert "factor" in frozen.name
    assert (frozen.gradient_norm, frozen.weight_norm) == (None, 1.0)
    assert all(entry.gradient_norm is not None for entry in facts.parameters if entry.trainable)
    model = load_native(workplace, framework).model
    values = {weight.path: np.asarray(weight) for weight in model.weights} if framework == "keras" else dict(model.state_dict())
    assert set(values) == set(by_name)
    for name, value in values.items():
        assert by_name[name].weight_norm == pytest.approx(np.linalg.norm(np.asarray(value)), rel=1e-6)
        assert sum(by_name[name].histogram.counts) == np.asarray(value).size


@BOTH
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(workplace, framework):
    norms = []
    for seed in (3, 3, 4):
        facts = run(workplace, framework, training={"seed": seed})
        norms.append([entry.weight_norm for entry in facts.parameters])
    assert norms[0] == norms[1] != norms[2]


@BOTH
@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_mixed_precision_trains_float32_weights(workplace, framework, precision):
    full = run(workplace, framework)
    mixed = run(workplace, framework, training={"precision": precision})
    assert mixed.precision == precision
    assert full.metrics["val/loss"] != mixed.metrics["val/loss"]
    assert mixed.metrics["val/loss"] == pytest.approx(full.metrics["val/loss"], abs=0.05)
    model = load_native(workplace, framework).model
    dtypes = {str(weight.dtype) for weight in (model.weights if framework == "keras" else model.parameters())}
    assert dtypes <= {"float32", "torch.float32"}
    gradients = [(full.by_name[name].gradient_norm, entry.gradient_norm) for name, entry in mixed.by_name.items() if entry.trainable]
    # unscaled: a loss scale of 32768 would show
    assert all(entry < 10 for pair in gradients for entry in pair)


def test_dtype_policy_is_what_it_was(workplace):
    import keras

    run(workplace, "keras", training={"precision": "bf16-mixed"})
    assert keras.config.dtype_policy().name == "float32"


def test_loss_scaling_begins_as_in_keras_and_also_on_a_cpu(workplace):
    """Keras's LossScaleOptimizer: 32768, doubled after 2000 good steps. Lightning alone would train in bfloat16 on a CPU."""
    from trainers.lightning.fit import make_trainer

    trainer = make_trainer(workplace.job("lightning", training={"precision": "16-mixed"}), [], device="cpu", folder=str(workplace.root))
    assert (trainer.precision_plugin.scaler.get_scale(), trainer.precision_plugin.scaler.get_growth_interval()) == (32768.0, 2000)
    assert trainer.precision_plugin.device == "cpu"


@BOTH
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"training": {"model": {"units": 2, "dropout": 0.0, "fault": "raise"}}},
            ("tiny_{}.py:", "ValueError: ", "the tiny model is broken"),
        ),
        ({"training": {"model": {"units": 2, "dropout": 0.0, "fault": "nan"}}}, ("the loss is nan in epoch 1, step 1", "learning_rate")),
        ({"training": {"device": "cuda:7"}}, ("'cuda:7'", "0 GPU(s)", "use auto, cpu")),
        ({"classes": ("no", "yes", "maybe"), "positive": "none of them"}, ("positive must be one of",)),
        ({"training": {"model": {"dropout": 0.0}}}, ("tiny_{}.py:", "KeyError: 'units'", "building the model")),
    ],
)
def test_faults_are_one_clear_error_and_the_run_fails(workplace, client, framework, changes, words):
    with pytest.raises(TrainingError) as caught:
        run(workplace, framework, **changes)
    assert all(word.format(framework) in str(caught.value) for word in words), caught.value
    assert "\n" not in str(caught.value)
    if "positive" not in changes:
        assert str(caught.value).startswith(f"{framework}-trainer: ") or "cuda" in str(caught.value)
        assert only_run(client, workplace).info.status == "FAILED"
        assert list((workplace.root / "unfinished").iterdir()) == []
    assert not (workplace.root / framework / "Format-Serving" / NATIVE_FILE).exists()


def test_validation_step_must_give_logits(workplace):
    with pytest.raises(TrainingError, match=r"validation_step of tiny_lightning must give logits \[N, 2\].*not \[\]"):
        run(workplace, "lightning", training={"model": {"units": 2, "dropout": 0.0, "fault": "validation"}})


@BOTH
def test_a_module_without_build_model_is_named(workplace, framework):
    with pytest.raises(TrainingError, match=r"no function build_model\(spec, hparams\)"):
        run(workplace, framework, module="colorsys")


@BOTH
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_run_as_killed_and_is_gone_on_with(workplace, client, framework, number, monkeypatch):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    plain = Course.check_loss

    def interrupt(self, epoch, step, loss):
        if (epoch, step) == (2, 3):
            os.kill(os.getpid(), number)
        plain(self, epoch, step, loss)

    with monkeypatch.context() as patch:
        patch.setattr(Course, "check_loss", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(workplace, framework)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    killed = only_run(client, workplace)
    assert killed.info.status == "KILLED"
    assert killed.data.metrics.keys() == METRICS
    facts = run(workplace, framework)
    assert (facts.run_id, facts.resumed_from_epoch) == (killed.info.run_id, 1)
    found = only_run(client, workplace)
    assert (found.info.status, "error" in found.data.tags, len(found.inputs.dataset_inputs)) == ("FINISHED", False, 1)


@BOTH
def test_logged_model_loads_in_a_clean_process_in_another_folder(workplace, client, framework, tmp_path):
    facts = run(workplace, framework)
    logged = client.get_logged_model(facts.model_id)
    assert (logged.source_run_id, str(logged.status)) == (facts.run_id, "READY")
    requirements = (Path(logged.artifact_location) / "requirements.txt").read_text()
    assert ("keras==" in requirements) == (framework == "keras")
    code = (
        "import sys, json, numpy as np, mlflow.pyfunc\n"
        "scorer = mlflow.pyfunc.load_model(sys.argv[1])\n"
        "features = {'x': np.float32([0.5]), 'x_missing': np.float32([0]), 'word': np.int64([1])}\n"
        "print(json.dumps(scorer.predict(features).tolist()))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3]), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", code, logged.artifact_location]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    features = {"x": np.float32([0.5]), "x_missing": np.float32([0]), "word": np.int64([1])}
    np.testing.assert_allclose(json.loads(done.stdout.splitlines()[-1]), load_native(workplace, framework).predict(features), atol=1e-6)
