"""Fits a Keras model with Adam on cross-entropy from logits."""

import contextlib
import io
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from components.core.contracts import WEIGHTS_FILES, Precision
from components.core.errors import TrainingError
from trainers.course import Course
from trainers.examples import ExampleReader, limit_threads
from trainers.facts import parameter_facts
from trainers.faults import model_faults
from trainers.job import TrainingJob
from trainers.session import FittedModel

_POLICIES: dict[Precision, str] = {"32": "float32", "bf16-mixed": "mixed_bfloat16", "16-mixed": "mixed_float16"}


class NormKeepingAdam(keras.optimizers.Adam):
    """Adam that remembers the L2 norm of each gradient of the last update.

    Attributes:
        norms: float32[number of trainable variables], NaN where there was no gradient.
    """

    def build(self, variables: list[Any]) -> None:
        """Makes the optimizer's state."""
        super().build(variables)
        self.norms = tf.Variable(np.full(len(variables), np.nan, np.float32), trainable=False)

    def apply(self, grads: list[Any], trainable_variables: list[Any] | None = None) -> None:
        """One update; `grads` are unscaled."""
        dense = [None if grad is None else tf.cast(tf.convert_to_tensor(grad), tf.float32) for grad in grads]
        self.norms.assign(tf.stack([tf.constant(math.nan) if grad is None else tf.norm(grad) for grad in dense]))
        super().apply(grads, trainable_variables)


class _StepWatch(keras.callbacks.Callback):
    """Checks the loss after each step and moves the bar."""

    def __init__(self, course: Course, epoch: int, steps: int | None) -> None:
        super().__init__()
        self.course, self.epoch, self.total = course, epoch, steps
        self.steps = 0

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """`logs["loss"]` is the mean since the epoch began: not finite from the first bad step on."""
        self.steps += 1
        self.course.check_loss(self.epoch, self.steps, float((logs or {})["loss"]))
        self.course.progress.step(self.epoch, self.steps, self.total)


def fit(job: TrainingJob, course: Course) -> FittedModel:
    """Fits the use case's Keras model from where `course` stands.

    Raises:
        TrainingError: the model's code raises, the loss is not finite, or the device is not there.
    """
    limit_threads(job.config.threads)
    device = find_device(job.training.device)
    keras.utils.set_random_seed(job.training.seed)
    with tf.device("/CPU:0" if device == "cpu" else f"/GPU:{device.removeprefix('cuda:')}"):
        with model_faults(job.stage, job.config.module, "building the model"), _dtype_policy(job.training.precision):
            model = job.build_model()
            _prepare(model, job, course)
        course.describe(device=device, parameter_count=sum(math.prod(weight.shape) for weight in model.trainable_weights))
        best = _restore(model, course)
        with model_faults(job.stage, job.config.module, "fitting"):
            best = _run_epochs(model, job, course, best=best)
    model.set_weights(best)
    return FittedModel(weights=_weights_file(model), parameters=_parameter_facts(model, course))


def find_device(wanted: str) -> str:
    """`cpu` or `cuda:N` for `auto`, `cpu`, `cuda` or `cuda:N`.

    Raises:
        TrainingError: TensorFlow sees no such GPU.
    """
    count = len(tf.config.list_physical_devices("GPU"))
    if wanted == "cpu" or (wanted == "auto" and count == 0):
        return "cpu"
    number = int(wanted.partition(":")[2] or 0)
    if number >= count:
        raise TrainingError(f"training.device is {wanted!r}, and TensorFlow sees {count} GPU(s); use auto, cpu or a smaller number")
    return f"cuda:{number}"


@contextlib.contextmanager
def _dtype_policy(precision: Precision) -> Iterator[None]:
    """Layers built inside compute in `precision`; their weights stay float32."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(_POLICIES[precision])
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _prepare(model: keras.Model, job: TrainingJob, course: Course) -> None:
    """Builds what is built late, holds the model to its contract and compiles it."""
    blank = {feature.name: np.zeros((1, *feature.shape), feature.dtype) for feature in job.spec.features}
    course.check_logits(tuple(model(blank, training=False).shape), "the model")
    # torch's epsilon, so that both optimizers take the same steps
    optimizer = NormKeepingAdam(job.training.learning_rate, epsilon=1e-8)
    if job.training.precision == "16-mixed":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, dtype="float32")
    # XLA would compile each batch shape for seconds; small models gain nothing from it.
    model.compile(optimizer=optimizer, loss=loss, jit_compile=False)


def _run_epochs(model: keras.Model, job: TrainingJob, course: Course, *, best: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """Runs the epochs that are left; returns the weights of the best one."""
    options: dict[str, Any] = {"label": job.config.label, "cache_bytes": job.config.cache_bytes}
    train = ExampleReader(job.train_files, job.spec, batch_size=job.training.batch_size, shuffle_seed=job.training.seed, **options)
    held_out = ExampleReader(job.eval_files, job.spec, batch_size=job.eval_batch_size, **options)
    forward = tf.function(lambda features: tf.cast(model(features, training=False), tf.float32), reduce_retracing=True)
    while not course.finished:
        epoch = course.state.epoch + 1
        batches = train.batches(epoch)
        watch = _StepWatch(course, epoch, train.steps)
        history = model.fit(batches, shuffle=False, verbose=0, callbacks=[watch]).history
        outputs = [(forward(features).numpy(), labels.numpy()) for features, labels in held_out.batches(0)]
        logits, labels = (np.concatenate(part) for part in zip(*outputs, strict=True))
        if course.end_epoch(train_loss=history["loss"][0], logits=logits, labels=labels, steps=watch.steps):
            best = model.get_weights()
        course.keep(_payload(model, best), _gradient_norms(model))
    return best


def _state_variables(model: keras.Model) -> list[Any]:
    """Everything that decides how training goes on: weights, dropout's random state, optimizer. Metrics begin anew each epoch."""
    metrics = {id(variable) for variable in model.metrics_variables}
    return [*(variable for variable in model.variables if id(variable) not in metrics), *model.optimizer.variables]


def _payload(model: keras.Model, best: list[NDArray[Any]]) -> bytes:
    buffer = io.BytesIO()
    state = {f"state_{index}": np.asarray(variable) for index, variable in enumerate(_state_variables(model))}
    np.savez(buffer, allow_pickle=False, **state, **{f"best_{index}": weight for index, weight in enumerate(best)})
    return buffer.getvalue()


def _restore(model: keras.Model, course: Course) -> list[NDArray[Any]]:
    """Puts a checkpoint back into model and optimizer; returns the best weights so far."""
    if course.payload is None:
        return list(model.get_weights())
    with np.load(io.BytesIO(course.payload), allow_pickle=False) as saved:
        for index, variable in enumerate(_state_variables(model)):
            variable.assign(saved[f"state_{index}"])
        return [saved[f"best_{index}"] for index in range(len(model.weights))]


def _gradient_norms(model: keras.Model) -> dict[str, float]:
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    return {variable.path: float(norm) for variable, norm in zip(model.trainable_variables, optimizer.norms.numpy(), strict=True)}


def _parameter_facts(model: keras.Model, course: Course) -> tuple[Any, ...]:
    norms = course.state.gradient_norms
    return tuple(
        parameter_facts(weight.path, np.asarray(weight), trainable=bool(weight.trainable), gradient_norm=norms.get(weight.path))
        for weight in model.weights
    )


def _weights_file(model: keras.Model) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / WEIGHTS_FILES["keras"]
        model.save_weights(path)
        return path.read_bytes()
