"""MLflow runs of stages on a real SQLite store, and the encoding of slice names."""

import multiprocessing
import random
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient

from components.core.contracts import TrackingSpec
from components.core.tracking import StageRun, decode_metric_part, encode_metric_part, prepare_store, slice_metric

ROOT = Path(__file__).resolve().parents[4]
REFUSED_BY_MLFLOW = [">=65", "a&b", "50%", "c++", "//", "北京(海淀)", "a=b", "..", ".", "/", "\n", "\x00", "a/../b", "ключ: значение"]


def characters() -> list[str]:
    """One character of every Unicode category, and awkward ones."""
    found: dict[str, str] = {}
    for code in range(0x20000):
        found.setdefault(unicodedata.category(chr(code)), chr(code))
    return [*found.values(), "e\u0301", "\u200d", "\ud800", "😀", "%3A", ":3A"]


@pytest.fixture(scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> TrackingSpec:
    folder = tmp_path_factory.mktemp("tracking")
    spec = TrackingSpec(uri=f"sqlite:///{folder}/mlflow.db", artifact_root=str(folder / "artifacts"), experiment="case", use_case="case")
    prepare_store(spec)
    return spec


@pytest.mark.parametrize("text", ["", " a ", "owner", "[25, 35)", ">=55", "(missing)", *REFUSED_BY_MLFLOW, *characters()])
def test_the_encoding_is_reversible(text: str) -> None:
    assert decode_metric_part(encode_metric_part(text)) == text


def test_any_mixture_is_reversible_and_differs_from_any_other() -> None:
    source = random.Random(3)
    pool = characters()
    texts = {"".join(source.choices(pool, k=source.randint(0, 12))) for _ in range(3000)}
    assert all(decode_metric_part(encode_metric_part(text)) == text for text in texts)
    assert len({encode_metric_part(text) for text in texts}) == len(texts)


def test_plain_names_stay_readable() -> None:
    assert slice_metric("Home", "owner", "auc") == "slice/Home/owner/auc"
    assert encode_metric_part("北京") == "北京"
    assert encode_metric_part(">=65") == ":3E:3D65"


def test_mlflow_takes_every_encoded_name(tracking: TrackingSpec) -> None:
    texts = [text for text in [*REFUSED_BY_MLFLOW, *characters()] if text]
    names = {slice_metric("key", text, "auc"): float(number) for number, text in enumerate(texts)}
    with StageRun(tracking, "names", tags={}) as run:
        run.log_metrics(names)
    assert run.client.get_run(run.run_id).data.metrics == names


def test_a_value_that_is_not_finite_is_a_tag_and_no_metric(tracking: TrackingSpec) -> None:
    with StageRun(tracking, "nan", tags={}) as run:
        run.log_metrics({"eval/auc": float("nan"), "eval/recall": None, "eval/precision": 0.5, "x": float("inf")})
    data = run.client.get_run(run.run_id).data
    assert data.metrics == {"eval/precision": 0.5}
    assert {key for key in data.tags if key.startswith("undefined.")} == {"undefined.eval/auc", "undefined.eval/recall", "undefined.x"}


@pytest.mark.parametrize(("error", "status"), [(None, "FINISHED"), (ValueError("broken"), "FAILED"), (KeyboardInterrupt(), "KILLED")])
def test_a_run_ends_as_what_it_was(tracking: TrackingSpec, error: BaseException | None, status: str) -> None:
    run = StageRun(tracking, "end", tags={"stage": "keras-trainer"})
    try:
        with run:
            if error is not None:
                raise error
    except (ValueError, KeyboardInterrupt):
        assert status != "FINISHED"
    ended = run.client.get_run(run.run_id)
    assert ended.info.status == status
    assert ended.data.tags["stage"] == "keras-trainer"
    assert ended.data.tags["use_case"] == "case"


def test_a_run_goes_on_under_its_id(tracking: TrackingSpec) -> None:
    first = StageRun(tracking, "train", tags={"attempt": "1"})
    first.log_metrics({"val/auc": 0.5}, step=1)
    with StageRun(tracking, "train", tags={"attempt": "2"}, run_id=first.run_id) as second:
        second.log_metrics({"val/auc": 0.6}, step=2)
    history = second.client.get_metric_history(first.run_id, "val/auc")
    assert [(point.step, point.value) for point in history] == [(1, 0.5), (2, 0.6)]
    assert second.client.get_run(first.run_id).data.tags["attempt"] == "2"


def test_two_processes_that_start_at_once_find_one_store(tmp_path: Path) -> None:
    script = (
        "import sys; from components.core.contracts import TrackingSpec; from components.core.tracking import prepare_store\n"
        f"spec = TrackingSpec(uri='sqlite:///{tmp_path}/m.db', artifact_root='{tmp_path}/a', experiment=sys.argv[1], use_case='u')\n"
        "prepare_store(spec)\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", script, name], cwd=ROOT, stderr=subprocess.DEVNULL) for name in ("one", "two")]
    assert [process.wait(120) for process in started] == [0, 0]
    assert {path.name for path in tmp_path.iterdir()} == {"m.db"}
    names = {experiment.name for experiment in MlflowClient(f"sqlite:///{tmp_path}/m.db").search_experiments()}
    assert {"one", "two"} <= names


def log_the_same_datasets(tracking: TrackingSpec, name: str, barrier: Any, failures: Any) -> None:
    try:
        with StageRun(tracking, f"train-{name}", tags={"framework": name}) as run:
            for number in range(40):
                barrier.wait(120)
                run.log_dataset("data", f"{number:036d}", "training")
    except Exception as error:  # noqa: BLE001 - the test tells it
        failures.put(repr(error))
        barrier.abort()


def test_two_runs_that_log_the_same_dataset_at_once_both_have_it(tracking: TrackingSpec) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, failures = context.Barrier(2), context.Queue()
    spec = tracking.model_copy(update={"experiment": "at once"})
    prepare_store(spec)
    both = [context.Process(target=log_the_same_datasets, args=(spec, name, barrier, failures)) for name in ("keras", "lightning")]
    for process in both:
        process.start()
    for process in both:
        process.join(240)
    assert failures.empty(), failures.get()
    client = MlflowClient(spec.uri)
    runs = client.search_runs([client.get_experiment_by_name("at once").experiment_id])
    assert [len(run.inputs.dataset_inputs) for run in runs] == [40, 40]
