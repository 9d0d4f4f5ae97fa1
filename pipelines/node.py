"""The side of the local runner that works: functions that run in children of the forkserver, one stage a process."""

import dataclasses
import errno
import logging
import multiprocessing
import multiprocessing.util
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from components.core.errors import TandemError
from components.core.progress import listen
from pipelines.config import PipelineConfig
from pipelines.journal import PipelineKind
from pipelines.plan import PipelinePlan


@dataclasses.dataclass(frozen=True)
class StageResult:
    """How a stage ended; travels through a pipe.

    Attributes:
        state: `complete`, `cached`, `failed`, `interrupted`.
        execution_id: of ML Metadata.
        error: one line, empty when there was none.
        artifacts: output name -> folder.
        seconds: wall time, filled by the runner.
    """

    state: str
    execution_id: int | None = None
    error: str = ""
    artifacts: dict[str, str] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0


def enter(log: Path) -> None:
    """Makes this process a quiet child: output to `log`, ended by SIGTERM as by Ctrl-C, gone when the runner is gone."""
    log.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True)
    # Ctrl-C reaches the whole process group of a terminal; the runner alone decides when a stage ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_follow_parent, daemon=True).start()


def _interrupt(signum: int, frame: Any) -> None:
    del signum, frame
    raise KeyboardInterrupt


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)
    os._exit(1)


def answer(function: Callable[[dict[str, Any]], Any], request: dict[str, Any], connection: Any, *, what: str) -> None:
    """Calls one of the functions below in this child and answers ("ok", its result) or ("error", one line)."""
    enter(Path(request["log"]))
    try:
        connection.send(("ok", function(request)))
    except BaseException as error:  # noqa: BLE001 - the parent is told, whatever it is
        traceback.print_exc()
        connection.send(("error", explain(error, what, request["log"])))


def find_champion(request: dict[str, Any]) -> str:
    """The production model that the registry names, as JSON; an empty text when there is none."""
    from components.core.registry import Registry

    champion = Registry(request["tracking"]).champion(request["name"], Path(request["folder"]))
    return champion.to_json() if champion else ""


def prepare_tracking(request: dict[str, Any]) -> None:
    """Makes MLflow's tables and the experiment, which takes seconds the first time; trainers then find them."""
    from components.core.tracking import prepare_store

    prepare_store(request["tracking"])


def compile_ir(request: dict[str, Any]) -> bytes:
    """Compiles a pipeline to TFX's IR, marked for the stages that are to run."""
    from tfx.dsl.compiler import compiler, constants
    from tfx.orchestration import metadata
    from tfx.orchestration.local import runner_utils
    from tfx.orchestration.portable import partial_run_utils, runtime_parameter_utils

    ir = compiler.Compiler().compile(_create_pipeline(request["kind"], request["config"], request["plan"]))
    runtime_parameter_utils.substitute_runtime_parameter(ir, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: request["run_id"]})
    for node in ir.nodes:
        if request["plan"][node.pipeline_node.node_info.id].always_runs:
            node.pipeline_node.execution_options.caching_options.enable_cache = False
    # The first connection makes the tables; stages that start at once would make them twice.
    with metadata.Metadata(_connection_config(runner_utils.extract_local_deployment_config(ir))) as store:
        chosen = request["stages"]
        if set(chosen) != set(request["plan"].names()):
            partial_run_utils.mark_pipeline(ir, from_nodes=chosen, to_nodes=chosen)
            partial_run_utils.snapshot(store, ir, base_run_id=request["base_run_id"])
    return bytes(ir.SerializeToString(deterministic=True))


def _create_pipeline(kind: PipelineKind, config: PipelineConfig, plan: PipelinePlan) -> Any:
    """The TFX pipeline; what the other one imports is not loaded."""
    if kind == "promotion":
        from pipelines.promotion import create_promotion_pipeline

        return create_promotion_pipeline(config, plan)
    from pipelines.training import create_training_pipeline

    return create_training_pipeline(config, plan)


def _connection_config(deployment: Any) -> Any:
    """How ML Metadata is reached: the one field of the deployment that is set."""
    choice = deployment.metadata_connection_config
    return getattr(choice, choice.WhichOneof("connection_config"))


def run_stage(request: dict[str, Any], connection: Any) -> None:
    """Runs one stage of a compiled pipeline and answers a StageResult."""
    enter(Path(request["log"]))
    listen(lambda event: connection.send(("progress", event)))
    try:
        result = _launch(request["ir"], request["stage"])
    except KeyboardInterrupt:
        traceback.print_exc()
        result = StageResult("interrupted", error=f"{request['stage']}: interrupted")
    except BaseException as error:  # noqa: BLE001 - the parent is told, whatever it is
        traceback.print_exc()
        result = StageResult("failed", error=explain(error, request["stage"], request["log"]))
    logging.info(_usage())
    sys.stdout.flush()
    sys.stderr.flush()
    connection.send(("result", result))
    connection.close()
    # Threads of the libraries (gRPC, tf.data) must not keep a finished stage alive; what they registered with multiprocessing is let go.
    multiprocessing.util._run_finalizers()  # type: ignore[attr-defined]  # what multiprocessing itself calls at an orderly end
    os._exit(0)


def _usage() -> str:
    """What this process used so far, one line for the log."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        f"used {own.ru_utime:.1f} s user, {own.ru_stime:.1f} s system, {children.ru_utime + children.ru_stime:.1f} s in its children; "
        f"peak {own.ru_maxrss / 1024:.0f} MB; {own.ru_minflt} page faults"
    )


def _launch(ir_bytes: bytes, stage: str) -> StageResult:
    from ml_metadata.proto import metadata_store_pb2
    from tfx.orchestration import metadata
    from tfx.orchestration.local import runner_utils
    from tfx.orchestration.portable import launcher
    from tfx.proto.orchestration import pipeline_pb2

    ir = pipeline_pb2.Pipeline.FromString(ir_bytes)
    deployment = runner_utils.extract_local_deployment_config(ir)
    connection_config = _connection_config(deployment)
    node = next(node.pipeline_node for node in ir.nodes if node.pipeline_node.node_info.id == stage)
    info = launcher.Launcher(
        pipeline_node=node,
        mlmd_connection=metadata.Metadata(connection_config),
        pipeline_info=ir.pipeline_info,
        pipeline_runtime_spec=ir.runtime_spec,
        executor_spec=runner_utils.extract_executor_spec(deployment, stage),
        custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, stage),
    ).launch()
    with metadata.Metadata(connection_config) as handle:
        execution = handle.store.get_executions_by_id([info.execution_id])[0]
        states = metadata_store_pb2.Execution
        if execution.last_known_state not in (states.COMPLETE, states.CACHED):
            return StageResult("failed", info.execution_id, f"{stage}: its inputs are not there; run the stages before it first")
        cached = execution.last_known_state == states.CACHED
        return StageResult("cached" if cached else "complete", info.execution_id, "", _outputs(handle.store, info.execution_id))


def _outputs(store: Any, execution_id: int) -> dict[str, str]:
    from ml_metadata.proto import metadata_store_pb2

    events = [event for event in store.get_events_by_execution_ids([execution_id]) if event.type == metadata_store_pb2.Event.OUTPUT]
    artifacts = {artifact.id: artifact for artifact in store.get_artifacts_by_id([event.artifact_id for event in events])}
    return {event.path.steps[0].key: str(artifacts[event.artifact_id].uri) for event in events}


def reap(request: dict[str, Any]) -> dict[str, Any]:
    """Ends what a run that is over left open: ML Metadata executions become FAILED, MLflow runs KILLED."""
    from components.core import stale_runs
    from components.core.lineage import MetadataStore

    executions = MetadataStore(request["metadata_path"], writable=True).fail_stale_executions(request["run_id"])
    runs = stale_runs.reap_runs(request["tracking"], request["run_id"], status=request["status"])
    return {"executions": executions, "runs": runs}


def explain(error: BaseException, stage: str, log: str) -> str:
    """One line for people from any exception: our own words where there are some, else type, message and the log."""
    for link in _chain(error):
        if isinstance(link, TandemError):
            text = str(link)
            return text if text.startswith(stage) else f"{stage}: {text}"
    for link in _chain(error):
        # Beam and TensorFlow tell a full disk in their own words, with the system's inside.
        full = link.errno in (errno.ENOSPC, errno.EDQUOT) if isinstance(link, OSError) else os.strerror(errno.ENOSPC) in str(link)
        if full:
            place = getattr(link, "filename", None) or "the artifacts"
            return f"{stage}: no space left on the disk that holds {place}; free some and run again, finished stages are kept"
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return f"{stage}: {type(error).__name__}: {first[:300]}; the whole story is in {log}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and what caused it, the outermost first."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__
