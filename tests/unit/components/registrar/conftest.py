"""One candidate as the stages before the registrar leave it: a SavedModel of one weight and its measurement files."""

import shutil
from pathlib import Path

import pytest

from components.core import measurements as m
from components.core.contracts import TrackingSpec
from components.core.files import tree_digest, write_bytes
from components.core.registry import Registry
from components.core.tracking import StageRun


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory):
    import tensorflow as tf

    model = tf.Module()
    model.slope = tf.Variable(0.5)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serving_default(examples):
        return {"scores": model.slope * tf.ones_like(examples, tf.float32)[:, None]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="Amount")])
    def serving_raw(Amount):
        return {"scores": model.slope * Amount[:, None]}

    model.serving_default, model.serving_raw = serving_default, serving_raw
    folder = tmp_path_factory.mktemp("model") / "saved"
    tf.saved_model.save(model, str(folder), signatures={"serving_default": serving_default, "serving_raw": serving_raw})
    return folder


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """MLflow takes seconds to make a store: once is enough."""
    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    Registry(TrackingSpec(uri=f"sqlite:///{path}", artifact_root=str(path.parent), experiment="none", use_case="none"), create=True)
    return path


@pytest.fixture
def tracking(tmp_path, empty_store):
    root = tmp_path / "store"
    root.mkdir()
    shutil.copyfile(empty_store, root / "mlflow.db")
    return TrackingSpec(
        uri=f"sqlite:///{root}/mlflow.db", artifact_root=str(root / "artifacts"), experiment="credit_risk", use_case="credit_risk"
    )


def _bucket(batch, within):
    return m.BucketReport(
        batch=batch,
        calls=100,
        plain_p50_ms=1.25,
        plain_p99_ms=2.5,
        xla_p50_ms=1.0,
        xla_p99_ms=2.0,
        compile_s=0.1,
        faster="xla",
        within_slo=within,
        largest_absolute_difference=0.0,
        fusions=1,
        memory_bytes=1,
        flops=1,
    )


def _slice(key, value, size, auc, *, judged=True):
    return m.SliceReport(key=key, value=value, size=size, positives=3, judged=judged, metrics={"auc": m.MetricValue(value=auc)})


def measure(framework, digest, run_id, *, blessed=True, compiled=True, auc=0.86):
    """The four measurement files of a candidate, by file name."""
    status = "passed" if blessed else "failed"
    gate = m.Gate(name="floor/auc", status=status, value=auc, limit=0.85, detail="whole eval split")
    unchecked = m.Gate(name="change/auc", status="not checked", required=False, detail="no champion yet")
    return {
        m.AUDIT_FILE: m.AuditReport(
            framework=framework,
            digest=digest,
            blessed=blessed and compiled,
            size=1500,
            gates=(gate, unchecked) if compiled else (),
            metrics={
                "auc": m.MetricValue(value=auc, lower=0.84, upper=0.88),
                "precision": m.MetricValue(value=None, note="undefined: no row"),
            },
            slices=(
                _slice("Home", "owner", 700, 0.9),
                _slice("Job", "a|b\n`c`", 300, 0.71),
                _slice("Home", "(missing)", 5, 0.2, judged=False),
            ),
            not_done=("change/auc: there is no champion",),
        ),
        m.COMPILE_FILE: m.CompileReport(
            framework=framework,
            compiled=compiled,
            tree_digest=digest,
            size_bytes=12345,
            buckets=(_bucket(1, within=True), _bucket(64, within=None)),
            xla_tolerance=1e-5,
            slo_p99_ms=50.0,
            reason="" if compiled else "parity failed: row 3",
        ),
        m.PARITY_FILE: m.ParityReport(
            framework=framework,
            passed=compiled,
            tolerance=1e-5,
            largest_absolute_difference=2.5e-7,
            label_agreement=1.0,
            eval_rows=1500,
            edge_rows=9,
        ),
        m.TRAINING_FACTS_FILE: m.TrainingFacts(
            framework=framework,
            run_id=run_id,
            device="cpu",
            precision="32",
            seed=3,
            epochs_run=12,
            best_epoch=7,
            steps=560,
            seconds=4.5,
            parameter_count=1009,
            metrics={"val/auc": auc},
            parameters=(),
            input_fingerprint="f",
        ),
    }


@pytest.fixture
def make_candidate(tmp_path, tracking, saved_model):
    """Writes a candidate's folders: artifact name -> folder."""

    def make(framework="keras", **facts):
        root = tmp_path / f"candidate-{framework}"
        model = root / "model" / "Format-Serving"
        shutil.copytree(saved_model, model)
        # The bytes of the two frameworks' models differ, as their digests do.
        write_bytes(model / "assets.extra" / "origin", framework.encode())
        with StageRun(tracking, f"train-{framework}", tags={"stage": f"{framework}-trainer", "framework": framework}) as run:
            files = measure(framework, tree_digest(model), run.run_id, **facts)
        folders = {"model": root / "model"}
        for name, file in zip(("audit", "compile_report", "parity", "model_run"), files, strict=True):
            folders[name] = root / name
            write_bytes(folders[name] / file, files[file].model_dump_json().encode())
        return folders

    return make


@pytest.fixture
def facts():
    """The measurement files as contracts, for the card."""
    from components.registrar.model_card import Facts

    audit, compiled, parity, training = measure("keras", "a" * 64, "run-of-training").values()
    return Facts(audit, compiled, parity, training)


@pytest.fixture
def checkout(tmp_path):
    """A git checkout with one commit: (folder, commit)."""
    import subprocess

    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "pipeline.toml").write_text("")
    run = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*run, "init", "-q"], check=True)
    subprocess.run([*run, "add", "-A"], check=True)
    subprocess.run([*run, "commit", "-qm", "one"], check=True)
    commit = subprocess.run([*run, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    return Path(folder), commit
