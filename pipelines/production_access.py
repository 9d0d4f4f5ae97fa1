"""What the operator's commands have in common: the ledger that they write, the split that they show, and the mirrors that follow."""

import argparse
import datetime
import sys
from typing import Any

import sqlalchemy as sql

from components.core.errors import ConfigError, ServingError, StoreError
from components.core.mirror import mirror
from components.core.production_ledger import ProductionLedger
from components.core.promotion import LedgerSpec
from components.core.rollout import ServedVersion, Traffic
from pipelines.candidate_access import add_candidate, name_of
from pipelines.commands.shared_arguments import add_json, print_json
from pipelines.config import PipelineConfig
from pipelines.ledger_access import add_signing, key_path, keys_path, ledger_url
from pipelines.promotion_plan import production_spec
from pipelines.text_layout import printable, write_text


def add_production(parser: argparse.ArgumentParser, *, metavar: str) -> None:
    """Adds what every command on production takes."""
    add_candidate(parser, metavar=metavar)
    add_signing(parser)
    add_json(parser)


def ledger_spec(arguments: argparse.Namespace) -> LedgerSpec:
    """Where the ledger is; it becomes a parameter of a pipeline, which is recorded.

    Raises:
        ConfigError: the URL holds a password.
    """
    url = ledger_url(arguments)
    if sql.make_url(url).password:
        raise ConfigError("the ledger's URL holds a password, and a promotion records its parameters; give it by PGPASSWORD or ~/.pgpass")
    return LedgerSpec(url=url, public_keys=str(keys_path(arguments).resolve()), private_key=str(key_path(arguments).resolve()))


def version_of(arguments: argparse.Namespace, split: Traffic) -> ServedVersion | None:
    """The production version that `name/version` or `name-prod/version` means; None where only the name was given.

    Raises:
        ConfigError: the ledger knows no such version in production.
    """
    number = arguments.model.partition("/")[2]
    if not number:
        return None
    held = {version.version: version for version in (*split.served, *split.promoted, *split.stopped)}
    if number not in held:
        known = ", ".join(held) or "none"
        raise ConfigError(f"{split.model}-prod has no version {number} that serves or waits; there are: {known}")
    return held[number]


def model_of(arguments: argparse.Namespace) -> str:
    """The model's name, without `-prod` and version."""
    return name_of(arguments.model)


def follow(book: ProductionLedger, model: str, config: PipelineConfig) -> None:
    """Carries what was entered to models.config and the aliases; where that fails it says so, the ledger stands."""
    try:
        mirror(book.entries, model, production=production_spec(config), tracking=config.tracking)
    except (ServingError, StoreError) as error:
        sys.stderr.write(f"tandem: entered in the ledger, but not mirrored yet: {error}\n")


def show_traffic(arguments: argparse.Namespace, split: Traffic) -> int:
    """Prints a split, for people or as JSON; the exit code of a command that did what it was asked for."""
    if arguments.json:
        print_json({"schema_version": 1, "traffic": traffic_as_json(split)})
    else:
        show(traffic_text(split))
    return 0


def traffic_as_json(split: Traffic) -> dict[str, Any]:
    """A split as docs/json.md describes it."""
    return {**split.model_dump(mode="json"), "labels": split.labels}


def traffic_text(split: Traffic) -> str:
    """A split for people."""
    lines = [f"{split.model}"]
    if split.champion is None:
        lines.append("  nothing is in production yet: tandem promote")
    for label, version in (("champion", split.champion), ("canary", split.canary), ("previous", split.previous)):
        if version is not None:
            share = {"champion": 100 - split.share, "canary": split.share, "previous": 0}[label]
            made_from = f"{version.subject.model}/{version.subject.version}"
            lines.append(
                f"  {label:<9} version {version.version:<4} {share:>3} %  made from {made_from}, {version.subject.model_digest[:12]}"
            )
    if split.canary is not None:
        lines.append(f"  since {split.since[:19]}Z; steps {', '.join(f'{step} %' for step in split.rule.steps)}; {_next(split)}")
    lines += [f"  version {held.version} was promoted and {'pushed, ' if held.pushed else ''}not started" for held in split.promoted]
    lines += [f"  version {version} was rolled back: {printable(reason)}" for version, reason in split.rolled_back.items()]
    lines += [f"  version {version} is retired" for version in split.retired]
    lines += [f"  odd: {printable(line)}" for line in split.odd]
    return "\n".join(lines) + "\n"


def _next(split: Traffic) -> str:
    share = split.rule.next_share(split.share)
    earliest = datetime.datetime.fromisoformat(split.since) + datetime.timedelta(seconds=split.rule.step_s)
    return f"next {share} % from {earliest:%Y-%m-%dT%H:%M:%S}Z on, after {split.rule.step_requests} requests"


def show(text: str) -> None:
    """Prints."""
    write_text(sys.stdout, text)
