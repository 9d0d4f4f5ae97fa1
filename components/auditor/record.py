"""Shows an audit in MLflow, under the same names in both frameworks."""

from pathlib import Path
from typing import Any

from components.core.contracts import METRICS
from components.core.measurements import AuditReport, MetricValue
from components.core.tracking import StageRun, slice_metric

SLICES_TABLE = "slices.json"


def log_audit(run: StageRun, report: AuditReport, audit_file: Path) -> None:
    """Logs metrics, intervals, slices, gates and `audit.json` to the run of the stage.

    Metrics are `eval/<metric>`, `eval/<metric>_lower`, `eval/<metric>_upper`, `eval/example_count` and `slice/<key>/<value>/<metric>`;
    undefined ones become tags. `slices.json` is a table with a row a slice, the same columns in both frameworks.
    """
    metrics: dict[str, float | None] = {"eval/example_count": float(report.size)}
    for name, value in report.metrics.items():
        metrics |= {f"eval/{name}": value.value, f"eval/{name}_lower": value.lower, f"eval/{name}_upper": value.upper}
    for found in report.slices:
        metrics |= {slice_metric(found.key, found.value, name): value.value for name, value in found.metrics.items()}
    run.log_metrics(metrics)
    run.set_tags({"blessed": str(report.blessed).lower(), "tree_digest": report.digest, "champion": report.champion or ""})
    run.log_file(audit_file)
    run.client.log_table(run.run_id, slices_table(report), SLICES_TABLE)


def slices_table(report: AuditReport) -> dict[str, list[Any]]:
    """Columns of `slices.json`: key, value, size, positives, judged, then value and bounds of each metric; the whole split is first."""
    table: dict[str, list[Any]] = {name: [] for name in ("key", "value", "size", "positives", "judged")}
    for name in METRICS:
        table |= {name: [], f"{name}_lower": [], f"{name}_upper": []}
    rows: list[tuple[tuple[Any, ...], dict[str, MetricValue]]] = [
        ((found.key, found.value, found.size, found.positives, found.judged), found.metrics) for found in report.slices
    ]
    if report.metrics:
        rows.insert(0, (("", "(whole)", report.size, report.positives, True), report.metrics))
    for described, metrics in rows:
        for column, cell in zip(("key", "value", "size", "positives", "judged"), described, strict=True):
            table[column].append(cell)
        for name in METRICS:
            value = metrics[name]
            for column, number in ((name, value.value), (f"{name}_lower", value.lower), (f"{name}_upper", value.upper)):
                table[column].append(number)
    return table
