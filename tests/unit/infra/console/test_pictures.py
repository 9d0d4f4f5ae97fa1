"""Plots and the lineage picture: where things are drawn, and that texts stay texts."""

import re
import xml.etree.ElementTree as ET

import pytest

from components.core.contracts import AuditSpec
from components.core.lineage import ArtifactNode, Edge, ExecutionNode, Lineage, VersionLineage
from components.core.measurements import AuditReport, Gate, MetricValue, SliceReport
from infra.console.lineage_picture import boxes_of, picture
from infra.console.measurements_view import metric_rows, slice_groups, slice_metric, slice_range
from infra.console.plots import Mark, dot_plot, span


def value(number, lower=None, upper=None):
    return MetricValue(value=number, lower=lower, upper=upper)


def test_a_plot_places_values_on_its_scale():
    drawn = ET.fromstring(str(dot_plot([Mark("candidate", "candidate", value(0.5, 0.25, 0.75))], (0.0, 1.0), limit=0.0)))
    (dot,) = drawn.iter("circle")
    assert float(dot.get("cx")) == 110.0
    whisker, *_ = [line for line in drawn.iter("line") if "whisker" in line.get("class")]
    assert (float(whisker.get("x1")), float(whisker.get("x2"))) == (59.0, 161.0)
    assert [float(line.get("x1")) for line in drawn.iter("line") if line.get("class") == "limit"] == [8.0]
    assert drawn.get("aria-label") == "candidate 0.5, interval 0.25 to 0.75; limit 0"


def test_an_undefined_value_is_told_and_not_drawn():
    drawn = ET.fromstring(str(dot_plot([Mark("<b>", "candidate", MetricValue(value=None))], span([]))))
    assert list(drawn.iter("circle")) == []
    assert drawn.get("aria-label") == "<b>: undefined"


def test_a_range_holds_every_mark_and_the_limit():
    low, high = span([value(0.5, 0.4, 0.6), value(None)], [0.8])
    assert (round(low, 3), round(high, 3)) == (0.376, 0.824)
    low, high = span([value(0.0)])
    assert low < 0 < high


def test_metrics_carry_the_limit_of_their_gate():
    gates = (Gate(name="ceiling/brier_score", status="passed", limit=0.2), Gate(name="slice_floor/auc", status="passed", limit=0.6))
    audit = AuditReport(
        framework="keras",
        digest="a" * 64,
        blessed=True,
        size=1,
        gates=gates,
        metrics={"auc": value(0.8), "brier_score": value(0.1)},
        champion_metrics={"auc": value(0.7)},
    )
    rows = {row.name: row for row in metric_rows(audit, audit.champion_metrics)}
    assert (rows["auc"].limit, rows["auc"].champion.value, rows["auc"].lower_is_better) == (None, 0.7, False)
    assert (rows["brier_score"].limit, rows["brier_score"].champion, rows["brier_score"].lower_is_better) == (0.2, None, True)


def test_slices_come_by_key_with_the_worst_judged_one_first():
    def part(key, name, auc, judged):
        return SliceReport(key=key, value=name, size=5, positives=1, judged=judged, metrics={"auc": value(auc)})

    slices = (
        part("Home", "rent", 0.7, True),
        part("Home", "owner", 0.5, True),
        part("Home", "x", 0.1, False),
        part("Job", "y", None, True),
    )
    audit = AuditReport(framework="keras", digest="a" * 64, blessed=True, size=1, gates=(), metrics={"auc": value(0.7)}, slices=slices)
    spec = AuditSpec(floors={"recall": 0.1}, slice_floors={"auc": 0.6})
    assert slice_metric(audit, spec) == slice_metric(audit, None) == "auc"
    home, job = slice_groups(audit, spec)
    assert [(row.part.value, row.below) for row in home.rows] == [("owner", True), ("rent", False), ("x", False)]
    assert [(row.part.value, row.below) for row in job.rows] == [("y", False)]
    assert [row.champion for row in (*home.rows, *job.rows)] == [None] * 4
    theirs = audit.model_copy(update={"slices": (part("Home", "owner", 0.9, True), part("Home", "gone", 0.2, True))})
    home, job = slice_groups(audit, spec, champion=theirs)
    assert [(row.part.value, row.champion and row.champion.value) for row in (*home.rows, *job.rows)] == [
        ("owner", 0.9), ("rent", None), ("x", None), ("y", None),
    ]  # fmt: skip
    assert "champion 0.9" in str(home.rows[0].plot)
    low, high = slice_range(audit, spec, champion=theirs)
    assert low < 0.2
    assert high > 0.9


@pytest.fixture
def lineage():
    """ingest -> transform -> registrar, which reads the data of ingest too."""
    executions = tuple(
        ExecutionNode(n, stage, "run", "COMPLETE", 0, 1500, {}) for n, stage in ((3, "registrar"), (2, "<i>"), (1, "ingest"))
    )
    artifacts = tuple(ArtifactNode(n, "Examples", f"/a/{n}", "LIVE", {}) for n in (1, 2))
    edges = (
        Edge(1, 1, "output", "x"),
        Edge(2, 1, "input", "x"),
        Edge(2, 2, "output", "y"),
        Edge(3, 1, "input", "x"),
        Edge(3, 2, "input", "y"),
    )
    return VersionLineage(Lineage(executions, artifacts, edges), "d" * 64, {}, {})


def test_the_picture_goes_from_the_data_to_the_decisions(lineage):
    boxes = boxes_of(lineage, reference="credit/3", digest="a" * 64, decisions=["request by tina", "approve by anna"])
    assert [(box.title, box.rests_on) for box in boxes] == [
        ("data", ()),
        ("ingest", ("data",)),
        ("<i>", ("e1",)),
        ("registrar", ("e2",)),
        ("credit/3", ("e3",)),
        ("2 decisions", ("model",)),
    ]
    drawn = str(picture(boxes))
    ET.fromstring(drawn)
    assert "<i>" not in drawn
    heights = [float(y) for y in re.findall(r'<rect[^>]* y="([\d.]+)"', drawn)]
    assert heights == sorted(heights)
    assert len(set(heights)) == 6
