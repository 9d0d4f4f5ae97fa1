"""The few figures that stand on top of a candidate's page; each is one of the tables below it."""

import dataclasses
from collections.abc import Mapping

from components.core.evidence import CandidateEvidence
from components.core.measurements import AuditReport, BucketReport, MetricValue
from infra.console.measurements_view import SliceGroup
from infra.console.settings import ModelSettings
from infra.console.wording import number, share, size, words


@dataclasses.dataclass(frozen=True)
class Tile:
    """One figure.

    Attributes:
        bad: it is beyond its limit, or did not pass.
    """

    label: str
    value: str
    note: str
    bad: bool = False


def glance(
    evidence: CandidateEvidence,
    champion: CandidateEvidence | None,
    slices: list[SliceGroup],
    *,
    beside: Mapping[str, MetricValue],
    settings: ModelSettings | None,
) -> list[Tile]:
    """The figures, where they were measured.

    Args:
        evidence: of the candidate.
        champion: that serves now.
        slices: from `slice_groups`.
        beside: metric -> value of the champion.
        settings: of the model.
    """
    audit = evidence.audit
    tiles = [_verdict(audit), *_metric(audit, beside, settings), *_worst_slice(slices, settings), *_latency(evidence, settings)]
    whole = next((change for change in audit.decision_changes if not change.key), None)
    if whole is not None:
        note = f"{whole.to_positive} to positive, {whole.to_negative} to negative"
        tiles.append(Tile("Decided differently", share(whole.to_positive + whole.to_negative, whole.size), note))
    if evidence.compiled is not None:
        before = f"champion {size(champion.compiled.size_bytes)}" if champion and champion.compiled else "no champion"
        tiles.append(Tile("Size", size(evidence.compiled.size_bytes), before))
    return tiles


def _verdict(audit: AuditReport) -> Tile:
    counts = {status: sum(gate.status == status for gate in audit.gates) for status in ("passed", "failed", "not checked")}
    note = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    return Tile("Audit", "blessed" if audit.blessed else "not blessed", f"gates: {note or 'none'}", bad=not audit.blessed)


def _metric(audit: AuditReport, beside: Mapping[str, MetricValue], settings: ModelSettings | None) -> list[Tile]:
    name = settings.audit.better_metric if settings else ""
    if name not in audit.metrics:
        return []
    champion = beside.get(name)
    note = f"champion {number(champion.value)}" if champion else "no champion"
    return [Tile(words(name), number(audit.metrics[name].value), note)]


def _worst_slice(slices: list[SliceGroup], settings: ModelSettings | None) -> list[Tile]:
    worst = [group.rows[0] for group in slices if group.rows and group.rows[0].part.judged]
    if not worst or settings is None:
        return []
    row = min(worst, key=lambda row: row.rank)
    return [Tile(f"Worst slice, {words(row.metric)}", number(row.value.value), f"{row.part.key} = {row.part.value}", bad=row.below)]


def _latency(evidence: CandidateEvidence, settings: ModelSettings | None) -> list[Tile]:
    judged: list[BucketReport] = [
        bucket for bucket in (evidence.compiled.buckets if evidence.compiled else ()) if bucket.within_slo is not None
    ]
    if not judged:
        return []
    slowest = max(judged, key=lambda bucket: bucket.plain_p99_ms)
    limit = f"service level {number(settings.p99_ms)} ms" if settings else f"{slowest.batch} rows a call"
    beyond = any(bucket.within_slo is False for bucket in judged)
    return [Tile("Slowest p99", f"{number(slowest.plain_p99_ms)} ms", limit, bad=beyond)]
