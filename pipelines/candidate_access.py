"""Which use case a registered model belongs to, and what is there of a candidate: what decisions and promotions begin with."""

import argparse
import dataclasses
from pathlib import Path

from components.core.contracts import PRODUCTION_SUFFIX
from components.core.errors import ConfigError, RegistryError
from components.core.evidence import CandidateEvidence, read_evidence
from pipelines.commands.shared_arguments import add_home, home_of
from pipelines.config import CONFIG_FILE, SHIPPED, PipelineConfig, find_use_case, load_config
from pipelines.journal import read_runs


def add_candidate(parser: argparse.ArgumentParser, *, metavar: str = "MODEL/VERSION") -> None:
    """Adds the model, --use-case and --home."""
    parser.add_argument("model", metavar=metavar, help="registered candidate, e.g. credit-risk/2; a name alone means its newest version")
    parser.add_argument(
        "--use-case", metavar="USE_CASE", help="whose pipeline.toml holds the rule (default: the one that the model's name belongs to)"
    )
    add_home(parser)


def config_for(arguments: argparse.Namespace, name: str) -> PipelineConfig:
    """Configuration of the use case that `name` is registered by, with the home of the command.

    Raises:
        ConfigError: no use case has this name, or more than one has.
    """
    home = home_of(arguments)
    if arguments.use_case:
        configs = [load_config(find_use_case(arguments.use_case))]
    else:
        configs = [config for config in known_configs(home) if config.name == name]
    if len(configs) != 1 or configs[0].name != name:
        found = ", ".join(str(config.use_case.folder) for config in configs) or "none"
        raise ConfigError(f"model {name!r} belongs to no single use case here (found: {found}); name its folder with --use-case")
    overrides = getattr(arguments, "overrides", [])
    config = load_config(configs[0].use_case, overrides=overrides) if overrides else configs[0]
    return dataclasses.replace(config, home=home)


def known_configs(home: Path) -> list[PipelineConfig]:
    """The shipped use cases and those that ran in `home`; folders that are gone or do not read are left out."""
    folders = [path.parent for path in sorted(SHIPPED.glob(f"*/{CONFIG_FILE}"))]
    folders += [Path(record.use_case_path) for record in read_runs(home / "runs")]
    configs = []
    for folder in dict.fromkeys(folder for folder in folders if (folder / CONFIG_FILE).is_file()):
        try:
            configs.append(dataclasses.replace(load_config(find_use_case(str(folder))), home=home))
        except ConfigError:
            continue  # told when that use case is asked for
    return configs


def name_of(reference: str) -> str:
    """The registered name of `name`, `name@alias` or `name/version`, without the production suffix."""
    return reference.split("@", maxsplit=1)[0].split("/", maxsplit=1)[0].removesuffix(PRODUCTION_SUFFIX)


def candidate_of(arguments: argparse.Namespace) -> tuple[PipelineConfig, CandidateEvidence]:
    """The candidate of a command, read anew.

    Raises:
        RegistryError: there is no such candidate, or its bytes changed.
    """
    from components.core.registry import Registry

    config = config_for(arguments, name_of(arguments.model))
    if not (config.home / "mlflow.db").is_file():
        raise RegistryError(f"{config.home} holds no registry yet; `tandem run {config.use_case.name}` makes it, or name it with --home")
    return config, read_evidence(Registry(config.tracking), arguments.model)
