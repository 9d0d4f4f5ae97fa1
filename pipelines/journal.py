"""The journal of a pipeline run: one small JSON file, rewritten whole at each change, readable without any store.

A run holds a lock on its folder while it lives, so that a later start sees which runs died without saying so.
"""

import dataclasses
import datetime
import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from components.core.contracts import Contract
from components.core.errors import ConfigError, StoreError
from components.core.files import write_bytes

RunState = Literal["running", "succeeded", "nothing blessed", "failed", "interrupted", "died"]
StageState = Literal["waiting", "running", "complete", "cached", "failed", "interrupted", "skipped"]
PipelineKind = Literal["training", "promotion"]
RUN_FILE = "run.json"
LOCK_NAME = "lock"


class StageRecord(Contract):
    """One stage of one run.

    Attributes:
        name: node id.
        state: where it is.
        seconds: wall time, 0 while waiting.
        execution_id: of ML Metadata, None before it exists.
        parameters: what decided its result, beside its inputs (`tandem why` compares them with the next run's).
    """

    name: str
    state: StageState = "waiting"
    seconds: float = 0.0
    execution_id: int | None = None
    parameters: dict[str, str] = {}


class RunRecord(Contract):
    """One run.

    Attributes:
        id: also the pipeline run id of ML Metadata and the tag `pipeline_run_id` of MLflow runs.
        kind: which of the two pipelines.
        use_case: its folder's name; `use_case_path`: the folder.
        started: UTC, ISO 8601.
        seconds: wall time so far.
        error: the one line that was shown, empty when there was none.
        artifacts: `<stage>/<output>` -> folder, of the stages that ended well.
    """

    schema_version: Literal[1] = 1
    id: str
    kind: PipelineKind = "training"
    use_case: str
    use_case_path: str
    state: RunState
    started: str
    seconds: float
    stages: tuple[StageRecord, ...]
    error: str = ""
    error_stage: str = ""
    artifacts: dict[str, str] = {}

    def stage(self, name: str) -> StageRecord:
        """One stage by name."""
        return next(stage for stage in self.stages if stage.name == name)


@dataclasses.dataclass
class RunJournal:
    """Writes the record of a live run."""

    folder: Path
    record: RunRecord
    lock: int
    clock: float

    @classmethod
    def begin(cls, runs_folder: Path, *, use_case: Path, plan: Mapping[str, Mapping[str, str]], kind: PipelineKind = "training") -> Self:
        """Starts a run.

        Raises:
            StoreError: the folder cannot be written.
        """
        started = datetime.datetime.now(datetime.UTC)
        run_id = f"{started:%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
        folder = runs_folder / run_id
        try:
            (folder / "logs").mkdir(parents=True)
            lock = os.open(folder / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            raise StoreError(f"{folder}: cannot be written: {error.strerror}; choose another [directories] home") from error
        record = RunRecord(
            id=run_id,
            kind=kind,
            use_case=use_case.name,
            use_case_path=str(use_case),
            state="running",
            started=started.isoformat(timespec="seconds"),
            seconds=0.0,
            stages=tuple(StageRecord(name=name, parameters=dict(parameters)) for name, parameters in plan.items()),
        )
        journal = cls(folder, record, lock, time.monotonic())
        journal.write()
        return journal

    def write(self) -> None:
        """Writes the record as it stands."""
        self.record = self.record.model_copy(update={"seconds": round(time.monotonic() - self.clock, 3)})
        write_bytes(self.folder / RUN_FILE, (self.record.model_dump_json(indent=1) + "\n").encode())

    def update_stage(self, name: str, **changes: Any) -> None:
        """Changes one stage and writes."""
        stages = tuple(stage.model_copy(update=changes) if stage.name == name else stage for stage in self.record.stages)
        self.record = self.record.model_copy(update={"stages": stages})
        self.write()

    def add_artifacts(self, artifacts: Mapping[str, str]) -> None:
        """Remembers where a stage's outputs lie; written with the next change."""
        self.record = self.record.model_copy(update={"artifacts": {**self.record.artifacts, **artifacts}})

    def end(self, state: RunState, *, error: str = "", stage: str = "") -> None:
        """Ends the run and lets its lock go."""
        self.record = self.record.model_copy(update={"state": state, "error": error, "error_stage": stage})
        self.write()
        os.close(self.lock)


def read_runs(runs_folder: Path, kind: PipelineKind | None = None) -> list[RunRecord]:
    """All runs, or those of one pipeline, the newest first; a run that died without saying so is shown as `died`."""
    records = []
    for folder in _run_folders(runs_folder):
        record = RunRecord.from_json((folder / RUN_FILE).read_text(encoding="utf-8"))
        if record.state == "running" and not _is_locked(folder):
            record = record.model_copy(update={"state": "died"})
        if kind in (None, record.kind):
            records.append(record)
    return sorted(records, key=lambda record: (record.started, record.id), reverse=True)


def find_run(runs_folder: Path, run: str | None) -> RunRecord:
    """One run by its id or the beginning of it; without one, the newest training run.

    Raises:
        ConfigError: no run, none of that id, or more than one.
    """
    records = read_runs(runs_folder, None if run else "training")
    if not records:
        raise ConfigError(f"no run yet in {runs_folder}; start one with `tandem run USE_CASE`")
    if run is None:
        return records[0]
    found = [record for record in records if record.id.startswith(run)]
    if len(found) != 1:
        known = ", ".join(record.id for record in records[:5])
        problem = f"no run {run!r}" if not found else f"{len(found)} runs begin with {run!r}"
        raise ConfigError(f"{problem}; the newest are {known}")
    return found[0]


def dead_runs(runs_folder: Path) -> Iterator[RunRecord]:
    """Runs that say `running` although nobody holds their lock."""
    for folder in _run_folders(runs_folder):
        record = RunRecord.from_json((folder / RUN_FILE).read_text(encoding="utf-8"))
        if record.state == "running" and not _is_locked(folder):
            yield record


def bury(runs_folder: Path, record: RunRecord) -> None:
    """Marks a dead run and what it was doing as ended."""
    stages = tuple(
        stage.model_copy(update={"state": "interrupted" if stage.state == "running" else "skipped"})
        if stage.state in ("running", "waiting")
        else stage
        for stage in record.stages
    )
    dead = record.model_copy(update={"state": "died", "stages": stages, "error": "the process ended without a word"})
    write_bytes(runs_folder / record.id / RUN_FILE, (dead.model_dump_json(indent=1) + "\n").encode())


def _run_folders(runs_folder: Path) -> list[Path]:
    return [path.parent for path in sorted(runs_folder.glob(f"*/{RUN_FILE}"))]


def _is_locked(folder: Path) -> bool:
    try:
        lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
