"""Where a model version comes from, as the document that `tandem lineage --json` prints (docs/json.md)."""

import contextlib
import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from components.core.contracts import TrackingSpec
from components.core.errors import RegistryError
from components.core.files import tree_digest
from components.core.lineage import ExecutionNode, Lineage, MetadataStore, VersionLineage, lineage_of
from components.core.registry import ModelVersion, Registry

SAVED_MODEL_FILE = "saved_model.pb"
_VERSION_TAGS = ("framework", "blessed", "staging", "dataset_digest", "pipeline_run_id")


def trace_version(reference: str, home: Path) -> dict[str, Any]:
    """Walks from a version back to its data.

    Args:
        reference: `name`, `name@alias`, `name/version`, or the folder of a SavedModel that was pushed.
        home: folder of the stores.

    Returns:
        The document of schema version 1; docs/json.md describes each key.

    Raises:
        RegistryError: no such model, or one that no pipeline run registered.
        StoreError: a store is not there or cannot be read.
    """
    registry = Registry(_tracking(home))
    pushed = pushed_folder(reference)
    version = version_of_folder(registry, pushed) if pushed else registry.resolve(reference)
    execution = version.tags.get("mlmd_execution_id", "")
    if not execution.isdecimal():
        raise RegistryError(f"{version.name}/{version.version} was registered by no pipeline run, so nothing leads back from it")
    store = MetadataStore(home / "metadata.db")
    return describe_version(version, lineage_of(store, int(execution), digest=version.digest), pushed=pushed)


def _tracking(home: Path) -> TrackingSpec:
    """The stores of a home, to read from."""
    return TrackingSpec(uri=f"sqlite:///{home / 'mlflow.db'}", artifact_root=str(home / "mlflow-artifacts"), experiment="", use_case="")


def pushed_folder(reference: str) -> Path | None:
    """The folder that `reference` means; None when it is the name of a model.

    Raises:
        RegistryError: a path without a SavedModel.
    """
    folder = Path(reference).expanduser()
    if (folder / SAVED_MODEL_FILE).is_file():
        return folder.resolve()
    if folder.is_absolute() or reference.startswith((".", "~")) or len(folder.parts) > 2:
        raise RegistryError(
            f"{reference}: no SavedModel lies there; give a version's folder, e.g. serving/staging/credit-risk/3, or a name"
        )
    return None


def version_of_folder(registry: Registry, folder: Path) -> ModelVersion:
    """The version whose bytes lie in `folder`; where several have them, the one that the folder is named for, else the newest.

    Raises:
        RegistryError: no registered version has these bytes.
    """
    digest = tree_digest(folder)
    found = [version for name in registry.names() for version in registry.versions(name) if version.digest == digest]
    if not found:
        raise RegistryError(f"{folder}: no version in the registry has its digest {digest}; is --home that of the run that made it?")
    named = [version for version in found if (version.name, version.version) == (folder.parent.name, folder.name)]
    return (named or found)[-1]


def describe_version(version: ModelVersion, lineage: VersionLineage, *, pushed: Path | None = None) -> dict[str, Any]:
    """The document, from what the registry and ML Metadata say."""
    graph, tags = lineage.graph, version.tags
    return {
        "schema_version": 1,
        "model": {
            "name": version.name,
            "version": version.version,
            "aliases": list(version.aliases),
            "digest": version.digest,
            "run_id": version.run_id or None,
            **{key: tags.get(key) for key in _VERSION_TAGS},
            "source": version.source,
            "pushed_folder": str(pushed) if pushed else None,
        },
        "data": _data(graph, lineage.data_digest),
        "code": {
            "git_commit": tags.get("git_commit"),
            "git_dirty": tags.get("git_dirty"),
            "fingerprints": {stage: fingerprint for stage, fingerprint in _fingerprints(graph).items() if fingerprint},
        },
        "environment": {"lock_digest": tags.get("lock_digest")},
        "mlflow_runs": {stage: str(value) for stage, value in lineage.mlflow_runs.items()},
        "pipeline_runs": list(dict.fromkeys(execution.pipeline_run_id for execution in reversed(graph.executions))),
        "stages": [_stage(execution, graph) for execution in graph.executions],
    }


def _data(graph: Lineage, digest: str | None) -> dict[str, Any]:
    ingest = graph.stage("ingest")
    properties = ingest.properties if ingest else {}
    return {"path": properties.get("data_path"), "sha256": digest, "rows": properties.get("rows")}


def _stage(execution: ExecutionNode, graph: Lineage) -> dict[str, Any]:
    return {
        "name": execution.stage,
        "execution_id": execution.id,
        "pipeline_run_id": execution.pipeline_run_id,
        "state": execution.state,
        "started": _utc(execution.started_ms),
        "seconds": round(execution.seconds, 3),
        "mlflow_run_id": execution.properties.get("mlflow_run_id") or None,
        "code_fingerprint": fingerprint_of(execution),
        "rests_on": sorted(makers_of(execution.id, graph)),
        "inputs": _artifacts(execution.id, graph, "input"),
        "outputs": _artifacts(execution.id, graph, "output"),
    }


def _fingerprints(graph: Lineage) -> dict[str, str | None]:
    """Stage -> digest of its sources, from the data to the model."""
    return {execution.stage: fingerprint_of(execution) for execution in reversed(graph.executions)}


def fingerprint_of(execution: ExecutionNode) -> str | None:
    """Digest of the sources that a stage ran; stock stages of TFX (Transform, Trainer) carry it in `custom_config`."""
    properties = dict(execution.properties)
    config = properties.get("custom_config")
    if isinstance(config, str):
        with contextlib.suppress(json.JSONDecodeError):
            found = json.loads(config)
            properties = {**(found if isinstance(found, dict) else {}), **properties}
    fingerprint = properties.get("code_fingerprint")
    return str(fingerprint) if fingerprint else None


def _utc(milliseconds: int) -> str:
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).isoformat(timespec="seconds")


def makers_of(execution_id: int, graph: Lineage) -> set[int]:
    """Executions that made the inputs of an execution."""
    read = {edge.artifact for edge in graph.edges if edge.execution == execution_id and edge.direction == "input"}
    return {edge.execution for edge in graph.edges if edge.artifact in read and edge.direction == "output"} - {execution_id}


def _artifacts(execution_id: int, graph: Lineage, direction: str) -> list[dict[str, Any]]:
    described = {artifact.id: artifact for artifact in graph.artifacts}
    edges: Iterable[Any] = (edge for edge in graph.edges if edge.execution == execution_id and edge.direction == direction)
    return [
        {"key": edge.key, "artifact_id": edge.artifact, "type": described[edge.artifact].type, "uri": described[edge.artifact].uri}
        for edge in edges
        if edge.artifact in described
    ]
