"""One training from its MLflow run to its artifacts; each framework only brings the fit."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from components.core.contracts import NATIVE_FILE, WEIGHTS_FILES, NativeModel
from components.core.errors import TrainingError
from components.core.files import write_bytes
from components.core.measurements import TRAINING_FACTS_FILE, ParameterFacts, TrainingFacts
from components.core.tracking import StageRun
from trainers.checkpoint import CheckpointSlot
from trainers.course import Course
from trainers.faults import interruptible
from trainers.job import TrainingJob
from trainers.progress import show_lines


@dataclasses.dataclass(frozen=True)
class FittedModel:
    """What a framework's fit gives back.

    Attributes:
        weights: bytes of the weights file, the best epoch's.
        parameters: facts of each parameter.
    """

    weights: bytes
    parameters: tuple[ParameterFacts, ...]


Fit = Callable[[TrainingJob, Course], FittedModel]


def train(job: TrainingJob, fit: Fit) -> TrainingFacts:
    """Fits a model, or goes on where an equal training was ended, and leaves native model, facts and MLflow run.

    An interrupt ends the run as KILLED and keeps the checkpoint. A TrainingError ends it as FAILED and removes the checkpoint: the same
    inputs would fail again.

    Args:
        job: what to train.
        fit: the framework's fit.

    Raises:
        TrainingError: the model cannot be fitted.
        KeyboardInterrupt: Ctrl-C or SIGTERM.
    """
    show_lines()
    with interruptible(), CheckpointSlot(job.config.checkpoint_root, job.input_fingerprint) as slot:
        try:
            with _stage_run(job, slot) as run:
                facts = _fit_and_leave(job, run, slot, fit=fit)
        except TrainingError:
            slot.clear()
            raise
        slot.clear()
        return facts


@contextmanager
def _stage_run(job: TrainingJob, slot: CheckpointSlot) -> Iterator[StageRun]:
    """A new MLflow run, or that of the training which was ended."""
    tracking = job.config.tracking
    known = slot.run_id
    execution = {"stage": job.stage, "pipeline_run_id": "", "mlmd_execution_id": ""} | job.config.execution
    tags = {
        **execution,
        "framework": job.config.framework,
        "input_fingerprint": job.input_fingerprint,
        "code_fingerprint": job.config.code_fingerprint,
    }
    run_id = known if known is not None and StageRun.exists(tracking, known) else None
    run = StageRun(tracking, f"train-{job.config.framework}", tags=tags, run_id=run_id)
    with run:
        slot.keep_run(run.run_id)
        yield run


def _fit_and_leave(job: TrainingJob, run: StageRun, slot: CheckpointSlot, *, fit: Fit) -> TrainingFacts:
    started = time.monotonic()
    course = Course(job, run, slot)
    run.log_dataset(job.config.dataset_name, job.dataset_digest, "training")
    try:
        fitted = fit(job, course)
    finally:
        course.progress.clear()
        course.flush()
    seconds = time.monotonic() - started
    _write_native(job, fitted)
    model_id = run.log_native_model(
        job.native_folder,
        name=f"native-{job.config.framework}",
        module=job.config.module,
        loader=f"trainers.{job.config.framework}.native",
        requirements=[f"{name}=={version}" for name, version in job.versions().items()],
    )
    facts = _facts(course, fitted, run_id=run.run_id, model_id=model_id, seconds=seconds)
    path = job.facts_folder / TRAINING_FACTS_FILE
    write_bytes(path, (facts.to_json() + "\n").encode())
    run.log_file(path)
    return facts


def _write_native(job: TrainingJob, fitted: FittedModel) -> None:
    framework = job.config.framework
    native = NativeModel(framework=framework, module=job.config.module, spec=job.spec, training=job.training)
    write_bytes(job.native_folder / WEIGHTS_FILES[framework], fitted.weights)
    write_bytes(job.native_folder / NATIVE_FILE, (native.to_json() + "\n").encode())


def _facts(course: Course, fitted: FittedModel, *, run_id: str, model_id: str, seconds: float) -> TrainingFacts:
    job, state = course.job, course.state
    return TrainingFacts(
        framework=job.config.framework,
        run_id=run_id,
        model_id=model_id,
        device=course.device,
        precision=job.training.precision,
        seed=job.training.seed,
        epochs_run=state.epoch,
        best_epoch=state.best_epoch,
        steps=state.steps,
        seconds=seconds,
        resumed_from_epoch=course.resumed_from or None,
        parameter_count=course.parameter_count,
        metrics=state.history[state.best_epoch - 1],
        parameters=fitted.parameters,
        input_fingerprint=job.input_fingerprint,
    )
