"""The approval pages as people use them: headless Chromium, three logins, without JavaScript, on a phone, and judged by axe."""

import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from components.core.approval import ApprovalRule
from components.core.registry import Registry
from infra.console.first_start import FOLDER, prepare
from infra.ui_server import serve_ui
from tests.e2e.desk import Answer, Desk
from tests.integration.console.small_home import ADMIN_PASSWORD, EVIL, PASSWORD, Client, Home, empty_tracking, make_home

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("chromium") is None, reason="no chromium on PATH; `apt-get install --no-install-recommends chromium` (CI does)"
    ),
]
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
WAIT_MS = 60_000
GOOD, BAD = "/tandem/models/credit-risk/1", "/tandem/models/credit-risk/2"
PASSWORDS = {"admin": ADMIN_PASSWORD}
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A good candidate of tina's and one whose audit failed; anna and arno approve."""
    folder = tmp_path_factory.mktemp("console")
    Registry(empty_tracking(folder), create=True)
    home = make_home(folder / "home", folder / "mlflow.db", rule=ApprovalRule(approvers=("anna", "arno")))
    home.register(text="good")
    home.register(text="bad", passed=False)
    return home


@pytest.fixture(scope="module")
def address(home: Home) -> Iterator[str]:
    files = prepare(home.folder, home.settings, chosen_password=ADMIN_PASSWORD)
    with serve_ui(home.folder, files.environment, port=0) as server:
        admin = Client(server.address, "admin", ADMIN_PASSWORD)
        for person in ("tina", "theo", "anna", "arno", "otto"):
            admin.api("POST", "/api/2.0/mlflow/users/create", {"username": person, "password": PASSWORD})
        for person in ("tina", "theo"):
            told = {"username": person, "resource_type": "registered_model", "resource_id": "credit-risk", "permission": "EDIT"}
            admin.api("POST", "/api/3.0/mlflow/users/permissions/grant", told)
        yield server.address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium of the system."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Opens an address as somebody; no page may say anything on the console or run a script of its own."""
    contexts, said = [], []

    def open_as(login: str, url: str, *, password: str = "", scripts: bool = False, **more: Any) -> Any:
        known = {"username": login, "password": password or PASSWORDS.get(login, PASSWORD)}
        context = browser.new_context(**{"viewport": DESKTOP, **more}, http_credentials=known, java_script_enabled=scripts)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(url)
        return page

    yield open_as
    for context in contexts:
        context.close()
    assert said == []


def status(page: Any) -> str:
    return str(page.locator(".title .pill").inner_text())


def send(page: Any, kind: str, reason: str = "") -> None:
    form = page.locator(f"form.{kind}")
    form.locator("textarea").fill(reason)
    form.locator("button").click()


def test_three_people_bring_a_candidate_through_without_javascript(address: str, open_page: Open, home: Home) -> None:
    auditor = open_page("otto", address + GOOD)
    assert "you need EDIT" in auditor.inner_text(".unable")
    assert auditor.locator("form").count() == 0

    trainer = open_page("tina", f"{address}/tandem/")
    trainer.click("text=credit-risk/1")
    send(trainer, "request", f"better recall {EVIL}")
    assert trainer.url == f"{address}{GOOD}#decisions"
    assert status(trainer) == "waiting for decisions"
    assert "who asked does not decide" in trainer.inner_text("section.decision") or "only anna, arno" in trainer.inner_text(
        "section.decision"
    )
    assert trainer.locator("form.approve").count() == 0

    approver = open_page("anna", f"{address}/tandem/")
    approver.click("ul.cards >> text=credit-risk/1")
    assert EVIL in approver.inner_text("table.entries")
    send(approver, "approve", "the slices look fine")
    assert status(approver) == "approved"
    assert "tandem promote credit-risk/1" in approver.inner_text("section.standing")

    auditor.goto(address + GOOD)
    shown = auditor.inner_text("main")
    assert all(text in shown for text in ("the slices look fine", "better recall", "login, vouched for by the console", "floor/auc"))
    assert auditor.locator("form").count() == 0
    assert [entry.statement.actor for entry in home.store.entries()] == ["tina", "anna"]


def test_what_did_not_pass_comes_first_and_takes_two_overrides(address: str, open_page: Open) -> None:
    send(open_page("theo", address + BAD), "request")
    anna, arno = open_page("anna", address + BAD), open_page("arno", address + BAD)
    send(anna, "override", "the floor is for the old market")
    send(arno, "override", "seen, and limited to one branch")
    assert "by 2 of the 2 people" in arno.inner_text("section.alarm")
    first = open_page("otto", f"{address}/tandem/").locator("ul.cards .card").first
    assert "Not passed: audit. Overridden by anna, arno" in first.inner_text()
    assert first.evaluate("element => element.classList.contains('alarming')")


def pages_of(address: str) -> list[str]:
    return [
        f"{address}{path}" for path in ("/tandem/", "/tandem/help", "/tandem/ledger", "/tandem/models/credit-risk", GOOD, BAD, "/tandem/x")
    ]


def faults_of(page: Any) -> list[str]:
    """What axe finds: rule and the element."""
    import axe_playwright_python

    script = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
    # Our policy lets no script in; the judge is run from outside the page.
    page.evaluate(script)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(found => found.violations)")
    return [f"{page.url} {fault['id']}: {node['html'][:120]}" for fault in found for node in fault["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_no_fault_and_nothing_scrolls_sideways(address: str, open_page: Open, scheme: str, viewport: dict[str, int]) -> None:
    page = open_page("anna", f"{address}/tandem/", scripts=True, viewport=viewport, color_scheme=scheme)
    faults = []
    for url in pages_of(address):
        page.goto(url)
        faults += faults_of(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], url
    assert faults == []


def test_a_page_is_whole_without_another_host(address: str, open_page: Open) -> None:
    page = open_page("anna", f"{address}/tandem/")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for url in pages_of(address):
        page.goto(url)
    assert {re.sub(r"(://[^/]+).*", r"\1", url) for url in asked} == {address}


def test_mlflows_page_leads_to_the_decisions_and_back(address: str, open_page: Open) -> None:
    page = open_page("tina", address, scripts=True)
    page.click("#tandem-decisions")
    assert page.inner_text("h1") == "Decisions"
    page.click("nav >> text=MLflow")
    page.get_by_text("Experiments", exact=False).first.wait_for()


@pytest.fixture(scope="module")
def real(credit: tuple[Desk, Answer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The console over the shipped use case as it ran, with a ledger of its own: (address, admin's password)."""
    desk, ledger = credit[0], tmp_path_factory.mktemp("ledger") / "ledger.db"
    process = desk.start("ui", "--port", "0", "--no-browser", "--ledger", f"sqlite:///{ledger}")
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
    assert found is not None
    yield found[0], (desk.folder / ".tandem" / FOLDER / "admin-password").read_text().strip()
    process.send_signal(signal.SIGINT)
    assert desk.wait(process).code == 0


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_page_of_a_real_run_shows_what_the_run_measured(real: tuple[str, str], open_page: Open, viewport: dict[str, int]) -> None:
    address, password = real
    page = open_page("admin", address + GOOD, password=password, scripts=True, viewport=viewport)
    shown = page.inner_text("main")
    for text in ("slice_floor/auc", "Where it comes from", "Rows a call", "partime", "epochs (best", "tandem keys init"):
        assert text.casefold() in shown.casefold(), text
    stages = page.locator("svg.lineage text.title").all_text_contents()
    assert stages[:2] == ["data", "ingest"]
    assert stages[-2:] == ["credit-risk/1", "decisions"]
    assert page.locator("form").count() == 0
    assert faults_of(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
