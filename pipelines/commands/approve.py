"""`tandem approve`: approve a candidate."""

import argparse

from pipelines.decision_commands import add_decision, decide


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_decision(parser, reason_needed=False)


def execute(arguments: argparse.Namespace) -> int:
    """Enters the decision and shows where the candidate stands."""
    return decide("approve", arguments)
