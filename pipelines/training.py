"""The training pipeline: every stage wired once, in the order of the data. Imports tfx: loaded by the process that compiles it."""

import json
from typing import Any

from tfx.components import ExampleValidator, SchemaGen, StatisticsGen, Transform
from tfx.dsl.components.base.base_component import BaseComponent
from tfx.orchestration import metadata, pipeline
from tfx.proto import trainer_pb2

from components.auditor.component import Auditor
from components.core.contracts import FRAMEWORKS, Framework
from components.exporter.component import Exporter
from components.ingest.component import Ingest
from components.pusher.component import Pusher
from components.registrar.component import Registrar
from components.xla_compiler.component import XlaCompiler
from pipelines.config import PipelineConfig
from pipelines.plan import PipelinePlan
from trainers.component import TrackedTrainer

BEAM_ARGUMENTS = ["--runner=FnApiRunner", "--sdk_container_image=none", "--no_pipeline_type_check"]
"""In process, without a look for Prism on the network and without packaging TFX anew at each Beam stage."""


def create_training_pipeline(config: PipelineConfig, plan: PipelinePlan) -> pipeline.Pipeline:
    """Wires the training pipeline.

    Args:
        config: where things lie.
        plan: the parameters of each stage (`pipelines.plan.plan_training`).

    Returns:
        A TFX pipeline for either runner.
    """
    stages = _data_stages(plan)
    for framework in FRAMEWORKS:
        stages |= _candidate_stages(plan, framework, stages)
    stages["pusher"] = _pusher(plan, stages)
    for name, component in stages.items():
        component.with_id(name)
    return pipeline.Pipeline(
        pipeline_name=config.use_case.name,
        pipeline_root=str(config.pipeline_root),
        components=[stages[name] for name in plan.names()],
        enable_cache=True,
        metadata_connection_config=metadata.sqlite_metadata_connection_config(str(config.metadata_path)),
        beam_pipeline_args=BEAM_ARGUMENTS,
    )


def _texts(plan: PipelinePlan, stage: str) -> dict[str, Any]:
    """A stage's parameters, as keyword arguments of its component."""
    return dict(plan.parameters(stage))


def _data_stages(plan: PipelinePlan) -> dict[str, BaseComponent]:
    ingest = Ingest(**_texts(plan, "ingest"))
    examples = ingest.outputs["examples"]
    statistics = StatisticsGen(examples=examples)
    # Shapes are not inferred: every column stays sparse, so that serving can build the same tensors whatever was missing in training.
    schema = SchemaGen(statistics=statistics.outputs["statistics"], infer_feature_shape=False)
    validation = ExampleValidator(statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"])
    parameters = plan.parameters("transform")
    transform = Transform(
        examples=examples,
        schema=schema.outputs["schema"],
        preprocessing_fn=parameters["preprocessing_fn"],
        custom_config={"code_fingerprint": parameters["code_fingerprint"]},
        disable_statistics=True,
    )
    return {"ingest": ingest, "statistics": statistics, "schema": schema, "validation": validation, "transform": transform}


def _candidate_stages(plan: PipelinePlan, framework: Framework, stages: dict[str, BaseComponent]) -> dict[str, BaseComponent]:
    names = {kind: f"{framework}-{kind}" for kind in ("trainer", "exporter", "xla-compiler", "auditor", "registrar")}
    examples, transform = stages["ingest"].outputs["examples"], stages["transform"].outputs
    trainer = _trainer(plan, framework, stages)
    exporter = Exporter(
        native_model=trainer.outputs["model"],
        transform_graph=transform["transform_graph"],
        examples=examples,
        **plan.parameters(names["exporter"]),
    )
    parity = exporter.outputs["parity"]
    compiler = XlaCompiler(
        exported_model=exporter.outputs["model"], parity=parity, examples=examples, **plan.parameters(names["xla-compiler"])
    )
    model, compile_report = compiler.outputs["model"], compiler.outputs["compile_report"]
    auditor = Auditor(
        examples=examples,
        model=model,
        parity=parity,
        compile_report=compile_report,
        model_run=trainer.outputs["model_run"],
        **plan.parameters(names["auditor"]),
    )
    registrar = Registrar(
        model=model,
        audit=auditor.outputs["audit"],
        blessing=auditor.outputs["blessing"],
        compile_report=compile_report,
        parity=parity,
        model_run=trainer.outputs["model_run"],
        **plan.parameters(names["registrar"]),
    )
    made: dict[str, BaseComponent] = dict(zip(names.values(), (trainer, exporter, compiler, auditor, registrar), strict=True))
    return made


def _trainer(plan: PipelinePlan, framework: Framework, stages: dict[str, BaseComponent]) -> BaseComponent:
    custom: dict[str, Any] = dict(plan.parameters(f"{framework}-trainer"))
    custom["classes"] = json.loads(custom["classes"])
    return TrackedTrainer(
        run_fn=f"trainers.{framework}.run.run_fn",
        examples=stages["transform"].outputs["transformed_examples"],
        transform_graph=stages["transform"].outputs["transform_graph"],
        schema=stages["schema"].outputs["schema"],
        train_args=trainer_pb2.TrainArgs(splits=["train"]),
        eval_args=trainer_pb2.EvalArgs(splits=["eval"]),
        custom_config=custom,
    )


def _pusher(plan: PipelinePlan, stages: dict[str, BaseComponent]) -> BaseComponent:
    inputs = {}
    for framework in FRAMEWORKS:
        inputs[f"{framework}_model"] = stages[f"{framework}-xla-compiler"].outputs["model"]
        inputs[f"{framework}_compile_report"] = stages[f"{framework}-xla-compiler"].outputs["compile_report"]
        inputs[f"{framework}_audit"] = stages[f"{framework}-auditor"].outputs["audit"]
        inputs[f"{framework}_registration"] = stages[f"{framework}-registrar"].outputs["registration"]
    return Pusher(**inputs, **plan.parameters("pusher"))
