"""A model of two weights, examples by hand, and a stage around them: everything real, everything tiny."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from components.core import files
from components.core.contracts import AuditSpec, Band, Champion, DataSpec, Feature, Label, ServingSpec, TrackingSpec
from components.core.measurements import (
    AuditReport,
    BucketReport,
    CompileReport,
    Histogram,
    ParameterFacts,
    ParityReport,
    TrainingFacts,
)

BEAM_ARGS = ["--runner=FnApiRunner", "--sdk_container_image=none"]


@dataclasses.dataclass(frozen=True)
class Rows:
    """What the examples are made of; x is NaN where the feature is left out."""

    x: np.ndarray
    labels: list[str]
    homes: list[str]

    @property
    def positives(self) -> np.ndarray:
        return np.array(self.labels) == "bad"

    def scores(self, weight: float, bias: float) -> np.ndarray:
        """float32[N] of the tiny model, in NumPy."""
        logits = (np.float32(weight) * self.x.astype(np.float32) + np.float32(bias)).astype(np.float64)
        return (1.0 / (1.0 + np.exp(-logits))).astype(np.float32)

    @property
    def bands(self) -> list[str]:
        return ["(missing)" if np.isnan(x) else "<0" if x < 0 else ">=0" for x in self.x]


@pytest.fixture(scope="session")
def data_spec() -> DataSpec:
    return DataSpec(
        features=(Feature(name="x", kind="number", optional=True), Feature(name="Home", kind="category")),
        label=Label(name="Status", classes=("good", "bad"), positive="bad"),
        slices=("Home",),
        bands=(Band(name="x_band", feature="x", edges=(0.0,)),),
    )


def _rows(count: int = 200, seed: int = 7) -> Rows:
    generator = np.random.default_rng(seed)
    # no two rows alike: a batched sigmoid may differ in the last bit by a row's place in the batch, and that would break ties at random
    x = generator.normal(size=count).astype(np.float32).astype(np.float64)
    labels = np.where(generator.random(count) < 1 / (1 + np.exp(-2 * x)), "bad", "good")
    homes = generator.choice(["owner", "rent"], size=count).astype(object)
    homes[:5] = "small"
    homes[5:65] = "only good"
    labels[5:65] = "good"
    return Rows(x=x, labels=labels.tolist(), homes=homes.tolist())


@pytest.fixture(scope="session")
def rows() -> Rows:
    return _rows()


@pytest.fixture(scope="session")
def write_examples(tmp_path_factory) -> Callable[[Rows], Path]:
    def write(rows: Rows) -> Path:
        """An Examples artifact's folder with the split `eval` in two files, and other rows in the split `train`."""
        import tensorflow as tf

        def text(value: str) -> "tf.train.Feature":
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))

        def example(rows: Rows, row: int) -> bytes:
            features = {
                "Status": text(rows.labels[row]),
                "Home": text(rows.homes[row]),
                "slice_Home": text(rows.homes[row]),
                "slice_x_band": text(rows.bands[row]),
            }
            if not np.isnan(rows.x[row]):
                features["x"] = tf.train.Feature(float_list=tf.train.FloatList(value=[rows.x[row]]))
            return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()

        folder = tmp_path_factory.mktemp("examples")
        half, train = len(rows.labels) // 2, _rows(300, seed=8)
        parts = {
            "Split-eval/data_tfrecord-00000-of-00002.gz": (rows, range(half)),
            "Split-eval/data_tfrecord-00001-of-00002.gz": (rows, range(half, len(rows.labels))),
            "Split-train/data_tfrecord-00000-of-00001.gz": (train, range(300)),
        }
        for name, (source, taken) in parts.items():
            (folder / name).parent.mkdir(exist_ok=True)
            with tf.io.TFRecordWriter(str(folder / name), "GZIP") as writer:
                for row in taken:
                    writer.write(example(source, row))
        return folder

    return write


@pytest.fixture(scope="session")
def write_model(tmp_path_factory) -> Callable[..., Path]:
    def write(weight: float, bias: float = 0.0, *, classes: tuple[str, ...] = ("good", "bad")) -> Path:
        """A Model artifact's folder; a missing x gives a NaN score."""
        import tensorflow as tf

        class Tiny(tf.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = tf.Variable(weight, dtype=tf.float32)

            @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
            def serve(self, examples):
                return self.answer(
                    tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([], tf.float32, default_value=float("nan"))})["x"]
                )

            @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x"), tf.TensorSpec([None], tf.string, name="Home")])
            def serve_raw(self, x, Home):
                del Home
                return self.answer(x)

            def answer(self, x):
                score = tf.sigmoid(self.weight * x + bias)
                names = tf.tile(tf.constant([list(classes)]), [tf.shape(x)[0], 1])
                return {"scores": tf.stack([1.0 - score, score], axis=1), "classes": names}

        folder = tmp_path_factory.mktemp("model")
        module = Tiny()
        tf.saved_model.save(
            module, str(folder / "Format-Serving"), signatures={"serving_default": module.serve, "serving_raw": module.serve_raw}
        )
        return folder

    return write


@pytest.fixture(scope="session")
def examples(rows, write_examples) -> Path:
    return write_examples(rows)


@pytest.fixture(scope="session")
def good_model(write_model) -> Path:
    return write_model(2.0)


@pytest.fixture(scope="session")
def poor_model(write_model) -> Path:
    return write_model(-1.0)


@pytest.fixture(scope="session")
def tracking(tmp_path_factory) -> TrackingSpec:
    folder = tmp_path_factory.mktemp("mlflow")
    return TrackingSpec(uri=f"sqlite:///{folder}/mlflow.db", artifact_root=str(folder / "artifacts"), experiment="tiny", use_case="tiny")


def _parity(*, passed: bool = True) -> ParityReport:
    return ParityReport(
        framework="keras",
        passed=passed,
        tolerance=1e-5,
        largest_absolute_difference=1e-7 if passed else 0.5,
        label_agreement=1.0,
        eval_rows=200,
        edge_rows=3,
        reason="" if passed else "difference 0.5",
    )


def _compiled(model: Path, *, compiled: bool = True) -> CompileReport:
    bucket = BucketReport(
        batch=8,
        calls=10,
        plain_p50_ms=1.0,
        plain_p99_ms=2.0,
        xla_p50_ms=1.0,
        xla_p99_ms=2.0,
        compile_s=0.1,
        faster="plain",
        within_slo=True,
        largest_absolute_difference=1e-7,
        fusions=1,
        memory_bytes=1,
        flops=1,
    )
    passed = True if compiled else None
    return CompileReport(
        framework="keras",
        compiled=compiled,
        tree_digest=files.tree_digest(model / "Format-Serving"),
        size_bytes=1,
        buckets=(bucket,) if compiled else (),
        xla_tolerance=1e-5,
        slo_p99_ms=50.0,
        xla_numerics_passed=passed,
        slo_passed=passed,
        plain_without_xla_passed=passed,
        reason="" if compiled else "parity did not pass",
    )


def parameter(name: str, *, trainable: bool = True, weight: float | None = 1.0, gradient: float | None = 0.1) -> ParameterFacts:
    histogram = Histogram(edges=(0.0, 1.0), counts=(2,))
    return ParameterFacts(name=name, shape=(2,), trainable=trainable, weight_norm=weight, gradient_norm=gradient, histogram=histogram)


def training_facts(*parameters: ParameterFacts) -> TrainingFacts:
    return TrainingFacts(
        framework="keras",
        run_id="r",
        device="cpu",
        precision="32",
        seed=1,
        epochs_run=1,
        best_epoch=1,
        steps=1,
        seconds=1.0,
        parameter_count=4,
        metrics={},
        parameters=parameters or (parameter("dense/kernel"), parameter("dense/bias")),
        input_fingerprint="f",
    )


@pytest.fixture(scope="session")
def parity() -> Callable[..., ParityReport]:
    return _parity


@pytest.fixture(scope="session")
def compiled() -> Callable[..., CompileReport]:
    return _compiled


@pytest.fixture(scope="session")
def champion() -> Callable[[Path], Champion]:
    def make(model: Path) -> Champion:
        path = model / "Format-Serving"
        return Champion(name="tiny-prod", version="3", digest=files.tree_digest(path), path=str(path))

    return make


@dataclasses.dataclass(frozen=True)
class Audited:
    """What one execution of the stage left."""

    report: AuditReport
    folder: Path
    blessing: object
    properties: dict[str, object]

    def gate(self, name: str):
        return next(gate for gate in self.report.gates if gate.name == name)


@pytest.fixture(scope="session")
def audit_stage(tmp_path_factory, data_spec, tracking) -> Callable[..., Audited]:
    def run(model: Path, examples: Path, audit: AuditSpec, *, parity: ParityReport, compiled: CompileReport, champion=None) -> Audited:
        """Runs the executor on artifacts, as a launcher does."""
        from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
        from tfx.types import artifact_utils, standard_artifacts

        from components.auditor.executor import Executor
        from components.core import artifacts

        folder = tmp_path_factory.mktemp("audit")

        def artifact(kind, name: str, uri: Path | None = None):
            made = kind()
            made.uri, made.id = str(uri or folder / name), 11
            return made

        split = artifact(standard_artifacts.Examples, "examples", examples)
        split.split_names = artifact_utils.encode_split_names(["train", "eval"])
        files.write_json(folder / "parity" / "parity.json", parity.model_dump(mode="json"))
        files.write_json(folder / "compile" / "compile.json", compiled.model_dump(mode="json"))
        files.write_json(folder / "model_run" / "training_facts.json", training_facts().model_dump(mode="json"))
        inputs = {
            "examples": [split],
            "model": [artifact(standard_artifacts.Model, "model", model)],
            "parity": [artifact(artifacts.ParityReport, "parity")],
            "compile_report": [artifact(artifacts.CompileReport, "compile")],
            "model_run": [artifact(standard_artifacts.ModelRun, "model_run")],
        }
        outputs = {
            "evaluation": [artifact(standard_artifacts.ModelEvaluation, "evaluation")],
            "blessing": [artifact(standard_artifacts.ModelBlessing, "blessing")],
            "predictions": [artifact(artifacts.Predictions, "predictions")],
            "audit": [artifact(artifacts.AuditReport, "audit")],
        }
        properties = {
            "data_spec": data_spec.to_json(),
            "audit_spec": audit.to_json(),
            "serving_spec": ServingSpec().to_json(),
            "champion": champion.to_json() if champion else "",
            "tracking": tracking.to_json(),
            "framework": "keras",
            "code_fingerprint": "0",
        }
        context = BaseBeamExecutor.Context(beam_pipeline_args=list(BEAM_ARGS), tmp_dir=str(folder), unique_id="5", pipeline_run_id="run-1")
        output = Executor(context).Do(inputs, outputs, properties)
        return Audited(
            report=AuditReport.from_json((folder / "audit" / "audit.json").read_text()),
            folder=folder,
            blessing=outputs["blessing"][0],
            properties={name: getattr(value, value.WhichOneof("value")) for name, value in output.execution_properties.items()},
        )

    return run
