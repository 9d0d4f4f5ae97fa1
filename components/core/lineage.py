"""Lineage: from a version back to the bytes of the data, walked in ML Metadata (SQLite).

ML Metadata's own queries for it (`filter_query`, `get_lineage_subgraph`) are not implemented in the released library, so the graph is
walked level by level: artifact, the execution that made it, that one's inputs. A cached execution shows the same outputs again; only
the execution that really made them counts.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from components.core.errors import StoreError

Value = str | int | float
COMPLETE = "COMPLETE"
_STALE = ("NEW", "RUNNING")
INGEST_STAGE = "ingest"
INGEST_DIGEST = "input_digest"


@dataclasses.dataclass(frozen=True)
class ArtifactNode:
    """One artifact.

    Attributes:
        id: of ML Metadata.
        type: e.g. `Model`, `components.AuditReport`.
        uri: its folder.
        state: `LIVE`, `ABANDONED`, ...; `UNKNOWN` when never set.
        properties: properties and custom properties.
    """

    id: int
    type: str
    uri: str
    state: str
    properties: dict[str, Value]


@dataclasses.dataclass(frozen=True)
class ExecutionNode:
    """One execution of one stage.

    Attributes:
        id: of ML Metadata.
        stage: node id, e.g. `keras-trainer`.
        pipeline_run_id: the pipeline run that executed it.
        state: `COMPLETE`, `CACHED`, `FAILED`, `RUNNING`, ...
        started_ms, updated_ms: milliseconds since 1970 (UTC); the last update of an ended execution is its end.
        properties: parameters of the stage, and what its executor left.
    """

    id: int
    stage: str
    pipeline_run_id: str
    state: str
    started_ms: int
    updated_ms: int
    properties: dict[str, Value]

    @property
    def seconds(self) -> float:
        """From start to last update."""
        return (self.updated_ms - self.started_ms) / 1000


@dataclasses.dataclass(frozen=True, order=True)
class Edge:
    """An artifact that an execution read (`input`) or made (`output`), under the name `key`."""

    execution: int
    artifact: int
    direction: Literal["input", "output"]
    key: str


@dataclasses.dataclass(frozen=True)
class Lineage:
    """A walked graph.

    Attributes:
        executions: the newest first, so that each stage comes before those it rests on.
        artifacts: by id, ascending.
        edges: sorted.
    """

    executions: tuple[ExecutionNode, ...]
    artifacts: tuple[ArtifactNode, ...]
    edges: tuple[Edge, ...]

    def stage(self, name: str) -> ExecutionNode | None:
        """The newest execution of a stage."""
        return next((execution for execution in self.executions if execution.stage == name), None)

    def by_stage(self, key: str) -> dict[str, Value]:
        """Stage -> value of the property `key`, for the stages that have it (e.g. `code_fingerprint`, `mlflow_run_id`)."""
        newest_last = reversed(self.executions)
        return {execution.stage: execution.properties[key] for execution in newest_last if execution.properties.get(key, "") != ""}


@dataclasses.dataclass(frozen=True)
class VersionLineage:
    """Where a registered version comes from.

    Attributes:
        graph: every execution and artifact that it rests on.
        data_digest: SHA-256 of the input data; None when no execution of `ingest` was found.
        code_fingerprints: stage -> digest of its sources.
        mlflow_runs: stage -> MLflow run.
    """

    graph: Lineage
    data_digest: str | None
    code_fingerprints: dict[str, Value]
    mlflow_runs: dict[str, Value]


class MetadataStore:
    """ML Metadata in one SQLite file.

    Raises:
        StoreError: there is no such file, or it is no metadata store.
    """

    def __init__(self, path: Path | str, *, writable: bool = False) -> None:
        if not Path(path).is_file():
            raise StoreError(f"there is no metadata store at {path} yet; `tandem run` makes it, or correct the base directory")
        # Here and not above: the library costs 0.25 s of CPU, opening a file 3 ms.
        from ml_metadata.metadata_store import metadata_store
        from ml_metadata.proto import metadata_store_pb2

        self.path = Path(path)
        self._proto: Any = metadata_store_pb2
        self._writable = writable
        config = metadata_store_pb2.ConnectionConfig()
        config.sqlite.filename_uri = str(path)
        modes = metadata_store_pb2.SqliteMetadataSourceConfig
        config.sqlite.connection_mode = modes.READWRITE if writable else modes.READONLY
        try:
            self._store: Any = metadata_store.MetadataStore(config)
            self._types = {kind.id: kind.name for kind in self._store.get_artifact_types()}
        except Exception as error:  # the library raises RuntimeError and a family of its own
            raise StoreError(f"{path} cannot be read as a metadata store: {_first_line(error)}; move it away and run again") from error

    def executions_of_run(self, pipeline_run_id: str) -> tuple[ExecutionNode, ...]:
        """Executions of a pipeline run, cached and failed ones too, in the order in which they started; empty for an unknown run."""
        found = self._run_executions(pipeline_run_id)
        return tuple(sorted(self._describe_executions(found), key=lambda execution: (execution.started_ms, execution.id)))

    def pipeline_runs(self) -> tuple[str, ...]:
        """Ids of all pipeline runs, oldest first."""
        contexts = sorted(self._store.get_contexts_by_type("pipeline_run"), key=lambda context: context.id)
        return tuple(context.name for context in contexts)

    def trace(self, start: int | str) -> Lineage:
        """Walks back from an execution (its id) or an artifact (its uri) to what has no maker.

        The execution that starts the walk is shown whatever its state; of all others only complete ones.

        Raises:
            StoreError: nothing of that id or uri is in the store.
        """
        walk = _Walk(self._store, self._proto)
        if isinstance(start, int):
            executions = self._store.get_executions_by_id([start])
            if not executions:
                raise StoreError(f"execution {start} is not in the metadata store {self.path}; is it the store of that run?")
            walk.from_executions(executions)
        else:
            artifacts = self._store.get_artifacts_by_uri(start)
            if not artifacts:
                raise StoreError(f"no artifact with the uri {start} is in the metadata store {self.path}")
            walk.from_artifacts(artifacts)
        described = self._describe_executions(walk.executions.values())
        return Lineage(
            executions=tuple(sorted(described, key=lambda execution: (execution.started_ms, execution.id), reverse=True)),
            artifacts=tuple(self._describe_artifact(artifact) for _, artifact in sorted(walk.artifacts.items())),
            edges=tuple(sorted(walk.edges)),
        )

    def fail_stale_executions(self, pipeline_run_id: str) -> int:
        """Ends what a dead pipeline run left: its running executions become FAILED, outputs that are not live ABANDONED.

        The caller knows that the run is dead. Needs a store opened with `writable=True`.

        Returns:
            How many executions were ended.
        """
        self._require_writable()
        states = self._proto.Execution.State
        stale = [found for found in self._run_executions(pipeline_run_id) if states.Name(found.last_known_state) in _STALE]
        if not stale:
            return 0
        for execution in stale:
            execution.last_known_state = states.FAILED
        self._store.put_executions(stale)
        outputs = {event.artifact_id for event in self._events(stale) if event.type in _types_of(self._proto, "output", pending=True)}
        live = self._proto.Artifact.LIVE
        abandoned = [artifact for artifact in self._store.get_artifacts_by_id(sorted(outputs)) if artifact.state != live]
        for artifact in abandoned:
            artifact.state = self._proto.Artifact.ABANDONED
        if abandoned:
            self._store.put_artifacts(abandoned)
        return len(stale)

    def set_execution_property(self, execution_id: int, key: str, value: Value) -> None:
        """Sets a custom property of an execution. Needs a store opened with `writable=True`.

        Raises:
            StoreError: no such execution.
        """
        self._require_writable()
        found = self._store.get_executions_by_id([execution_id])
        if not found:
            raise StoreError(f"execution {execution_id} is not in the metadata store {self.path}; is it the store of that run?")
        kind = "string_value" if isinstance(value, str) else "double_value" if isinstance(value, float) else "int_value"
        found[0].custom_properties[key].Clear()
        setattr(found[0].custom_properties[key], kind, value)
        self._store.put_executions(found)

    def _require_writable(self) -> None:
        if not self._writable:
            raise StoreError(f"the metadata store {self.path} was opened to read; open it with writable=True")

    def _run_executions(self, pipeline_run_id: str) -> list[Any]:
        context = self._store.get_context_by_type_and_name("pipeline_run", pipeline_run_id)
        return [] if context is None else list(self._store.get_executions_by_context(context.id))

    def _events(self, executions: Iterable[Any]) -> list[Any]:
        return list(self._store.get_events_by_execution_ids([execution.id for execution in executions]))

    def _describe_artifact(self, artifact: Any) -> ArtifactNode:
        return ArtifactNode(
            id=artifact.id,
            type=self._types.get(artifact.type_id, artifact.type),
            uri=artifact.uri,
            state=self._proto.Artifact.State.Name(artifact.state),
            properties=_values(artifact),
        )

    def _describe_executions(self, executions: Iterable[Any]) -> list[ExecutionNode]:
        described = []
        for execution in executions:
            contexts = {context.type: context.name for context in self._store.get_contexts_by_execution(execution.id)}
            pipeline, node = contexts.get("pipeline", ""), contexts.get("node", "")
            described.append(
                ExecutionNode(
                    id=execution.id,
                    stage=node.removeprefix(f"{pipeline}.") if pipeline else node,
                    pipeline_run_id=contexts.get("pipeline_run", ""),
                    state=self._proto.Execution.State.Name(execution.last_known_state),
                    started_ms=execution.create_time_since_epoch,
                    updated_ms=execution.last_update_time_since_epoch,
                    properties=_values(execution),
                )
            )
        return described


class _Walk:
    """Walks back, a level at a time: four questions to the store a level, whatever its width."""

    def __init__(self, store: Any, proto: Any) -> None:
        self.store = store
        self.proto = proto
        self.executions: dict[int, Any] = {}
        self.artifacts: dict[int, Any] = {}
        self.edges: set[Edge] = set()

    def from_artifacts(self, artifacts: Sequence[Any]) -> None:
        """Goes on with the complete executions that made these artifacts."""
        fresh = {artifact.id: artifact for artifact in artifacts if artifact.id not in self.artifacts}
        if not fresh:
            return
        self.artifacts.update(fresh)
        events = self._events(self.store.get_events_by_artifact_ids(list(fresh)), "output")
        makers = self.store.get_executions_by_id(sorted({event.execution_id for event in events}))
        complete = {
            maker.id: maker for maker in makers if maker.last_known_state == self.proto.Execution.COMPLETE or maker.id in self.executions
        }
        self.edges.update(_edge(event, "output") for event in events if event.execution_id in complete)
        self.from_executions([maker for identity, maker in complete.items() if identity not in self.executions])

    def from_executions(self, executions: Sequence[Any]) -> None:
        """Goes on with the inputs of these executions."""
        if not executions:
            return
        self.executions.update({execution.id: execution for execution in executions})
        events = self._events(self.store.get_events_by_execution_ids([execution.id for execution in executions]), "input")
        self.edges.update(_edge(event, "input") for event in events)
        self.from_artifacts(self.store.get_artifacts_by_id(sorted({event.artifact_id for event in events})))

    def _events(self, events: Iterable[Any], direction: Literal["input", "output"]) -> list[Any]:
        return [event for event in events if event.type in _types_of(self.proto, direction)]


def lineage_of(store: MetadataStore, execution_id: int, *, digest: str = "") -> VersionLineage:
    """Where a version comes from.

    Args:
        store: the store of the pipeline run that registered it.
        execution_id: of its registrar (version tag `mlmd_execution_id`).
        digest: tree digest of the version; when given, the execution has to be the one that registered it.

    Raises:
        StoreError: the execution is not there, or registered something else (another store, or one that was made anew).
    """
    graph = store.trace(execution_id)
    start = next(execution for execution in graph.executions if execution.id == execution_id)
    registered = start.properties.get("digest", "")
    if digest and registered and registered != digest:
        raise StoreError(f"execution {execution_id} in {store.path} registered {registered}, not {digest}; is it the store of that run?")
    ingest = graph.stage(INGEST_STAGE)
    data_digest = None if ingest is None else ingest.properties.get(INGEST_DIGEST)
    return VersionLineage(
        graph=graph,
        data_digest=None if data_digest is None else str(data_digest),
        code_fingerprints=graph.by_stage("code_fingerprint"),
        mlflow_runs=graph.by_stage("mlflow_run_id"),
    )


def _types_of(proto: Any, direction: Literal["input", "output"], *, pending: bool = False) -> frozenset[int]:
    """Event types: the plain one and the declared one of either direction; `pending` adds outputs that were announced only."""
    event = proto.Event
    if direction == "input":
        return frozenset({event.INPUT, event.DECLARED_INPUT})
    return frozenset({event.OUTPUT, event.DECLARED_OUTPUT, *([event.PENDING_OUTPUT] if pending else [])})


def _edge(event: Any, direction: Literal["input", "output"]) -> Edge:
    key = next((step.key for step in event.path.steps if step.HasField("key")), "")
    return Edge(event.execution_id, event.artifact_id, direction, key)


def _values(node: Any) -> dict[str, Value]:
    """Properties and custom properties of an artifact or execution; structured values are left out."""
    values: dict[str, Value] = {}
    for properties in (node.properties, node.custom_properties):
        for key, value in properties.items():
            kind = value.WhichOneof("value")
            if kind in ("string_value", "int_value", "double_value"):
                values[key] = getattr(value, kind)
    return values


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
