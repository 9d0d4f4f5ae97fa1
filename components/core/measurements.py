"""What stages measured: JSON files that lie beside a model and are keyed by its digest. Reports quote them, nothing else."""

from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field

from components.core.contracts import Contract, Framework
from components.core.files import write_bytes

_Measurement = TypeVar("_Measurement", bound=Contract)
GateStatus = Literal["passed", "failed", "not checked"]


class Gate(Contract):
    """One criterion of an audit.

    Attributes:
        name: e.g. `floor/auc`, `slice_floor/auc`, `parity`, `xla_numerics`, `service_level`, `change/auc`.
        status: `not checked` never counts as passed for a required gate.
        required: a required gate that did not pass keeps the candidate from being blessed.
        value: measured value, None where undefined.
        limit: the limit it was held against.
        detail: one line: what was compared, worst slice or row, why it was not checked.
        remedy: one line, empty when passed.
    """

    name: str
    status: GateStatus
    required: bool = True
    value: float | None = None
    limit: float | None = None
    detail: str = ""
    remedy: str = ""


class WorstRow(Contract):
    """The row with the largest difference.

    Attributes:
        source: `eval` or the name of an edge row.
        index: position in that set.
        native: native scores, one a class.
        exported: exported scores, one a class.
        features: raw feature values as text, `(missing)` where absent.
    """

    source: str
    index: int
    native: tuple[float | None, ...]
    exported: tuple[float | None, ...]
    features: dict[str, str]


class ParityReport(Contract):
    """Exported against native scores (file `parity.json`).

    Attributes:
        passed: every difference is finite and within the tolerance and all labels agree.
        largest_absolute_difference: over all rows and classes; None when a score is not finite.
        label_agreement: share of rows with the same arg max, 0 to 1.
        eval_rows, edge_rows: numbers of rows compared.
        worst_row: row of the largest difference.
        reason: empty, or why it did not pass.
    """

    schema_version: Literal[1] = 1
    framework: Framework
    passed: bool
    tolerance: float
    largest_absolute_difference: float | None
    label_agreement: float
    eval_rows: int
    edge_rows: int
    worst_row: WorstRow | None = None
    reason: str = ""
    ops: dict[str, int] = {}


class BucketReport(Contract):
    """One batch bucket: latency of a call of `serving_default` in this process, milliseconds.

    Attributes:
        batch: rows a call.
        rounds: how often it was measured until the plain p99 was within the service level; the calmest round is given.
        calls: timed calls of that round for each of plain and XLA, alternating.
        compile_s: first XLA call of this shape, seconds.
        faster: the lower p50.
        within_slo: None where the bucket is not judged.
        largest_absolute_difference: XLA against plain scores, None when not finite.
        fusions: fusion computations in the optimised HLO.
        memory_bytes: XLA's buffer assignment: bytes of all allocations.
        flops: counted from dot and convolution shapes.
    """

    batch: int
    rounds: int = 1
    calls: int
    plain_p50_ms: float
    plain_p99_ms: float
    xla_p50_ms: float
    xla_p99_ms: float
    compile_s: float
    faster: Literal["plain", "xla"]
    within_slo: bool | None
    largest_absolute_difference: float | None
    fusions: int
    memory_bytes: int
    flops: int


class CompileReport(Contract):
    """XLA twins and service levels (file `compile.json`).

    Attributes:
        compiled: False when the candidate was stopped before (then nothing here was checked, `reason` says why).
        tree_digest: identity of the final SavedModel, 64 hex digits.
        size_bytes: size of the final SavedModel.
        xla_numerics_passed, slo_passed, plain_without_xla_passed: None = not checked.
        compilations: XLA compilations seen over all buckets; one a bucket.
    """

    schema_version: Literal[1] = 1
    framework: Framework
    compiled: bool
    tree_digest: str
    size_bytes: int
    buckets: tuple[BucketReport, ...] = ()
    xla_tolerance: float
    slo_p99_ms: float
    xla_numerics_passed: bool | None = None
    slo_passed: bool | None = None
    plain_without_xla_passed: bool | None = None
    compilations: int = 0
    reason: str = ""
    machine: str = ""


class MetricValue(Contract):
    """One metric: point value (TFMA) and interval (bootstrap); None = undefined, `note` says why.

    Attributes:
        value, lower, upper: the metric's own unit.
        note: e.g. `undefined: one class only`.
    """

    value: float | None
    lower: float | None = None
    upper: float | None = None
    note: str = ""


class SliceReport(Contract):
    """One slice of the eval split.

    Attributes:
        key: slice key, e.g. `Home`.
        value: slice value, e.g. `owner`, `(missing)`, `[25, 35)`.
        size: rows.
        positives: rows of the positive class.
        judged: at least `min_slice_size` rows and slice floors exist.
    """

    key: str
    value: str
    size: int
    positives: int
    judged: bool
    metrics: dict[str, MetricValue]


class DecisionChange(Contract):
    """Rows of a slice that candidate and champion decide differently at the operating threshold.

    Attributes:
        key, value: the slice; both empty for the whole eval split.
        size: rows.
        to_positive: rows that only the candidate gives the positive class.
        to_negative: rows that only the champion gives the positive class.
    """

    key: str
    value: str
    size: int
    to_positive: int
    to_negative: int


class Check(Contract):
    """Something that an audit looked at beside its gates; it blesses nothing and stops nothing.

    Attributes:
        name: e.g. `calibration/expected_error`, `fairness/Home/four_fifths_good`, `graph/large_constants`.
        outcome: `measured` where there is no limit.
        value: measured, None where it was not checked.
        limit: that it was held against, None without one.
        detail: one line: of what, the worst case, or why it was not checked.
        remedy: one line, empty unless it failed.
    """

    name: str
    outcome: Literal["passed", "failed", "measured", "not checked"]
    value: float | None = None
    limit: float | None = None
    detail: str = ""
    remedy: str = ""


class ReliabilityBin(Contract):
    """Rows with scores next to each other: how many are positive, and what the model says on average."""

    size: int
    positives: int
    mean_score: float


class GroupFacts(Contract):
    """How the decisions at the operating threshold fall on one group.

    Attributes:
        key, value: the slice.
        size, positives: rows, and rows of the positive class.
        decided_positive: rows that the model decides positive.
        true_positive: those of them that are.
        judged: large enough.
    """

    key: str
    value: str
    size: int
    positives: int
    decided_positive: int
    true_positive: int
    judged: bool


class AuditReport(Contract):
    """The audit of one candidate (file `audit.json`).

    Attributes:
        digest: tree digest of what was audited.
        blessed: every required gate passed.
        size: rows of the eval split.
        positives: rows of the positive class in it.
        metrics: metric -> value on the whole eval split.
        champion: `name/version` of the baseline, or None.
        not_done: checks that were asked for and could not be done, one line each.
        decision_changes: against the champion; the whole eval split first, then slices; empty without a champion.
        checks: what else was looked at.
        reliability: bins of equal size, from the lowest score up.
        groups: the slices as the checks of fairness count them.
    """

    schema_version: Literal[1] = 1
    framework: Framework
    digest: str
    blessed: bool
    size: int
    gates: tuple[Gate, ...]
    metrics: dict[str, MetricValue] = {}
    slices: tuple[SliceReport, ...] = ()
    champion: str | None = None
    champion_metrics: dict[str, MetricValue] = {}
    not_done: tuple[str, ...] = ()
    operating_threshold: float = 0.5
    positives: int = 0
    decision_changes: tuple[DecisionChange, ...] = ()
    checks: tuple[Check, ...] = ()
    reliability: tuple[ReliabilityBin, ...] = ()
    groups: tuple[GroupFacts, ...] = ()


class Registration(Contract):
    """What the registrar did (file `registration.json`).

    Attributes:
        registered: False when the candidate was not audited (`reason` says why).
        name, version: of the registered model.
        run_id: MLflow run of the training.
        digest: tree digest of its source.
    """

    schema_version: Literal[1] = 1
    framework: Framework
    registered: bool
    name: str
    version: str | None = None
    run_id: str | None = None
    digest: str = ""
    blessed: bool = False
    reason: str = ""


class PushReport(Contract):
    """What the pusher did (file `push.json`).

    Attributes:
        pushed: a version lies in the model server's directory.
        framework, version, digest, path: of what was pushed; None when nothing was.
        reason: why this candidate, or why none.
    """

    schema_version: Literal[1] = 1
    pushed: bool
    framework: Framework | None = None
    name: str
    version: str | None = None
    digest: str | None = None
    path: str | None = None
    reason: str


class Histogram(Contract):
    """Counts of values between edges: len(edges) == len(counts) + 1."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]


class ParameterFacts(Contract):
    """One parameter after training.

    Attributes:
        name: path in the model.
        shape: its shape.
        trainable: False = frozen.
        weight_norm: L2 norm of the weights.
        gradient_norm: L2 norm of the last step's gradient, None when frozen or never touched.
        histogram: of the weights, 20 bins.
    """

    name: str
    shape: tuple[int, ...]
    trainable: bool
    weight_norm: float | None
    gradient_norm: float | None
    histogram: Histogram


class TrainingFacts(Contract):
    """What training did (file `training_facts.json`).

    Attributes:
        run_id: MLflow run.
        epochs_run, best_epoch: counted from 1.
        steps: optimizer updates.
        seconds: wall time of fitting in this process (a resumed fit counts from its resume).
        resumed_from_epoch: None, or the finished epoch that a resumed fit went on from.
        metrics: final value of each metric of the best epoch (`val/auc`, ...).
        input_fingerprint: of everything that decides the result.
    """

    schema_version: Literal[1] = 1
    framework: Framework
    run_id: str
    model_id: str | None = None
    device: str
    precision: str
    seed: int
    epochs_run: int = Field(ge=1)
    best_epoch: int = Field(ge=1)
    steps: int
    seconds: float
    resumed_from_epoch: int | None = None
    parameter_count: int
    metrics: dict[str, float]
    parameters: tuple[ParameterFacts, ...]
    input_fingerprint: str

    @property
    def by_name(self) -> dict[str, ParameterFacts]:
        """Parameters by name."""
        return {facts.name: facts for facts in self.parameters}


PARITY_FILE = "parity.json"
COMPILE_FILE = "compile.json"
AUDIT_FILE = "audit.json"
REGISTRATION_FILE = "registration.json"
PUSH_FILE = "push.json"
TRAINING_FACTS_FILE = "training_facts.json"


def read_measurement(kind: type[_Measurement], folder: str, name: str) -> _Measurement:
    """Reads a measurement from an artifact's folder."""
    return kind.from_json((Path(folder) / name).read_text(encoding="utf-8"))


def write_measurement(measurement: Contract, folder: str, name: str) -> None:
    """Writes a measurement into an artifact's folder, whole or not at all."""
    write_bytes(Path(folder) / name, (measurement.model_dump_json(indent=2) + "\n").encode())
