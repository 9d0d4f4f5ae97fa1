"""TFX's generic trainer executor, told which execution it is and leaving the MLflow run on it."""

from typing import Any

from tfx.components.trainer import executor, fn_args_utils
from tfx.proto.orchestration import execution_result_pb2
from tfx.types import artifact_utils, standard_component_specs

from components.core.execution import StageExecution, execution_output
from components.core.measurements import TRAINING_FACTS_FILE, TrainingFacts, read_measurement
from trainers.job import EXECUTION_KEY


class TrackedTrainerExecutor(executor.GenericExecutor):
    """Runs `run_fn` with the execution's ids in `custom_config`."""

    def _GetFnArgs(self, *args: Any, **kwargs: Any) -> fn_args_utils.FnArgs:
        """TFX's arguments, with stage, pipeline run and execution id added."""
        fn_args = super()._GetFnArgs(*args, **kwargs)
        fn_args.custom_config = {**(fn_args.custom_config or {}), EXECUTION_KEY: StageExecution.of(self).tags()}
        return fn_args

    def Do(
        self, input_dict: dict[str, list[Any]], output_dict: dict[str, list[Any]], exec_properties: dict[str, Any]
    ) -> execution_result_pb2.ExecutorOutput:
        """Trains; see `trainers.session.train`.

        Returns:
            execution properties `mlflow_run_id`, `input_fingerprint`, `epochs_run` and `best_epoch`.
        """
        super().Do(input_dict, output_dict, exec_properties)
        folder = artifact_utils.get_single_uri(output_dict[standard_component_specs.MODEL_RUN_KEY])
        facts = read_measurement(TrainingFacts, folder, TRAINING_FACTS_FILE)
        return execution_output(
            output_dict,
            {
                "mlflow_run_id": facts.run_id,
                "input_fingerprint": facts.input_fingerprint,
                "epochs_run": facts.epochs_run,
                "best_epoch": facts.best_epoch,
            },
        )
