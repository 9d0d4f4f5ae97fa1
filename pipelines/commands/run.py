"""`tandem run`: the training pipeline of a use case, to its end."""

import argparse
import sys

from pipelines.commands.shared_arguments import add_json, add_set, config_of, print_json
from pipelines.display import display_for
from pipelines.runs_view import run_as_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("use_case", metavar="USE_CASE", help="name of a shipped use case (credit_risk), or the folder of one")
    add_set(parser)
    parser.add_argument("--from", dest="first", metavar="STAGE", help="begin with this stage; earlier outputs come from the last run")
    parser.add_argument("--to", dest="last", metavar="STAGE", help="end with this stage")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Runs; says at the end what was made and what to do next."""
    config = config_of(arguments.use_case, arguments.overrides)
    from pipelines.local import RunOptions, run_training

    display = display_for(sys.stderr, quiet=arguments.json)
    outcome = run_training(config, RunOptions(first=arguments.first, last=arguments.last), display)
    if arguments.json:
        print_json({"schema_version": 1, "run": run_as_json(outcome.record), "error": outcome.record.error, "exit_code": outcome.exit_code})
    else:
        display.closing(outcome.record)
    return outcome.exit_code
