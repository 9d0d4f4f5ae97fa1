"""Small inputs for the tests of the stage `ingest`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

from components.core.contracts import DataSpec
from components.core.errors import DataError
from components.ingest.ingest_csv import IngestSummary, ingest_csv


def build_spec(columns: str = "id:integer", **more: object) -> DataSpec:
    """`a:integer b:number? c:category` (`?` is optional) with the label y of classes no and yes."""
    features = [
        {"name": name, "kind": kind.rstrip("?"), "optional": kind.endswith("?")}
        for name, kind in (word.split(":") for word in columns.split())
    ]
    label = {"name": "y", "classes": ["no", "yes"], "positive": "yes"}
    return DataSpec.from_json(json.dumps({"features": features, "label": label, **more}))


def parse_split(folder: Path, split: str) -> list[dict[str, list[object]]]:
    """Parses a split with TensorFlow's own messages: a list of {feature: values}."""
    dataset = tf.data.TFRecordDataset(str(folder / f"Split-{split}" / "data_tfrecord-00000-of-00001.gz"), compression_type="GZIP")
    examples = [tf.train.Example.FromString(record) for record in dataset.as_numpy_iterator()]
    return [
        {name: list(getattr(value, value.WhichOneof("kind")).value) for name, value in example.features.feature.items()}
        for example in examples
    ]


def parse_rows(folder: Path) -> list[dict[str, list[object]]]:
    return parse_split(folder, "train") + parse_split(folder, "eval")


@pytest.fixture
def ingest(tmp_path: Path) -> Callable[..., tuple[IngestSummary, Path]]:
    """Writes bytes to a file and ingests it; gives the summary and the output folder."""

    def run(content: bytes | str, spec: DataSpec, **more: int) -> tuple[IngestSummary, Path]:
        source = tmp_path / "in.csv"
        source.write_bytes(content.encode() if isinstance(content, str) else content)
        return ingest_csv(source, spec, output_folder=tmp_path / "out", **more), tmp_path / "out"

    return run


@pytest.fixture
def refusal(ingest: Callable[..., object], tmp_path: Path) -> Callable[..., str]:
    """Ingests what must be refused; gives the message without the folder, after nothing was left behind."""

    def run(content: bytes | str, spec: DataSpec, **more: int) -> str:
        with pytest.raises(DataError) as caught:
            ingest(content, spec, **more)
        assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
        return str(caught.value).replace(f"{tmp_path}/", "")

    return run


@pytest.fixture
def make_spec() -> Callable[..., DataSpec]:
    return build_spec


@pytest.fixture
def read_split() -> Callable[[Path, str], list[dict[str, list[object]]]]:
    return parse_split


@pytest.fixture
def read_rows() -> Callable[[Path], list[dict[str, list[object]]]]:
    return parse_rows


@pytest.fixture
def padding() -> str:
    """40 different rows `id,y`: enough for both splits to have some."""
    return "".join(f"{number},no\n{number},yes\n" for number in range(100, 120))
