"""The promotion pipeline: every stage wired once. Imports tfx: loaded by the process that compiles it."""

from tfx.dsl.components.base.base_node import BaseNode
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration import metadata, pipeline
from tfx.types import standard_artifacts

from components.load_tester.component import LoadTester
from components.production_pusher.component import ProductionPusher
from components.promoter.component import Promoter
from components.promotion_gate.component import PromotionGate
from components.rollout_starter.component import RolloutStarter
from pipelines.config import PipelineConfig
from pipelines.plan import PipelinePlan
from pipelines.promotion_plan import CANDIDATE, GATE, LOAD_TESTER, PROMOTER, PUSHER, STARTER


def create_promotion_pipeline(config: PipelineConfig, plan: PipelinePlan) -> pipeline.Pipeline:
    """Wires the promotion pipeline.

    Args:
        config: where things lie.
        plan: the parameters of each stage (`pipelines.promotion_plan.plan_promotion`).

    Returns:
        A TFX pipeline for either runner, over the ML Metadata of the training pipeline: the candidate that it imports is the artifact
        that the XLA compiler made.
    """
    stages = _stages(plan)
    for name, component in stages.items():
        component.with_id(name)
    name = f"{config.use_case.name}-promotion"
    return pipeline.Pipeline(
        pipeline_name=name,
        pipeline_root=str(config.pipeline_root.with_name(name)),
        components=[stages[stage] for stage in plan.names()],
        enable_cache=False,
        metadata_connection_config=metadata.sqlite_metadata_connection_config(str(config.metadata_path)),
    )


def _stages(plan: PipelinePlan) -> dict[str, BaseNode]:
    candidate = Importer(artifact_type=standard_artifacts.Model, reimport=False, **plan.parameters(CANDIDATE))
    gate = PromotionGate(candidate=candidate.outputs["result"], **plan.parameters(GATE))
    model, clearance = gate.outputs["model"], gate.outputs["clearance"]
    tester = LoadTester(model=model, clearance=clearance, **plan.parameters(LOAD_TESTER))
    load_report = tester.outputs["load_report"]
    promoter = Promoter(model=model, clearance=clearance, load_report=load_report, **plan.parameters(PROMOTER))
    report = promoter.outputs["promotion_report"]
    pusher = ProductionPusher(model=model, load_report=load_report, promotion_report=report, **plan.parameters(PUSHER))
    starter = RolloutStarter(promotion_report=report, deployment_report=pusher.outputs["deployment_report"], **plan.parameters(STARTER))
    return {CANDIDATE: candidate, GATE: gate, LOAD_TESTER: tester, PROMOTER: promoter, PUSHER: pusher, STARTER: starter}
