"""The routes of the pages; what they show is gathered in the modules beside this one."""

import datetime
import http
from pathlib import Path
from typing import Any

from flask import Blueprint, redirect, render_template, request, send_from_directory, session, url_for

from components.core.rollout import traffic
from infra.console.access import current_person, permission_on
from infra.console.candidate_page import NOT_SAID, candidate_page
from infra.console.console import running
from infra.console.decide import REASON_LIMIT, decide
from infra.console.downloads import add_downloads
from infra.console.faults import add_faults
from infra.console.forms import require_same_origin
from infra.console.history import reigns
from infra.console.ledger_state import LedgerState
from infra.console.overview import Row, overview, row_of
from infra.console.refusal import Refused, not_found
from infra.console.wording import FILTERS

PAGE_ENTRIES = 100
FORM_BYTES = 64_000
pages = Blueprint("tandem", __name__, url_prefix="/tandem", template_folder="templates")
add_downloads(pages)
add_faults(pages)


@pages.record
def _add_filters(state: Any) -> None:
    state.app.jinja_env.filters.update(FILTERS)


def _page(template: str, state: LedgerState, **values: Any) -> str:
    return render_template(f"tandem/{template}", person=current_person(), ledger=state, **values)


@pages.get("/")
def home() -> str:
    """What waits for a decision."""
    console, state = running(), running().ledger()
    names = console.readable_models()
    now = datetime.datetime.now(datetime.UTC)
    found = None if state.problem else overview(console.candidates, names, state.entries, settings=console.settings, now=now)
    return _page("home.html", state, overview=found, settings=console.settings, names=names)


@pages.get("/style.css")
def style() -> Any:
    """The one style sheet."""
    return send_from_directory(Path(__file__).parent / "static", "style.css", mimetype="text/css")


@pages.get("/help")
def guide() -> str:
    """Who may do what, and how a decision comes about."""
    console = running()
    rules = {name: console.settings.models.get(name) for name in console.readable_models()}
    permissions = {name: permission_on(name) for name in rules}
    return _page("help.html", console.ledger(), rules=rules, permissions=permissions)


@pages.get("/models/<name>")
def model(name: str) -> str:
    """The history of a model."""
    console, state = running(), running().ledger()
    console.require_readable(name)
    now, listed = datetime.datetime.now(datetime.UTC), map(console.candidates.listed, console.candidates.versions(name))
    if state.problem:
        rows = [Row(version, None, version.problem or NOT_SAID, None) for version in listed]
    else:
        rows = [row_of(version, state.entries, console.settings, now=now) for version in listed]
    about = [entry for entry in state.entries if entry.statement.subject.model == name]
    return _page("model.html", state, name=name, rows=rows, entries=about[::-1], reigns=reigns(about, name), split=traffic(about, name))


@pages.get("/models/<name>/<int:number>")
def candidate(name: str, number: int) -> str:
    """One candidate and what can be decided on it."""
    console, state = running(), running().ledger()
    permission, login = console.require_readable(name), current_person().login
    evidence = console.candidates.read(name, str(number))
    found = candidate_page(evidence, console.candidates, state, settings=console.settings, login=login, permission=permission)
    token = console.forms.issue(login, session) if any(not action.refused for action in found.actions) else ""
    return _page("candidate.html", state, page=found, token=token, reason_limit=REASON_LIMIT)


@pages.post("/models/<name>/<int:number>")
def decided(name: str, number: int) -> Any:
    """Enters the decision of a form; a form that was sent twice leads where the first one led."""
    request.max_content_length = FORM_BYTES
    require_same_origin(request.headers, host_url=request.host_url)
    console, login = running(), current_person().login
    form = console.forms.check(request.form.get("token", ""), login, session)
    permission = console.require_readable(name)
    place = url_for("tandem.candidate", name=name, number=number)
    # The forms of one page share a token; what is sent twice is the same decision on the same candidate.
    sent = f"{form} {request.form.get('kind', '')} {place}"
    with console.deciding:
        if sent not in console.forms.done:
            evidence = console.candidates.read(name, str(number))
            decide(console, evidence, request.form, login=login, permission=permission)
            console.forms.remember(sent)
    return redirect(f"{place}#decisions", http.HTTPStatus.SEE_OTHER)


@pages.get("/ledger")
def ledger() -> str:
    """All entries that the login may read, the newest first."""
    console, state = running(), running().ledger()
    entries = console.readable_entries(state)[::-1]
    last = max(1, -(-len(entries) // PAGE_ENTRIES))
    page = request.args.get("page", 1, type=int)
    if not 1 <= page <= last:
        raise not_found(f"page {page} of the ledger")
    shown = entries[(page - 1) * PAGE_ENTRIES : page * PAGE_ENTRIES]
    hidden = len(state.entries) - len(entries)
    return _page("ledger.html", state, entries=shown, page=page, last=last, hidden=hidden)


@pages.route("/<path:rest>", methods=["GET", "POST"])
def nowhere(rest: str) -> Any:
    """Every other address below /tandem."""
    del rest
    raise Refused(http.HTTPStatus.NOT_FOUND, "there is no such page")
