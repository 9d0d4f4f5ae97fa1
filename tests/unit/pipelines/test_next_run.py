"""Which stages the next run executes, told from journals alone."""

import json

import pytest

from components.core.contracts import Champion, DataSpec, ServingSpec, TrainingSpec
from pipelines.next_run import champion_now, forecast
from pipelines.parameter_changes import describe_changes
from pipelines.plan import PipelinePlan, StagePlan

STAGES = (
    StagePlan("ingest", (), {"input_digest": "a" * 64}),
    StagePlan("keras-trainer", ("ingest",), {"training": TrainingSpec(epochs=40).to_json(), "code_fingerprint": "c" * 64}),
    StagePlan("lightning-trainer", ("ingest",), {"code_fingerprint": "d" * 64}),
    StagePlan("pusher", ("keras-trainer", "lightning-trainer"), {"name": "credit-risk"}, always_runs=True),
)


def plan(**changed):
    """The plan, with parameters of some stages changed."""
    return PipelinePlan(
        tuple(
            StagePlan(stage.name, stage.upstream, {**stage.parameters, **changed.get(stage.name.replace("-", "_"), {})}, stage.always_runs)
            for stage in STAGES
        )
    )


def add_run(home, planned, tmp_path, version, **options):
    """A run whose stages left folders."""
    artifacts = {}
    for stage in planned.stages:
        folder = tmp_path / f"{stage.name}-{version}"
        folder.mkdir(exist_ok=True)
        artifacts[f"{stage.name}/model"] = str(folder)
    return home.add_run(plan={stage.name: dict(stage.parameters) for stage in planned.stages}, artifacts=artifacts, **options)


def decisions(forecasts):
    return {entry.name: entry.decision for entry in forecasts}


def reasons(forecasts):
    return {entry.name: list(entry.reasons) for entry in forecasts}


def test_an_unchanged_run_executes_what_always_runs(home, tmp_path):
    record = add_run(home, plan(), tmp_path, 1)
    found = forecast(plan(), record, [record])
    assert decisions(found) == {"ingest": "cached", "keras-trainer": "cached", "lightning-trainer": "cached", "pusher": "execute"}
    assert reasons(found)["pusher"] == ["it always runs"]
    assert reasons(found)["ingest"] == [f"as in run {record.id}"]


def test_a_changed_key_is_named_and_what_follows_inherits(home, tmp_path):
    record = add_run(home, plan(), tmp_path, 1)
    found = forecast(plan(keras_trainer={"training": TrainingSpec(epochs=3).to_json()}), record, [record])
    assert reasons(found)["keras-trainer"] == ["key training.epochs 40 -> 3"]
    assert decisions(found)["lightning-trainer"] == "cached"
    assert reasons(found)["pusher"] == ["because keras-trainer executes", "it always runs"]


def test_changed_data_executes_everything(home, tmp_path):
    record = add_run(home, plan(), tmp_path, 1)
    found = forecast(plan(ingest={"input_digest": "b" * 64}), record, [record])
    assert set(decisions(found).values()) == {"execute"}
    assert reasons(found)["ingest"] == ["data changed (SHA-256 aaaaaaaaaaaa -> bbbbbbbbbbbb)"]
    assert reasons(found)["keras-trainer"] == ["because ingest executes"]


@pytest.mark.parametrize(
    ("state", "reason"),
    [("failed", "it failed in run"), ("interrupted", "it was interrupted in run"), ("skipped", "it was not reached in run")],
)
def test_stages_that_did_not_end_well_execute(home, tmp_path, state, reason):
    record = add_run(home, plan(), tmp_path, 1, states={"keras-trainer": state}, state="failed")
    found = forecast(plan(), record, [record])
    assert reasons(found)["keras-trainer"] == [f"{reason} {record.id}"]
    assert decisions(found)["lightning-trainer"] == "cached"


def test_going_back_to_older_parameters_finds_the_older_result(home, tmp_path):
    older = add_run(home, plan(), tmp_path, 1)
    newer = add_run(home, plan(lightning_trainer={"code_fingerprint": "e" * 64}), tmp_path, 1)
    found = forecast(plan(), newer, [newer, older])
    assert reasons(found)["lightning-trainer"] == [f"as in run {older.id}"]


def test_the_same_parameters_over_other_inputs_are_no_cache(home, tmp_path):
    record = add_run(home, plan(), tmp_path, 1)
    other = home.add_run(
        plan={stage.name: dict(stage.parameters) for stage in plan().stages},
        states={"keras-trainer": "failed", "lightning-trainer": "failed", "pusher": "failed"},
        artifacts={"ingest/model": str(tmp_path)},
    )
    found = forecast(plan(), record, [other, record])
    assert decisions(found)["ingest"] == "cached"
    assert decisions(found)["keras-trainer"] == "execute"


def test_what_is_gone_is_made_again(home, tmp_path):
    record = add_run(home, plan(), tmp_path, 1)
    (tmp_path / "keras-trainer-1").rmdir()
    assert reasons(forecast(plan(), record, [record]))["keras-trainer"] == [f"what it made is gone ({tmp_path / 'keras-trainer-1'})"]


def test_another_use_case_gives_no_cache(home, tmp_path):
    record = add_run(home, plan(), tmp_path, 1)
    stranger = record.model_copy(update={"use_case": "payments"})
    assert set(decisions(forecast(plan(), record, [stranger])).values()) == {"execute"}


def changes(name, before, now, *, stage="keras-auditor", lock_changed=False):
    return describe_changes(stage, {name: before}, {name: now}, lock_changed=lock_changed)


def data_spec(**changed):
    values = {
        "features": [{"name": "Age", "kind": "integer", "optional": False}, {"name": "Home", "kind": "category", "optional": False}],
        "label": {"name": "Status", "classes": ["good", "bad"], "positive": "bad"},
        "bands": [{"name": "age", "feature": "Age", "edges": [25.0]}],
    }
    return DataSpec.from_json(json.dumps({**values, **changed})).to_json()


def test_contracts_are_compared_key_by_key():
    optional = [{"name": "Age", "kind": "integer", "optional": True}, {"name": "Home", "kind": "category", "optional": False}]
    assert changes("data_spec", data_spec(), data_spec(features=optional)) == ["key features.Age.optional false -> true"]
    bands = [{"name": "age", "feature": "Age", "edges": [30.0]}]
    assert changes("data_spec", data_spec(), data_spec(bands=bands)) == ["key slices.bands.age.edges [25.0] -> [30.0]"]
    assert changes("serving_spec", ServingSpec().to_json(), ServingSpec(p99_ms=5.0, batch_buckets=(1,)).to_json()) == [
        "key serving.batch_buckets [1, 8, 64] -> [1]", "key slo.p99_ms 50.0 -> 5.0",
    ]  # fmt: skip


def test_keys_that_come_and_go_are_named():
    before, now = TrainingSpec(model={"dropout": 0.1}), TrainingSpec(model={"units": 8})
    assert changes("training", before.to_json(), now.to_json()) == [
        "key training.model.dropout 0.1 -> (none)", "key training.model.units (none) -> 8",
    ]  # fmt: skip
    swapped = list(reversed(json.loads(data_spec())["features"]))
    assert changes("data_spec", data_spec(), data_spec(features=swapped)) == ['key features.order ["Age", "Home"] -> ["Home", "Age"]']


def test_code_environment_and_champion_are_told_apart():
    assert changes("code_fingerprint", "a", "b") == ["code changed (components/auditor, components/core)"]
    assert changes("code_fingerprint", "a", "b", lock_changed=True) == ["environment changed (requirements.lock), perhaps code too"]
    assert changes("lock_digest", "a" * 64, "b" * 64) == ["environment changed (requirements.lock aaaaaaaaaaaa -> bbbbbbbbbbbb)"]
    champion = Champion(name="credit-risk-prod", version="3", digest="d" * 64, path="/x").to_json()
    assert changes("champion", "", champion) == ["champion changed (none -> credit-risk-prod/3)"]
    assert changes("name", "a", "b") == ["key name a -> b"]
    assert changes("anything", "x" * 100, "b") == [f"parameter anything {'x' * 60}... -> b"]
    assert describe_changes("transform", {"a": "1"}, {"a": "1"}, lock_changed=False) == []


def test_a_champion_that_a_run_has_met_is_the_same_and_another_one_is_new(home):
    met = Champion(name="credit-risk-prod", version="3", digest="d" * 64, path="/champions/3")
    record = home.add_run(plan={"keras-auditor": {"champion": met.to_json()}, "pusher": {"champion": ""}})
    assert champion_now(("3", "d" * 64), "credit-risk-prod", [record]) == met
    other = champion_now(("4", "e" * 64), "credit-risk-prod", [record])
    assert (other.version, other.path) == ("4", "")
    assert champion_now(None, "credit-risk-prod", [record]) is None
