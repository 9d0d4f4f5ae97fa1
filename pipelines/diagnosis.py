"""What stopped a run, as the document that `tandem why --json` prints (docs/json.md). Nothing heavy is imported."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.core.errors import TandemError
from components.core.measurements import AuditReport, CompileReport, Gate, WorstRow
from components.ingest.digest import data_digest
from pipelines.config import find_use_case, load_config
from pipelines.journal import RunRecord, read_runs
from pipelines.next_run import forecast, plan_next_run
from pipelines.run_facts import CandidateFacts, RunFacts

UNFINISHED = ("failed", "interrupted", "skipped", "waiting", "running")


def diagnose(run: RunFacts, *, home: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Why a run ended as it did, and what the next one would execute.

    Args:
        run: what was measured.
        home: of the run.
        overrides: `key=value` of the next run, as in `tandem run --set`.

    Returns:
        The document of schema version 1; docs/json.md describes each key.
    """
    record = run.record
    return {
        "schema_version": 1,
        "run": {key: getattr(record, key) for key in ("id", "use_case", "use_case_path", "state", "started", "seconds")},
        "failure": _failure(record, home),
        "unfinished_stages": [{"name": stage.name, "state": stage.state} for stage in record.stages if stage.state in UNFINISHED],
        "candidates": [_candidate(candidate) for candidate in run.candidates],
        "push": run.push.model_dump(mode="json", exclude={"schema_version"}) if run.push else None,
        "missing_artifacts": list(run.missing),
        "next_run": next_run(record, home=home, overrides=overrides),
    }


def _failure(record: RunRecord, home: Path) -> dict[str, Any] | None:
    """The error that ended the run; a run that merely blessed nothing has none."""
    if record.state not in ("failed", "interrupted", "died"):
        return None
    stage = record.error_stage or next((entry.name for entry in record.stages if entry.state in ("failed", "interrupted")), "")
    log = home / "runs" / record.id / "logs" / f"{stage or 'compile'}.log"
    return {"stage": stage or None, "error": record.error, "log": str(log) if log.is_file() else None}


def _candidate(candidate: CandidateFacts) -> dict[str, Any]:
    audit, parity = candidate.audit, candidate.parity
    open_gates = [gate for gate in audit.gates if gate.status != "passed"] if audit else []
    return {
        "framework": candidate.framework,
        "blessed": audit.blessed if audit else None,
        "version": candidate.registration.version if candidate.registration else None,
        "stopped_by": [gate.name for gate in open_gates if gate.required],
        "gates": [_gate(gate, candidate) for gate in open_gates],
        "parity_passed": parity.passed if parity else None,
        "parity_reason": parity.reason if parity else "",
        "parity_worst_row": _worst_row(parity.worst_row) if parity and not parity.passed and parity.worst_row else None,
        "registration_reason": candidate.registration.reason if candidate.registration else "",
        "not_done": list(audit.not_done) if audit else [],
    }


def _gate(gate: Gate, candidate: CandidateFacts) -> dict[str, Any]:
    """A gate that did not pass, with the slices or buckets behind it."""
    return {
        **gate.model_dump(mode="json"),
        "slices": _slices_behind(gate, candidate.audit),
        "buckets": _buckets_behind(gate, candidate.compiled),
    }


def _slices_behind(gate: Gate, audit: AuditReport | None) -> list[dict[str, Any]]:
    """Judged slices whose metric is undefined or beyond the limit, the worst first."""
    kind, _, metric = gate.name.partition("/")
    if kind != "slice_floor" or audit is None or gate.status != "failed":
        return []
    metric = metric.split("/")[0]
    found = []
    for report in audit.slices:
        measured = report.metrics.get(metric)
        value = measured.value if measured else None
        if report.judged and (value is None or (gate.limit is not None and value < gate.limit)):
            found.append({"key": report.key, "value": report.value, "size": report.size, "positives": report.positives, "metric": value})
    return sorted(found, key=lambda entry: (entry["metric"] is not None, entry["metric"] or 0.0))


def _buckets_behind(gate: Gate, compiled: CompileReport | None) -> list[dict[str, Any]]:
    """Batch buckets that broke the service level or the numerics."""
    if compiled is None or gate.status != "failed":
        return []
    if gate.name == "service_level":
        broken = [bucket for bucket in compiled.buckets if bucket.within_slo is False]
    elif gate.name == "xla_numerics":
        differences = [(bucket, bucket.largest_absolute_difference) for bucket in compiled.buckets]
        broken = [bucket for bucket, difference in differences if difference is None or difference > compiled.xla_tolerance]
    else:
        return []
    keys = ("batch", "plain_p99_ms", "xla_p99_ms", "largest_absolute_difference")
    return [{key: getattr(bucket, key) for key in keys} for bucket in broken]


def _worst_row(row: WorstRow) -> dict[str, Any]:
    return row.model_dump(mode="json")


def next_run(record: RunRecord, *, home: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """Which stages `tandem run` of the same use case would execute now; `problem` says why that cannot be told."""
    try:
        config = load_config(find_use_case(record.use_case_path), overrides=overrides)
        history = read_runs(config.runs_folder, "training")
        plan = plan_next_run(config, digest=data_digest(config.data_path), runs=[record, *history])
    except (TandemError, OSError) as error:
        return {"problem": f"the next run could not begin: {error}", "home": None, "stages": []}
    stages = forecast(plan, record, history)
    elsewhere = config.home != home
    return {
        "problem": f"it would use another home: {config.home}; nothing of {home} is taken" if elsewhere else "",
        "home": str(config.home),
        "stages": [{"name": stage.name, "decision": stage.decision, "reasons": list(stage.reasons)} for stage in stages],
    }
