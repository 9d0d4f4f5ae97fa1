"""Which candidate is pushed, and what the registry says afterwards, on a real SQLite MLflow store."""

import pytest

from components.core.contracts import AuditSpec, TrackingSpec
from components.core.errors import PushError, RegistryError, StoreError
from components.core.files import tree_digest
from components.core.measurements import (
    PUSH_FILE,
    AuditReport,
    BucketReport,
    CompileReport,
    Gate,
    MetricValue,
    Registration,
    write_measurement,
)
from components.core.registry import Registry
from components.pusher.push import Candidate, choose, push

SPEC = AuditSpec(floors={"auc": 0.8}, better_metric="auc", better_tie=0.005)


def bucket(batch, plain, xla, *, judged=True):
    return BucketReport(
        batch=batch,
        calls=100,
        plain_p50_ms=1.0,
        plain_p99_ms=plain,
        xla_p50_ms=1.0,
        xla_p99_ms=xla,
        compile_s=0.1,
        faster="plain",
        within_slo=True if judged else None,
        largest_absolute_difference=0.0,
        fusions=1,
        memory_bytes=1,
        flops=1,
    )


def candidate(framework, folder, *, auc=0.9, blessed=True, buckets=(), version="1", metric="auc"):
    folder = folder / framework
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_text(framework)
    digest = tree_digest(folder)
    gate = Gate(name="floor/auc", status="passed" if blessed else "failed")
    return Candidate(
        saved_model=folder,
        registration=Registration(
            framework=framework, registered=True, name="credit-risk", version=version, run_id="r", digest=digest, blessed=blessed
        ),
        audit=AuditReport(
            framework=framework, digest=digest, blessed=blessed, size=100, gates=(gate,), metrics={metric: MetricValue(value=auc)}
        ),
        compiled=CompileReport(
            framework=framework, compiled=True, tree_digest=digest, size_bytes=1, buckets=buckets, xla_tolerance=1e-5, slo_p99_ms=50.0
        ),
    )


def stopped(framework, folder):
    base = candidate(framework, folder, blessed=False)
    registration = Registration(framework=framework, registered=False, name="credit-risk", digest=base.audit.digest, reason="parity failed")
    return Candidate(base.saved_model, registration, base.audit, base.compiled)


@pytest.mark.parametrize(
    ("keras", "lightning", "winner", "why"),
    [
        (0.90, 0.88, "keras", "keras is better: auc keras 0.9, lightning 0.88"),
        (0.88, 0.90, "lightning", "lightning is better"),
        (None, 0.81, "lightning", "keras undefined"),
        (0.81, None, "keras", "lightning undefined"),
        (0.900, 0.903, "keras", "keras by name"),
        (None, None, "keras", "keras by name"),
    ],
)
def test_the_better_metric_wins(tmp_path, keras, lightning, winner, why):
    choice = choose([candidate("lightning", tmp_path, auc=lightning), candidate("keras", tmp_path, auc=keras)], SPEC)
    assert choice.winner.framework == winner
    assert {choice.winner.framework, choice.loser.framework} == {"keras", "lightning"}
    assert why in choice.reason


def test_lower_is_better_for_losses(tmp_path):
    spec = AuditSpec(floors={"auc": 0.8}, better_metric="brier_score", better_tie=0.001)
    pair = [candidate("keras", tmp_path, auc=0.2, metric="brier_score"), candidate("lightning", tmp_path, auc=0.1, metric="brier_score")]
    assert choose(pair, spec).winner.framework == "lightning"


def test_a_tie_goes_to_the_lower_p99_of_the_largest_judged_bucket(tmp_path):
    keras = candidate("keras", tmp_path, buckets=(bucket(1, 1.0, 1.0), bucket(64, 9.0, 8.0), bucket(512, 1.0, 1.0, judged=False)))
    lightning = candidate("lightning", tmp_path, auc=0.902, buckets=(bucket(1, 5.0, 5.0), bucket(64, 7.0, 20.0)))
    choice = choose([keras, lightning], SPEC)
    assert choice.winner.framework == "lightning"
    assert "p99 7 ms against 8 ms" in choice.reason
    assert "tie within 0.005" in choice.reason


def test_only_blessed_and_registered_candidates_are_eligible(tmp_path):
    choice = choose([candidate("keras", tmp_path, auc=0.99, blessed=False), candidate("lightning", tmp_path, auc=0.85)], SPEC)
    assert (choice.winner.framework, choice.loser) == ("lightning", None)
    assert choice.reason == "lightning is the only blessed candidate (keras was not blessed: floor/auc)"
    nothing = choose([candidate("keras", tmp_path, blessed=False), stopped("lightning", tmp_path)], SPEC)
    assert nothing.winner is None
    assert nothing.reason == "nothing to push: keras was not blessed: floor/auc; lightning was stopped: parity failed"


@pytest.fixture(scope="module")
def tracking(tmp_path_factory):
    root = tmp_path_factory.mktemp("store")
    tracking = TrackingSpec(uri=f"sqlite:///{root}/mlflow.db", artifact_root=str(root), experiment="e", use_case="credit_risk")
    Registry(tracking, create=True)
    return tracking


@pytest.fixture
def pair(tmp_path, tracking, request):
    """Two blessed candidates, versions of a model of this test's own."""
    client = Registry(tracking).client
    name = request.node.name.replace("_", "-")[:60]
    client.create_registered_model(name)
    made = []
    for framework, auc in (("keras", 0.9), ("lightning", 0.85)):
        base = candidate(framework, tmp_path, auc=auc)
        version = client.create_model_version(name, str(base.saved_model), tags={"tree_digest": base.audit.digest})
        registration = base.registration.model_copy(update={"name": name, "version": str(version.version)})
        made.append(Candidate(base.saved_model, registration, base.audit, base.compiled))
    return made


def run(pair, tracking, tmp_path):
    return push(pair, name="credit-risk", spec=SPEC, serving_root=str(tmp_path / "serving"), tracking=tracking)


def test_the_winner_is_pushed_and_both_are_tagged(pair, tracking, tmp_path):
    report = run(pair, tracking, tmp_path)
    assert (report.pushed, report.framework, report.version, report.digest) == (True, "keras", "1", pair[0].audit.digest)
    assert tree_digest(report.path) == pair[0].audit.digest
    assert report.path == str((tmp_path / "serving" / "staging" / "credit-risk" / "1").resolve())
    tags = {version.version: version.tags["staging"] for version in Registry(tracking).versions(pair[0].registration.name)}
    assert tags == {"1": "pushed", "2": "lost"}
    assert run(pair, tracking, tmp_path).reason.endswith("it lay there already")
    write_measurement(report, str(tmp_path / "report"), PUSH_FILE)
    assert '"pushed": true' in (tmp_path / "report" / "push.json").read_text()


def test_nothing_blessed_pushes_nothing_and_is_no_error(tracking, tmp_path):
    report = run([candidate("keras", tmp_path, blessed=False), stopped("lightning", tmp_path)], tracking, tmp_path)
    assert (report.pushed, report.framework, report.version, report.path) == (False, None, None, None)
    assert "parity failed" in report.reason
    assert not (tmp_path / "serving").exists()


def test_measurements_of_different_models_are_refused(pair, tracking, tmp_path):
    other = pair[0].audit.model_copy(update={"digest": "0" * 64})
    with pytest.raises(PushError, match="of different models"):
        run([Candidate(pair[0].saved_model, pair[0].registration, other, pair[0].compiled), pair[1]], tracking, tmp_path)


def test_a_version_that_the_registry_does_not_hold_is_not_pushed(pair, tracking, tmp_path):
    unknown = pair[0].registration.model_copy(update={"version": "9"})
    with pytest.raises(RegistryError, match="its versions: 1, 2"):
        run([Candidate(pair[0].saved_model, unknown, pair[0].audit, pair[0].compiled), pair[1]], tracking, tmp_path)
    swapped = pair[0].registration.model_copy(update={"version": "2"})
    with pytest.raises(PushError, match="has digest"):
        run([Candidate(pair[0].saved_model, swapped, pair[0].audit, pair[0].compiled), pair[1]], tracking, tmp_path)
    assert not (tmp_path / "serving").exists()


def test_no_registry_is_told(pair, tracking, tmp_path):
    gone = tracking.model_copy(update={"uri": f"sqlite:///{tmp_path}/none.db"})
    with pytest.raises(StoreError, match="there is no MLflow store"):
        run(pair, gone, tmp_path)
