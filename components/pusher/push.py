"""Chooses the better blessed candidate, pushes it to staging and says so in the registry."""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

from components.core.contracts import LOWER_IS_BETTER, AuditSpec, TrackingSpec
from components.core.errors import PushError
from components.core.measurements import AuditReport, CompileReport, PushReport, Registration
from components.core.placement import place, version_folder
from components.core.registry import ModelVersion, Registry

STAGING_TAG = "staging"


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One framework's candidate.

    Attributes:
        saved_model: folder of its SavedModel.
        registration, audit, compiled: its measurements.
    """

    saved_model: Path
    registration: Registration
    audit: AuditReport
    compiled: CompileReport

    @property
    def framework(self) -> str:
        """Its framework."""
        return self.audit.framework

    @property
    def eligible(self) -> bool:
        """Blessed and registered."""
        return self.audit.blessed and self.registration.blessed and self.registration.registered

    @property
    def p99_ms(self) -> float:
        """Milliseconds: the lower p99 of plain and XLA in the largest judged bucket; infinite when none was judged."""
        judged = [bucket for bucket in self.compiled.buckets if bucket.within_slo is not None]
        if not judged:
            return math.inf
        largest = max(judged, key=lambda bucket: bucket.batch)
        return min(largest.plain_p99_ms, largest.xla_p99_ms)


@dataclasses.dataclass(frozen=True)
class Choice:
    """Which candidate is pushed.

    Attributes:
        winner: None when nothing is blessed.
        loser: the other blessed candidate.
        reason: one line.
    """

    winner: Candidate | None
    loser: Candidate | None
    reason: str


def choose(candidates: Sequence[Candidate], spec: AuditSpec) -> Choice:
    """The better of two candidates.

    Among the blessed the better `better_metric` wins; values that differ by at most `better_tie` tie, then the lower p99 latency wins,
    then the name. An undefined metric loses against a defined one.
    """
    blessed = sorted((candidate for candidate in candidates if candidate.eligible), key=lambda candidate: candidate.framework)
    if not blessed:
        return Choice(None, None, "nothing to push: " + "; ".join(_refusal(candidate) for candidate in candidates))
    if len(blessed) == 1:
        others = "; ".join(_refusal(candidate) for candidate in candidates if not candidate.eligible)
        return Choice(blessed[0], None, f"{blessed[0].framework} is the only blessed candidate" + (f" ({others})" if others else ""))
    first, second = blessed
    metric = spec.better_metric
    ours, theirs = _metric(first, metric), _metric(second, metric)
    values = f"{metric} {first.framework} {_shown(ours)}, {second.framework} {_shown(theirs)}"
    gap = _gap(ours, theirs, metric)
    if abs(gap) > spec.better_tie:
        winner, loser = (first, second) if gap > 0 else (second, first)
        return Choice(winner, loser, f"{winner.framework} is better: {values}")
    tie = f"tie within {spec.better_tie:g}: {values}"
    if first.p99_ms != second.p99_ms:
        winner, loser = (first, second) if first.p99_ms < second.p99_ms else (second, first)
        return Choice(winner, loser, f"{winner.framework} is faster: p99 {winner.p99_ms:.4g} ms against {loser.p99_ms:.4g} ms; {tie}")
    return Choice(first, second, f"{first.framework} by name: p99 does not tell them apart; {tie}")


def push(candidates: Sequence[Candidate], *, name: str, spec: AuditSpec, serving_root: str, tracking: TrackingSpec) -> PushReport:
    """Pushes the better blessed candidate to `<serving_root>/staging/<name>/<version>`; nothing blessed is no error.

    Args:
        candidates: one a framework.
        name: of the served model.
        spec: the metric that decides and its tie.
        serving_root: directory of the model servers.
        tracking: the registry, where the winner is tagged `staging=pushed` and the loser, still requestable, `staging=lost`.

    Raises:
        PushError: the version's folder holds another model or cannot be written.
        RegistryError: the version is not in the registry.
        StoreError: the registry cannot be used.
    """
    choice = choose(candidates, spec)
    if choice.winner is None:
        return PushReport(pushed=False, name=name, reason=choice.reason)
    winner = choice.winner
    version, digest = _identity(winner)
    folder = version_folder(serving_root, name, version)
    registry = Registry(tracking)
    tagged = {"pushed": _registered(registry, winner)}
    if choice.loser is not None:
        tagged["lost"] = _registered(registry, choice.loser)
    made = place(winner.saved_model, folder, digest=digest)
    for state, entry in tagged.items():
        registry.annotate(entry, tags={STAGING_TAG: state})
    return PushReport(
        pushed=True,
        framework=winner.audit.framework,
        name=name,
        version=version,
        digest=digest,
        path=str(folder),
        reason=choice.reason if made else f"{choice.reason}; it lay there already",
    )


def _identity(candidate: Candidate) -> tuple[str, str]:
    """Version and digest, on which all measurements have to agree."""
    digests = {candidate.registration.digest, candidate.audit.digest, candidate.compiled.tree_digest}
    version = candidate.registration.version
    if len(digests) > 1 or version is None:
        raise PushError(
            f"{candidate.framework}: registration, audit and compile report are of different models; run the stages before again"
        )
    return version, candidate.audit.digest


def _registered(registry: Registry, candidate: Candidate) -> ModelVersion:
    """The candidate's version, as the registry knows it."""
    version, digest = _identity(candidate)
    entry = registry.resolve(f"{candidate.registration.name}/{version}")
    if entry.digest != digest:
        raise PushError(
            f"{entry.name}/{version} has digest {entry.digest or 'none'} in the registry, the audit is of {digest}; register again"
        )
    return entry


def _refusal(candidate: Candidate) -> str:
    if not candidate.registration.registered:
        return f"{candidate.framework} was stopped: {candidate.registration.reason}"
    failed = [gate.name for gate in candidate.audit.gates if gate.required and gate.status != "passed"]
    return f"{candidate.framework} was not blessed" + (f": {', '.join(failed)}" if failed else "")


def _metric(candidate: Candidate, metric: str) -> float | None:
    value = candidate.audit.metrics.get(metric)
    return None if value is None else value.value


def _gap(ours: float | None, theirs: float | None, metric: str) -> float:
    """By how much `ours` is better; infinite against an undefined one."""
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else math.inf if theirs is None else -math.inf
    return theirs - ours if metric in LOWER_IS_BETTER else ours - theirs


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.6g}"
