"""What was measured on a candidate, laid beside its champion: rows for the tables of its page."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from components.core.contracts import LOWER_IS_BETTER, AuditSpec
from components.core.measurements import AuditReport, Gate, MetricValue, SliceReport
from infra.console.plots import Mark, dot_plot, span

_LIMIT_GATES = ("floor", "ceiling")


@dataclasses.dataclass(frozen=True)
class MetricRow:
    """A metric on the whole eval split.

    Attributes:
        champion: None where nothing was compared.
        lower_is_better: which way is good.
    """

    name: str
    candidate: MetricValue
    champion: MetricValue | None
    limit: float | None
    lower_is_better: bool
    plot: Markup


@dataclasses.dataclass(frozen=True)
class SliceRow:
    """A slice.

    Attributes:
        metric, value: that it is drawn by.
        champion: its value on this slice in its own audit; None where it has none.
        below: it is judged, and beyond its limit.
        rank: ascending from the worst; an undefined value comes last.
    """

    part: SliceReport
    metric: str
    value: MetricValue
    champion: MetricValue | None
    below: bool
    rank: float
    plot: Markup


@dataclasses.dataclass(frozen=True)
class SliceGroup:
    """The slices of one key."""

    key: str
    rows: list[SliceRow]


def metric_rows(audit: AuditReport, beside: Mapping[str, MetricValue]) -> list[MetricRow]:
    """Every metric with its interval, the champion's beside it, and the limit of its gate.

    Args:
        audit: of the candidate.
        beside: metric -> value of the champion.
    """
    rows = []
    for name, candidate in audit.metrics.items():
        champion = beside.get(name)
        limit = _limit(audit.gates, name)
        marks = [Mark("candidate", "candidate", candidate)] + ([Mark("champion", "champion", champion)] if champion else [])
        bounds = span((mark.value for mark in marks), [] if limit is None else [limit])
        rows.append(
            MetricRow(name, candidate, champion, limit, name in LOWER_IS_BETTER, dot_plot(marks, bounds, limit=limit, labelled=True))
        )
    return rows


def _limit(gates: Iterable[Gate], metric: str) -> float | None:
    names = {f"{kind}/{metric}" for kind in _LIMIT_GATES}
    return next((gate.limit for gate in gates if gate.name in names), None)


def slice_metric(audit: AuditReport, spec: AuditSpec | None) -> str:
    """The metric that slices are drawn by: one with a floor for slices, else the one that candidates are compared by."""
    wanted = [*(spec.slice_floors if spec else ()), *([spec.better_metric] if spec else ()), "auc", *audit.metrics]
    return next((name for name in wanted if name in audit.metrics), "")


def slice_range(audit: AuditReport, spec: AuditSpec | None, *, champion: AuditReport | None = None) -> tuple[float, float]:
    """The scale that all slices are drawn on: of the judged ones, so that the wide intervals of tiny ones do not squeeze the others."""
    metric = slice_metric(audit, spec)
    parts = (*audit.slices, *(champion.slices if champion else ()))
    judged = [part for part in parts if part.judged] or parts
    drawn = [part.metrics[metric] for part in judged if metric in part.metrics]
    return span(drawn, _known(spec.slice_floors.get(metric) if spec else None))


def slice_groups(audit: AuditReport, spec: AuditSpec | None, *, champion: AuditReport | None = None) -> list[SliceGroup]:
    """Slices by key; within a key the judged ones first, the worst of them on top.

    Args:
        audit: of the candidate.
        spec: of the use case.
        champion: audit of the champion, whose slices are laid beside.
    """
    metric, bounds = slice_metric(audit, spec), slice_range(audit, spec, champion=champion)
    theirs = {(part.key, part.value): part.metrics.get(metric) for part in (champion.slices if champion else ())}
    limit = spec.slice_floors.get(metric) if spec else None
    groups: dict[str, list[SliceRow]] = {}
    for part in audit.slices:
        groups.setdefault(part.key, []).append(_slice_row(part, metric, limit, bounds=bounds, champion=theirs.get((part.key, part.value))))
    for rows in groups.values():
        rows.sort(key=lambda row: (not row.part.judged, row.rank))
    return [SliceGroup(key, rows) for key, rows in groups.items()]


def _slice_row(
    part: SliceReport, metric: str, limit: float | None, *, bounds: tuple[float, float], champion: MetricValue | None
) -> SliceRow:
    value = part.metrics.get(metric, MetricValue(value=None, note="not measured"))
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    rank = math.inf if value.value is None else sign * value.value
    below = part.judged and limit is not None and rank < sign * limit
    marks = [Mark("candidate", "candidate", value)] + ([Mark("champion", "champion", champion)] if champion else [])
    return SliceRow(part, metric, value, champion, below, rank, dot_plot(marks, bounds, limit=limit))


def _known(limit: float | None) -> list[float]:
    return [] if limit is None else [limit]


def open_gates(gates: Sequence[Gate]) -> list[Gate]:
    """Required gates that did not pass: what an override would be of."""
    return [gate for gate in gates if gate.required and gate.status != "passed"]
