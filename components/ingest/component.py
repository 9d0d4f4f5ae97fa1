"""Declaration of the stage `ingest`."""

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel_utils, component_spec, standard_artifacts

from components.ingest.executor import IngestExecutor
from components.ingest.ingest_csv import BATCH_BYTES


class IngestSpec(component_spec.ComponentSpec):
    """Parameters and output of `Ingest`."""

    PARAMETERS = {
        "data_path": component_spec.ExecutionParameter(type=str),
        "data_spec": component_spec.ExecutionParameter(type=str),
        "input_digest": component_spec.ExecutionParameter(type=str),
        "code_fingerprint": component_spec.ExecutionParameter(type=str),
        "batch_bytes": component_spec.ExecutionParameter(type=int),
    }
    INPUTS: dict[str, component_spec.ChannelParameter] = {}
    OUTPUTS = {"examples": component_spec.ChannelParameter(type=standard_artifacts.Examples)}


class Ingest(base_component.BaseComponent):
    """Reads CSV files into a train and an eval split of tf.Example.

    Output `examples` is a standard Examples artifact (gzip TFRecord) that StatisticsGen, Transform and Evaluator read. Its content
    depends on the parameters alone, so an unchanged call is answered from the cache.
    """

    SPEC_CLASS = IngestSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(IngestExecutor)

    def __init__(self, *, data_path: str, data_spec: str, input_digest: str, code_fingerprint: str, batch_bytes: int = BATCH_BYTES) -> None:
        """Declares the stage.

        Args:
            data_path: a CSV file or a folder of them.
            data_spec: `DataSpec` as JSON.
            input_digest: `data_digest(data_path)`; a change of the data is a new key of the cache.
            code_fingerprint: digest of the stage's sources, for the same reason.
            batch_bytes: bytes of text in memory at a time for each batch; the longest row must fit.
        """
        super().__init__(
            IngestSpec(
                data_path=data_path,
                data_spec=data_spec,
                input_digest=input_digest,
                code_fingerprint=code_fingerprint,
                batch_bytes=batch_bytes,
                examples=channel_utils.as_channel([standard_artifacts.Examples()]),
            )
        )
