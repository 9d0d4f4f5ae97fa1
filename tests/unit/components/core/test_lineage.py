"""Lineage on a real ML Metadata store, written the way TFX writes it."""

import pytest
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as proto

from components.core.errors import StoreError
from components.core.lineage import MetadataStore, lineage_of

COMPLETE, CACHED, FAILED, RUNNING = (getattr(proto.Execution, name) for name in ("COMPLETE", "CACHED", "FAILED", "RUNNING"))
STAGES = [  # stage, inputs, output
    ("ingest", [], "examples"),
    ("transform", ["examples"], "transformed"),
    ("keras-trainer", ["transformed"], "native"),
    ("lightning-trainer", ["transformed"], "other-native"),
    ("keras-exporter", ["native", "transformed"], "exported"),
    ("keras-compiler", ["exported"], "compiled"),
    ("keras-registrar", ["compiled"], "registration"),
]


class Writer:
    """Writes executions, artifacts and events as TFX does."""

    def __init__(self, path):
        config = proto.ConnectionConfig()
        config.sqlite.filename_uri = str(path)
        config.sqlite.connection_mode = proto.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        self.store = metadata_store.MetadataStore(config)
        self.artifacts = {}

    def context(self, kind, name):
        type_id = self.store.put_context_type(proto.ContextType(name=kind), can_add_fields=True)
        found = self.store.get_context_by_type_and_name(kind, name)
        return found or self.store.get_contexts_by_id(self.store.put_contexts([proto.Context(type_id=type_id, name=name)]))[0]

    def artifact(self, name, state=proto.Artifact.LIVE):
        type_id = self.store.put_artifact_type(proto.ArtifactType(name="Model"))
        artifact = proto.Artifact(type_id=type_id, uri=f"/artifacts/{name}", state=state)
        artifact.custom_properties["digest"].string_value = f"digest of {name}"
        artifact.id = self.store.put_artifacts([artifact])[0]
        return artifact

    def execution(self, run, stage, *, inputs, outputs, state, properties=()):
        type_id = self.store.put_execution_type(proto.ExecutionType(name=f"components.{stage}"), can_add_fields=True)
        execution = proto.Execution(type_id=type_id, last_known_state=state)
        for key, value in dict(properties).items():
            execution.custom_properties[key].string_value = value
        pairs = []
        for kind, artifacts in ((proto.Event.INPUT, inputs), (proto.Event.OUTPUT, outputs)):
            for artifact in artifacts:
                event = proto.Event(type=kind)
                event.path.steps.add().key = artifact.uri.rsplit("/")[-1]
                pairs.append((artifact, event))
        contexts = [self.context("pipeline", "credit"), self.context("pipeline_run", run), self.context("node", f"credit.{stage}")]
        return self.store.put_execution(execution, pairs, contexts)[0]

    def run(self, run, *, state=COMPLETE):
        """One pipeline run; the cached one shows the same artifacts."""
        ids = {}
        for stage, inputs, output in STAGES:
            if state == COMPLETE:
                self.artifacts[output] = self.artifact(output)
            properties = {"code_fingerprint": f"code of {stage}", "mlflow_run_id": f"mlflow of {stage}" if "trainer" in stage else ""}
            properties |= {"input_digest": "f" * 64} if stage == "ingest" else {}
            properties |= {"digest": "a" * 64} if "registrar" in stage else {}
            given = [self.artifacts[name] for name in inputs]
            ids[stage] = self.execution(run, stage, inputs=given, outputs=[self.artifacts[output]], state=state, properties=properties)
        return ids


@pytest.fixture
def path(tmp_path):
    return tmp_path / "metadata.db"


@pytest.fixture
def ids(path):
    return Writer(path).run("run-1")


def test_a_version_is_traced_to_the_data_and_the_code(path, ids):
    found = lineage_of(MetadataStore(path), ids["keras-registrar"], digest="a" * 64)
    stages = [execution.stage for execution in found.graph.executions]
    assert stages == ["keras-registrar", "keras-compiler", "keras-exporter", "keras-trainer", "transform", "ingest"]
    assert found.data_digest == "f" * 64
    assert found.code_fingerprints["keras-exporter"] == "code of keras-exporter"
    assert found.mlflow_runs == {"keras-trainer": "mlflow of keras-trainer"}
    assert {execution.pipeline_run_id for execution in found.graph.executions} == {"run-1"}
    assert {artifact.uri for artifact in found.graph.artifacts} == {
        f"/artifacts/{name}" for name in ("examples", "transformed", "native", "exported", "compiled")
    }
    assert found.graph.artifacts[0].properties == {"digest": "digest of examples"}
    assert found.graph.artifacts[0].type == "Model"
    assert found.graph.artifacts[0].state == "LIVE"


def test_cached_and_failed_executions_add_nothing(path):
    writer = Writer(path)
    first = writer.run("run-1")
    writer.run("run-2", state=CACHED)
    writer.execution("run-3", "transform", inputs=[writer.artifacts["examples"]], outputs=[writer.artifacts["transformed"]], state=FAILED)
    graph = MetadataStore(path).trace("/artifacts/registration")
    assert sorted(execution.id for execution in graph.executions) == sorted(set(first.values()) - {first["lightning-trainer"]})
    assert len({(edge.execution, edge.artifact, edge.direction) for edge in graph.edges}) == len(graph.edges) == 12


def test_a_walk_from_a_cached_execution_shows_it_and_then_the_originals(path):
    writer = Writer(path)
    first = writer.run("run-1")
    second = writer.run("run-2", state=CACHED)
    graph = MetadataStore(path).trace(second["keras-compiler"])
    expected = {second["keras-compiler"], first["keras-exporter"], first["keras-trainer"], first["transform"], first["ingest"]}
    assert {execution.id for execution in graph.executions} == expected


def test_edges_carry_the_name_of_the_input(path, ids):
    graph = MetadataStore(path).trace(ids["keras-exporter"])
    given = {edge.key for edge in graph.edges if edge.execution == ids["keras-exporter"] and edge.direction == "input"}
    assert given == {"native", "transformed"}


def test_what_is_not_there_is_said(path, ids, tmp_path):
    store = MetadataStore(path)
    with pytest.raises(StoreError, match="execution 999"):
        store.trace(999)
    with pytest.raises(StoreError, match="/nowhere"):
        store.trace("/nowhere")
    with pytest.raises(StoreError, match=r"registered a{64}, not b{64}"):
        lineage_of(store, ids["keras-registrar"], digest="b" * 64)
    with pytest.raises(StoreError, match="`tandem run` makes it"):
        MetadataStore(tmp_path / "none.db")
    (tmp_path / "text.db").write_text("no database " * 100)
    with pytest.raises(StoreError, match="cannot be read as a metadata store") as fault:
        MetadataStore(tmp_path / "text.db")
    assert "\n" not in str(fault.value)


def test_executions_of_a_run_in_their_order(path, ids):
    store = MetadataStore(path)
    assert [execution.stage for execution in store.executions_of_run("run-1")] == [stage for stage, _, _ in STAGES]
    assert all(execution.state == "COMPLETE" and execution.seconds >= 0 for execution in store.executions_of_run("run-1"))
    assert store.executions_of_run("unknown") == ()
    assert store.pipeline_runs() == ("run-1",)


def test_an_empty_store_has_no_runs(path):
    Writer(path)
    assert MetadataStore(path).pipeline_runs() == ()


def test_executions_of_a_dead_run_become_failed_with_their_unfinished_outputs(path):
    writer = Writer(path)
    kept = writer.run("run-1")
    half = writer.artifact("half", proto.Artifact.PENDING)
    dead = writer.execution("dead", "transform", inputs=[writer.artifacts["examples"]], outputs=[half], state=RUNNING)
    other = writer.execution("alive", "transform", inputs=[writer.artifacts["examples"]], outputs=[], state=RUNNING)
    store = MetadataStore(path, writable=True)
    assert store.fail_stale_executions("dead") == 1
    assert store.fail_stale_executions("dead") == 0
    assert store.fail_stale_executions("unknown") == 0
    states = {execution.id: execution.last_known_state for execution in writer.store.get_executions()}
    assert states[dead] == FAILED
    assert states[other] == RUNNING
    assert {states[execution] for execution in kept.values()} == {COMPLETE}
    found = {artifact.uri: artifact.state for artifact in writer.store.get_artifacts()}
    assert found.pop("/artifacts/half") == proto.Artifact.ABANDONED
    assert set(found.values()) == {proto.Artifact.LIVE}


def test_a_property_is_set_and_replaced(path, ids):
    store = MetadataStore(path, writable=True)
    store.set_execution_property(ids["ingest"], "note", "first")
    store.set_execution_property(ids["ingest"], "note", 2)
    store.set_execution_property(ids["ingest"], "seconds", 0.5)
    properties = MetadataStore(path).trace(ids["ingest"]).executions[0].properties
    assert (properties["note"], properties["seconds"]) == (2, 0.5)
    with pytest.raises(StoreError, match="execution 999"):
        store.set_execution_property(999, "note", "x")


def test_a_reading_store_cannot_write(path, ids):
    with pytest.raises(StoreError, match="read"):
        MetadataStore(path).set_execution_property(ids["ingest"], "note", "x")
