"""A tiny real tf.Transform output, a real SQLite MLflow store and a model of ten weights, shared by the tests of the trainers."""

import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from components.core.contracts import TrackingSpec, TrainingSpec
from trainers.job import TrainerConfig, TrainingJob

ROWS = 50
EVAL_ROWS = 23
CLASSES = ("no", "yes")


def raw_rows(count, seed):
    """Rows of one number (some missing), one word and a label that depends on both."""
    random = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        x, word = float(random.normal()), str(random.choice(["a", "b", "c"]))
        label = CLASSES[int(x + (word == "a") + random.normal() * 0.5 > 0.4)]
        rows.append({"x": [x] if random.random() > 0.1 else [], "word": [word], "y": [label]})
    return rows


def preprocessing(inputs):
    import tensorflow as tf
    import tensorflow_transform as tft

    def column(name, default):
        sparse = inputs[name]
        return tf.sparse.to_dense(tf.SparseTensor(sparse.indices, sparse.values, [sparse.dense_shape[0], 1]), default_value=default)[:, 0]

    dense = column("x", float("nan"))
    missing = tf.math.is_nan(dense)
    filled = tf.where(missing, tf.zeros_like(dense), dense)
    return {
        "x": tft.scale_to_z_score(filled),
        "x_missing": tf.cast(missing, tf.float32),
        "word": tft.compute_and_apply_vocabulary(column("word", ""), num_oov_buckets=1),
        "y": tf.cast(tf.equal(column("y", ""), "yes"), tf.int64),
    }


def run_transform(folder, preprocessing_fn, splits):
    """Runs tf.Transform over `splits` (name -> rows) and writes graph and gzip examples as TFX does."""
    import apache_beam as beam
    import tensorflow as tf
    import tensorflow_transform.beam as tft_beam
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from tensorflow_transform.coders.example_proto_coder import ExampleProtoCoder
    from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

    raw = {"x": tf.io.VarLenFeature(tf.float32), "word": tf.io.VarLenFeature(tf.string), "y": tf.io.VarLenFeature(tf.string)}
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(raw))
    with beam.Pipeline(runner=FnApiRunner()) as pipeline, tft_beam.Context(temp_dir=str(folder / "tmp")):
        train = pipeline | "train" >> beam.Create(splits["train"])
        graph = (train, metadata) | tft_beam.AnalyzeDataset(preprocessing_fn)
        _ = graph | tft_beam.WriteTransformFn(str(folder / "graph"))
        for name, rows in splits.items():
            data = pipeline | f"rows {name}" >> beam.Create(rows)
            transformed, transformed_metadata = ((data, metadata), graph) | f"transform {name}" >> tft_beam.TransformDataset()
            coder = ExampleProtoCoder(transformed_metadata.schema)
            _ = (
                transformed
                | f"encode {name}" >> beam.Map(coder.encode)
                | f"write {name}" >> beam.io.WriteToTFRecord(str(folder / f"Split-{name}" / "part"), file_name_suffix=".gz", num_shards=2)
            )
    return folder


@pytest.fixture(scope="session")
def transformed(tmp_path_factory):
    """Folder with `graph`, `Split-train` (50 rows in two files) and `Split-eval` (23 rows)."""
    splits = {"train": raw_rows(ROWS, 1), "eval": raw_rows(EVAL_ROWS, 2)}
    return run_transform(tmp_path_factory.mktemp("transformed"), preprocessing, splits)


@pytest.fixture(scope="session")
def tracking(tmp_path_factory):
    """One SQLite store for the session: making one costs seconds."""
    root = tmp_path_factory.mktemp("mlflow")
    return TrackingSpec(uri=f"sqlite:///{root}/mlflow.db", artifact_root=str(root / "artifacts"), experiment="tiny", use_case="tiny")


@pytest.fixture(scope="session", autouse=True)
def tiny_models():
    """The folder of the tiny models is importable, here and in child processes."""
    folder = str(Path(__file__).parent / "models")
    sys.path.insert(0, folder)
    yield folder
    sys.path.remove(folder)


@dataclasses.dataclass
class Workplace:
    """Makes jobs over the tiny data in one test's folder."""

    root: Path
    transformed: Path
    tracking: TrackingSpec

    def config(self, framework, **changes):
        training = TrainingSpec(
            epochs=3, batch_size=16, learning_rate=0.05, seed=3, device="cpu", model={"units": 2, "dropout": 0.2}
        ).model_copy(update=changes.pop("training", {}))
        values = {
            "framework": framework,
            "module": f"tiny_{framework}",
            "label": "y",
            "classes": CLASSES,
            "positive": "yes",
            "training": training,
            "tracking": self.tracking,
            "code_fingerprint": self.root.name,
            "checkpoint_root": str(self.root / "unfinished"),
            "dataset_name": "tiny",
            "dataset_digest": "d" * 64,
            "threads": 1,
        }
        return TrainerConfig(**(values | changes))

    def fn_args(self, framework, **changes):
        return SimpleNamespace(
            custom_config=self.config(framework, **changes).to_custom_config(),
            transform_graph_path=str(self.transformed / "graph"),
            train_files=[str(self.transformed / "Split-train" / "*")],
            eval_files=[str(self.transformed / "Split-eval" / "*")],
            serving_model_dir=str(self.root / framework / "Format-Serving"),
            model_run_dir=str(self.root / framework / "model_run"),
        )

    def job(self, framework, **changes):
        return TrainingJob.of(self.fn_args(framework, **changes))


@pytest.fixture
def workplace(tmp_path, transformed, tracking):
    return Workplace(tmp_path, transformed, tracking)


@pytest.fixture
def client(tracking):
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=tracking.uri, registry_uri=tracking.uri)
