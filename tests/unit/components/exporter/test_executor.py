"""The executor: artifacts in, a SavedModel, a report and an MLflow run out."""

import pytest


@pytest.fixture
def outcome(export_inputs, served_case, tmp_path):
    from mlflow.tracking import MlflowClient
    from tfx.types import artifact_utils, standard_artifacts

    from components.core.artifacts import ParityReport
    from components.core.contracts import TrackingSpec
    from components.exporter.executor import Executor

    inputs = export_inputs["keras"]
    native = standard_artifacts.Model()
    native.uri = str(tmp_path / "native")
    (tmp_path / "native").mkdir()
    (tmp_path / "native" / "Format-Serving").symlink_to(inputs.native)
    graph = standard_artifacts.TransformGraph()
    graph.uri = str(inputs.transform)
    examples = standard_artifacts.Examples()
    examples.uri = str(served_case.folder / "examples")
    examples.split_names = artifact_utils.encode_split_names(["train", "eval"])
    model, parity = standard_artifacts.Model(), ParityReport()
    model.uri, parity.uri = str(tmp_path / "model"), str(tmp_path / "parity")
    tracking = TrackingSpec(
        uri=f"sqlite:///{tmp_path}/mlflow.db", artifact_root=str(tmp_path / "artifacts"), experiment="case", use_case="case"
    )
    output = Executor().Do(
        {"native_model": [native], "transform_graph": [graph], "examples": [examples]},
        {"model": [model], "parity": [parity]},
        {
            "framework": "keras",
            "data_spec": inputs.data.to_json(),
            "serving_spec": inputs.serving.to_json(),
            "tracking": tracking.to_json(),
            "code_fingerprint": "",
        },
    )
    return tmp_path, parity, output, MlflowClient(tracking_uri=tracking.uri)


def test_the_run_the_execution_and_the_artifact_tell_the_same(outcome):
    folder, parity, output, client = outcome
    run = client.get_run(output.execution_properties["mlflow_run_id"].string_value)
    assert run.info.run_name == "export-keras"
    assert run.info.status == "FINISHED"
    assert run.data.tags["framework"] == "keras"
    assert run.data.metrics["parity/eval_rows"] == 150
    assert run.data.metrics["parity/label_agreement"] == 1.0
    assert 0 <= run.data.metrics["parity/largest_absolute_difference"] <= 1e-5
    assert [item.path for item in client.list_artifacts(run.info.run_id)] == ["parity.json"]
    assert output.execution_properties["parity_passed"].int_value == 1
    assert parity.get_int_custom_property("passed") == 1
    assert (folder / "model" / "Format-Serving" / "saved_model.pb").is_file()
    assert sorted(path.name for path in (folder / "model").iterdir()) == ["Format-Serving"]


def test_the_component_declares_what_the_executor_uses():
    from components.exporter.component import ExporterSpec

    assert sorted(ExporterSpec.INPUTS) == ["examples", "native_model", "transform_graph"]
    assert sorted(ExporterSpec.PARAMETERS) == ["code_fingerprint", "data_spec", "framework", "serving_spec", "tracking"]
    assert sorted(ExporterSpec.OUTPUTS) == ["model", "parity"]
