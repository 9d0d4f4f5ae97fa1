"""The `run_fn` of the Lightning trainer, alone: TFX reloads this module, and classes defined here would change their identity."""

from typing import Any


def run_fn(fn_args: Any) -> None:
    """Trains the Lightning model.

    Args:
        fn_args: tfx.components.trainer.fn_args_utils.FnArgs; `custom_config` is read by `trainers.job.TrainerConfig`.

    Raises:
        TrainingError: the inputs cannot be used or the model cannot be fitted.
    """
    from trainers.job import TrainingJob
    from trainers.lightning.fit import fit
    from trainers.session import train

    train(TrainingJob.of(fn_args), fit)
