"""Which stages the next run would execute, and why: the plan as it stands now against the journals of runs that are over.

A stage is taken from the cache when a run of the same use case ended it well with the same parameters and the same inputs, and what it
made is still there. That is ML Metadata's own rule, told from the journals: nothing is asked of a store.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from components.core.contracts import PRODUCTION_SUFFIX, Champion
from pipelines.config import PipelineConfig
from pipelines.journal import RunRecord, StageRecord
from pipelines.mlflow_store import champion_of
from pipelines.parameter_changes import describe_changes
from pipelines.plan import PipelinePlan, StagePlan, plan_training

ENDED_WELL = ("complete", "cached")
INHERITED = "because "
"""How a reason begins that a stage has from one before it."""
_ENDED_BADLY = {
    "failed": "failed in",
    "interrupted": "was interrupted in",
    "running": "had not ended in",
    "skipped": "was not reached in",
    "waiting": "was not reached in",
}
Outputs = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class StageForecast:
    """What the next run does with one stage.

    Attributes:
        decision: `execute` or `cached`.
        reasons: one line each; for a cached stage the run whose result is taken.
    """

    name: str
    decision: Literal["execute", "cached"]
    reasons: tuple[str, ...]


def forecast(plan: PipelinePlan, record: RunRecord, history: Sequence[RunRecord]) -> list[StageForecast]:
    """Says for each stage whether the next run executes it.

    Args:
        plan: the training pipeline as it would be planned now.
        record: the run that the reasons compare with.
        history: all runs of the home that the next run will use, the newest first.
    """
    lock_changed = _lock_changed(plan, record)
    sources = cached_sources(plan, [run for run in history if run.use_case == record.use_case])
    forecasts: list[StageForecast] = []
    for stage in plan.stages:
        source = sources.get(stage.name)
        if source is not None:
            forecasts.append(StageForecast(stage.name, "cached", (f"as in run {source.id}",)))
            continue
        blockers = _nearest([name for name in stage.upstream if name not in sources], plan)
        reasons = _reasons(stage, record, blockers, lock_changed=lock_changed)
        forecasts.append(StageForecast(stage.name, "execute", tuple(reasons)))
    return forecasts


def cached_sources(plan: PipelinePlan, past: Sequence[RunRecord]) -> dict[str, RunRecord]:
    """The stages that the next run takes from the cache, and the run that each is taken from.

    Args:
        plan: the training pipeline as it would be planned now.
        past: runs of the same use case in the home that the next run will use, the newest first.
    """
    sources: dict[str, RunRecord] = {}
    for stage in plan.stages:
        if stage.always_runs or not sources.keys() >= set(stage.upstream):
            continue
        inputs = {name: _outputs(sources[name], name) for name in stage.upstream}
        source = _cached_in(stage, past, inputs)
        if source is not None:
            sources[stage.name] = source
    return sources


def plan_next_run(config: PipelineConfig, *, digest: str, runs: Sequence[RunRecord]) -> PipelinePlan:
    """The plan as the next run will make it, with the champion that it meets.

    Args:
        config: of the use case.
        digest: SHA-256 of the input as it is now.
        runs: runs that may have met the champion.

    Raises:
        StoreError: MLflow's file cannot be read.
    """
    name = config.name + PRODUCTION_SUFFIX
    champion = champion_now(champion_of(config.home / "mlflow.db", name), name, runs)
    return plan_training(config, data_digest=digest, champion=champion)


def champion_now(found: tuple[str, str] | None, name: str, runs: Sequence[RunRecord]) -> Champion | None:
    """The champion that the next run meets, as far as it can be told without loading it.

    Args:
        found: its version and digest in the registry, None when there is none.
        name: of the production model.
        runs: runs that may have met it; only they know where its SavedModel lies.
    """
    if found is None:
        return None
    version, digest = found
    for text in (stage.parameters.get("champion") for run in runs for stage in run.stages):
        met = Champion.from_json(text) if text else None
        if met is not None and (met.name, met.version, met.digest) == (name, version, digest):
            return met
    return Champion(name=name, version=version, digest=digest, path="")


def _nearest(names: Sequence[str], plan: PipelinePlan) -> list[str]:
    """Those of `names` that no other of them rests on."""
    return [name for name in names if not any(name in plan.closure([other], downstream=False) for other in names if other != name)]


def _lock_changed(plan: PipelinePlan, record: RunRecord) -> bool:
    """Whether the environment is another one than in `record`."""
    before = {stage.name: stage.parameters.get("lock_digest") for stage in record.stages}
    now = {stage.name: stage.parameters.get("lock_digest") for stage in plan.stages}
    return any(before.get(name) and digest and before[name] != digest for name, digest in now.items())


def _stage_of(run: RunRecord, name: str) -> StageRecord | None:
    return next((stage for stage in run.stages if stage.name == name), None)


def _outputs(run: RunRecord, stage: str) -> dict[str, str]:
    return {output: folder for output, folder in run.artifacts.items() if output.startswith(f"{stage}/")}


def _cached_in(stage: StagePlan, past: Sequence[RunRecord], inputs: Mapping[str, Outputs]) -> RunRecord | None:
    """The newest run whose result of this stage fits."""
    for run in past:
        entry = _stage_of(run, stage.name)
        if entry is None or entry.state not in ENDED_WELL or entry.parameters != dict(stage.parameters):
            continue
        same_inputs = all(_outputs(run, name) == inputs[name] for name in stage.upstream)
        if same_inputs and all(Path(folder).exists() for folder in _outputs(run, stage.name).values()):
            return run
    return None


def _reasons(stage: StagePlan, record: RunRecord, blockers: Sequence[str], *, lock_changed: bool) -> list[str]:
    """Why a stage executes, the causes of its own first."""
    entry = _stage_of(record, stage.name)
    if entry is None:
        return [f"run {record.id} had no such stage"]
    reasons = describe_changes(stage.name, entry.parameters, stage.parameters, lock_changed=lock_changed)
    if entry.state not in ENDED_WELL:
        reasons.append(f"it {_ENDED_BADLY.get(entry.state, entry.state)} run {record.id}")
    reasons += [f"{INHERITED}{name} executes" for name in blockers]
    if stage.always_runs:
        reasons.append("it always runs")
    gone = [folder for folder in _outputs(record, stage.name).values() if not Path(folder).exists()]
    reasons += [f"what it made is gone ({folder})" for folder in gone]
    return reasons or [f"no run since has ended it with the same inputs as run {record.id}"]
