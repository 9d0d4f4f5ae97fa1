"""The promotion pipeline as data: an approved candidate to production. Nothing heavy is imported here."""

import dataclasses
import json

from components.core.ledger import Subject
from components.core.promotion import LedgerSpec, ProductionSpec
from pipelines.config import PipelineConfig
from pipelines.fingerprint import stage_fingerprint
from pipelines.plan import PipelinePlan, StagePlan

CANDIDATE = "candidate"
GATE = "promotion-gate"
LOAD_TESTER = "load-tester"
PROMOTER = "promoter"
PUSHER = "production-pusher"
STARTER = "rollout-starter"


@dataclasses.dataclass(frozen=True)
class Promotion:
    """What is promoted.

    Attributes:
        subject: exact bytes and evidence.
        candidate_uri: artifact of the final SavedModel in ML Metadata, which ties the promotion to the training; the registry's own folder
            where the run that made it is not known here.
        ledger: where decisions are and who signs.
    """

    subject: Subject
    candidate_uri: str
    ledger: LedgerSpec


def production_spec(config: PipelineConfig) -> ProductionSpec:
    """Where a use case's production is."""
    section = config.toml.production
    return ProductionSpec(
        serving_root=str(config.serving_root),
        base_path=section.base_path,
        server=section.server,
        timeout_s=section.timeout_s,
        min_requests_per_s=section.min_requests_per_s,
        p99_ms=config.toml.slo.p99_ms,
        max_batch=config.toml.slo.max_batch,
    )


def plan_promotion(config: PipelineConfig, promotion: Promotion) -> PipelinePlan:
    """Plans the promotion of one candidate.

    Args:
        config: of its use case.
        promotion: the candidate.
    """
    ledger, tracking = promotion.ledger.to_json(), config.tracking.to_json()
    production = production_spec(config).to_json()
    subject = json.dumps(promotion.subject.model_dump(mode="json"), sort_keys=True)
    stages = (
        StagePlan(CANDIDATE, (), {"source_uri": promotion.candidate_uri}),
        _stage(GATE, (CANDIDATE,), subject=subject, rule=config.toml.approval.to_json(), ledger=ledger, tracking=tracking),
        _stage(LOAD_TESTER, (GATE,), production=production),
        _stage(PROMOTER, (GATE, LOAD_TESTER), ledger=ledger, tracking=tracking),
        _stage(PUSHER, (GATE, LOAD_TESTER, PROMOTER), ledger=ledger, production=production),
        _stage(STARTER, (PROMOTER, PUSHER), rollout=config.toml.rollout.to_json(), ledger=ledger, production=production, tracking=tracking),
    )
    return PipelinePlan(tuple(dataclasses.replace(stage, always_runs=True) for stage in stages))


def _stage(name: str, upstream: tuple[str, ...], **parameters: str) -> StagePlan:
    folder = name.replace("-", "_")
    return StagePlan(name, upstream, {**parameters, "code_fingerprint": stage_fingerprint(f"components/{folder}")})
