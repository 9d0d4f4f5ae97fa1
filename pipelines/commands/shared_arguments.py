"""Arguments that several commands share, and how the use case of a command is found."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.core.errors import ConfigError
from pipelines.config import PipelineConfig, find_use_case, load_config


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds --json."""
    parser.add_argument("--json", action="store_true", help="print JSON for programs (keys are documented in docs/json.md)")


def add_home(parser: argparse.ArgumentParser) -> None:
    """Adds --home."""
    parser.add_argument(
        "--home", default=".tandem", metavar="DIR", help="[directories] home of the runs, from the current folder (default: %(default)s)"
    )


def add_set(parser: argparse.ArgumentParser) -> None:
    """Adds --set."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="change one key of pipeline.toml for this call, e.g. training.epochs=3",
    )


def home_of(arguments: argparse.Namespace) -> Path:
    """The home folder of a command.

    Raises:
        ConfigError: there is none.
    """
    home = Path(arguments.home).expanduser().resolve()
    if not home.is_dir():
        raise ConfigError(f"{home}: no such folder; call tandem where `tandem run` was called, or give --home")
    return home


def config_of(use_case: str, overrides: list[str]) -> PipelineConfig:
    """The checked configuration of a use case."""
    return load_config(find_use_case(use_case), overrides=overrides)


def print_json(value: Mapping[str, Any]) -> None:
    """Prints one JSON document."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")
