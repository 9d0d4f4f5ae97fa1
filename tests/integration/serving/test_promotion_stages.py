"""The stages of a promotion on a real registry, ledger and model server: killed at boundaries, changed bytes, a sick model."""

import concurrent.futures
import contextlib
import dataclasses
import datetime
import itertools
import json
import sqlite3
import threading

import pytest

from components.core.approval import ApprovalRule
from components.core.contracts import TrackingSpec
from components.core.decisions import Decisions
from components.core.dossier import DOSSIER_FILE
from components.core.errors import DecisionError, GateError, RegistryError, ServingError
from components.core.evidence import read_evidence
from components.core.files import file_digest, tree_digest
from components.core.measurements import AUDIT_FILE, AuditReport, Gate, write_measurement
from components.core.mirror import mirror
from components.core.model_package import Package
from components.core.model_server import config_path
from components.core.placement import PRODUCTION, place, version_folder, withdraw
from components.core.production_ledger import ProductionLedger
from components.core.promotion import LOAD_FILE, LedgerSpec, ProductionSpec
from components.core.registry import Registry
from components.core.rollout import RolloutRule
from components.core.signing import PublicKeys
from components.core.tracking import StageRun
from components.load_tester.load_test import load_test
from components.production_pusher.deploy import deploy
from components.promoter.promote import promote
from components.promotion_gate.clear import clear
from components.rollout_starter.start import start
from tests.enrolled import enrolled
from tests.integration.serving.served import make_model, running, write_warmup

STAGE_TAGS = {"stage": "promoter", "pipeline_run_id": "run-1", "mlmd_execution_id": "7"}
RULE = ApprovalRule()
NAMES = (f"model-{number}" for number in itertools.count(1))
GATES = ("floor/auc", "parity", "xla_numerics", "plain_without_xla", "service_level")


@dataclasses.dataclass
class House:
    """Registry, ledger, people and model server of this module's tests."""

    folder: object
    tracking: TrackingSpec
    ledger: LedgerSpec
    production: ProductionSpec
    keys: dict
    server: object
    people: PublicKeys

    @property
    def registry(self):
        return Registry(self.tracking)

    @property
    def book(self):
        return ProductionLedger(self.ledger)

    def candidate(self, name, scale=1.0, *, failed=()):
        """Registers a candidate; its reference."""
        folder = self.folder / f"{name}-{scale}"
        make_model(folder / "model", scale)
        write_warmup(folder / "model", [[1.0], [1.0, 2.0, 3.0]], signature="serving_default")
        digest = tree_digest(folder / "model")
        gates = tuple(Gate(name=gate, status="failed" if gate in failed else "passed") for gate in GATES)
        audit = AuditReport(framework="keras", digest=digest, blessed=not failed, size=100, gates=gates)
        write_measurement(audit, str(folder), AUDIT_FILE)
        with StageRun(self.tracking, "train-keras", tags=STAGE_TAGS) as run:
            package = Package("keras", folder / "model", digest, run.run_id, None, (folder / AUDIT_FILE,), {"blessed": "true"})
        made = self.registry.register(name, package, stage_tags=STAGE_TAGS)
        return f"{made.name}/{made.version}"

    def decide(self, kind, reference, who, reason="seen"):
        evidence = read_evidence(self.registry, reference)
        decisions = Decisions(self.book.store, self.people)
        return decisions.decide(kind, evidence.candidate, RULE, signer=self.keys[who], reason=reason)

    def approve(self, reference):
        self.decide("request", reference, "rob")
        self.decide("approve", reference, "sue")

    def stages(self, reference, folder, rollout=None):
        """The five stages as calls, in their order; each gives what the next ones take."""
        evidence = read_evidence(self.registry, reference)
        made = {}

        def gate():
            made["clearance"] = clear(
                evidence.subject, RULE, ledger=self.ledger, tracking=self.tracking, candidate=evidence.saved_model, model=folder / "model"
            )

        def test():
            made["load"] = load_test(folder / "model", digest=evidence.subject.model_digest, production=self.production)
            write_measurement(made["load"], str(folder), LOAD_FILE)

        def register():
            made["promotion"] = promote(
                made["clearance"],
                saved_model=folder / "model",
                load_report=folder / LOAD_FILE,
                ledger=self.ledger,
                tracking=self.tracking,
                stage_tags=STAGE_TAGS,
            )

        def push():
            made["deployment"] = deploy(
                made["promotion"], made["load"], saved_model=folder / "model", ledger=self.ledger, production=self.production
            )

        def begin():
            made["rollout"] = start(
                made["promotion"], rollout or RolloutRule(), ledger=self.ledger, production=self.production, tracking=self.tracking
            )

        return made, (gate, test, register, push, begin)

    def promoted(self, reference, folder, rollout=None):
        made, stages = self.stages(reference, folder, rollout)
        for stage in stages:
            stage()
        return made

    def kinds(self, name):
        return [entry.statement.kind for entry in self.book.entries() if entry.statement.subject.model == name]

    def aliases(self, name):
        return {alias: version.version for version in self.registry.versions(f"{name}-prod") for alias in version.aliases}

    def placed(self, name, version):
        return version_folder(self.production.serving_root, name, version, stage=PRODUCTION)

    def answer(self, path):
        body = {"signature_name": "double", "instances": [1.0]}
        status, said, _ = self.server.rest(f"/v1/models/{path}:predict", body)
        return said["predictions"][0] if status == 200 else status


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    folder = tmp_path_factory.mktemp("house")
    keys, people = enrolled({"op": "admin", "rob": "person", "sue": "person", "tim": "person"})
    people.write(folder / "keys.json")
    keys["op"].write(folder / "op.pem")
    tracking = TrackingSpec(uri=f"sqlite:///{folder}/mlflow.db", artifact_root=str(folder / "artifacts"), experiment="e", use_case="e")
    Registry(tracking, create=True)
    ledger = LedgerSpec(url=f"sqlite:///{folder}/ledger.db", public_keys=str(folder / "keys.json"), private_key=str(folder / "op.pem"))
    with running("serve", "--grpc-port", "0", "--rest-port", "0", "--poll", "0.05", cwd=folder) as server:
        production = ProductionSpec(
            serving_root=str(folder / "serving"),
            server=f"http://127.0.0.1:{server.rest_port}",
            timeout_s=60,
            min_requests_per_s=1,
            p99_ms=2000,
            max_batch=64,
        )
        yield House(folder, tracking, ledger, production, keys, server, people)


@pytest.fixture
def name():
    return next(NAMES)


def test_an_approved_candidate_becomes_champion_and_answers(house, name, tmp_path):
    reference = house.candidate(name, 3.0)
    house.approve(reference)
    made = house.promoted(reference, tmp_path)
    assert house.kinds(name) == ["request", "approve", "promote", "push", "rollout_step"]
    assert (house.answer(name), house.answer(f"{name}/labels/champion")) == (3.0, 3.0)
    assert house.aliases(name) == {"champion": "1"}
    assert (made["rollout"].role, made["rollout"].share) == ("champion", 100)
    assert made["deployment"].largest_absolute_difference <= 1e-6
    assert [round(score, 6) for score in made["load"].scores] == [0.7, 0.3]
    version = house.registry.resolve(f"{name}-prod/1")
    assert version.tags["promoted_from"] == reference
    assert version.digest == tree_digest(house.folder / "serving" / "production" / name / "1")
    promotions = [entry.statement for entry in house.book.entries() if entry.statement.kind == "promote"]
    said = next(statement for statement in promotions if statement.subject.model == name)
    assert (json.loads(said.details["approved_by"]), json.loads(said.details["not_passed"])) == (["sue"], [])


@pytest.mark.parametrize("stages_done", [1, 2, 3, 4, 5])
def test_after_a_kill_at_any_boundary_the_second_start_ends_with_one_of_each(house, name, tmp_path, stages_done):
    first = house.candidate(name, 1.0)
    house.approve(first)
    house.promoted(first, tmp_path / "first")
    second = house.candidate(name, 2.0)
    house.approve(second)
    _, stages = house.stages(second, tmp_path / "killed")
    for stage in stages[:stages_done]:
        stage()
    split = house.book.traffic(name)
    assert (split.champion.version, split.canary is not None) == ("1", stages_done == 5)
    assert house.answer(f"{name}/labels/champion") == 1.0
    made = house.promoted(second, tmp_path / "again")
    assert house.kinds(name)[5:] == ["request", "approve", "promote", "push", "rollout_step"]
    assert (made["promotion"].version, made["rollout"].share) == ("2", 5)
    assert [version.version for version in house.registry.versions(f"{name}-prod")] == ["1", "2"]
    assert house.aliases(name) == {"champion": "1", "canary": "2"}
    assert (house.answer(f"{name}/labels/champion"), house.answer(f"{name}/labels/canary")) == (1.0, 2.0)


def test_what_nobody_approved_is_refused(house, name, tmp_path):
    reference = house.candidate(name)
    _, (gate, *_) = house.stages(reference, tmp_path)
    with pytest.raises(GateError, match="is not requested"):
        gate()
    house.decide("request", reference, "rob")
    with pytest.raises(GateError, match="1 of 1 approvals"):
        gate()
    house.decide("reject", reference, "sue", "too weak")
    with pytest.raises(GateError, match="is rejected"):
        gate()
    assert not (tmp_path / "model").exists()


def test_failed_evidence_goes_through_by_two_overrides_only_and_is_told(house, name, tmp_path):
    reference = house.candidate(name, failed=("service_level",))
    house.approve(reference)
    made, (gate, *_) = house.stages(reference, tmp_path)
    house.decide("override", reference, "sue", "the machine was busy")
    with pytest.raises(GateError, match="1 of 2 overrides of service_level"):
        gate()
    house.decide("override", reference, "tim", "measured by hand")
    gate()
    assert made["clearance"].standing.failed == ("service_level",)
    assert made["clearance"].standing.overridden_by == ("sue", "tim")


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def test_a_flipped_byte_in_the_registered_model_is_refused_by_name(house, name, tmp_path):
    reference = house.candidate(name)
    house.approve(reference)
    _, (gate, *_) = house.stages(reference, tmp_path)
    flip(read_evidence(house.registry, reference).saved_model / "saved_model.pb")
    with pytest.raises(RegistryError, match="its bytes changed"):
        gate()


def test_a_flipped_byte_in_the_pipelines_model_is_refused_by_name(house, name, tmp_path):
    reference = house.candidate(name)
    house.approve(reference)
    evidence = read_evidence(house.registry, reference)
    flip(house.folder / f"{name}-1.0" / "model" / "variables" / "variables.data-00000-of-00001")
    with pytest.raises(GateError, match=r"approved is [0-9a-f]{64}: its bytes changed"):
        clear(
            evidence.subject,
            RULE,
            ledger=house.ledger,
            tracking=house.tracking,
            candidate=house.folder / f"{name}-1.0" / "model",
            model=tmp_path / "model",
        )


def test_evidence_that_changed_after_the_approval_voids_it(house, name, tmp_path):
    reference = house.candidate(name)
    house.approve(reference)
    _, (gate, *_) = house.stages(reference, tmp_path)
    folder = house.registry.local_measurements(house.registry.resolve(reference))
    audit = folder / AUDIT_FILE
    before = file_digest(audit)
    audit.write_text(audit.read_text().replace('"size": 100', '"size": 101'))
    with pytest.raises(RegistryError, match=r"audit\.json has digest .* changed after its registration"):
        gate()
    dossier = folder / DOSSIER_FILE
    dossier.write_text(dossier.read_text().replace(before, file_digest(audit)))
    with pytest.raises(GateError, match="the dossier has digest"):
        gate()


def test_a_slow_model_is_not_promoted(house, name, tmp_path):
    reference = house.candidate(name)
    house.approve(reference)
    made, (gate, _, register, *_) = house.stages(reference, tmp_path)
    gate()
    report = load_test(
        tmp_path / "model", digest=made["clearance"].subject.model_digest, production=house.production.model_copy(update={"p99_ms": 1e-4})
    )
    assert not report.passed
    assert "limit 0.0001 ms" in report.reason
    write_measurement(report, str(tmp_path), LOAD_FILE)
    with pytest.raises(GateError, match="did not pass"):
        register()
    assert house.kinds(name) == ["request", "approve"]


def test_other_bytes_at_the_model_server_take_no_traffic(house, name, tmp_path):
    """The server answers something else than the tested bytes do: here the expectation is changed, the effect is the same."""
    reference = house.candidate(name)
    house.approve(reference)
    made, (gate, test, register, push, _) = house.stages(reference, tmp_path)
    for stage in (gate, test, register):
        stage()
    made["load"] = made["load"].model_copy(update={"scores": (0.25, 0.75)})
    with pytest.raises(GateError, match="takes no traffic"):
        push()
    assert house.kinds(name) == ["request", "approve", "promote"]
    assert house.book.traffic(name).labels == {}
    assert not house.placed(name, "1").exists()
    assert f'"{name}"' not in config_path(house.production.serving_root).read_text()


def test_who_mirrors_while_the_server_loads_does_not_take_the_version_away(house, name, tmp_path):
    """A router sees the promotion before the push is entered, and writes models.config; so may any operator's command."""
    first = house.candidate(name, 1.0)
    house.approve(first)
    house.promoted(first, tmp_path / "first")
    second = house.candidate(name, 2.0)
    house.approve(second)
    made, stages = house.stages(second, tmp_path / "second")
    for stage in stages[:3]:
        stage()
    ended = threading.Event()

    def mirror_all_the_time():
        while not ended.is_set():
            mirror(house.book.entries, name, production=house.production, tracking=house.tracking)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        mirroring = pool.submit(mirror_all_the_time)
        try:
            stages[3]()
        finally:
            ended.set()
        mirroring.result()
    assert made["deployment"].version == "2"
    assert house.kinds(name)[-1] == "push"
    assert house.answer(f"{name}/versions/2") == 2.0


def test_a_version_that_was_placed_is_named_by_every_mirror_until_it_is_withdrawn(house, name, tmp_path):
    reference = house.candidate(name)
    house.approve(reference)
    made, stages = house.stages(reference, tmp_path)
    for stage in stages[:3]:
        stage()
    named = f'"{name}"'
    config = config_path(house.production.serving_root)
    mirror(house.book.entries, name, production=house.production, tracking=house.tracking)
    assert named not in config.read_text()
    place(tmp_path / "model", house.placed(name, "1"), digest=made["clearance"].subject.model_digest)
    mirror(house.book.entries, name, production=house.production, tracking=house.tracking)
    assert named in config.read_text()
    withdraw(house.placed(name, "1"))
    mirror(house.book.entries, name, production=house.production, tracking=house.tracking)
    assert named not in config.read_text()


def test_a_server_that_is_not_there_is_told_and_nothing_is_entered(house, name, tmp_path):
    reference = house.candidate(name)
    house.approve(reference)
    made, stages = house.stages(reference, tmp_path)
    for stage in stages[:3]:
        stage()
    with pytest.raises(ServingError, match="does not answer"):
        deploy(
            made["promotion"],
            made["load"],
            saved_model=tmp_path / "model",
            ledger=house.ledger,
            production=house.production.model_copy(update={"server": "http://127.0.0.1:9"}),
        )
    assert house.kinds(name)[-1] == "promote"


def test_nothing_is_promoted_on_a_changed_ledger(house, name, tmp_path):
    reference = house.candidate(name)
    house.approve(reference)
    _, (gate, *_) = house.stages(reference, tmp_path)
    with contextlib.closing(sqlite3.connect(house.folder / "ledger.db")) as database:
        (last,) = database.execute("SELECT max(sequence) FROM ledger_entries").fetchone()
        (text,) = database.execute("SELECT entry FROM ledger_entries WHERE sequence = ?", (last,)).fetchone()

        def write(entry):
            database.execute("DROP TRIGGER IF EXISTS ledger_no_update")
            database.execute("UPDATE ledger_entries SET entry = ? WHERE sequence = ?", (entry, last))
            database.commit()

        write(text.replace('"sue"', '"tim"'))
        try:
            with pytest.raises(DecisionError, match=f"entry {last}"):
                gate()
        finally:
            write(text)
    gate()
    assert datetime.datetime.fromisoformat(house.book.entries()[-1].statement.at).tzinfo
