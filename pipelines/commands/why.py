"""`tandem why`: what stopped a run, and what the next one would execute."""

import argparse
import sys

from pipelines.commands.shared_arguments import add_home, add_json, add_set, home_of, print_json
from pipelines.diagnosis import diagnose
from pipelines.diagnosis_view import diagnosis_text
from pipelines.journal import find_run
from pipelines.run_facts import read_run_facts
from pipelines.text_layout import terminal_width, write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="run id or its beginning (default: the newest run)")
    add_set(parser)
    add_home(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Reads the journal, the measurements and the use case as it is now."""
    home = home_of(arguments)
    document = diagnose(read_run_facts(find_run(home / "runs", arguments.run)), home=home, overrides=arguments.overrides)
    if arguments.json:
        print_json(document)
    else:
        write_text(sys.stdout, diagnosis_text(document, terminal_width()))
    return 0
