"""Runs a pipeline on this machine: independent stages at once, each in a child of a preloaded forkserver.

No service is needed: ML Metadata and MLflow are SQLite files below [directories] home.
"""

import contextlib
import dataclasses
import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from components.core.contracts import PRODUCTION_SUFFIX, Champion
from components.core.errors import EXIT_FAULT, EXIT_INTERRUPTED, EXIT_NOTHING_BLESSED, ConfigError, StageError, TandemError
from components.core.files import read_json
from components.core.measurements import PUSH_FILE
from components.ingest.digest import data_digest
from pipelines import node
from pipelines.config import PipelineConfig, environment_for
from pipelines.journal import PipelineKind, RunJournal, RunRecord, bury, dead_runs, read_runs
from pipelines.next_run import cached_sources, plan_next_run
from pipelines.plan import PipelinePlan, plan_training
from pipelines.preloading import LOG_VARIABLE

STOP_GRACE_S = 20.0


class Display(Protocol):
    """Who is told what happens."""

    def stage_changed(self, record: RunRecord, stage: str) -> None:
        """A stage began or ended."""

    def progress(self, event: dict[str, Any]) -> None:
        """A stage says how far it is."""

    def note(self, text: str) -> None:
        """One line."""


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """What to run.

    Attributes:
        first, last: stages to begin and end with; None = all.
        parallel: stages at once.
    """

    first: str | None = None
    last: str | None = None
    parallel: int = max(1, min(2, len(os.sched_getaffinity(0))))


@dataclasses.dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    record: RunRecord
    exit_code: int


def run_training(config: PipelineConfig, options: RunOptions, display: Display) -> RunOutcome:
    """Runs the training pipeline and journals it.

    Raises:
        TandemError: the run could not begin. What fails later is in the outcome.
    """
    digest = data_digest(config.data_path)
    plan = plan_training(config, data_digest=digest)
    chosen = plan.between(options.first, options.last)
    task = _Task(config, digest, plan, chosen, _base_run_id(config, plan, chosen), _will_execute(config, digest, chosen))
    return _run(task, display, parallel=options.parallel)


def run_promotion(config: PipelineConfig, plan: PipelinePlan, display: Display) -> RunOutcome:
    """Runs the promotion pipeline and journals it; no stage of it is taken from the cache: what it asks may have changed.

    Args:
        config: of the use case whose model is promoted.
        plan: from `pipelines.promotion_plan`.
        display: who is told.

    Raises:
        TandemError: the run could not begin. What fails later is in the outcome.
    """
    task = _Task(config, "", plan, plan.names(), None, will_execute=False, kind="promotion")
    return _run(task, display, parallel=1)


def _run(task: "_Task", display: Display, *, parallel: int) -> RunOutcome:
    config = task.config
    os.environ.update(environment_for(config.use_case, os.environ))
    for folder in (config.home, config.runs_folder):
        folder.mkdir(parents=True, exist_ok=True)
    parameters = {stage.name: dict(stage.parameters) for stage in task.plan.stages}
    journal = RunJournal.begin(config.runs_folder, use_case=config.use_case.folder, plan=parameters, kind=task.kind)
    runner = _Runner(task, journal=journal, display=display, parallel=parallel)
    with _terminated_as_interrupted():
        return runner.run()


def _base_run_id(config: PipelineConfig, plan: PipelinePlan, chosen: Sequence[str]) -> str | None:
    """The newest run of this use case that has everything that a partial run takes from stages before it; None when it takes nothing.

    Raises:
        ConfigError: no run has it.
    """
    taken = {name for stage in chosen for name in plan[stage].upstream} - set(chosen)
    if not taken:
        return None
    for record in read_runs(config.runs_folder, "training"):
        ended_well = {stage.name for stage in record.stages if stage.state in ("complete", "cached")}
        if record.use_case_path == str(config.use_case.folder) and taken <= ended_well:
            return record.id
    raise ConfigError(f"no run has the outputs of {', '.join(sorted(taken))}, which this part takes; run without --from first")


def _will_execute(config: PipelineConfig, digest: str, chosen: Sequence[str]) -> bool:
    """Whether any stage but those that always run is expected to execute; an expectation decides the speed, never the result."""
    past = [run for run in read_runs(config.runs_folder, "training") if run.use_case_path == str(config.use_case.folder)]
    plan = plan_next_run(config, digest=digest, runs=past)
    cached = cached_sources(plan, past)
    return any(stage.name in chosen and stage.name not in cached and not stage.always_runs for stage in plan.stages)


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: in order."""

    def interrupt(signum: int, frame: Any) -> None:
        del signum, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclasses.dataclass(frozen=True)
class _Task:
    """What one run is about."""

    config: PipelineConfig
    data_digest: str
    plan: PipelinePlan
    chosen: Sequence[str]
    base_run_id: str | None
    will_execute: bool
    kind: PipelineKind = "training"


@dataclasses.dataclass
class _Child:
    """One running stage."""

    process: Any
    connection: Any
    began: float


class _Runner:
    """One run from its first to its last stage."""

    def __init__(self, task: _Task, *, journal: RunJournal, display: Display, parallel: int) -> None:
        self.config, self.data_digest, self.plan, self.chosen = task.config, task.data_digest, task.plan, task.chosen
        self.base_run_id, self.kind = task.base_run_id, task.kind
        self.journal, self.display, self.parallel = journal, display, parallel
        os.environ[LOG_VARIABLE] = str(journal.folder / "logs" / "preload.log")
        self.context = multiprocessing.get_context("forkserver")
        self.will_execute = task.will_execute
        self.context.set_forkserver_preload(["pipelines.preload" if self.will_execute else "pipelines.preload_cached"])
        self.children: dict[str, _Child] = {}
        self.await_tracking: Callable[[], Any] | None = None

    def run(self) -> RunOutcome:
        """Runs every chosen stage; ends the journal in any case."""
        loading = "TFX, TensorFlow and PyTorch" if self.will_execute else "TFX"
        self.display.note(f"run {self.journal.record.id}: loading {loading} once for all stages")
        try:
            self._bury_the_dead()
            if self.kind == "training":
                self._meet_champion()
            for name in set(self.plan.names()) - set(self.chosen):
                self.journal.update_stage(name, state="skipped")
            ir = self._compile()
            log = str(self.journal.folder / "logs" / "tracking.log")
            # While data is prepared on one core, the other makes MLflow's tables; the first trainer waits for them.
            if self.will_execute or not (self.config.home / "mlflow.db").is_file():
                self.await_tracking = self._begin(
                    node.prepare_tracking, {"tracking": self.config.tracking, "log": log}, what="MLflow's start"
                )
            failure = self._run_stages(ir)
        except KeyboardInterrupt:
            return self._stop("interrupted", EXIT_INTERRUPTED, "interrupted; finished stages are kept, the same command goes on from there")
        except TandemError as error:
            return self._stop("failed", error.exit_code, str(error))
        if failure:
            stage, error_line = failure
            return self._stop("failed", EXIT_FAULT, error_line, stage=stage)
        return self._finish()

    def _finish(self) -> RunOutcome:
        pushed = self.journal.record.artifacts.get("pusher/push_report")
        report = read_json(Path(pushed) / PUSH_FILE) if pushed else None
        if report is not None and not report["pushed"]:
            self.journal.end("nothing blessed", error=f"nothing was blessed: {report['reason']}", stage="pusher")
            return RunOutcome(self.journal.record, EXIT_NOTHING_BLESSED)
        self.journal.end("succeeded")
        return RunOutcome(self.journal.record, 0)

    def _bury_the_dead(self) -> None:
        """Ends what runs that died left open, of any use case in this home."""
        for record in list(dead_runs(self.config.runs_folder)):
            counts = self._ask(node.reap, self._reap_request(record.id, "KILLED"), what="the clean-up of a dead run")
            bury(self.config.runs_folder, record)
            executions, runs = counts["executions"], len(counts["runs"])
            self.display.note(f"run {record.id} had died; ended what it left open: {executions} executions, {runs} MLflow runs")

    def _meet_champion(self) -> None:
        """Plans with the champion as it is when the run starts, if there is one."""
        if not (self.config.home / "mlflow.db").is_file():
            return
        request = {
            "tracking": self.config.tracking,
            "name": self.config.name + PRODUCTION_SUFFIX,
            "folder": str(self.config.home / "champions"),
            "log": str(self.journal.folder / "logs" / "champion.log"),
        }
        answer = self._ask(node.find_champion, request, what="the look-up of the champion")
        if answer:
            self.plan = plan_training(self.config, data_digest=self.data_digest, champion=Champion.from_json(answer))
            for stage in self.plan.stages:
                self.journal.update_stage(stage.name, parameters=dict(stage.parameters))

    def _reap_request(self, run_id: str, status: str) -> dict[str, Any]:
        log = str(self.journal.folder / "logs" / "reap.log")
        return {
            "metadata_path": str(self.config.metadata_path),
            "tracking": self.config.tracking,
            "run_id": run_id,
            "status": status,
            "log": log,
        }

    def _compile(self) -> bytes:
        request = {
            "kind": self.kind,
            "config": self.config,
            "plan": self.plan,
            "run_id": self.journal.record.id,
            "stages": list(self.chosen),
            "base_run_id": self.base_run_id,
            "log": str(self.journal.folder / "logs" / "compile.log"),
        }
        compiled: bytes = self._ask(node.compile_ir, request, what="the compilation of the pipeline")
        return compiled

    def _ask(self, function: Callable[[dict[str, Any]], Any], request: dict[str, Any], *, what: str) -> Any:
        """Calls a function of `node` in a child and waits for its answer."""
        return self._begin(function, request, what=what)()

    def _begin(self, function: Callable[[dict[str, Any]], Any], request: dict[str, Any], *, what: str) -> Callable[[], Any]:
        """Starts a function of `node` in a child; what is returned waits for its answer."""
        receiver, sender = self.context.Pipe(duplex=False)
        process = self.context.Process(target=node.answer, args=(function, request, sender), kwargs={"what": what}, daemon=True)
        process.start()
        sender.close()
        return lambda: self._answer(process, receiver, request, what=what)

    def _answer(self, process: Any, receiver: Any, request: dict[str, Any], *, what: str) -> Any:
        try:
            status, answer = receiver.recv()
        except EOFError as error:
            raise StageError(f"{what}: its process ended without a word; see {request['log']}") from error
        except KeyboardInterrupt:
            process.terminate()
            raise
        process.join()
        if status == "error":
            raise StageError(answer)
        return answer

    def _run_stages(self, ir: bytes) -> tuple[str, str] | None:
        """Runs stages as their inputs become ready; the first failure lets the running ones end and starts no other."""
        waiting = list(self.chosen)
        done: set[str] = set(self.plan.names()) - set(self.chosen)
        failure: tuple[str, str] | None = None
        while waiting or self.children:
            ready = [name for name in waiting if set(self.plan[name].upstream) <= done] if failure is None else []
            for name in ready[: self.parallel - len(self.children)]:
                waiting.remove(name)
                self._start(name, ir)
            if not self.children:
                break
            for name, result in self._wait():
                self._record(name, result)
                if result.state in ("complete", "cached"):
                    done.add(name)
                else:
                    failure = failure or (name, result.error)
        for name in waiting:
            self.journal.update_stage(name, state="skipped")
        return failure

    def _start(self, name: str, ir: bytes) -> None:
        if "tracking" in self.plan.parameters(name):
            self._settle_tracking()
        receiver, sender = self.context.Pipe(duplex=False)
        request = {"ir": ir, "stage": name, "log": str(self.journal.folder / "logs" / f"{name}.log")}
        process = self.context.Process(target=node.run_stage, args=(request, sender), name=name, daemon=False)
        process.start()
        sender.close()
        self.children[name] = _Child(process, receiver, time.monotonic())
        self.journal.update_stage(name, state="running")
        self.display.stage_changed(self.journal.record, name)

    def _settle_tracking(self) -> None:
        """Waits until MLflow is ready, once."""
        if self.await_tracking is not None:
            waiting, self.await_tracking = self.await_tracking, None
            waiting()

    def _wait(self) -> Iterator[tuple[str, node.StageResult]]:
        """The stages that ended, as they end; what running ones say of their progress goes to the display."""
        by_connection = {child.connection: name for name, child in self.children.items()}
        for connection in multiprocessing.connection.wait(list(by_connection), timeout=0.5):
            name = by_connection[connection]
            child = self.children[name]
            try:
                kind, content = child.connection.recv()
            except EOFError:
                kind, content = "result", self._died(name, child)
            if kind == "progress":
                self.display.progress(content)
                continue
            del self.children[name]
            child.process.join()
            yield name, dataclasses.replace(content, seconds=round(time.monotonic() - child.began, 3))

    def _died(self, name: str, child: _Child) -> node.StageResult:
        child.process.join()
        log = self.journal.folder / "logs" / f"{name}.log"
        return node.StageResult(
            "failed", error=f"{name}: its process was ended (exit code {child.process.exitcode}); out of memory? see {log}"
        )

    def _record(self, name: str, result: node.StageResult) -> None:
        self.journal.add_artifacts({f"{name}/{output}": uri for output, uri in result.artifacts.items()})
        self.journal.update_stage(name, state=result.state, seconds=result.seconds, execution_id=result.execution_id)
        self.display.stage_changed(self.journal.record, name)

    def _stop(self, state: Any, exit_code: int, error: str, *, stage: str = "") -> RunOutcome:
        """Ends running stages in order, then what they left open, then the journal."""
        for child in self.children.values():
            child.process.terminate()
        deadline = time.monotonic() + STOP_GRACE_S
        for name, child in self.children.items():
            child.process.join(max(0.1, deadline - time.monotonic()))
            if child.process.is_alive():
                child.process.kill()
                child.process.join()
            self.journal.update_stage(name, state="interrupted", seconds=round(time.monotonic() - child.began, 3))
        self.children.clear()
        for record in self.journal.record.stages:
            if record.state == "waiting":
                self.journal.update_stage(record.name, state="skipped")
        status = "KILLED" if state == "interrupted" else "FAILED"
        # Where no stage began there is nothing to end, and the libraries may still be loading.
        began = any(record.state in ("complete", "failed", "interrupted") for record in self.journal.record.stages)
        with contextlib.suppress(StageError):
            if began:
                self._ask(node.reap, self._reap_request(self.journal.record.id, status), what="the clean-up of this run")
        self.journal.end(state, error=error, stage=stage)
        return RunOutcome(self.journal.record, exit_code)
