"""Turns measurements into gates, in a fixed order; "not checked" is never a pass."""

import math
from collections.abc import Callable, Sequence

from components.core.contracts import LOWER_IS_BETTER, AuditSpec
from components.core.measurements import CompileReport, Gate, GateStatus, MetricValue, ParityReport, SliceReport

Metrics = dict[str, MetricValue]


def stopped_reason(parity: ParityReport, compiled: CompileReport) -> str:
    """Why the candidate was stopped before the audit; empty when it was not."""
    if not parity.passed:
        return f"the candidate was stopped: exported and native scores differ ({parity.reason or 'no reason recorded'})"
    if not compiled.compiled:
        return f"the candidate was stopped: it was not compiled ({compiled.reason or 'no reason recorded'})"
    return ""


def parity_gate(parity: ParityReport) -> Gate:
    """Exported against native scores."""
    worst = f"; worst row: {parity.worst_row.source} {parity.worst_row.index}" if parity.worst_row else ""
    return Gate(
        name="parity",
        status=_status(parity.passed),
        value=parity.largest_absolute_difference,
        limit=parity.tolerance,
        detail=f"largest absolute difference of exported and native scores on {parity.eval_rows} eval and {parity.edge_rows} edge rows, "
        f"label agreement {parity.label_agreement:.2%}{worst}" + (f"; {parity.reason}" if parity.reason else ""),
        remedy=""
        if parity.passed
        else "compare the worst row of parity.json in both frameworks; an op that is lowered wrongly is in its ops",
    )


def compile_gates(compiled: CompileReport) -> tuple[Gate, Gate, Gate]:
    """XLA numerics, plain signatures without XLA, service level."""
    differences = [bucket.largest_absolute_difference for bucket in compiled.buckets]
    finite = [difference for difference in differences if difference is not None]
    judged = [bucket for bucket in compiled.buckets if bucket.within_slo is not None]
    slowest = max(judged, key=lambda bucket: bucket.plain_p99_ms, default=None)
    return (
        Gate(
            name="xla_numerics",
            status=_status(compiled.xla_numerics_passed),
            value=max(finite) if finite and len(finite) == len(differences) else None,
            limit=compiled.xla_tolerance,
            detail=f"largest absolute difference of XLA and plain scores over {len(differences)} batch buckets",
            remedy=_remedy(
                compiled.xla_numerics_passed, "find the bucket in compile.json; serve it without XLA or change the op that differs"
            ),
        ),
        Gate(
            name="plain_without_xla",
            status=_status(compiled.plain_without_xla_passed),
            detail="the plain signatures answer in a fresh process without XLA and without torch",
            remedy=_remedy(
                compiled.plain_without_xla_passed, "read the reason in compile.json; the export must hold plain TensorFlow ops only"
            ),
        ),
        Gate(
            name="service_level",
            status=_status(compiled.slo_passed),
            value=slowest.plain_p99_ms if slowest else None,
            limit=compiled.slo_p99_ms,
            detail=f"p99 latency in ms of serving_default; slowest judged bucket: {slowest.batch} rows"
            if slowest
            else "no bucket was judged",
            remedy=_remedy(compiled.slo_passed, "make the model smaller, lower slo_max_batch, or raise p99_ms in [slo]"),
        ),
    )


def floor_gate(metric: str, value: MetricValue, floor: float) -> Gate:
    """`value` must be at least `floor`; undefined fails."""
    passed = value.value is not None and value.value >= floor
    return Gate(
        name=f"floor/{metric}",
        status=_status(passed),
        value=value.value,
        limit=floor,
        detail=f"{metric} on the whole eval split is {_text(value)}, at least {floor:g} is asked",
        remedy="" if passed else f"improve the model's {metric}, or give a reason to lower its floor in pipeline.toml",
    )


def ceiling_gate(metric: str, value: MetricValue, ceiling: float) -> Gate:
    """`value` must be at most `ceiling`; undefined fails."""
    passed = value.value is not None and value.value <= ceiling
    return Gate(
        name=f"ceiling/{metric}",
        status=_status(passed),
        value=value.value,
        limit=ceiling,
        detail=f"{metric} on the whole eval split is {_text(value)}, at most {ceiling:g} is asked",
        remedy="" if passed else f"improve the model's {metric}, or give a reason to raise its ceiling in pipeline.toml",
    )


def slice_floor_gate(metric: str, floor: float, slices: Sequence[SliceReport], *, judged: Sequence[SliceReport], min_size: int) -> Gate:
    """Each judged slice must reach `floor`; the worst is named. An undefined value on a judged slice fails."""
    if not judged:
        largest = max((found.size for found in slices), default=0)
        reason = (
            f"no slice has both {min_size} rows and a defined {metric}; the largest slice has {largest} rows" if slices else "no slice keys"
        )
        return Gate(name=f"slice_floor/{metric}", status="not checked", required=False, limit=floor, detail=reason)
    worst = min(judged, key=lambda found: _or_lowest(found.metrics[metric].value))
    value = worst.metrics[metric]
    passed = value.value is not None and value.value >= floor
    return Gate(
        name=f"slice_floor/{metric}",
        status=_status(passed),
        value=value.value,
        limit=floor,
        detail=f"worst of {len(judged)} judged slices: {worst.key}={worst.value} ({worst.size} rows), {metric} is {_text(value)}, "
        f"at least {floor:g} is asked",
        remedy=""
        if passed
        else f"look at the rows with {worst.key}={worst.value} in predictions.parquet; more or better data for them helps",
    )


def change_gate(metric: str, least: float, *, candidate: MetricValue, champion: MetricValue, name: str) -> Gate:
    """The candidate may be worse than the champion by at most `-least`; undefined on either side fails."""
    change = improvement(metric, candidate.value, champion.value)
    passed = change is not None and change >= least
    return Gate(
        name=f"change/{metric}",
        status=_status(passed),
        value=change,
        limit=least,
        detail=f"{metric}: candidate {_text(candidate)}, champion {name} {_text(champion)}; the improvement must be at least {least:g}",
        remedy="" if passed else f"keep the champion, or improve the candidate's {metric}",
    )


def improvement(metric: str, candidate: float | None, champion: float | None) -> float | None:
    """Candidate minus champion, the other way round for metrics where lower is better; None when either is undefined."""
    if candidate is None or champion is None:
        return None
    return champion - candidate if metric in LOWER_IS_BETTER else candidate - champion


def unchecked(name: str, reason: str, *, required: bool = True, limit: float | None = None) -> Gate:
    """A gate that could not be checked."""
    remedy = "remove the cause above and run again" if required else ""
    return Gate(name=name, status="not checked", required=required, limit=limit, detail=reason, remedy=remedy)


def asked_gates(audit: AuditSpec, make: Callable[[str, str, float], Gate]) -> tuple[Gate, ...]:
    """One gate for each threshold of the AuditSpec, in the order floor, ceiling, slice_floor, change; `make` gets (kind, metric, limit)."""
    asked = {"floor": audit.floors, "ceiling": audit.ceilings, "slice_floor": audit.slice_floors, "change": audit.change}
    return tuple(make(kind, metric, limit) for kind, limits in asked.items() for metric, limit in limits.items())


def blessed(gates: Sequence[Gate]) -> bool:
    """Every required gate passed, and there was at least one."""
    required = [gate for gate in gates if gate.required]
    return bool(required) and all(gate.status == "passed" for gate in required)


def _status(passed: bool | None) -> GateStatus:
    if passed is None:
        return "not checked"
    return "passed" if passed else "failed"


def _remedy(passed: bool | None, remedy: str) -> str:
    return "" if passed else remedy


def _text(value: MetricValue) -> str:
    return f"{value.value:.6g}" if value.value is not None else (value.note or "undefined")


def _or_lowest(value: float | None) -> float:
    return -math.inf if value is None else value
