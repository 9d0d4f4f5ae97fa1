"""The audit of one candidate: predictions, TFMA, intervals, gates, report."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import apache_beam as beam
import numpy as np

from components.auditor import evaluation, gates, predictions
from components.auditor.bootstrap import bootstrap_intervals
from components.auditor.checks.gather import Material, gather
from components.auditor.slices import WHOLE, Points, SliceId, SliceRows, decision_changes, metric_values
from components.core import files
from components.core.contracts import AuditSpec, Champion, DataSpec, Framework, ServingSpec
from components.core.errors import AuditError
from components.core.measurements import (
    AuditReport,
    CompileReport,
    DecisionChange,
    Gate,
    MetricValue,
    ParityReport,
    SliceReport,
    TrainingFacts,
)

Pipeline = contextlib.AbstractContextManager[beam.Pipeline]
SAME_MODEL = "the candidate is the champion (same tree digest), and a model is not compared with itself"
NO_CHAMPION = "there is no champion to compare with"


@dataclasses.dataclass(frozen=True)
class Candidate:
    """What is audited, and against what.

    Attributes:
        framework: of the candidate.
        model: folder of its SavedModel.
        train_split, eval_split: folders of the splits' TFRecord files (raw tf.Examples).
        training: what its training wrote down.
        parity, compiled: what was measured before.
        data, audit, serving: the specs.
        champion: the baseline, None without one.
    """

    framework: Framework
    model: Path
    train_split: Path
    eval_split: Path
    training: TrainingFacts
    parity: ParityReport
    compiled: CompileReport
    data: DataSpec
    audit: AuditSpec
    serving: ServingSpec
    champion: Champion | None = None

    @property
    def stopped(self) -> str:
        """Why the candidate was stopped before, or empty."""
        return gates.stopped_reason(self.parity, self.compiled)

    @property
    def baseline(self) -> Champion | None:
        """The champion where it is another model than the candidate."""
        return self.champion if self.champion is not None and self.champion.digest != self.compiled.tree_digest else None


def audit_candidate(
    candidate: Candidate, pipeline: Callable[[], Pipeline], *, evaluation_path: Path, predictions_path: Path
) -> AuditReport:
    """Audits one candidate and writes its ModelEvaluation and predictions.

    Args:
        candidate: what is audited.
        pipeline: makes the Beam pipeline that TFMA runs in; not called for a stopped candidate.
        evaluation_path: folder of the ModelEvaluation artifact; for a stopped candidate it is made and stays empty.
        predictions_path: folder of the Predictions artifact; likewise.

    Raises:
        AuditError: no threshold, inputs that do not belong together, a model or champion that is not what its digest says,
            or eval rows that cannot be scored.
    """
    _check(candidate)
    for path in (evaluation_path, predictions_path):
        path.mkdir(parents=True, exist_ok=True)
    if candidate.stopped:
        return _stopped_report(candidate)
    _check_digests(candidate)
    split = predictions.read_eval_split(candidate.eval_split, candidate.data)
    baseline = candidate.baseline
    model = predictions.LoadedModel(candidate.model, candidate.data)
    scored = predictions.predict(split, candidate.data, candidate=model, champion=baseline.path if baseline else None)
    predictions.write_predictions(predictions_path, scored)
    slices = SliceRows.of(scored, candidate.audit)
    config = evaluation.build_eval_config(
        candidate.data, candidate.audit, judged=[(metric, *found) for metric, found in slices.judged], with_champion=baseline is not None
    )
    evaluation.run_tfma(scored, config, pipeline(), output_path=str(evaluation_path))
    report = _report(candidate, scored, slices, evaluation_path=str(evaluation_path))
    _check_against_tfma(report, slices, evaluation.read_failures(str(evaluation_path)))
    material = Material(candidate.model, model, split.examples, candidate.train_split, candidate.training)
    return report.model_copy(update=gather(scored, candidate.data, candidate.audit, material))


def _check(candidate: Candidate) -> None:
    audit, parity, compiled, serving = candidate.audit, candidate.parity, candidate.compiled, candidate.serving
    if not audit.floors and not audit.ceilings:
        raise AuditError("auditor: the audit has no floors and no ceilings, so it would audit nothing; give at least one in pipeline.toml")
    for name, report in (("parity.json", parity), ("compile.json", compiled), ("training_facts.json", candidate.training)):
        if report.framework != candidate.framework:
            raise AuditError(
                f"auditor: {name} is of {report.framework}, the candidate of {candidate.framework}; wire one framework's stages"
            )
    limits = {
        "parity tolerance": (parity.tolerance, serving.parity_tolerance),
        "XLA tolerance": (compiled.xla_tolerance, serving.xla_tolerance),
        "p99 limit in ms": (compiled.slo_p99_ms, serving.p99_ms),
    }
    for name, (used, asked) in limits.items():
        if used > asked:
            raise AuditError(f"auditor: the {name} was {used:g} when it was measured, pipeline.toml says {asked:g}; run those stages again")


def _check_digests(candidate: Candidate) -> None:
    found = files.tree_digest(candidate.model)
    if found != candidate.compiled.tree_digest:
        raise AuditError(
            f"auditor: the SavedModel in {candidate.model} has the digest {found}, compile.json says {candidate.compiled.tree_digest}; "
            "something changed it after the XLA stage, so run from that stage again"
        )
    champion = candidate.champion
    if champion is None:
        return
    found = files.tree_digest(champion.path) if Path(champion.path).is_dir() else "none, the folder is not there"
    if found != champion.digest:
        raise AuditError(
            f"auditor: champion {champion.name}/{champion.version} in {champion.path} does not verify: its digest is {found}, the registry "
            f"says {champion.digest}; restore the folder from a verified copy, or retire that version"
        )


def _valued(scores: np.ndarray, slices: SliceRows, points: Points, *, name: SliceId, audit: AuditSpec) -> dict[str, MetricValue]:
    rows = slices.rows[name]
    taken, positives = scores[rows].astype(np.float64), slices.positives[rows]
    intervals = bootstrap_intervals(taken, positives, audit, name="\x1f".join(name))
    return metric_values(points[name], intervals, scores=taken, positives=positives)


def _report(candidate: Candidate, scored: predictions.Predictions, slices: SliceRows, *, evaluation_path: str) -> AuditReport:
    audit = candidate.audit
    points = evaluation.read_points(evaluation_path)
    for name, rows in slices.rows.items():
        if points.get(name, {}).get("example_count") != len(rows):
            raise AuditError(
                f"auditor: TFMA and the predictions differ in the rows of slice {'='.join(name) or 'whole'}; run the stage again"
            )
    own = scored.scores[:, scored.positive]
    metrics = _valued(own, slices, points, name=WHOLE, audit=audit)
    reports = [
        SliceReport(
            key=name[0],
            value=name[1],
            size=len(rows),
            positives=int(slices.positives[rows].sum()),
            judged=bool(audit.slice_floors) and len(rows) >= audit.min_slice_size,
            metrics=_valued(own, slices, points, name=name, audit=audit),
        )
        for name, rows in slices.rows.items()
        if name
    ]
    champion_metrics: dict[str, MetricValue] = {}
    changes: tuple[DecisionChange, ...] = ()
    if scored.champion_scores is not None:
        theirs = scored.champion_scores[:, scored.positive]
        changes = decision_changes(own, theirs, slices.rows, threshold=audit.operating_threshold)
        champion_points = evaluation.read_points(evaluation_path, champion=True)
        champion_metrics = _valued(scored.champion_scores[:, scored.positive], slices, champion_points, name=WHOLE, audit=audit)
    found = (*_earlier_gates(candidate), *_threshold_gates(candidate, metrics, champion_metrics, reports=reports, slices=slices))
    undone = [f"{gate.name}: {gate.detail}" for gate in found if gate.status == "not checked"]
    return AuditReport(
        framework=candidate.framework,
        digest=candidate.compiled.tree_digest,
        blessed=gates.blessed(found),
        size=scored.size,
        positives=int(slices.positives.sum()),
        gates=found,
        metrics=metrics,
        slices=tuple(reports),
        champion=_champion_name(candidate.champion),
        champion_metrics=champion_metrics,
        not_done=(*undone, *slices.undefined),
        operating_threshold=audit.operating_threshold,
        decision_changes=changes,
    )


def _earlier_gates(candidate: Candidate) -> tuple[Gate, ...]:
    return (gates.parity_gate(candidate.parity), *gates.compile_gates(candidate.compiled))


def _threshold_gates(
    candidate: Candidate,
    metrics: dict[str, MetricValue],
    champion_metrics: dict[str, MetricValue],
    *,
    reports: Sequence[SliceReport],
    slices: SliceRows,
) -> tuple[Gate, ...]:
    def make(kind: str, metric: str, limit: float) -> Gate:
        if kind == "floor":
            return gates.floor_gate(metric, metrics[metric], limit)
        if kind == "ceiling":
            return gates.ceiling_gate(metric, metrics[metric], limit)
        if kind == "slice_floor":
            judged = {name for judged_metric, name in slices.judged if judged_metric == metric}
            taken = [report for report in reports if (report.key, report.value) in judged]
            return gates.slice_floor_gate(metric, limit, reports, judged=taken, min_size=candidate.audit.min_slice_size)
        if not champion_metrics:
            reason = NO_CHAMPION if candidate.champion is None else SAME_MODEL
            return gates.unchecked(f"change/{metric}", reason, required=False, limit=limit)
        name = _champion_name(candidate.champion) or ""
        return gates.change_gate(metric, limit, candidate=metrics[metric], champion=champion_metrics[metric], name=name)

    return gates.asked_gates(candidate.audit, make)


def _stopped_report(candidate: Candidate) -> AuditReport:
    reason = candidate.stopped
    earlier = _earlier_gates(candidate)
    kept = tuple(gate if gate.name == "parity" else gates.unchecked(gate.name, reason, limit=gate.limit) for gate in earlier)
    asked = gates.asked_gates(candidate.audit, lambda kind, metric, limit: gates.unchecked(f"{kind}/{metric}", reason, limit=limit))
    found = (*kept, *asked)
    return AuditReport(
        framework=candidate.framework,
        digest=candidate.compiled.tree_digest,
        blessed=False,
        size=0,
        gates=found,
        champion=_champion_name(candidate.champion),
        not_done=tuple(f"{gate.name}: {gate.detail}" for gate in found if gate.status == "not checked"),
        operating_threshold=candidate.audit.operating_threshold,
    )


def _champion_name(champion: Champion | None) -> str | None:
    return f"{champion.name}/{champion.version}" if champion is not None else None


def _check_against_tfma(report: AuditReport, slices: SliceRows, failures: set[tuple[SliceId, str]]) -> None:
    """TFMA validates the same thresholds on its own; a gate must not pass where TFMA says no."""
    status = {gate.name: gate.status for gate in report.gates}
    judged = set(slices.judged)
    for name, metric in failures:
        kinds = ("floor", "ceiling", "change") if name == WHOLE else ("slice_floor",)
        found = [status[f"{kind}/{metric}"] for kind in kinds if f"{kind}/{metric}" in status]
        if "failed" not in found and (name == WHOLE or (metric, name) in judged):
            raise AuditError(
                f"auditor: TFMA's validation fails {metric} on {'='.join(name) or 'the whole eval split'}, the gates do not; "
                "this is a fault of the auditor, report it with audit.json and the evaluation artifact"
            )
