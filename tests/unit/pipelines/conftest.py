"""A home folder with journals and artifacts that are made by hand: no pipeline runs."""

import datetime

import pytest

from components.core.measurements import (
    AUDIT_FILE,
    COMPILE_FILE,
    PARITY_FILE,
    PUSH_FILE,
    REGISTRATION_FILE,
    TRAINING_FACTS_FILE,
    AuditReport,
    BucketReport,
    CompileReport,
    Gate,
    MetricValue,
    ParityReport,
    PushReport,
    Registration,
    SliceReport,
    TrainingFacts,
)
from pipelines.journal import RunJournal

DIGESTS = {"keras": "a" * 64, "lightning": "b" * 64}
RUN_IDS = {"keras": "1" * 32, "lightning": "2" * 32}
OUTPUTS = {
    TrainingFacts: ("trainer/model_run", TRAINING_FACTS_FILE),
    ParityReport: ("exporter/parity", PARITY_FILE),
    CompileReport: ("xla-compiler/compile_report", COMPILE_FILE),
    AuditReport: ("auditor/audit", AUDIT_FILE),
    Registration: ("registrar/registration", REGISTRATION_FILE),
}


class Made:
    """Measurements of one candidate, with values that a test changes where it wants to."""

    @staticmethod
    def training(framework, **changes):
        values = {
            "framework": framework, "run_id": RUN_IDS[framework], "device": "cpu", "precision": "32", "seed": 1, "epochs_run": 12,
            "best_epoch": 7, "steps": 564, "seconds": 3.25, "parameter_count": 1234, "metrics": {}, "parameters": (),
            "input_fingerprint": "f" * 64,
        }  # fmt: skip
        return TrainingFacts(**{**values, **changes})

    @staticmethod
    def parity(framework, **changes):
        values = {
            "framework": framework, "passed": True, "tolerance": 1e-5, "largest_absolute_difference": 2.5e-7, "label_agreement": 1.0,
            "eval_rows": 1500, "edge_rows": 8,
        }  # fmt: skip
        return ParityReport(**{**values, **changes})

    @staticmethod
    def bucket(batch, **changes):
        values = {
            "batch": batch, "calls": 200, "plain_p50_ms": 1.0, "plain_p99_ms": 2.0, "xla_p50_ms": 0.5, "xla_p99_ms": 1.5, "compile_s": 0.2,
            "faster": "xla", "within_slo": True, "largest_absolute_difference": 1e-7, "fusions": 3, "memory_bytes": 4096, "flops": 1000,
        }  # fmt: skip
        return BucketReport(**{**values, **changes})

    @classmethod
    def compiled(cls, framework, **changes):
        values = {
            "framework": framework, "compiled": True, "tree_digest": DIGESTS[framework], "size_bytes": 2_500_000,
            "buckets": (cls.bucket(1), cls.bucket(64)), "xla_tolerance": 1e-5, "slo_p99_ms": 50.0, "xla_numerics_passed": True,
            "slo_passed": True, "plain_without_xla_passed": True, "compilations": 2,
        }  # fmt: skip
        return CompileReport(**{**values, **changes})

    @staticmethod
    def slice(key, value, auc, *, size=200, judged=True):
        return SliceReport(key=key, value=value, size=size, positives=size // 4, judged=judged, metrics={"auc": MetricValue(value=auc)})

    @staticmethod
    def audit(framework, *, auc=0.86, gates=(), slices=(), **changes):
        values = {
            "framework": framework, "digest": DIGESTS[framework], "blessed": True, "size": 1500,
            "gates": gates or (Gate(name="floor/auc", status="passed", value=auc, limit=0.8),),
            "metrics": {"auc": MetricValue(value=auc, lower=0.84, upper=0.88)}, "slices": slices,
        }  # fmt: skip
        return AuditReport(**{**values, **changes})

    @staticmethod
    def registration(framework, version, **changes):
        values = {
            "framework": framework, "registered": True, "name": "credit-risk", "version": version, "run_id": RUN_IDS[framework],
            "digest": DIGESTS[framework], "blessed": True,
        }  # fmt: skip
        return Registration(**{**values, **changes})

    @staticmethod
    def push(framework, version, reason="lightning is better: auc keras 0.86, lightning 0.87"):
        return PushReport(
            pushed=True, framework=framework, name="credit-risk", version=version, digest=DIGESTS[framework],
            path=f"/serving/staging/credit-risk/{version}", reason=reason,
        )  # fmt: skip

    @classmethod
    def candidate(cls, framework, version="1"):
        return [
            cls.training(framework),
            cls.parity(framework),
            cls.compiled(framework),
            cls.audit(framework),
            cls.registration(framework, version),
        ]


class Home:
    """A home folder to which runs are added, each an hour after the one before."""

    def __init__(self, path, use_case):
        self.path, self.use_case, self.count = path, use_case, 0

    @property
    def runs(self):
        return self.path / "runs"

    def add_run(self, measurements=(), *, plan=None, states=None, state="succeeded", error="", error_stage="", artifacts=None):
        """Writes measurements as artifacts and a journal that names them."""
        plan = plan if plan is not None else {"keras-trainer": {}, "lightning-trainer": {}, "pusher": {}}
        journal = RunJournal.begin(self.runs, use_case=self.use_case, plan=plan)
        self.count += 1
        started = datetime.datetime(2026, 1, 1, self.count, tzinfo=datetime.UTC).isoformat(timespec="seconds")
        journal.record = journal.record.model_copy(update={"started": started})
        for measurement in measurements:
            self._write(journal, measurement)
        journal.add_artifacts(artifacts or {})
        for stage in plan:
            journal.update_stage(stage, state=(states or {}).get(stage, "complete"))
        journal.end(state, error=error, stage=error_stage)
        return journal.record

    def _write(self, journal, measurement):
        if isinstance(measurement, PushReport):
            output, name = "pusher/push_report", PUSH_FILE
        else:
            output, name = OUTPUTS[type(measurement)]
            output = f"{measurement.framework}-{output}"
        folder = self.path / "artifacts" / journal.record.id / output
        folder.mkdir(parents=True)
        (folder / name).write_text(measurement.model_dump_json())
        journal.add_artifacts({output: str(folder)})


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home", tmp_path / "credit_risk")


@pytest.fixture
def made():
    return Made
