"""`tandem lineage`: from a model version back to its data, code and environment."""

import argparse
import sys

from pipelines.commands.shared_arguments import add_home, add_json, home_of, print_json
from pipelines.lineage_view import lineage_text
from pipelines.provenance import trace_version
from pipelines.text_layout import terminal_width, write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "model", metavar="MODEL", help="name (its newest version), name@alias, name/version, or the folder of a pushed SavedModel"
    )
    add_home(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Asks the registry and ML Metadata."""
    document = trace_version(arguments.model, home_of(arguments))
    if arguments.json:
        print_json(document)
    else:
        write_text(sys.stdout, lineage_text(document, terminal_width()))
    return 0
