"""The short model card of a version, in Markdown: made from the measurement files, no number from anywhere else."""

import dataclasses

from components.core.contracts import LOWER_IS_BETTER
from components.core.measurements import (
    AuditReport,
    BucketReport,
    CompileReport,
    Gate,
    MetricValue,
    ParityReport,
    SliceReport,
    TrainingFacts,
)

CARD_LIMIT = 5000
"""Characters that MLflow keeps of a description on PostgreSQL."""
_WORST_SLICES = 5
_GATES = 12
_CUT = "\n\n(cut here; the whole is in the version's `measurements/` folder)\n"


@dataclasses.dataclass(frozen=True)
class Facts:
    """The measurement files of one candidate."""

    audit: AuditReport
    compiled: CompileReport
    parity: ParityReport
    training: TrainingFacts


def write_card(facts: Facts, *, reference: str, dataset_digest: str) -> str:
    """Writes the card.

    Args:
        facts: what was measured.
        reference: `name/version`, for the line that loads it.
        dataset_digest: SHA-256 of the input data.

    Returns:
        Markdown of at most 5,000 characters.
    """
    sections = [
        _head(facts, dataset_digest),
        _metrics(facts.audit),
        _slices(facts.audit),
        _gates(facts.audit),
        _latency(facts.compiled),
        _loading(reference),
    ]
    card = "\n\n".join(section for section in sections if section) + "\n"
    if len(card) <= CARD_LIMIT:
        return card
    return card[: CARD_LIMIT - len(_CUT)].rsplit("\n", 1)[0] + _CUT


def worst_slices(audit: AuditReport, metric: str) -> list[SliceReport]:
    """Slices with a defined `metric`, the worst first; judged slices only, when there are any."""
    defined = [part for part in audit.slices if metric in part.metrics and part.metrics[metric].value is not None]
    judged = [part for part in defined if part.judged]
    sign = -1.0 if metric in LOWER_IS_BETTER else 1.0
    return sorted(judged or defined, key=lambda part: sign * (part.metrics[metric].value or 0.0))


def _head(facts: Facts, dataset_digest: str) -> str:
    audit, training = facts.audit, facts.training
    resumed = "" if training.resumed_from_epoch is None else f", resumed from epoch {training.resumed_from_epoch}"
    return "\n".join(
        [
            f"**{audit.framework} model, {'blessed' if audit.blessed else 'not blessed'}** by its audit on {audit.size} rows.",
            "",
            f"- SavedModel: {facts.compiled.size_bytes} bytes, tree digest `{audit.digest}`",
            f"- data: SHA-256 `{dataset_digest or 'unknown'}`",
            f"- training: {training.parameter_count} parameters, {training.epochs_run} epochs (best {training.best_epoch}{resumed}), "
            f"{training.steps} steps, seed {training.seed}, precision {training.precision}, device {training.device}; "
            f"MLflow run `{training.run_id}`",
            f"- exported against native scores: largest difference {_number(facts.parity.largest_absolute_difference)}, "
            f"{facts.parity.eval_rows} eval rows and {facts.parity.edge_rows} edge rows",
            f"- baseline: {audit.champion or 'none; nothing was compared with a production model'}",
        ]
    )


def _metrics(audit: AuditReport) -> str:
    if not audit.metrics:
        return "### Metrics\n\nnot measured"
    rows = [f"| {_cell(name)} | {_value(metric)} | {_interval(metric)} |" for name, metric in audit.metrics.items()]
    return "\n".join(["### Metrics on the eval split", "", "| metric | value | interval |", "|---|---|---|", *rows])


def _slices(audit: AuditReport) -> str:
    metric = "auc" if "auc" in audit.metrics else next(iter(audit.metrics), "")
    worst = worst_slices(audit, metric)[:_WORST_SLICES]
    if not worst:
        return ""
    rows = [
        f"| {_cell(part.key)} | {_cell(part.value)} | {part.size} | {_value(part.metrics[metric])} | {'yes' if part.judged else 'no'} |"
        for part in worst
    ]
    return "\n".join([f"### Worst slices by {metric}", "", f"| key | value | rows | {metric} | judged |", "|---|---|---|---|---|", *rows])


def _gates(audit: AuditReport) -> str:
    counts = {status: sum(gate.status == status for gate in audit.gates) for status in ("passed", "failed", "not checked")}
    lines = ["### Gates", "", ", ".join(f"{count} {status}" for status, count in counts.items() if count) or "none"]
    open_gates = [gate for gate in audit.gates if gate.status != "passed"]
    lines += ["", *(_gate(gate) for gate in open_gates[:_GATES])] if open_gates else []
    if len(open_gates) > _GATES:
        lines.append(f"- and {len(open_gates) - _GATES} more in `measurements/audit.json`")
    lines += [f"- not done: {_cell(text)}" for text in audit.not_done[:_GATES]]
    return "\n".join(lines)


def _gate(gate: Gate) -> str:
    limit = "" if gate.limit is None else f" (measured {_number(gate.value)}, limit {_number(gate.limit)})"
    detail = f": {_cell(gate.detail[:200])}" if gate.detail else ""
    return f"- {_cell(gate.name)}: **{gate.status}**{limit}{detail}"


def _latency(compiled: CompileReport) -> str:
    if not compiled.buckets:
        return "### Latency\n\nnot measured"
    head = [
        f"### Latency, service level p99 <= {_number(compiled.slo_p99_ms)} ms",
        "",
        "| rows a call | plain p50 / p99 ms | XLA p50 / p99 ms | within |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *(_bucket(bucket) for bucket in compiled.buckets)])


def _bucket(bucket: BucketReport) -> str:
    within = {True: "yes", False: "no", None: "not judged"}[bucket.within_slo]
    plain = f"{_number(bucket.plain_p50_ms)} / {_number(bucket.plain_p99_ms)}"
    xla = f"{_number(bucket.xla_p50_ms)} / {_number(bucket.xla_p99_ms)}"
    return f"| {bucket.batch} | {plain} | {xla} | {within} |"


def _loading(reference: str) -> str:
    return "\n".join(
        [
            "### Load",
            "",
            "```python",
            "import mlflow",
            f'model = mlflow.pyfunc.load_model("models:/{reference}")',
            'model.predict(rows)["scores"]  # rows: a DataFrame, a column a raw feature',
            "```",
        ]
    )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"


def _value(metric: MetricValue) -> str:
    note = f" ({_cell(metric.note)})" if metric.note else ""
    return f"{_number(metric.value)}{note}"


def _interval(metric: MetricValue) -> str:
    return "undefined" if metric.lower is None or metric.upper is None else f"{_number(metric.lower)} to {_number(metric.upper)}"


def _cell(text: str) -> str:
    """Text of the data inside a table: it must not end the cell, start markup or another line."""
    plain = " ".join(text.split())
    # MLflow's page shows a backslash before an angle bracket as it stands, so these become entities.
    entities = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
    return "".join(entities.get(character) or (f"\\{character}" if character in "\\`*_[]|#" else character) for character in plain)
