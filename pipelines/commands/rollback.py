"""`tandem rollback`: traffic leaves the canary, or the champion for the version before it."""

import argparse

from components.core.errors import ConfigError
from components.core.production_ledger import ProductionLedger
from pipelines.candidate_access import config_for
from pipelines.production_access import add_production, follow, ledger_spec, model_of, show_traffic, version_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_production(parser, metavar="MODEL[/PRODUCTION_VERSION]")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why, in your words; it stays in the ledger")


def execute(arguments: argparse.Namespace) -> int:
    """Rolls back the canary where there is one, else the champion; a version given has to be one of them."""
    book, model = ProductionLedger(ledger_spec(arguments)), model_of(arguments)
    config = config_for(arguments, model)
    split = book.traffic(model)
    version = version_of(arguments, split) or split.canary or split.champion
    if version is None:
        raise ConfigError(f"{model} has nothing in production; there is nothing to roll back")
    book.enter("rollback", version, reason=arguments.reason.strip())
    follow(book, model, config)
    return show_traffic(arguments, book.traffic(model))
