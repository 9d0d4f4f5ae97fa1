"""What happens at the end of each epoch, the same in both frameworks: metrics, early stopping, checkpoint, records."""

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.core.errors import TrainingError
from components.core.tracking import StageRun
from trainers.checkpoint import CheckpointSlot, CourseState
from trainers.job import TrainingJob
from trainers.metrics import TRAIN_LOSS, VAL_LOSS, validation_metrics
from trainers.progress import EpochProgress

_FLUSH_S = 5.0


class Course:
    """One training from its first epoch, or from where it was ended.

    Attributes:
        state: where it stands.
        payload: the framework's bytes of the last finished epoch, None when it starts anew.
        resumed_from: finished epochs at the start, 0 when it starts anew.
        progress: bar and lines.
        device, parameter_count: set by `describe`.
    """

    def __init__(self, job: TrainingJob, run: StageRun, slot: CheckpointSlot) -> None:
        self.job = job
        self._run = run
        self._slot = slot
        saved = slot.load()
        self.state = CourseState() if saved is None else saved[0]
        self.payload = None if saved is None else saved[1]
        self.resumed_from = self.state.epoch
        self.progress = EpochProgress(job.config.framework, job.training.epochs)
        self.device = ""
        self.parameter_count = 0
        # A kill may have come between a metric's way to MLflow and the checkpoint: what is there is not logged again.
        self._logged_epoch = run.last_step(TRAIN_LOSS)
        self._flushed_at = time.monotonic()

    @property
    def finished(self) -> bool:
        """No epoch is left, or `val/loss` has not improved for `early_stopping_patience` epochs."""
        state, training = self.state, self.job.training
        return state.epoch >= training.epochs or (state.epoch > 0 and state.epoch - state.best_epoch >= training.early_stopping_patience)

    def describe(self, *, device: str, parameter_count: int) -> None:
        """Logs the parameters, under the same names in both frameworks.

        Args:
            device: where the model runs, `cpu` or `cuda:N`.
            parameter_count: trainable values.
        """
        self.device, self.parameter_count = device, parameter_count
        training = self.job.training
        params: dict[str, Any] = {
            "learning_rate": training.learning_rate,
            "batch_size": training.batch_size,
            "epochs": training.epochs,
            "seed": training.seed,
            "precision": training.precision,
            "early_stopping_patience": training.early_stopping_patience,
            "device": device,
            "parameter_count": parameter_count,
        }
        self._run.log_params(params | {f"model.{key}": value for key, value in training.model.items()})

    def check_loss(self, epoch: int, step: int, loss: float) -> None:
        """Stops at the first loss that is not finite.

        Args:
            epoch: counted from 1.
            step: within the epoch, counted from 1.
            loss: of that step.

        Raises:
            TrainingError: the loss is NaN or infinite.
        """
        if not math.isfinite(loss):
            raise TrainingError(
                f"{self.job.stage}: the loss is {loss} in epoch {epoch}, step {step}; likely the learning rate "
                f"{self.job.training.learning_rate:g} is too high, or the model divides by zero or takes a logarithm of zero; "
                "lower training.learning_rate or check the model"
            )

    def check_logits(self, shape: tuple[int, ...], giver: str) -> None:
        """Holds a model to its contract.

        Args:
            shape: of what it gave.
            giver: e.g. `the model` or `validation_step`.

        Raises:
            TrainingError: it is not [N, C].
        """
        classes = len(self.job.spec.classes)
        if len(shape) != 2 or shape[1] != classes:
            raise TrainingError(
                f"{self.job.stage}: {giver} of {self.job.config.module} must give logits [N, {classes}], one column a class, "
                f"not {list(shape)}"
            )

    def end_epoch(self, *, train_loss: float, logits: NDArray[np.floating], labels: NDArray[np.integer], steps: int) -> bool:
        """Takes in one finished epoch.

        Args:
            train_loss: mean over the rows of the epoch, in training mode.
            logits: float[N, C] of the eval split.
            labels: int[N].
            steps: batches of this epoch.

        Returns:
            whether this is the best epoch so far: the caller then keeps its weights.

        Raises:
            TrainingError: the validation loss is not finite.
        """
        epoch = self.state.epoch + 1
        metrics = {TRAIN_LOSS: train_loss} | validation_metrics(logits, labels, positive_index=self.job.positive_index)
        if not math.isfinite(metrics[VAL_LOSS]):
            raise TrainingError(
                f"{self.job.stage}: val/loss is {metrics[VAL_LOSS]} after epoch {epoch}, step {steps}; "
                "lower training.learning_rate or check the model"
            )
        history = (*self.state.history, {name: value for name, value in metrics.items() if math.isfinite(value)})
        best = self.state.best_epoch
        improved = best == 0 or metrics[VAL_LOSS] < history[best - 1][VAL_LOSS]
        self.state = CourseState(
            epoch=epoch, best_epoch=epoch if improved else best, steps=self.state.steps + steps, history=history, gradient_norms={}
        )
        self.progress.end_epoch(epoch, metrics)
        return improved

    def keep(self, payload: bytes, gradient_norms: dict[str, float]) -> None:
        """Writes the checkpoint of the epoch that `end_epoch` took in, and logs what is due.

        Args:
            payload: all that the framework needs to go on, the best weights among it.
            gradient_norms: parameter name -> L2 norm of the last step's gradient; parameters that the loss never touched are left out.
        """
        finite = {name: norm for name, norm in gradient_norms.items() if math.isfinite(norm)}
        self.state = self.state.model_copy(update={"gradient_norms": finite})
        self.payload = payload
        self._slot.save(self.state, payload)
        if time.monotonic() - self._flushed_at >= _FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Logs the metrics of all epochs that MLflow has not got yet, in one request: a request an epoch costs 50 ms on SQLite."""
        due = {epoch: self.state.history[epoch - 1] for epoch in range(self._logged_epoch + 1, self.state.epoch + 1)}
        self._run.log_history(due)
        self._logged_epoch = max(self._logged_epoch, self.state.epoch)
        self._flushed_at = time.monotonic()
