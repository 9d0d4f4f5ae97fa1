"""The plan: which stages there are, what decides each, what lies between two of them."""

from pathlib import Path

import pytest

from components.core.contracts import Champion
from components.core.errors import ConfigError
from pipelines.config import PipelineConfig, find_use_case, load_config
from pipelines.plan import PipelinePlan, plan_training

ORDER = (
    "ingest", "statistics", "schema", "validation", "transform",
    "keras-trainer", "lightning-trainer", "keras-exporter", "lightning-exporter", "keras-xla-compiler", "lightning-xla-compiler",
    "keras-auditor", "lightning-auditor", "keras-registrar", "lightning-registrar", "pusher",
)  # fmt: skip


def config(tmp_path: Path, *overrides: str) -> PipelineConfig:
    return load_config(find_use_case("credit_risk"), overrides=overrides, working_folder=tmp_path)


@pytest.fixture
def plan(tmp_path: Path) -> PipelinePlan:
    return plan_training(config(tmp_path), data_digest="d" * 64)


def changed(one: PipelinePlan, other: PipelinePlan) -> set[str]:
    return {stage.name for stage in one.stages if stage.digest() != other[stage.name].digest()}


def test_stages_stand_in_the_order_of_the_data(plan: PipelinePlan) -> None:
    assert plan.names() == ORDER
    seen: set[str] = set()
    for stage in plan.stages:
        assert set(stage.upstream) <= seen
        seen.add(stage.name)


def test_only_the_pusher_always_runs(plan: PipelinePlan) -> None:
    assert [stage.name for stage in plan.stages if stage.always_runs] == ["pusher"]


def test_equal_configurations_give_equal_plans(plan: PipelinePlan, tmp_path: Path) -> None:
    assert changed(plan, plan_training(config(tmp_path), data_digest="d" * 64)) == set()


@pytest.mark.parametrize(
    ("override", "stages"),
    [
        ("training.epochs=3", {"keras-trainer", "lightning-trainer"}),
        ("audit.floors.auc=0.9", {"keras-auditor", "lightning-auditor", "pusher"}),
        ("slo.p99_ms=1", {f"{f}-{k}" for f in ("keras", "lightning") for k in ("exporter", "xla-compiler", "auditor")}),
    ],
)
def test_a_changed_key_changes_the_stages_it_decides(plan: PipelinePlan, tmp_path: Path, override: str, stages: set[str]) -> None:
    assert changed(plan, plan_training(config(tmp_path, override), data_digest="d" * 64)) == stages


def test_changed_data_changes_ingest(plan: PipelinePlan, tmp_path: Path) -> None:
    assert "ingest" in changed(plan, plan_training(config(tmp_path), data_digest="e" * 64))


def test_a_new_champion_changes_the_auditors_alone(plan: PipelinePlan, tmp_path: Path) -> None:
    champion = Champion(name="credit-risk-prod", version="3", digest="a" * 64, path="/p")
    assert changed(plan, plan_training(config(tmp_path), data_digest="d" * 64, champion=champion)) == {"keras-auditor", "lightning-auditor"}


def test_parts_follow_the_flow_of_data(plan: PipelinePlan) -> None:
    assert plan.between(None, None) == ORDER
    assert plan.between(None, "transform") == ("ingest", "statistics", "schema", "transform")
    assert plan.between("keras-auditor", None) == ("keras-auditor", "keras-registrar", "pusher")
    assert plan.between("keras-trainer", "keras-exporter") == ("keras-trainer", "keras-exporter")


def test_a_part_that_does_not_exist_is_refused(plan: PipelinePlan) -> None:
    with pytest.raises(ConfigError, match="no stage 'train'; stages: ingest, "):
        plan.between("train", None)
    with pytest.raises(ConfigError, match="no stage lies between"):
        plan.between("pusher", "ingest")
