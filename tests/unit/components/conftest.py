"""One tiny served case for the exporter and the compiler: data, a real transform graph, native models of both frameworks.

Everything heavy is imported inside the fixtures, so that the other stages' tests do not pay for it.
"""

import dataclasses
import sys
from pathlib import Path

import pytest

CASE = Path(__file__).parent / "served_case"
ROWS = 150


@dataclasses.dataclass(frozen=True)
class ServedCase:
    """Where the pieces lie and what they hold."""

    folder: Path
    data: object
    model: object
    rows: list
    examples: list

    def transform(self):
        return self.folder / "transform"

    def eval_split(self):
        return self.folder / "examples" / "Split-eval"


def _rows():
    import numpy as np

    random = np.random.default_rng(7)
    homes = ["owner", "rent", "父母"]
    return [
        {
            "Income": int(random.integers(0, 900)) if i % 5 else None,
            "Age": int(random.integers(18, 70)),
            "比率": float(np.float32(random.normal())) if i % 4 else None,
            "Home": homes[i % 3] if i % 7 else None,
            "Status": "bad" if random.random() < 0.4 else "good",
            "slice_Home": "owner",
        }
        for i in range(ROWS)
    ]


def _example(row):
    from components.exporter.edge_rows import encode_example

    return encode_example({name: value.encode() if isinstance(value, str) else value for name, value in row.items()})


def _run_transform(examples, folder, preprocessing_fn):
    import apache_beam as beam
    import tensorflow_transform.beam as tft_beam
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tensorflow_transform.tf_metadata import dataset_metadata
    from tfx_bsl.tfxio import tf_example_record

    kinds = {"Income": 2, "Age": 2, "比率": 3, "Home": 1, "Status": 1, "slice_Home": 1}  # schema_pb2: BYTES, INT, FLOAT
    schema = schema_pb2.Schema(feature=[schema_pb2.Feature(name=name, type=kind) for name, kind in kinds.items()])
    source = tf_example_record.TFExampleBeamRecord(physical_format="inmem", telemetry_descriptors=["tests"], schema=schema)
    with beam.Pipeline("FnApiRunner") as pipeline, tft_beam.Context(temp_dir=f"{folder}.tmp"):
        raw = pipeline | beam.Create(examples) | source.BeamSource()
        transform = (raw, source.TensorAdapterConfig()) | tft_beam.AnalyzeDataset(preprocessing_fn)
        transform | tft_beam.WriteTransformFn(str(folder))
        metadata = dataset_metadata.DatasetMetadata(schema)
        metadata | tft_beam.WriteMetadata(str(folder / "metadata"), pipeline)


@pytest.fixture(scope="session")
def served_modules():
    """Makes the models of the case importable by name, as a use case outside the repository is."""
    sys.path.insert(0, str(CASE))
    yield
    sys.path.remove(str(CASE))


@pytest.fixture(scope="session")
def served_case(served_modules, tmp_path_factory):
    """Data, transform graph and specifications."""
    import importlib

    from components.core.contracts import DataSpec, Feature, Label, ModelSpec, TransformedFeature
    from components.core.served_model import write_examples

    folder = tmp_path_factory.mktemp("served_case")
    features = (
        Feature(name="Income", kind="integer", optional=True),
        Feature(name="Age", kind="integer"),
        Feature(name="比率", kind="number", optional=True),
        Feature(name="Home", kind="category", optional=True),
    )
    data = DataSpec(features=features, label=Label(name="Status", classes=("good", "bad"), positive="bad"), slices=("Home",))
    names = ("Income", "Income_missing", "Age", "比率", "ratio_missing")
    transformed = tuple(TransformedFeature(name=name, dtype="float32") for name in names)
    model = ModelSpec(features=(*transformed, TransformedFeature(name="Home", dtype="int64", vocabulary_size=4)), classes=("good", "bad"))
    rows = _rows()
    examples = [_example(row) for row in rows]
    write_examples(folder / "examples" / "Split-eval" / "part-0.gz", examples)
    _run_transform(examples, folder / "transform", importlib.import_module("served_features").preprocessing_fn)
    return ServedCase(folder, data, model, rows, examples)


@pytest.fixture(scope="session")
def native_folders(served_case):
    """Framework -> folder of a native model with seeded weights."""
    from components.core.contracts import NativeModel, TrainingSpec
    from components.core.files import write_bytes

    folders = {}
    for framework in ("keras", "lightning"):
        folders[framework] = served_case.folder / f"native-{framework}"
        native = NativeModel(
            framework=framework, module=f"served_{framework}", spec=served_case.model, training=TrainingSpec(model={"width": 8})
        )
        write_bytes(folders[framework] / "native.json", native.to_json().encode())
        _save_weights(native, folders[framework])
    return folders


def _save_weights(native, folder):
    import importlib

    build = importlib.import_module(native.module).build_model
    if native.framework == "keras":
        import keras

        keras.utils.set_random_seed(3)
        build(native.spec, native.training.model).save_weights(folder / "model.weights.h5")
    else:
        import torch

        torch.manual_seed(3)
        torch.save(build(native.spec, native.training.model).state_dict(), folder / "weights.pt")


@pytest.fixture(scope="session")
def export_inputs(served_case, native_folders):
    """Framework -> what an export of the case starts from."""
    from components.core.contracts import ServingSpec
    from components.exporter.export import ExportInputs

    return {
        framework: ExportInputs(
            native=folder,
            transform=served_case.transform(),
            examples=served_case.eval_split(),
            framework=framework,
            data=served_case.data,
            serving=ServingSpec(batch_buckets=(1, 8, 64)),
        )
        for framework, folder in native_folders.items()
    }


@pytest.fixture(scope="session", params=["keras", "lightning"])
def exported(request, export_inputs):
    """Framework, folder of the SavedModel, folder of the parity report, the report."""
    from components.exporter.export import export

    inputs = export_inputs[request.param]
    root = inputs.native.with_name(f"exported-{request.param}")
    report = export(inputs, root / "model" / "Format-Serving", report_folder=root / "parity")
    return request.param, root / "model" / "Format-Serving", root / "parity", report
