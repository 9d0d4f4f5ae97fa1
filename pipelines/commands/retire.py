"""`tandem retire`: a version that serves nothing leaves the model server for good."""

import argparse

from components.core.errors import ConfigError
from components.core.production_ledger import ProductionLedger
from pipelines.candidate_access import config_for
from pipelines.production_access import add_production, follow, ledger_spec, model_of, show_traffic, version_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_production(parser, metavar="MODEL/PRODUCTION_VERSION")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why, in your words; it stays in the ledger")


def execute(arguments: argparse.Namespace) -> int:
    """Retires; its folder stays, the model server unloads it."""
    book, model = ProductionLedger(ledger_spec(arguments)), model_of(arguments)
    config = config_for(arguments, model)
    version = version_of(arguments, book.traffic(model))
    if version is None:
        raise ConfigError(f"name the version, e.g. `tandem retire {model}/1`")
    book.enter("retire", version, reason=arguments.reason.strip())
    follow(book, model, config)
    return show_traffic(arguments, book.traffic(model))
