"""What `tandem ui` tells the console: where the stores are, and what the use cases' pipeline.toml say of their models."""

import argparse
import os
from collections.abc import Iterable
from pathlib import Path

from infra.console.first_start import FOLDER
from infra.console.settings import ConsoleSettings, ModelSettings
from pipelines.candidate_access import known_configs
from pipelines.commands.shared_arguments import home_of
from pipelines.config import PipelineConfig
from pipelines.ledger_access import keys_path, ledger_url

SERVICE_KEY_VARIABLE = "TANDEM_SERVICE_KEY"
_DEFAULT_KEY = "service-key.pem"


def add_service_key(parser: argparse.ArgumentParser) -> None:
    """Adds --service-key."""
    parser.add_argument(
        "--service-key",
        metavar="FILE",
        default=os.environ.get(SERVICE_KEY_VARIABLE),
        help=f"key that vouches for logins (default: {SERVICE_KEY_VARIABLE}, or {FOLDER}/{_DEFAULT_KEY} in the home folder)",
    )


def service_key_path(arguments: argparse.Namespace) -> Path:
    """File of the service's key; it need not be there."""
    given = arguments.service_key
    return Path(given).expanduser().resolve() if given else home_of(arguments) / FOLDER / _DEFAULT_KEY


def console_settings(arguments: argparse.Namespace) -> ConsoleSettings:
    """The settings of a console over a home folder.

    Raises:
        ConfigError: there is no such folder.
    """
    home = home_of(arguments)
    return ConsoleSettings(
        ledger_url=ledger_url(arguments),
        public_keys=str(keys_path(arguments).resolve()),
        service_key=str(service_key_path(arguments)),
        tracking_uri=f"sqlite:///{home / 'mlflow.db'}",
        artifact_root=str(home / "mlflow-artifacts"),
        metadata_store=str(home / "metadata.db"),
        models=_models(known_configs(home)),
    )


def _models(configs: Iterable[PipelineConfig]) -> dict[str, ModelSettings]:
    """A name that two use cases claim belongs to neither: two rules cannot both hold."""
    found: dict[str, list[ModelSettings]] = {}
    for config in configs:
        serving = config.serving_spec
        settings = ModelSettings(
            use_case=config.use_case.name,
            rule=config.toml.approval,
            audit=config.audit_spec,
            p99_ms=serving.p99_ms,
            max_batch=serving.slo_max_batch,
        )
        found.setdefault(config.name, []).append(settings)
    return {name: claimed[0] for name, claimed in found.items() if len(claimed) == 1}
