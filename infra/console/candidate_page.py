"""All that one candidate's page shows, gathered from its evidence, the ledger and ML Metadata."""

import dataclasses
import datetime
from collections.abc import Sequence

from markupsafe import Markup

from components.core.approval import Standing, standing
from components.core.errors import StoreError, TandemError
from components.core.evidence import CandidateEvidence
from components.core.ledger import DECISIONS, Entry
from components.core.lineage import MetadataStore, lineage_of
from components.core.measurements import AuditReport, BucketReport, Check, Gate
from components.core.rollout import Traffic, rollback_reason, traffic
from infra.console.access import Permission
from infra.console.actions import Action, actions
from infra.console.candidates import Candidates
from infra.console.glance import Tile, glance
from infra.console.ledger_state import LedgerState
from infra.console.lineage_picture import boxes_of, picture
from infra.console.markdown import render_card
from infra.console.measurements_view import MetricRow, SliceGroup, metric_rows, open_gates, slice_groups, slice_metric, slice_range
from infra.console.settings import ConsoleSettings, ModelSettings
from infra.console.wording import moment

_ORDER = ("failed", "not checked", "passed", "measured")
NOT_SAID = "The ledger does not hold, so what stands in it is not said here."


@dataclasses.dataclass(frozen=True)
class CandidatePage:
    """One candidate, beside its champion.

    Attributes:
        settings: None where no pipeline.toml with this name is known; then nothing can be decided.
        standing: None without settings, and on a ledger that does not hold.
        entries: of the ledger, about this version, oldest first.
        overrides: the overrides that count, with their reasons.
        champion: serves now; None where nothing does, or where it cannot be read (`champion_note` says why).
        champion_buckets: rows a call -> its latency.
        beside: the champion's own audit; None where there is no other champion. Its metrics stand in the champion's column where the
            candidate's audit compared it with nothing, its slices always.
        checks: what else the audit looked at, those beyond their limits first.
        rolled_back: why it was taken out of production; empty where it was not.
    """

    evidence: CandidateEvidence
    settings: ModelSettings | None
    standing: Standing | None
    actions: list[Action]
    entries: list[Entry]
    overrides: list[Entry]
    open_gates: list[Gate]
    champion: CandidateEvidence | None
    champion_note: str
    champion_buckets: dict[int, BucketReport]
    beside: AuditReport | None
    checks: list[Check]
    rolled_back: str
    metrics: list[MetricRow]
    tiles: list[Tile]
    slice_metric: str
    slice_range: tuple[float, float]
    slices: list[SliceGroup]
    card: Markup
    lineage: Markup | None
    lineage_note: str

    @property
    def ignored(self) -> dict[int, str]:
        """Sequence of an entry that does not count -> why."""
        lines = self.standing.ignored if self.standing else ()
        # A line of the standing begins with `entry <sequence>: `.
        return {int(line.split(":", 1)[0].removeprefix("entry ")): line.split(": ", 1)[1] for line in lines}


def candidate_page(
    evidence: CandidateEvidence,
    candidates: Candidates,
    state: LedgerState,
    *,
    settings: ConsoleSettings,
    login: str,
    permission: Permission,
) -> CandidatePage:
    """Gathers the page.

    Args:
        evidence: read anew.
        candidates: where the champion's evidence is read.
        state: the ledger.
        settings: of the console.
        login: who looks.
        permission: of that login on the model.
    """
    subject, audit = evidence.subject, evidence.audit
    model = settings.models.get(subject.model)
    about = [entry for entry in state.entries if _is_about(entry, evidence)]
    found, champion, note, split = None, None, NOT_SAID, Traffic(model=subject.model)
    if not state.problem:
        found = standing(about, evidence.candidate, model.rule, now=datetime.datetime.now(datetime.UTC)) if model else None
        split = traffic(state.entries, subject.model)
        champion, note = _champion(split, candidates)
    compiled = champion.compiled if champion else None
    lineage, lineage_note = _lineage(evidence, settings, about)
    offered: list[Action] = []
    if model and found:
        offered = actions(evidence, found, model.rule, login=login, permission=permission, disabled=state.disabled)
    spec = model.audit if model else None
    own = champion.audit if champion and champion.subject != subject else None
    metrics = audit.champion_metrics or (own.metrics if own else {})
    slices = slice_groups(audit, spec, champion=own)
    return CandidatePage(
        evidence=evidence,
        settings=model,
        standing=found,
        actions=offered,
        entries=about,
        overrides=_overrides(about, found),
        open_gates=open_gates(audit.gates),
        champion=champion,
        champion_note=note,
        champion_buckets={bucket.batch: bucket for bucket in (compiled.buckets if compiled else ())},
        beside=own,
        checks=sorted(audit.checks, key=lambda check: _ORDER.index(check.outcome)),
        rolled_back=rollback_reason(split, subject),
        metrics=metric_rows(audit, metrics),
        tiles=glance(evidence, champion, slices, beside=metrics, settings=model),
        slice_metric=slice_metric(audit, spec),
        slice_range=slice_range(audit, spec, champion=own),
        slices=slices,
        card=render_card(evidence.version.description),
        lineage=lineage,
        lineage_note=lineage_note,
    )


def _is_about(entry: Entry, evidence: CandidateEvidence) -> bool:
    said = entry.statement.subject
    return (said.model, said.version) == (evidence.subject.model, evidence.subject.version)


def _overrides(about: Sequence[Entry], found: Standing | None) -> list[Entry]:
    """The newest override of each person whose override counts."""
    newest = {entry.statement.actor: entry for entry in about if entry.statement.kind == "override"}
    return [newest[actor] for actor in (found.overridden_by if found else ()) if actor in newest]


def _champion(split: Traffic, candidates: Candidates) -> tuple[CandidateEvidence | None, str]:
    if split.champion is None:
        return None, "There is no champion: nothing to compare with."
    subject = split.champion.subject
    try:
        return candidates.read(subject.model, subject.version), ""
    except TandemError as error:
        return None, f"The champion {subject.model}/{subject.version} cannot be read: {error}"


def _lineage(evidence: CandidateEvidence, settings: ConsoleSettings, about: Sequence[Entry]) -> tuple[Markup | None, str]:
    """The picture, or one line that says why there is none."""
    version = evidence.version
    execution = version.tags.get("mlmd_execution_id", "")
    if not execution.isdecimal():
        return None, "It was registered by no pipeline run, so nothing leads back from it."
    decided = [entry.statement for entry in about if entry.statement.kind in DECISIONS]
    told = [f"{said.kind} by {said.actor}, {moment(said.at)[:10]}" for said in decided]
    try:
        found = lineage_of(MetadataStore(settings.metadata_store), int(execution), digest=version.digest)
    except StoreError as error:
        return None, str(error)
    boxes = boxes_of(found, reference=f"{version.name}/{version.version}", digest=version.digest, decisions=told)
    return picture(boxes), ""
