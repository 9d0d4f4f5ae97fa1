"""`tandem verify`: whether a ledger holds, from its export and the public keys alone."""

import argparse
import sys
from pathlib import Path

from components.core.ledger import read_export, read_head, verify
from components.core.ledger_store import LedgerStore
from components.core.trail import uncovered_promotion
from pipelines.commands.shared_arguments import add_home, add_json, print_json
from pipelines.ledger_access import add_keys, add_ledger, keys_path, ledger_url, public_keys
from pipelines.text_layout import write_text

EXIT_DOES_NOT_HOLD = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("export", nargs="?", type=Path, metavar="EXPORT", help="file of `tandem ledger --export` (default: the ledger)")
    parser.add_argument("--head", type=Path, metavar="FILE", help="a head that was kept elsewhere: a missing tail shows only against it")
    add_keys(parser)
    add_ledger(parser)
    add_home(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Checks from the first entry to the first fault, then that decisions cover each promotion; 1 when something does not hold."""
    keys = public_keys(arguments)
    entries = list(read_export(arguments.export) if arguments.export else LedgerStore(ledger_url(arguments)).entries())
    found = verify(entries, keys, kept=read_head(arguments.head) if arguments.head else None)
    uncovered = "" if found.problem else uncovered_promotion(entries)
    if arguments.json:
        print_json(
            {
                "schema_version": 1,
                "keys": str(keys_path(arguments)),
                "root": keys.root,
                **found.model_dump(mode="json"),
                "uncovered": uncovered,
            }
        )
    else:
        lines = [f"{found.entries} entries hold, head {found.head.digest[:12]}; root key {keys.root} of {keys_path(arguments)}"]
        lines += [f"does not hold: {found.problem}"] if found.problem else []
        lines += [f"not covered by decisions: {uncovered}"] if uncovered else []
        lines += [] if found.tail_checked else ["not checked: whether a tail is missing; give --head with a head that was kept elsewhere"]
        write_text(sys.stdout, "\n".join(lines) + "\n")
    return EXIT_DOES_NOT_HOLD if found.problem or uncovered else 0
