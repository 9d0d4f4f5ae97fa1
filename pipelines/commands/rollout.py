"""`tandem rollout`: how the traffic of a model is split now, and an operator's own step."""

import argparse

from components.core.errors import ConfigError
from components.core.production_ledger import ProductionLedger
from components.core.rollout import SHARE
from infra.serving.router.gateway import http_route
from pipelines.candidate_access import config_for
from pipelines.commands.shared_arguments import print_json
from pipelines.production_access import add_production, follow, ledger_spec, model_of, show_traffic


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_production(parser, metavar="MODEL")
    parser.add_argument("--to", type=int, metavar="PERCENT", help="move the canary to this share now; the guards of the router stay")
    parser.add_argument("--manifest", action="store_true", help="print the split as a Gateway API HTTPRoute for `kubectl apply -f -`")
    parser.add_argument("--namespace", default="default", metavar="NAME", help="of the manifest (default: %(default)s)")


def execute(arguments: argparse.Namespace) -> int:
    """Shows the split; with --to enters a step first."""
    book, model = ProductionLedger(ledger_spec(arguments)), model_of(arguments)
    if arguments.to is not None:
        config = config_for(arguments, model)
        split = book.traffic(model)
        if split.canary is None:
            raise ConfigError(f"no rollout of {model} goes on; `tandem promote` starts one")
        if not split.share < arguments.to <= 100:
            raise ConfigError(f"--to {arguments.to}: the canary has {split.share} %; give more, up to 100, or `tandem rollback {model}`")
        book.enter("rollout_step", split.canary, details={SHARE: str(arguments.to)})
        follow(book, model, config)
    split = book.traffic(model)
    if arguments.manifest:
        if split.champion is None:
            raise ConfigError(f"{model} has nothing in production; there is nothing to route")
        print_json(http_route(split, namespace=arguments.namespace))
        return 0
    return show_traffic(arguments, split)
