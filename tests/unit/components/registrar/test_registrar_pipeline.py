"""Registrars and pusher as TFX runs them: real launcher, real ML Metadata, real MLflow; and the lineage of what they made."""

import json

import pytest
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration import metadata, pipeline
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.types import standard_artifacts

from components.core.artifacts import AuditReport, CompileReport, ParityReport
from components.core.contracts import AuditSpec
from components.core.lineage import MetadataStore, lineage_of
from components.core.registry import Registry
from components.pusher.component import Pusher
from components.registrar.component import Registrar

TYPES = {
    "model": standard_artifacts.Model,
    "audit": AuditReport,
    "compile_report": CompileReport,
    "parity": ParityReport,
    "model_run": standard_artifacts.ModelRun,
    "blessing": standard_artifacts.ModelBlessing,
}


@pytest.fixture
def run(tmp_path, tracking):
    def build(candidates, blessed):
        nodes, channels = [], {}
        for framework, folders in candidates.items():
            given = {}
            for name, kind in TYPES.items():
                properties = {"blessed": int(blessed[framework])} if name == "blessing" else None
                uri = str(folders.get(name, folders["model"].parent / name))
                node = Importer(source_uri=uri, artifact_type=kind, custom_properties=properties).with_id(f"{framework}-{name}")
                nodes.append(node)
                given[name] = node.outputs["result"]
            registrar = Registrar(
                **given,
                name="credit-risk",
                framework=framework,
                tracking=tracking.to_json(),
                dataset_digest="d" * 64,
                lock_digest="e" * 64,
                source_root="",
                code_fingerprint="f" * 64,
            ).with_id(f"{framework}-registrar")
            nodes.append(registrar)
            channels |= {f"{framework}_{name}": given[name] for name in ("model", "audit", "compile_report")}
            channels[f"{framework}_registration"] = registrar.outputs["registration"]
        spec = AuditSpec(floors={"auc": 0.8})
        nodes.append(
            Pusher(
                **channels,
                name="credit-risk",
                audit_spec=spec.to_json(),
                serving_root=str(tmp_path / "serving"),
                tracking=tracking.to_json(),
                code_fingerprint="f" * 64,
            ).with_id("pusher")
        )
        LocalDagRunner().run(
            pipeline.Pipeline(
                pipeline_name="credit",
                pipeline_root=str(tmp_path / "root"),
                components=nodes,
                enable_cache=True,
                metadata_connection_config=metadata.sqlite_metadata_connection_config(str(tmp_path / "metadata.db")),
            )
        )
        return MetadataStore(tmp_path / "metadata.db")

    return build


def test_two_candidates_are_registered_and_the_better_is_pushed_and_traced(run, make_candidate, tracking, tmp_path):
    candidates = {"keras": make_candidate("keras", auc=0.86), "lightning": make_candidate("lightning", auc=0.87)}
    store = run(candidates, {"keras": True, "lightning": True})
    versions = {version.tags["framework"]: version for version in Registry(tracking).versions("credit-risk")}
    lightning = versions["lightning"]
    assert (versions["keras"].tags["staging"], lightning.tags["staging"]) == ("lost", "pushed")
    assert (tmp_path / "serving" / "staging" / "credit-risk" / lightning.version / "saved_model.pb").is_file()

    (pipeline_run,) = store.pipeline_runs()
    states = {execution.stage: execution for execution in store.executions_of_run(pipeline_run)}
    pusher = states["pusher"]
    assert (pusher.state, pusher.properties["pushed"], pusher.properties["model_version"]) == (
        "COMPLETE",
        1,
        f"credit-risk/{lightning.version}",
    )
    registrar = states["lightning-registrar"]
    assert registrar.properties["mlflow_run_id"] == lightning.tags["register_run_id"]
    assert registrar.properties["digest"] == lightning.digest
    assert lightning.tags["mlmd_execution_id"] == str(registrar.id)
    assert lightning.tags["pipeline_run_id"] == pipeline_run
    mlflow_run = Registry(tracking).client.get_run(lightning.tags["register_run_id"])
    assert (mlflow_run.data.tags["stage"], mlflow_run.data.tags["mlmd_execution_id"]) == ("lightning-registrar", str(registrar.id))

    found = lineage_of(store, registrar.id, digest=lightning.digest)
    assert {execution.stage for execution in found.graph.executions} == {"lightning-registrar"} | {f"lightning-{name}" for name in TYPES}
    assert found.code_fingerprints == {"lightning-registrar": "f" * 64}
    assert found.data_digest is None
    pushed = next(artifact for artifact in store.trace(pusher.id).artifacts if artifact.type == "Model")
    assert pushed.uri in {str(folders["model"]) for folders in candidates.values()}

    run(candidates, {"keras": True, "lightning": True})
    again = store.executions_of_run(store.pipeline_runs()[1])
    assert {execution.state for execution in again if execution.stage in ("pusher", "keras-registrar", "lightning-registrar")} == {"CACHED"}
    assert len(Registry(tracking).versions("credit-risk")) == 2


def test_a_stopped_and_an_unblessed_candidate_end_with_nothing_pushed(run, make_candidate, tracking, tmp_path):
    candidates = {"keras": make_candidate("keras", blessed=False), "lightning": make_candidate("lightning", compiled=False)}
    store = run(candidates, {"keras": False, "lightning": False})
    assert [version.tags["framework"] for version in Registry(tracking).versions("credit-risk")] == ["keras"]
    executions = {execution.stage: execution for execution in store.executions_of_run(store.pipeline_runs()[0])}
    assert executions["pusher"].state == "COMPLETE"
    assert executions["pusher"].properties["pushed"] == 0
    (report,) = (tmp_path / "root").rglob("push.json")
    assert json.loads(report.read_text())["reason"] == (
        "nothing to push: keras was not blessed: floor/auc; lightning was stopped: parity failed: row 3"
    )
    assert not (tmp_path / "serving").exists()
