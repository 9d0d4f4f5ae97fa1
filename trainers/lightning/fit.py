"""Fits a LightningModule with Lightning's Trainer."""

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import NDArray
from pytorch_lightning.plugins.precision import MixedPrecision

from components.core.errors import TrainingError
from trainers.course import Course
from trainers.examples import limit_threads
from trainers.facts import parameter_facts
from trainers.faults import model_faults
from trainers.job import TrainingJob
from trainers.lightning.data import ExamplesDataModule
from trainers.session import FittedModel

_EXTRA_KEY = "tandem"
_LOSS_SCALE = 2.0**15  # as Keras begins; both double after 2000 good steps and halve after a bad one
Weights = dict[str, torch.Tensor]


class CourseCallback(pl.Callback):
    """Reports each step and epoch to the course, and keeps checkpoint and best weights.

    Attributes:
        best: weights of the best epoch so far, on the CPU.
        gradient_norms: parameter name -> L2 norm of the epoch's last unscaled gradient.
    """

    def __init__(self, course: Course, data: ExamplesDataModule) -> None:
        self.course, self.data = course, data
        self.best: Weights = {}
        self.gradient_norms: dict[str, float] = {}
        self._random_state: Weights = {}
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        self._loss_sum, self._rows, self._steps = 0.0, 0, 0
        self._logits: list[NDArray[np.floating]] = []
        self._labels: list[NDArray[np.integer]] = []

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Begins an epoch; the first one after a resume gets the random state that it would have had."""
        self._begin_epoch()
        if self._random_state:
            _set_random_state(self._random_state)
            self._random_state = {}

    def on_before_optimizer_step(self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer) -> None:
        """Keeps the norms of the epoch's last gradient."""
        if trainer.is_last_batch:
            gradients = {name: parameter.grad for name, parameter in pl_module.named_parameters() if parameter.grad is not None}
            self.gradient_norms = {name: float(torch.linalg.vector_norm(gradient.float())) for name, gradient in gradients.items()}

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Checks the loss and moves the bar."""
        loss = float(outputs["loss"])
        rows = len(batch[1])
        self._steps += 1
        self.course.check_loss(self.course.state.epoch + 1, self._steps, loss)
        self._loss_sum += loss * rows
        self._rows += rows
        self.course.progress.step(self.course.state.epoch + 1, self._steps, self.data.train.reader.steps)

    def on_validation_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, *_: int) -> None:
        """Keeps what `validation_step` returned: logits [N, C]."""
        self.course.check_logits(tuple(getattr(outputs, "shape", ())), "validation_step")
        self._logits.append(outputs.detach().float().cpu().numpy())
        self._labels.append(batch[1].cpu().numpy())

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Ends an epoch; Lightning has validated before."""
        logits, labels = np.concatenate(self._logits), np.concatenate(self._labels)
        if self.course.end_epoch(train_loss=self._loss_sum / max(1, self._rows), logits=logits, labels=labels, steps=self._steps):
            self.best = {name: tensor.detach().cpu().clone() for name, tensor in pl_module.state_dict().items()}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "epoch.ckpt"
            trainer.save_checkpoint(path)
            self.course.keep(path.read_bytes(), self.gradient_norms)
        self.data.train.epoch = self.course.state.epoch + 1
        trainer.should_stop = self.course.finished

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Adds best weights and random state; leaves out pickled hyperparameters, which a weights-only load refuses."""
        for key in ("hyper_parameters", "hparams_name", "hparams_type"):
            checkpoint.pop(key, None)
        checkpoint[_EXTRA_KEY] = {"best": self.best, "random_state": _random_state()}

    def on_load_checkpoint(self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Takes best weights and random state back."""
        self.best = checkpoint[_EXTRA_KEY]["best"]
        self._random_state = checkpoint[_EXTRA_KEY]["random_state"]
        self.data.train.epoch = self.course.state.epoch + 1


def fit(job: TrainingJob, course: Course) -> FittedModel:
    """Fits the use case's LightningModule from where `course` stands.

    Raises:
        TrainingError: the model's code raises, the loss is not finite, or the device is not there.
        KeyboardInterrupt: Ctrl-C or SIGTERM, which Lightning would turn into an exit.
    """
    limit_threads(job.config.threads)
    device = find_device(job.training.device)
    with _settings(job.config.threads):
        pl.seed_everything(job.training.seed, verbose=False)
        with model_faults(job.stage, job.config.module, "building the model"):
            model = job.build_model()
            _check_contract(model, job, course)
        course.describe(device=device, parameter_count=sum(weight.numel() for weight in model.parameters() if weight.requires_grad))
        model.load_state_dict(_run_epochs(model, job, course, device=device))
    buffer = io.BytesIO()
    torch.save({name: tensor.cpu() for name, tensor in model.state_dict().items()}, buffer)
    norms = course.state.gradient_norms
    facts = tuple(
        parameter_facts(name, weight.detach().cpu().float().numpy(), trainable=weight.requires_grad, gradient_norm=norms.get(name))
        for name, weight in model.named_parameters()
    )
    return FittedModel(weights=buffer.getvalue(), parameters=facts)


def find_device(wanted: str) -> str:
    """`cpu` or `cuda:N` for `auto`, `cpu`, `cuda` or `cuda:N`.

    Raises:
        TrainingError: torch sees no such GPU.
    """
    count = torch.cuda.device_count()
    if wanted == "cpu" or (wanted == "auto" and count == 0):
        return "cpu"
    number = int(wanted.partition(":")[2] or 0)
    if number >= count:
        raise TrainingError(f"training.device is {wanted!r}, and torch sees {count} GPU(s); use auto, cpu or a smaller number")
    return f"cuda:{number}"


def make_trainer(job: TrainingJob, callback: pl.Callback, *, device: str, folder: str) -> pl.Trainer:
    """Lightning's Trainer without files, bars and loggers of its own.

    `16-mixed` gets its plugin here: on a CPU Lightning would turn it into bf16-mixed with a warning.
    """
    kind = device.partition(":")[0]
    options: dict[str, Any] = {"precision": {"32": "32-true"}.get(job.training.precision, job.training.precision)}
    if job.training.precision == "16-mixed":
        scaler = torch.amp.GradScaler(kind, init_scale=_LOSS_SCALE)
        options = {"plugins": [MixedPrecision("16-mixed", device=kind, scaler=scaler)]}
    return pl.Trainer(
        accelerator="cpu" if kind == "cpu" else "gpu",
        devices=1 if kind == "cpu" else [int(device.partition(":")[2])],
        max_epochs=job.training.epochs,
        callbacks=[callback],
        deterministic=True,
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        **options,
    )


def _check_contract(model: pl.LightningModule, job: TrainingJob, course: Course) -> None:
    """Builds what is built late and holds the model to its contract."""
    blank = {feature.name: torch.zeros((1, *feature.shape), dtype=getattr(torch, feature.dtype)) for feature in job.spec.features}
    model.eval()
    with torch.no_grad():
        course.check_logits(tuple(model(blank).shape), "the model")
    model.train()


def _run_epochs(model: pl.LightningModule, job: TrainingJob, course: Course, *, device: str) -> Weights:
    """Runs the epochs that are left; returns the weights of the best one."""
    if course.finished and course.payload is not None:
        best: Weights = torch.load(io.BytesIO(course.payload), map_location="cpu", weights_only=True)[_EXTRA_KEY]["best"]
        return best
    data = ExamplesDataModule(job)
    callback = CourseCallback(course, data)
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(job, callback, device=device, folder=folder)
        resumed = None
        if course.payload is not None:
            resumed = Path(folder) / "resumed.ckpt"
            resumed.write_bytes(course.payload)
        with model_faults(job.stage, job.config.module, "fitting"), _interrupts():
            trainer.fit(model, datamodule=data, ckpt_path=resumed, weights_only=True)
    return callback.best


@contextlib.contextmanager
def _interrupts() -> Iterator[None]:
    """Lightning turns an interrupt into `sys.exit(1)`; callers must see the interrupt."""
    try:
        yield
    except SystemExit as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise


@contextlib.contextmanager
def _settings(threads: int) -> Iterator[None]:
    """torch's global settings for one fit; afterwards they are what they were."""
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch")]
    levels = [logger.level for logger in loggers]
    torch.set_num_threads(threads)
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"pytorch_lightning|lightning_fabric")
            yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _random_state() -> Weights:
    """State of torch's generators: `cpu`, and `cuda:N` for each GPU."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states |= {f"cuda:{index}": state for index, state in enumerate(torch.cuda.get_rng_state_all())}
    return states


def _set_random_state(states: Weights) -> None:
    torch.set_rng_state(states["cpu"])
    gpus = [states[f"cuda:{index}"] for index in range(len(states) - 1)]
    if gpus:
        torch.cuda.set_rng_state_all(gpus)
