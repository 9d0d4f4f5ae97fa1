"""What can be taken away: the dossier of a candidate, the ledger's export and its head."""

import http

from flask import Blueprint, Response

from components.core.ledger import write_export
from infra.console.console import Console, running
from infra.console.dossier_download import dossier_zip
from infra.console.ledger_state import LedgerState
from infra.console.refusal import Refused


def add_downloads(pages: Blueprint) -> None:
    """Adds the routes."""
    pages.get("/models/<name>/<int:number>/download")(dossier)
    pages.get("/ledger/export")(export)
    pages.get("/ledger/head")(head)


def dossier(name: str, number: int) -> Response:
    """What is known about one candidate, as a zip."""
    console = running()
    console.require_readable(name)
    state = console.ledger()
    evidence = console.candidates.read(name, str(number))
    about = [entry for entry in state.entries if (entry.statement.subject.model, entry.statement.subject.version) == (name, str(number))]
    content = dossier_zip(evidence, console.candidates.measurements(name, str(number)), about, state.head)
    return _file(content, f"{_file_name(name)}-{number}.zip", "application/zip")


def export() -> Response:
    """The whole ledger, for `tandem verify`."""
    console, state = running(), running().ledger()
    _require_whole(console, state)
    # From the store: an export of a ledger that does not hold has to show it.
    return _file("".join(write_export(console.store.entries())).encode(), "ledger.jsonl", "application/jsonl")


def head() -> Response:
    """The head, to be kept where who writes the ledger does not reach."""
    console, state = running(), running().ledger()
    _require_whole(console, state)
    return _file((state.head.model_dump_json() + "\n").encode(), "ledger-head.json", "application/json")


def _require_whole(console: Console, state: LedgerState) -> None:
    if len(console.readable_entries(state)) != len(state.entries):
        raise Refused(http.HTTPStatus.FORBIDDEN, "the ledger holds entries about models that you may not read; an admin exports it")


def _file(content: bytes, name: str, kind: str) -> Response:
    return Response(content, mimetype=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def _file_name(text: str) -> str:
    return "".join(character if character.isascii() and (character.isalnum() or character in "-_.") else "_" for character in text)
