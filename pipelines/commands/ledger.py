"""`tandem ledger`: who decided what, and the export that `tandem verify` checks."""

import argparse
import sys
from pathlib import Path
from typing import Any

from components.core.files import write_bytes
from components.core.ledger import EMPTY, Entry, write_export
from components.core.ledger_store import LedgerStore
from pipelines.commands.shared_arguments import add_home, add_json, print_json
from pipelines.ledger_access import add_ledger, ledger_url
from pipelines.text_layout import printable, write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("model", nargs="?", metavar="MODEL", help="entries about this model only")
    parser.add_argument("--export", metavar="FILE", type=Path, help="write the whole ledger there, a line of JSON an entry")
    parser.add_argument("--head", metavar="FILE", type=Path, help="write the head there: kept elsewhere, it shows later what is missing")
    add_ledger(parser)
    add_home(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Prints entries as they stand; `tandem verify` says whether they hold."""
    store = LedgerStore(ledger_url(arguments))
    entries = list(store.entries())
    if arguments.export is not None:
        write_bytes(arguments.export, "".join(write_export(entries)).encode())
    if arguments.head is not None:
        write_bytes(arguments.head, (entries[-1].head if entries else EMPTY).to_json().encode())
    shown = [entry for entry in entries if arguments.model in (None, entry.statement.subject.model)]
    if arguments.json:
        print_json({"schema_version": 1, "ledger": store.place, "entries": [entry_as_json(entry) for entry in shown]})
    else:
        write_text(sys.stdout, "".join(entry_text(entry) for entry in shown) or "no entry yet\n")
    return 0


def entry_as_json(entry: Entry) -> dict[str, Any]:
    """An entry as docs/json.md describes it."""
    return {"digest": entry.digest, "signature": entry.signature, **entry.statement.model_dump(mode="json")}


def entry_text(entry: Entry) -> str:
    """Two or three lines for people."""
    said = entry.statement
    known = {"personal_key": f"by key {said.key_id}", "console_login": "by login in the console", "service": "the service itself"}
    lines = [
        f"{said.sequence:>4}  {said.at[:19]}Z  {said.kind.replace('_', ' '):<12} {said.subject.model}/{said.subject.version}  "
        f"{printable(said.actor)} ({known[said.known_by]})",
        f"      model {said.subject.model_digest[:12]}  dossier {said.subject.dossier_digest[:12]}  entry {entry.digest[:12]}",
    ]
    extra = [printable(said.reason)] if said.reason else []
    extra += [f"{name}: {printable(value)}" for name, value in said.details.items()]
    lines += [f"      {text}" for text in extra]
    return "\n".join(lines) + "\n"
