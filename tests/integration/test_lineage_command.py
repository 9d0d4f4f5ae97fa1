"""`tandem lineage` over a real MLflow registry and a real metadata store, both SQLite, filled by hand."""

import json

import pytest

from components.core.files import tree_digest
from pipelines.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pushed SavedModel; its bytes are not looked into."""
    folder = tmp_path_factory.mktemp("serving") / "staging" / "credit-risk" / "1"
    folder.mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"a graph")
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory, folder):
    """A home with one version that rests on one execution of `ingest`, and one that no pipeline run registered."""
    home = tmp_path_factory.mktemp("home")
    registrar = fill_metadata(home / "metadata.db", tree_digest(folder))
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{home / 'mlflow.db'}"
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    client.create_registered_model("credit-risk")
    tags = {"tree_digest": tree_digest(folder), "mlmd_execution_id": str(registrar), "framework": "keras", "blessed": "true"}
    client.create_model_version("credit-risk", str(folder), tags=tags)
    client.create_model_version("credit-risk", str(folder))
    client.set_registered_model_alias("credit-risk", "champion", "1")
    return home


def fill_metadata(path, digest):
    from ml_metadata.metadata_store import metadata_store
    from ml_metadata.proto import metadata_store_pb2 as proto

    config = proto.ConnectionConfig()
    config.sqlite.filename_uri = str(path)
    config.sqlite.connection_mode = proto.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
    store = metadata_store.MetadataStore(config)
    contexts = {name: store.put_context_type(proto.ContextType(name=name)) for name in ("pipeline", "node", "pipeline_run")}
    artifact_type = store.put_artifact_type(proto.ArtifactType(name="Examples"))
    artifact = proto.Artifact(type_id=artifact_type, uri="/artifacts/examples", state=proto.Artifact.LIVE)
    made = {}
    for stage, properties in (
        ("ingest", {"input_digest": "a" * 64, "data_path": "/data/credit.csv"}),
        ("keras-registrar", {"digest": digest}),
    ):
        kind = store.put_execution_type(proto.ExecutionType(name=stage))
        execution = proto.Execution(type_id=kind, last_known_state=proto.Execution.COMPLETE)
        for key, value in properties.items():
            execution.custom_properties[key].string_value = value
        direction = proto.Event.OUTPUT if stage == "ingest" else proto.Event.INPUT
        event = proto.Event(type=direction, path=proto.Event.Path(steps=[proto.Event.Path.Step(key="examples")]))
        names = {"pipeline": "credit_risk", "node": f"credit_risk.{stage}", "pipeline_run": "run-1"}
        memberships = [proto.Context(type_id=contexts[kind], name=name) for kind, name in names.items()]
        made[stage], artifact_ids, _ = store.put_execution(execution, [(artifact, event)], memberships, reuse_context_if_already_exist=True)
        artifact.id = artifact_ids[0]
    return made["keras-registrar"]


@pytest.mark.parametrize("reference", ["credit-risk/1", "credit-risk@champion", "FOLDER"])
def test_every_way_to_name_a_version_leads_to_the_data(home, folder, reference, capsys):
    asked = reference.replace("FOLDER", str(folder))
    assert main(["lineage", asked, "--home", str(home), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["data"] == {"path": "/data/credit.csv", "sha256": "a" * 64, "rows": None}
    assert [stage["name"] for stage in document["stages"]] == ["keras-registrar", "ingest"]
    assert (document["model"]["version"], document["model"]["aliases"]) == ("1", ["champion"])


def test_the_tree_is_printed(home, capsys):
    assert main(["lineage", "credit-risk@champion", "--home", str(home)]) == 0
    text = capsys.readouterr().out
    assert "credit-risk/1 (keras, blessed, alias champion)" in text
    assert text.index("keras-registrar: execution") < text.index("ingest: execution") < text.index("data /data/credit.csv: SHA-256")


def test_what_leads_nowhere_is_one_line(home, folder, tmp_path, capsys):
    other = tmp_path / "3"
    other.mkdir()
    (other / "saved_model.pb").write_bytes(b"another graph")
    for reference, message in (
        ("credit-risk/2", "credit-risk/2 was registered by no pipeline run"),
        ("credit-risk/9", "has no version 9"),
        ("nothing", "no model 'nothing' in the registry"),
        (str(other), "no version in the registry has its digest"),
    ):
        assert main(["lineage", reference, "--home", str(home)]) == 2
        assert message in capsys.readouterr().err
    assert main(["lineage", "credit-risk/1", "--home", str(tmp_path)]) == 2
    assert "there is no MLflow store" in capsys.readouterr().err
