import json

import pytest
from tfx import types
from tfx.dsl.components.base.base_executor import BaseExecutor
from tfx.proto import trainer_pb2
from tfx.proto.orchestration import pipeline_pb2
from tfx.types import standard_artifacts
from tfx.utils import json_utils

from components.core.errors import TrainingError
from trainers.component import RUN_FUNCTIONS, TrackedTrainer
from trainers.executor import TrackedTrainerExecutor


def artifact(kind, uri, **values):
    made = kind()
    made.uri = str(uri)
    for name, value in values.items():
        setattr(made, name, value)
    return [made]


def do(workplace, framework, **changes):
    node = pipeline_pb2.PipelineNode()
    node.node_info.id = f"{framework}-node"
    context = BaseExecutor.Context(pipeline_node=node, pipeline_run_id="run-9", unique_id="41", tmp_dir=str(workplace.root))
    inputs = {
        "examples": artifact(standard_artifacts.Examples, workplace.transformed, split_names='["train", "eval"]'),
        "transform_graph": artifact(standard_artifacts.TransformGraph, workplace.transformed / "graph"),
    }
    outputs = {
        "model": artifact(standard_artifacts.Model, workplace.root / "model"),
        "model_run": artifact(standard_artifacts.ModelRun, workplace.root / "model_run"),
    }
    properties = {
        "run_fn": RUN_FUNCTIONS[framework],
        "train_args": "{}",
        "eval_args": "{}",
        "custom_config": json_utils.dumps(workplace.config(framework, **changes).to_custom_config()),
    }
    return TrackedTrainerExecutor(context).Do(inputs, outputs, properties)


@pytest.mark.parametrize("framework", ["keras", "lightning"])
def test_execution_and_run_point_at_each_other(workplace, client, framework):
    output = do(workplace, framework)
    run_id = output.execution_properties["mlflow_run_id"].string_value
    tags = client.get_run(run_id).data.tags
    assert (tags["stage"], tags["pipeline_run_id"], tags["mlmd_execution_id"]) == (f"{framework}-node", "run-9", "41")
    assert output.execution_properties["epochs_run"].int_value == 3
    assert (workplace.root / "model" / "Format-Serving" / "native.json").is_file()
    assert json.loads((workplace.root / "model_run" / "training_facts.json").read_text())["run_id"] == run_id


def test_an_error_names_the_node(workplace):
    with pytest.raises(TrainingError, match=r"^keras-node: .*tiny model is broken"):
        do(workplace, "keras", training={"model": {"units": 2, "dropout": 0.0, "fault": "raise"}})


def test_component_runs_our_executor(workplace):
    examples = types.Channel(type=standard_artifacts.Examples)
    graph = types.Channel(type=standard_artifacts.TransformGraph)
    component = TrackedTrainer(
        examples=examples,
        transform_graph=graph,
        run_fn=RUN_FUNCTIONS["keras"],
        train_args=trainer_pb2.TrainArgs(splits=["train"]),
        eval_args=trainer_pb2.EvalArgs(splits=["eval"]),
        custom_config=workplace.config("keras").to_custom_config(),
    ).with_id("keras-trainer")
    assert component.executor_spec.class_path == "trainers.executor.TrackedTrainerExecutor"
