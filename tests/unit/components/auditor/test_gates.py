import pytest

from components.auditor import gates
from components.core.contracts import METRICS, AuditSpec
from components.core.measurements import Gate, MetricValue, SliceReport


def value(number: float | None, note: str = "") -> MetricValue:
    return MetricValue(value=number, note=note)


def slice_report(name: str, auc: float | None, size: int = 100) -> SliceReport:
    return SliceReport(key="Home", value=name, size=size, positives=10, judged=True, metrics={"auc": value(auc)})


@pytest.mark.parametrize(("number", "status"), [(0.8, "passed"), (0.79999, "failed"), (0.9, "passed"), (None, "failed")])
def test_floor(number, status):
    gate = gates.floor_gate("auc", value(number, "undefined: 1 of 9 scores are not finite" if number is None else ""), 0.8)
    assert (gate.name, gate.status, gate.required, gate.value, gate.limit) == ("floor/auc", status, True, number, 0.8)
    assert bool(gate.remedy) == (status == "failed")
    assert ("not finite" in gate.detail) == (number is None)


@pytest.mark.parametrize(("number", "status"), [(0.2, "passed"), (0.20001, "failed"), (0.1, "passed"), (None, "failed")])
def test_ceiling(number, status):
    assert gates.ceiling_gate("brier_score", value(number), 0.2).status == status


@pytest.mark.parametrize(
    ("metric", "candidate", "champion", "least", "change", "status"),
    [
        ("auc", 0.75, 0.5, 0.0, 0.25, "passed"),
        ("auc", 0.75, 0.75, 0.0, 0.0, "passed"),
        ("auc", 0.5, 0.75, -0.25, -0.25, "passed"),
        ("auc", 0.5, 0.75, -0.125, -0.25, "failed"),
        ("brier_score", 0.125, 0.25, 0.125, 0.125, "passed"),
        ("brier_score", 0.25, 0.125, 0.0, -0.125, "failed"),
        ("auc", None, 0.75, -0.5, None, "failed"),
        ("auc", 0.75, None, -0.5, None, "failed"),
    ],
)
def test_change(metric, candidate, champion, least, change, status):
    gate = gates.change_gate(metric, least, candidate=value(candidate), champion=value(champion), name="m/3")
    assert (gate.status, gate.value, gate.limit) == (status, change, least)
    assert "m/3" in gate.detail


def test_slice_floor_names_the_worst_judged_slice():
    judged = [slice_report("owner", 0.8), slice_report("rent", 0.6)]
    gate = gates.slice_floor_gate("auc", 0.7, [*judged, slice_report("tiny", 0.1, 5)], judged=judged, min_size=100)
    assert (gate.status, gate.value) == ("failed", 0.6)
    assert "Home=rent" in gate.detail
    assert "Home=rent" in gate.remedy


def test_slice_floor_passes_at_the_limit_and_fails_where_undefined():
    judged = [slice_report("owner", 0.8), slice_report("rent", 0.7)]
    assert gates.slice_floor_gate("auc", 0.7, judged, judged=judged, min_size=100).status == "passed"
    broken = [*judged, slice_report("broken", None)]
    gate = gates.slice_floor_gate("auc", 0.7, broken, judged=broken, min_size=100)
    assert gate.status == "failed"
    assert "broken" in gate.detail


def test_slice_floor_without_a_judged_slice_is_not_checked():
    gate = gates.slice_floor_gate("auc", 0.7, [slice_report("tiny", 0.1, 5)], judged=[], min_size=100)
    assert (gate.status, gate.required, gate.value) == ("not checked", False, None)
    assert "largest slice has 5 rows" in gate.detail


def test_gates_come_in_the_order_of_the_kinds():
    audit = AuditSpec(change={"auc": 0.0}, slice_floors={"recall": 0.1}, ceilings={"brier_score": 0.2}, floors={"auc": 0.5, "recall": 0.1})
    made = gates.asked_gates(audit, lambda kind, metric, limit: gates.unchecked(f"{kind}/{metric}", "why", limit=limit))
    assert [gate.name for gate in made] == ["floor/auc", "floor/recall", "ceiling/brier_score", "slice_floor/recall", "change/auc"]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([("passed", True), ("passed", True)], True),
        ([("passed", True), ("failed", True)], False),
        ([("passed", True), ("not checked", True)], False),
        ([("passed", True), ("not checked", False)], True),
        ([("not checked", False)], False),
        ([], False),
    ],
)
def test_blessed_only_if_every_required_gate_passed(found, expected):
    assert (
        gates.blessed([Gate(name=str(index), status=status, required=required) for index, (status, required) in enumerate(found)])
        is expected
    )


def test_earlier_gates(parity, compiled, good_model):
    assert gates.parity_gate(parity()).status == "passed"
    failed = gates.parity_gate(parity(passed=False))
    assert (failed.status, failed.value, failed.limit) == ("failed", 0.5, 1e-5)
    report = compiled(good_model)
    assert [(gate.name, gate.status) for gate in gates.compile_gates(report)] == [
        ("xla_numerics", "passed"),
        ("plain_without_xla", "passed"),
        ("service_level", "passed"),
    ]
    unknown = report.model_copy(update={"xla_numerics_passed": None, "slo_passed": False})
    assert [gate.status for gate in gates.compile_gates(unknown)] == ["not checked", "passed", "failed"]
    assert gates.compile_gates(report)[2].value == 2.0


def test_every_metric_can_be_a_floor():
    assert all(gates.floor_gate(metric, value(0.5), 0.5).status == "passed" for metric in METRICS)
