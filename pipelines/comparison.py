"""Candidates of runs side by side, as the document that `tandem compare --json` prints (docs/json.md). Nothing heavy is imported."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from components.core.contracts import FRAMEWORKS
from components.core.errors import ConfigError
from components.core.measurements import AuditReport, SliceReport
from pipelines.journal import RunRecord, find_run, read_runs
from pipelines.mlflow_store import experiments_of
from pipelines.run_facts import CandidateFacts, RunFacts, audited_frameworks

DEFAULT_UI = "http://127.0.0.1:5000"
"""Where `tandem ui` listens when nothing else is asked for."""


def choose_runs(runs_folder: Path, wanted: Sequence[str]) -> list[RunRecord]:
    """The runs to compare: those asked for, or the newest that audited both frameworks, or else the newest that audited one.

    Raises:
        ConfigError: an unknown run, or none was audited yet.
    """
    if wanted:
        found = [find_run(runs_folder, run) for run in wanted]
        return list({record.id: record for record in found}.values())
    records = read_runs(runs_folder, "training")
    most = max((len(audited_frameworks(record)) for record in records), default=0)
    if most == 0:
        last = f"the newest run {records[0].id} {records[0].state}" if records else "there is no run"
        raise ConfigError(f"no audited run in {runs_folder} ({last}); start one with `tandem run USE_CASE`, or see `tandem why`")
    return [next(record for record in records if len(audited_frameworks(record)) == most)]


def compare(runs: Sequence[RunFacts], *, mlflow_store: Path, ui_address: str = DEFAULT_UI) -> dict[str, Any]:
    """Lays the candidates side by side.

    Args:
        runs: what was measured.
        mlflow_store: SQLite file of MLflow, asked for the experiments of the runs.
        ui_address: where the MLflow UI listens, without a slash at the end.

    Returns:
        The document of schema version 1; docs/json.md describes each key.
    """
    mlflow_runs = [candidate.run_id for run in runs for candidate in run.candidates if candidate.run_id]
    return {
        "schema_version": 1,
        "runs": [_run(run) for run in runs],
        "candidates": [_candidate(run, candidate) for run in runs for candidate in run.candidates],
        "slices": [{"pipeline_run_id": run.record.id, "metric": run.metric, "entries": slice_differences(run)} for run in runs],
        "mlflow_compare": compare_link(mlflow_runs, experiments_of(mlflow_store, mlflow_runs), ui_address),
    }


def _run(run: RunFacts) -> dict[str, Any]:
    push = None
    if run.push is not None:
        push = {key: getattr(run.push, key) for key in ("pushed", "framework", "name", "version", "digest", "path", "reason")}
    return {
        "id": run.record.id,
        "use_case": run.record.use_case,
        "state": run.record.state,
        "started": run.record.started,
        "seconds": run.record.seconds,
        "better_metric": run.metric,
        "push": push,
        "missing_artifacts": list(run.missing),
    }


def _candidate(run: RunFacts, candidate: CandidateFacts) -> dict[str, Any]:
    audit, registration, training = candidate.audit, candidate.registration, candidate.training
    pushed = run.push is not None and run.push.pushed and run.push.framework == candidate.framework
    return {
        "framework": candidate.framework,
        "model": registration.name if registration else None,
        "version": registration.version if registration else None,
        "run_id": candidate.run_id,
        "pipeline_run_id": run.record.id,
        "digest": candidate.digest,
        "blessed": audit.blessed if audit else None,
        "pushed": pushed,
        "stopped": _stopped(candidate),
        "eval_rows": audit.size if audit else None,
        **_metrics(audit),
        "gates": [gate.model_dump(mode="json") for gate in audit.gates] if audit else [],
        "not_done": list(audit.not_done) if audit else [],
        "checks": [check.model_dump(mode="json") for check in audit.checks] if audit else [],
        "champion": audit.champion if audit else None,
        "parity": _parity(candidate),
        **_compiled(candidate),
        "parameter_count": training.parameter_count if training else None,
        "training_seconds": training.seconds if training else None,
        "epochs_run": training.epochs_run if training else None,
        "best_epoch": training.best_epoch if training else None,
        "resumed_from_epoch": training.resumed_from_epoch if training else None,
        "precision": training.precision if training else None,
    }


def _stopped(candidate: CandidateFacts) -> str | None:
    """Why a candidate went no further, None when it was not stopped."""
    if candidate.parity is not None and not candidate.parity.passed:
        return candidate.parity.reason or "parity did not pass"
    if candidate.compiled is not None and not candidate.compiled.compiled:
        return candidate.compiled.reason or "it was not compiled"
    if candidate.registration is not None and not candidate.registration.registered:
        return candidate.registration.reason or "it was not registered"
    return None


def _metrics(audit: AuditReport | None) -> dict[str, Any]:
    metrics = audit.metrics if audit else {}
    champion = audit.champion_metrics if audit else {}
    return {
        "metrics": {name: metric.value for name, metric in metrics.items()},
        "intervals": {name: {"lower": metric.lower, "upper": metric.upper, "note": metric.note} for name, metric in metrics.items()},
        "champion_metrics": {name: metric.value for name, metric in champion.items()},
    }


def _parity(candidate: CandidateFacts) -> dict[str, Any] | None:
    report = candidate.parity
    if report is None:
        return None
    keys = ("passed", "tolerance", "largest_absolute_difference", "label_agreement", "eval_rows", "edge_rows", "reason")
    return {key: getattr(report, key) for key in keys}


def _compiled(candidate: CandidateFacts) -> dict[str, Any]:
    report = candidate.compiled
    if report is None:
        return {"size_bytes": None, "latency": [], "slo_p99_ms": None, "machine": None}
    return {
        "size_bytes": report.size_bytes,
        "latency": [bucket.model_dump(mode="json") for bucket in report.buckets],
        "slo_p99_ms": report.slo_p99_ms,
        "machine": report.machine,
    }


def slice_differences(run: RunFacts) -> list[dict[str, Any]]:
    """Slices of one run: judged ones first (they have the least size that the audit asks), those ahead that differ most in `run.metric`.

    Undefined differences come last among their kind, by size.

    Returns:
        Entries `{key, value, sizes, positives, values, difference}`; `sizes`, `positives`, `values` map framework -> number or None;
        `difference` is keras - lightning, None where one of them is undefined or there is one candidate only.
    """
    tables = {framework: _slices_of(run.candidate(framework)) for framework in FRAMEWORKS}
    tables = {framework: table for framework, table in tables.items() if table}
    names = list(dict.fromkeys(name for table in tables.values() for name in table))
    entries = [_slice_entry(name, tables, run.metric) for name in names]
    return sorted(entries, key=_by_difference)


def _slices_of(candidate: CandidateFacts | None) -> dict[tuple[str, str], SliceReport]:
    if candidate is None or candidate.audit is None:
        return {}
    return {(report.key, report.value): report for report in candidate.audit.slices}


def _slice_entry(name: tuple[str, str], tables: dict[Any, dict[tuple[str, str], SliceReport]], metric: str | None) -> dict[str, Any]:
    reports = {framework: table[name] for framework, table in tables.items() if name in table}
    measured = {framework: report.metrics.get(metric or "") for framework, report in reports.items()}
    values = {framework: value.value if value else None for framework, value in measured.items()}
    keras, lightning = (values.get(framework) for framework in FRAMEWORKS)
    return {
        "key": name[0],
        "value": name[1],
        "sizes": {framework: report.size for framework, report in reports.items()},
        "positives": {framework: report.positives for framework, report in reports.items()},
        "judged": any(report.judged for report in reports.values()),
        "values": values,
        "difference": None if keras is None or lightning is None else keras - lightning,
    }


def _by_difference(entry: dict[str, Any]) -> tuple[bool, bool, float, int]:
    difference = entry["difference"]
    return (not entry["judged"], difference is None, -abs(difference or 0.0), -max(entry["sizes"].values()))


def compare_link(run_ids: Sequence[str], experiments: Sequence[str], ui_address: str) -> str | None:
    """Address of MLflow's compare page; None for fewer than two runs or when their experiments are not known (the page needs both).

    The page reads JSON lists from the query behind the `#` (MLflow 3.17, `getCompareRunPageRoute`); percent signs keep terminals from
    cutting the address at a quote.
    """
    if len(set(run_ids)) < 2 or not experiments:
        return None
    return f"{ui_address}/#/compare-runs?runs={_json_list(run_ids)}&experiments={_json_list(experiments)}"


def _json_list(values: Sequence[str]) -> str:
    return quote("[" + ",".join(f'"{value}"' for value in dict.fromkeys(values)) + "]", safe="")
