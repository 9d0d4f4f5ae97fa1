"""The stage as TFX runs it, its output in StatisticsGen, and the input's identity."""

import hashlib
import json
import subprocess
import sys

import pytest
import tensorflow_data_validation as tfdv
from tfx.components.statistics_gen import executor as statistics_executor
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_executor
from tfx.proto import example_gen_pb2
from tfx.types import standard_artifacts

from components.core.errors import DataError
from components.ingest.component import Ingest
from components.ingest.digest import data_digest
from components.ingest.executor import IngestExecutor

BEAM_ARGUMENTS = ["--runner=FnApiRunner", "--sdk_container_image=none"]


def run_stage(tmp_path, make_spec, padding, digest=None):
    source = tmp_path / "in.csv"
    source.write_text("id,x,城市,y\n" + padding.replace(",", ",,北京,") + "1,2.5,,no\n")
    examples = standard_artifacts.Examples()
    examples.uri = str(tmp_path / "examples")
    spec = make_spec("id:integer x:number? 城市:category?", slices=["城市"])
    parameters = {
        "data_path": str(source),
        "data_spec": spec.to_json(),
        "input_digest": digest or data_digest(source),
        "code_fingerprint": "f",
        "batch_bytes": 1 << 20,
    }
    return examples, IngestExecutor().Do({}, {"examples": [examples]}, parameters)


def test_artifact_and_execution_say_what_was_written(tmp_path, make_spec, padding):
    examples, output = run_stage(tmp_path, make_spec, padding)
    assert json.loads(examples.split_names) == ["train", "eval"]
    assert examples.get_string_custom_property("input_fingerprint") == hashlib.sha256((tmp_path / "in.csv").read_bytes()).hexdigest()
    assert examples_utils.get_payload_format(examples) == example_gen_pb2.PayloadFormat.FORMAT_TF_EXAMPLE
    assert examples_utils.get_file_format(examples) == "tfrecords_gzip"
    properties = output.execution_properties
    assert properties["rows"].int_value == 41
    assert properties["rows_train"].int_value + properties["rows_eval"].int_value == 41
    assert json.loads(properties["missing_cells"].string_value) == {"x": 40, "城市": 1}
    assert json.loads(properties["skipped_files"].string_value) == []
    published = output.output_artifacts["examples"].artifacts[0]  # what reaches ML Metadata
    assert published.properties["split_names"].string_value == '["train", "eval"]'
    assert published.uri == examples.uri


def test_statistics_gen_reads_it_and_counts_missing_cells(tmp_path, make_spec, padding):
    examples, _ = run_stage(tmp_path, make_spec, padding)
    statistics = standard_artifacts.ExampleStatistics()
    statistics.uri = str(tmp_path / "statistics")
    context = base_beam_executor.BaseBeamExecutor.Context(beam_pipeline_args=BEAM_ARGUMENTS, tmp_dir=str(tmp_path), unique_id="1")
    statistics_executor.Executor(context).Do({"examples": [examples]}, {"statistics": [statistics]}, {"exclude_splits": "[]"})
    rows, present = 0, {"x": 0, "城市": 0, "slice_城市": 0}
    for split in ("train", "eval"):
        dataset = tfdv.load_stats_binary(f"{statistics.uri}/Split-{split}/FeatureStats.pb").datasets[0]
        rows += dataset.num_examples
        for feature in dataset.features:
            if feature.path.step[0] in present:
                common = feature.num_stats.common_stats if feature.HasField("num_stats") else feature.string_stats.common_stats
                present[feature.path.step[0]] += common.num_non_missing
    assert (rows, present) == (41, {"x": 1, "城市": 40, "slice_城市": 41})


def test_data_that_changed_since_the_plan_is_refused(tmp_path, make_spec, padding):
    with pytest.raises(DataError, match="the data changed after the run was planned"):
        run_stage(tmp_path, make_spec, padding, digest="0" * 64)


def test_the_component_declares_its_parameters_and_output():
    stage = Ingest(data_path="p", data_spec="{}", input_digest="d", code_fingerprint="f")
    assert stage.exec_properties == {
        "data_path": "p",
        "data_spec": "{}",
        "input_digest": "d",
        "code_fingerprint": "f",
        "batch_bytes": 1048576,
    }
    assert stage.outputs["examples"].type is standard_artifacts.Examples


def test_digest_of_a_folder_is_over_its_csv_files(tmp_path):
    (tmp_path / "b.csv").write_bytes(b"B")
    (tmp_path / "a.csv").write_bytes(b"A")
    lines = f"{hashlib.sha256(b'A').hexdigest()}  a.csv\n{hashlib.sha256(b'B').hexdigest()}  b.csv\n"
    assert data_digest(tmp_path) == hashlib.sha256(lines.encode()).hexdigest()
    (tmp_path / ".DS_Store").write_bytes(b"x")
    assert data_digest(tmp_path) == hashlib.sha256(lines.encode()).hexdigest()
    (tmp_path / "b.csv").write_bytes(b"C")
    assert data_digest(tmp_path) != hashlib.sha256(lines.encode()).hexdigest()


def test_the_digest_imports_nothing_heavy():
    check = "import sys, components.ingest.digest; print({'pyarrow', 'numpy', 'tensorflow', 'tfx', 'pydantic'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout == "set()\n"
