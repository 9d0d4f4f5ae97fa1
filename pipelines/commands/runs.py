"""`tandem runs`: the pipeline runs, the newest first."""

import argparse
import sys

from pipelines.commands.shared_arguments import add_home, add_json, home_of, print_json
from pipelines.journal import read_runs
from pipelines.runs_view import run_as_json, runs_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="at most this many (default: %(default)s)")
    add_home(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Reads the journals; no store is opened."""
    records = read_runs(home_of(arguments) / "runs")[: max(0, arguments.limit)]
    if arguments.json:
        print_json({"schema_version": 1, "runs": [run_as_json(record) for record in records]})
    else:
        sys.stdout.write(runs_table(records))
    return 0
