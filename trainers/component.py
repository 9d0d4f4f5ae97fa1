"""TFX's Trainer with the executor of this house; inputs, outputs and parameters are TFX's."""

from tfx.components import Trainer
from tfx.dsl.components.base import executor_spec

from components.core.contracts import Framework
from trainers.executor import TrackedTrainerExecutor

RUN_FUNCTIONS: dict[Framework, str] = {"keras": "trainers.keras.run.run_fn", "lightning": "trainers.lightning.run.run_fn"}
"""The `run_fn` of each framework's trainer."""


class TrackedTrainer(Trainer):
    """Trains one framework's model; `custom_config` is `trainers.job.TrainerConfig.to_custom_config()`."""

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(TrackedTrainerExecutor)
