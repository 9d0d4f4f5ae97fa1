"""The MLflow UI as a person sees it: `tandem ui` in headless Chromium over the shipped use case."""

import json
import re
import shutil
import signal
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from infra.console.first_start import FOLDER
from tests.e2e.desk import Answer, Desk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("chromium") is None, reason="no chromium on PATH; `apt-get install --no-install-recommends chromium` (CI does)"
    ),
]
OFFLINE = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
ARGUMENTS = ["--no-sandbox", "--disable-gpu", *OFFLINE]
PLOTS = "[...document.querySelectorAll('.js-plotly-plot')].map(plot => plot.data || [])"
WAIT_MS = 60_000


@pytest.fixture(scope="module")
def address(credit: tuple[Desk, Answer]) -> Iterator[str]:
    """Where `tandem ui` answers."""
    process = credit[0].start("ui", "--port", "0", "--no-browser")
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
    assert found is not None
    yield found[0]
    process.send_signal(signal.SIGINT)
    assert credit[0].wait(process).code == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium of the system."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Any, address: str, credit: tuple[Desk, Answer]) -> Iterator[Any]:
    """A page of the admin, and no error of a script while it is looked at."""
    assert address
    password = (credit[0].folder / ".tandem" / FOLDER / "admin-password").read_text().strip()
    page = browser.new_page(viewport={"width": 1600, "height": 1200}, http_credentials={"username": "admin", "password": password})
    page.set_default_timeout(WAIT_MS)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()
    assert errors == []


@pytest.fixture(scope="module")
def first_run(credit: tuple[Desk, Answer]) -> str:
    """The pipeline run that did everything; other tests may have added runs since."""
    return str(credit[0].call("runs", "--json").json()["runs"][-1]["id"])


@pytest.fixture(scope="module")
def trainings(credit: tuple[Desk, Answer], first_run: str) -> dict[str, Any]:
    """The MLflow run of each training."""
    runs = [run for run in credit[0].mlflow_runs() if run.data.tags["pipeline_run_id"] == first_run]
    return {run.data.tags["framework"]: run for run in runs if run.data.tags["stage"].endswith("-trainer")}


def in_page(page: Any, text: str) -> None:
    page.get_by_text(text, exact=False).first.wait_for()


def test_both_trainings_are_curves_of_one_chart(address: str, page: Any, credit: tuple[Desk, Answer], trainings: dict[str, Any]) -> None:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{credit[0].folder}/.tandem/mlflow.db")
    runs = quote(json.dumps([run.info.run_id for run in trainings.values()]))
    experiments = quote(json.dumps([trainings["keras"].info.experiment_id]))
    keys = quote(json.dumps(["val/auc"]))
    metric = quote(json.dumps("val/auc"))
    page.goto(f"{address}/#/metric?runs={runs}&metric={metric}&experiments={experiments}&plot_metric_keys={keys}&x_axis=step")
    in_page(page, "train-keras (val/auc)")
    in_page(page, "train-lightning (val/auc)")
    # The legend stands before the chart is drawn, and the chart before its curves.
    page.wait_for_function(f"{PLOTS}.flat().filter(curve => (curve.y || []).length > 1).length >= 2")
    (curves,) = page.evaluate(PLOTS)
    drawn = {tuple(round(value, 9) for value in curve["y"]) for curve in curves if len(curve["y"]) > 1}
    recorded = {
        tuple(round(point.value, 9) for point in client.get_metric_history(run.info.run_id, "val/auc")) for run in trainings.values()
    }
    assert len(recorded) == 2
    assert recorded <= drawn


def test_both_audits_are_bars_of_each_chart(address: str, page: Any, trainings: dict[str, Any], first_run: str) -> None:
    wanted = quote(f"tags.pipeline_run_id = '{first_run}'")
    page.goto(f"{address}/#/experiments/{trainings['keras'].info.experiment_id}/runs?compareRunsMode=CHART&searchFilter={wanted}")
    page.locator(".js-plotly-plot").first.wait_for()
    in_page(page, "eval/auc")
    page.wait_for_function(f"{PLOTS}.length >= 6 && {PLOTS}.every(traces => traces.length > 0)")
    for traces in page.evaluate(PLOTS):
        assert {len(trace["x"]) for trace in traces} == {2}, "a metric that only one framework has"


def test_the_compare_link_lays_both_trainings_side_by_side(
    address: str, page: Any, credit: tuple[Desk, Answer], trainings: dict[str, Any], first_run: str
) -> None:
    link = credit[0].call("compare", first_run, "--json").json()["mlflow_compare"]
    page.goto(re.sub(r"^http://127\.0\.0\.1:\d+", address, link))
    in_page(page, "Comparing 2 Runs from 1 Experiment")
    for run in trainings.values():
        in_page(page, run.info.run_id)
    shown = page.inner_text("body")
    assert all(f"train-{framework}" in shown for framework in trainings)


def test_the_model_version_reads_as_a_model_card(address: str, page: Any) -> None:
    page.goto(f"{address}/#/models/credit-risk/versions/1")
    in_page(page, "credit-risk")
    in_page(page, "tree_digest")
    shown = page.inner_text("body")
    assert all(word in shown for word in ("framework", "pipeline_run_id", "lock_digest", "auc")), shown[:2000]
