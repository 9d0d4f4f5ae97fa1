"""The Auditor: what goes in, what comes out."""

from tfx import types
from tfx.components.evaluator.component import Evaluator
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import component_spec, standard_artifacts

from components.auditor import executor
from components.core import artifacts

_PARAMETERS = ("data_spec", "audit_spec", "serving_spec", "champion", "tracking", "framework", "code_fingerprint")


class AuditorSpec(component_spec.ComponentSpec):
    """Inputs, outputs and parameters of the auditor.

    Inputs: raw `examples` with the splits train and eval, the final `model`, its `parity` and `compile_report`, the `model_run` of its
    training. Parameters: `framework`; `data_spec`, `audit_spec`, `serving_spec`, `tracking` (JSON of the contract of that name); `champion`
    (JSON of Champion, or empty);
    `code_fingerprint`.
    """

    PARAMETERS = {name: component_spec.ExecutionParameter(type=str) for name in _PARAMETERS}
    INPUTS = {
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "parity": component_spec.ChannelParameter(type=artifacts.ParityReport),
        "compile_report": component_spec.ChannelParameter(type=artifacts.CompileReport),
        "model_run": component_spec.ChannelParameter(type=standard_artifacts.ModelRun),
    }
    OUTPUTS = {
        "evaluation": component_spec.ChannelParameter(type=standard_artifacts.ModelEvaluation),
        "blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing),
        "predictions": component_spec.ChannelParameter(type=artifacts.Predictions),
        "audit": component_spec.ChannelParameter(type=artifacts.AuditReport),
    }


class Auditor(Evaluator):
    """TFX's Evaluator, extended: the same artifacts, and gates, intervals and predictions beside them.

    Component `outputs` contains `evaluation` (ModelEvaluation), `blessing` (ModelBlessing), `predictions` (Predictions) and
    `audit` (AuditReport).
    """

    SPEC_CLASS = AuditorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(self, **arguments: types.BaseChannel | str) -> None:
        outputs = {name: types.Channel(type=parameter.type) for name, parameter in AuditorSpec.OUTPUTS.items()}
        spec = AuditorSpec(**arguments, **outputs)
        # Evaluator's own constructor builds Evaluator's spec; ours goes to its base.
        base_beam_component.BaseBeamComponent.__init__(self, spec=spec)
