"""`tandem promote`: the promotion pipeline, from an approved candidate to the first share of traffic."""

import argparse
import sys

from components.core.errors import ConfigError
from components.core.evidence import CandidateEvidence
from pipelines.candidate_access import candidate_of
from pipelines.commands.shared_arguments import add_set, print_json
from pipelines.config import PipelineConfig
from pipelines.display import display_for
from pipelines.journal import read_runs
from pipelines.production_access import add_production, ledger_spec, show, traffic_as_json, traffic_text
from pipelines.promotion_plan import Promotion, plan_promotion
from pipelines.run_facts import read_run_facts
from pipelines.runs_view import run_as_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_production(parser, metavar="MODEL/VERSION")
    add_set(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Promotes; the same command goes on after a crash. The gate, not this command, decides whether it may."""
    _refuse_other_tables(arguments.overrides)
    spec = ledger_spec(arguments)
    config, evidence = candidate_of(arguments)
    from components.core.production_ledger import ProductionLedger
    from pipelines.local import run_promotion

    book = ProductionLedger(spec)
    display = display_for(sys.stderr, quiet=arguments.json)
    plan = plan_promotion(config, Promotion(evidence.subject, _artifact_of(config, evidence), spec))
    outcome = run_promotion(config, plan, display)
    split = book.traffic(evidence.subject.model)
    if arguments.json:
        print_json(
            {
                "schema_version": 1,
                "run": run_as_json(outcome.record),
                "error": outcome.record.error,
                "exit_code": outcome.exit_code,
                "traffic": traffic_as_json(split),
            }
        )
        return outcome.exit_code
    display.closing(outcome.record)
    if outcome.exit_code == 0:
        show(traffic_text(split))
    return outcome.exit_code


def _refuse_other_tables(overrides: list[str]) -> None:
    """Who may approve, and on what evidence, is not a matter of one call.

    Raises:
        ConfigError: a key outside [rollout] and [production].
    """
    for override in overrides:
        if override.partition(".")[0].strip() not in ("rollout", "production"):
            raise ConfigError(f"--set {override}: a promotion takes keys of rollout and production only; the rule stands in pipeline.toml")


def _artifact_of(config: PipelineConfig, evidence: CandidateEvidence) -> str:
    """Folder of the artifact that the XLA compiler made of this candidate; the registry's package where no run here made it."""
    for record in read_runs(config.runs_folder, "training"):
        if record.use_case_path != str(config.use_case.folder):
            continue
        for candidate in read_run_facts(record).candidates:
            folder = record.artifacts.get(f"{candidate.framework}-xla-compiler/model")
            if candidate.digest == evidence.subject.model_digest and folder:
                return folder
    return str(evidence.saved_model.parent)
