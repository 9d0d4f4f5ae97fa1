"""The registry on a real SQLite MLflow store, with a SavedModel of one weight."""

import concurrent.futures
import dataclasses
import hashlib
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.core import registry as registry_module
from components.core.contracts import TrackingSpec
from components.core.dossier import Dossier
from components.core.errors import RegistryError, StoreError
from components.core.files import tree_digest
from components.core.model_package import Package, read_signature
from components.core.registry import Registry
from components.core.stale_runs import reap_runs
from components.core.tracking import StageRun

STAGE_TAGS = {"stage": "keras-registrar", "pipeline_run_id": "run-1", "mlmd_execution_id": "7"}


@pytest.fixture(scope="session")
def saved_model(tmp_path_factory):
    """Scores: [1 - p, p] with p = 0.1 * Amount + 0.2 when Home is "owner"; a missing Amount counts as 5, Age counts for nothing."""
    import tensorflow as tf

    class Served(tf.Module):
        def __init__(self):
            super().__init__()
            self.slope = tf.Variable(0.1)

        def answer(self, amount, home):
            amount = tf.where(tf.math.is_nan(amount), 5.0, amount)
            positive = self.slope * amount + tf.where(home == "owner", 0.2, 0.0)
            return {
                "scores": tf.stack([1.0 - positive, positive], axis=1),
                "classes": tf.tile(tf.constant([["good", "bad"]]), [tf.shape(amount)[0], 1]),
            }

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serving_default(self, examples):
            return self.answer(tf.ones_like(examples, tf.float32), examples)

        @tf.function(
            input_signature=[
                tf.TensorSpec([None], tf.float32, name="Amount"),
                tf.TensorSpec([None, 1], tf.float64, name="Age"),
                tf.TensorSpec([None], tf.string, name="Home"),
            ]
        )
        def serving_raw(self, Amount, Age, Home):
            return self.answer(Amount, Home)

    folder = tmp_path_factory.mktemp("model") / "Format-Serving"
    model = Served()
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.serving_default, "serving_raw": model.serving_raw})
    warmup = folder / "assets.extra" / "tf_serving_warmup_requests"
    warmup.parent.mkdir()
    warmup.write_bytes(b"warm")
    return folder


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """MLflow takes seconds to make a store: once is enough."""
    path = tmp_path_factory.mktemp("empty") / "mlflow.db"
    Registry(TrackingSpec(uri=f"sqlite:///{path}", artifact_root=str(path.parent), experiment="none", use_case="none"), create=True)
    return path


@pytest.fixture
def tracking(tmp_path):
    root = tmp_path / "store"
    return TrackingSpec(
        uri=f"sqlite:///{root}/mlflow.db", artifact_root=str(root / "artifacts"), experiment="credit_risk", use_case="credit_risk"
    )


@pytest.fixture
def package(tracking, saved_model, tmp_path, empty_store):
    store = Path(tracking.uri.removeprefix("sqlite:///"))
    store.parent.mkdir()
    shutil.copyfile(empty_store, store)
    with StageRun(tracking, "train-keras", tags={"stage": "keras-trainer", "pipeline_run_id": "run-1"}) as run:
        native = run.client.create_logged_model(
            run.client.get_run(run.run_id).info.experiment_id, name="native-keras", source_run_id=run.run_id
        )
    audit = tmp_path / "audit.json"
    audit.write_text("{}")
    return Package(
        framework="keras",
        saved_model=saved_model,
        digest=tree_digest(saved_model),
        training_run_id=run.run_id,
        native_model_id=native.model_id,
        measurements=(audit,),
        tags={"dataset_digest": "d" * 64, "blessed": "true"},
    )


def test_a_registered_version_holds_the_same_bytes_and_says_where_it_comes_from(tracking, package):
    registry = Registry(tracking)
    version = registry.register("credit-risk", package, stage_tags=STAGE_TAGS)
    assert (version.name, version.version, version.run_id, version.digest) == ("credit-risk", "1", package.training_run_id, package.digest)
    assert tree_digest(registry.local_saved_model(version)) == package.digest
    assert version.tags["framework"] == "keras"
    assert version.tags["use_case"] == "credit_risk"
    assert version.tags["dataset_digest"] == "d" * 64
    run = registry.client.get_run(version.tags["register_run_id"])
    assert run.info.run_name == "register-keras"
    assert run.info.status == "FINISHED"
    assert run.data.tags["training_run_id"] == package.training_run_id
    assert run.data.tags["mlmd_execution_id"] == "7"
    assert run.data.tags["model_version"] == "credit-risk/1"
    assert [output.model_id for output in run.outputs.model_outputs] != [package.native_model_id]
    assert [given.model_id for given in run.inputs.model_inputs] == [package.native_model_id]
    assert registry.client.get_run(package.training_run_id).data.tags["register_run_id"] == run.info.run_id
    assert registry.client.get_logged_model(package.native_model_id).tags["served_as"] == "credit-risk/1"


def test_the_dossier_names_every_measurement_and_what_was_recorded(tracking, package):
    registry = Registry(tracking)
    version = registry.register("credit-risk", package, stage_tags=STAGE_TAGS)
    dossier = Dossier.read(registry.local_measurements(version), model_digest=package.digest, of="credit-risk/1")
    assert dossier.files == {"audit.json": hashlib.sha256(b"{}").hexdigest()}
    assert (dossier.framework, dossier.training_run_id) == ("keras", package.training_run_id)
    assert dossier.recorded == {"dataset_digest": "d" * 64, "blessed": "true"}


def test_other_evidence_is_another_version(tracking, package):
    registry = Registry(tracking)
    first = registry.register("credit-risk", package, stage_tags=STAGE_TAGS)
    package.measurements[0].write_text('{"blessed": false}')
    second = registry.register("credit-risk", package, stage_tags=STAGE_TAGS)
    assert [(version.version, version.digest) for version in (first, second)] == [("1", package.digest), ("2", package.digest)]
    copy = dataclasses.replace(package, linked=False)
    made = registry.register("credit-risk-prod", copy, stage_tags=STAGE_TAGS)
    package.measurements[0].write_text("{}")
    assert registry.register("credit-risk-prod", copy, stage_tags=STAGE_TAGS).version == made.version == "1"


def test_the_training_run_keeps_one_logged_model(tracking, package):
    registry = Registry(tracking)
    registry.register("credit-risk", package, stage_tags=STAGE_TAGS)
    experiment = registry.client.get_experiment_by_name(tracking.experiment).experiment_id
    models = registry.client.search_logged_models([experiment], f"source_run_id = '{package.training_run_id}'")
    assert [model.model_id for model in models] == [package.native_model_id]


def test_a_clean_process_loads_and_scores_by_pyfunc(tracking, package, tmp_path):
    Registry(tracking).register("credit-risk", package, stage_tags=STAGE_TAGS)
    script = f"""
import json, sys, mlflow, pandas as pd
mlflow.set_tracking_uri({tracking.uri!r})
model = mlflow.pyfunc.load_model("models:/credit-risk/1")
frame = pd.DataFrame({{"Amount": [1.0, None, 3.0], "Age": [20, 30, 40], "Home": ["owner", "rent", None]}})
answer = model.predict(frame)
left_out = model.predict(pd.DataFrame({{"Home": ["owner"], "Amount": [5]}}))
tensorflow = mlflow.tensorflow.load_model("models:/credit-risk/1")
print(json.dumps([answer["scores"].tolist(), answer["classes"].tolist(), left_out["scores"].tolist(), "components" in sys.modules,
                  tensorflow.structured_input_signature[1]["examples"].dtype.name, model.metadata.signature.inputs.to_dict()]))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scores, classes, left_out, ours, dtype, inputs = json.loads(done.stdout.splitlines()[-1])
    expected = [[0.7, 0.3], [0.5, 0.5], [0.7, 0.3]]
    assert all(math.isclose(a, b, abs_tol=1e-6) for got, row in zip(scores, expected, strict=True) for a, b in zip(got, row, strict=True))
    assert classes == [["good", "bad"]] * 3
    assert left_out == [pytest.approx([0.3, 0.7], abs=1e-6)]
    assert ours is False
    assert dtype == "string"
    assert [(column["name"], column["type"], column["required"]) for column in inputs] == [
        ("Age", "any", False),
        ("Amount", "any", False),
        ("Home", "string", False),
    ]


def test_the_same_package_keeps_its_version(tracking, package):
    registry = Registry(tracking)
    first = registry.register("credit-risk", package, stage_tags=STAGE_TAGS)
    again = registry.register("credit-risk", package, stage_tags={**STAGE_TAGS, "pipeline_run_id": "run-2"})
    assert again.version == first.version == "1"
    assert len(registry.versions("credit-risk")) == 1


def test_two_processes_at_once_end_with_one_version(tracking, package):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: Registry(tracking).register("credit-risk", package, stage_tags=STAGE_TAGS), range(2)))
    assert len(Registry(tracking).versions("credit-risk")) == 1
    assert {version.version for version in found} == {Registry(tracking).versions("credit-risk")[0].version}


def test_a_failed_registration_leaves_no_empty_model(tracking, package, monkeypatch):
    registry = Registry(tracking)

    def refuse(*_arguments, **_more):
        raise OSError("no space left on device")

    monkeypatch.setattr(registry.client, "create_model_version", refuse)
    with pytest.raises(StoreError, match="no space left on device"):
        registry.register("credit-risk", package, stage_tags=STAGE_TAGS)
    assert registry.names() == []
    experiment = registry.client.get_experiment_by_name(tracking.experiment).experiment_id
    assert {run.info.status for run in registry.client.search_runs([experiment]) if run.info.run_name == "register-keras"} == {"FAILED"}


def test_a_copy_with_other_bytes_is_taken_back(tracking, package, monkeypatch):
    registry = Registry(tracking)
    log = registry.client.log_model_artifacts

    def spoil(model_id, folder, path=None):
        log(model_id, folder, path)
        for file in Path(registry.client.get_logged_model(model_id).artifact_location.removeprefix("file://")).rglob("saved_model.pb"):
            file.write_bytes(b"spoilt")

    monkeypatch.setattr(registry.client, "log_model_artifacts", spoil)
    with pytest.raises(RegistryError, match="bytes changed"):
        registry.register("credit-risk", package, stage_tags=STAGE_TAGS)
    assert registry.names() == []


def test_bytes_that_are_not_of_the_digest_are_refused_before_anything_is_written(tracking, package, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(package.saved_model, changed)
    (changed / "extra").write_text("x")
    other = Package(**{**vars(package), "saved_model": changed})
    with pytest.raises(RegistryError, match=package.digest):
        Registry(tracking).register("credit-risk", other, stage_tags=STAGE_TAGS)
    assert Registry(tracking).names() == []


def test_a_model_without_the_raw_signature_is_refused(tmp_path):
    import tensorflow as tf

    module = tf.Module()
    module.serve = tf.function(lambda examples: {"scores": tf.ones_like(examples, tf.float32)}, [tf.TensorSpec([None], tf.string)])
    tf.saved_model.save(module, str(tmp_path / "m"), signatures={"serving_default": module.serve})
    with pytest.raises(RegistryError, match="serving_raw"):
        read_signature(tmp_path / "m")


def test_references_are_resolved_and_unknown_ones_name_what_there_is(tracking, package):
    registry = Registry(tracking)
    first = registry.register("credit-risk", package, stage_tags=STAGE_TAGS)
    made = registry.client.create_model_version("credit-risk", first.source, tags={"tree_digest": "0" * 64})
    registry.client.set_registered_model_alias("credit-risk", "favourite", "1")
    assert registry.resolve("credit-risk").version == str(made.version) == "2"
    assert registry.resolve("credit-risk/1").aliases == ("favourite",)
    assert registry.resolve("credit-risk@favourite").version == "1"
    for reference, message in {
        "credit": "its models: credit-risk",
        "credit-risk/9": "its versions: 1, 2",
        "credit-risk@champion": "its aliases: favourite",
        "credit-risk/01": "write `name`, `name@alias` or `name/version`",
        "a/b/c": "write `name`",
        "o'brien": "single quote|no model",
    }.items():
        with pytest.raises(RegistryError, match=message):
            registry.resolve(reference)


def test_the_champion_is_the_alias_on_the_production_model_with_checked_bytes(tracking, package):
    registry = Registry(tracking)
    assert registry.champion("credit-risk-prod") is None
    registry.register("credit-risk-prod", package, stage_tags=STAGE_TAGS)
    assert registry.champion("credit-risk-prod") is None
    registry.client.set_registered_model_alias("credit-risk-prod", "champion", "1")
    champion = registry.champion("credit-risk-prod")
    assert (champion.name, champion.version, champion.digest) == ("credit-risk-prod", "1", package.digest)
    assert tree_digest(champion.path) == package.digest
    (Path(champion.path) / "saved_model.pb").write_bytes(b"spoilt")
    with pytest.raises(RegistryError, match="bytes changed"):
        registry.champion("credit-risk-prod")


def test_a_downloaded_copy_is_checked_without_what_the_registry_adds(tracking, package, tmp_path):
    registry = Registry(tracking)
    version = registry.register("credit-risk", package, stage_tags=STAGE_TAGS)
    target = tmp_path / "download"
    target.mkdir()
    path = registry.local_saved_model(version, target)
    assert path.is_relative_to(target)
    assert tree_digest(path) == package.digest


def test_no_store_yet(tracking):
    with pytest.raises(StoreError, match="`tandem run` makes it"):
        Registry(tracking)
    assert reap_runs(tracking, "run-1") == []
    assert not Path(tracking.uri.removeprefix("sqlite:///")).exists()


def test_a_file_that_is_no_store_is_one_line(tracking):
    path = Path(tracking.uri.removeprefix("sqlite:///"))
    path.parent.mkdir(parents=True)
    path.write_text("this is no database, " * 100)
    with pytest.raises(StoreError, match="MLflow store sqlite") as fault:
        Registry(tracking)
    assert "\n" not in str(fault.value)


def test_a_server_that_is_down_is_told_at_once(tracking):
    with pytest.raises(StoreError, match="does not answer"):
        Registry(tracking.model_copy(update={"uri": "http://127.0.0.1:9"}))


def test_runs_of_a_dead_pipeline_run_are_ended_and_no_others(tracking, package):
    dead = StageRun(tracking, "train-keras", tags={"pipeline_run_id": "dead"})
    alive = StageRun(tracking, "train-keras", tags={"pipeline_run_id": "alive"})
    assert reap_runs(tracking, "dead") == [dead.run_id]
    assert reap_runs(tracking, "dead") == []
    client = Registry(tracking).client
    assert client.get_run(dead.run_id).info.status == "KILLED"
    assert client.get_run(alive.run_id).info.status == "RUNNING"


def test_importing_the_registry_costs_no_mlflow():
    script = (
        "import sys, components.core.registry, components.core.lineage; "
        "print([m for m in ('mlflow', 'ml_metadata', 'tensorflow') if m in sys.modules])"
    )
    root = Path(registry_module.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
