"""What TensorFlow Serving's interfaces mean, without a transport: Predict, Classify, Regress, MultiInference, status and metadata."""

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from infra.serving.model_server.batching import Answer, Batcher
from infra.serving.model_server.examples import INPUTS, example_signature, fill_result, serialized_examples, wanted_outputs
from infra.serving.model_server.faults import Code, ServingFault, invalid
from infra.serving.model_server.library import Library
from infra.serving.model_server.metrics import Metrics
from infra.serving.model_server.servable import CLASSIFY, REGRESS, Servable, Signature, rows_of
from infra.serving.model_server.session import Array
from infra.serving.model_server.tensors import fill_proto, to_array


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one request may ask for.

    Attributes:
        max_rows: rows of a request.
        max_elements: elements of one input tensor.
    """

    max_rows: int = 100_000
    max_elements: int = 50_000_000


class Inference:
    """Answers requests; every method may be called from any thread."""

    def __init__(self, library: Library, *, batcher: Batcher | None, limits: Limits, metrics: Metrics) -> None:
        self.library, self.batcher, self.limits, self.metrics = library, batcher, limits, metrics

    def call(
        self,
        servable: Servable,
        signature: Signature,
        inputs: Mapping[str, Array],
        *,
        outputs: Sequence[str] = (),
        timeout_s: float | None = None,
        api: str = "Predict",
    ) -> Answer:
        """Calls a signature, shared with other requests where batching is on.

        Args:
            servable: in use.
            signature: of it.
            inputs: by name.
            outputs: that are wanted; none = all.
            timeout_s: seconds that are left; None = any.
            api: for the metrics.

        Raises:
            ServingFault: refused.
        """
        if timeout_s is not None and timeout_s <= 0:
            raise ServingFault(Code.DEADLINE_EXCEEDED, "Deadline exceeded before the model was called")
        rows = rows_of(inputs)
        if rows > self.limits.max_rows:
            raise invalid(f"{rows} rows in one request, the limit of this server is {self.limits.max_rows}")
        began = time.perf_counter()
        if self.batcher is not None and not outputs:
            answer = self.batcher.call(servable, signature, inputs, timeout_s=timeout_s)
        else:
            answer = servable.call(signature, inputs, outputs=outputs)
        self.metrics.runtime(servable.model, api, time.perf_counter() - began)
        return answer

    def metrics_text(self) -> str:
        """Everything that was counted, in Prometheus' text format."""
        return self.metrics.text(waiting_rows=self.batcher.waiting_rows() if self.batcher is not None else None)

    def asked(self, spec: Any) -> contextlib.AbstractContextManager[Servable]:
        """The servable that a ModelSpec means, in use.

        Raises:
            ServingFault: the specification is empty or names nothing that is served.
        """
        name, version, label = _named(spec)
        return self.library.use(name, version, label=label)

    def predict(self, request: Any, response: Any, *, timeout_s: float | None = None) -> None:
        """Fills a PredictResponse.

        Raises:
            ServingFault: refused.
        """
        with self.asked(request.model_spec) as servable:
            signature = servable.signature(request.model_spec.signature_name)
            inputs = {name: to_array(name, tensor, max_elements=self.limits.max_elements) for name, tensor in request.inputs.items()}
            answer = self.call(servable, signature, inputs, outputs=list(request.output_filter), timeout_s=timeout_s)
            _fill_spec(response.model_spec, servable, signature.key)
            for name, value in answer.items():
                fill_proto(response.outputs[name], value)

    def classify(self, request: Any, response: Any, *, timeout_s: float | None = None) -> None:
        """Fills a ClassificationResponse.

        Raises:
            ServingFault: refused; also where the signature is no classification.
        """
        with self.asked(request.model_spec) as servable:
            examples = serialized_examples(request.input)
            signature = self.by_examples(
                servable, request.model_spec.signature_name, examples, response.result, method=CLASSIFY, timeout_s=timeout_s
            )
            _fill_spec(response.model_spec, servable, signature.key)

    def regress(self, request: Any, response: Any, *, timeout_s: float | None = None) -> None:
        """Fills a RegressionResponse.

        Raises:
            ServingFault: refused; also where the signature is no regression.
        """
        with self.asked(request.model_spec) as servable:
            examples = serialized_examples(request.input)
            signature = self.by_examples(
                servable, request.model_spec.signature_name, examples, response.result, method=REGRESS, timeout_s=timeout_s
            )
            _fill_spec(response.model_spec, servable, signature.key)

    def multi_inference(self, request: Any, response: Any, *, timeout_s: float | None = None) -> None:
        """Fills a MultiInferenceResponse: several classifications and regressions of one model on the same examples.

        Raises:
            ServingFault: refused.
        """
        if not request.tasks:
            raise invalid("ModelSpec has no name specified.")
        with self.asked(request.tasks[0].model_spec) as servable:
            keys = _check_tasks(servable, request.tasks)
            examples = serialized_examples(request.input)
            for key, task in zip(keys, request.tasks, strict=True):
                entry = response.results.add()
                result = entry.classification_result if task.method_name == CLASSIFY else entry.regression_result
                self.by_examples(servable, key, examples, result, method=task.method_name, timeout_s=timeout_s)
                _fill_spec(entry.model_spec, servable, key)

    def by_examples(
        self, servable: Servable, key: str, examples: Array, result: Any, *, method: str, timeout_s: float | None = None
    ) -> Signature:
        """Fills a ClassificationResult or a RegressionResult for serialized examples; returns the signature that was asked.

        Raises:
            ServingFault: refused.
        """
        signature = example_signature(servable, key, method)
        outputs = wanted_outputs(signature, method)
        inputs = {INPUTS: examples}
        whole = len(outputs) == len(signature.outputs)
        api = "Classify" if method == CLASSIFY else "Regress"
        answer = self.call(servable, signature, inputs, outputs=() if whole else outputs, timeout_s=timeout_s, api=api)
        fill_result(result, answer, method=method, rows=len(examples))
        return signature

    def metadata(self, request: Any, response: Any) -> None:
        """Fills a GetModelMetadataResponse.

        Raises:
            ServingFault: an unknown field or model.
        """
        from tensorflow_serving.apis import get_model_metadata_pb2

        fields = list(request.metadata_field)
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        if not fields:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in fields:
            if field != "signature_def":
                raise invalid(f"Metadata field {field} is not supported")
        with self.asked(request.model_spec) as servable:
            definitions = get_model_metadata_pb2.SignatureDefMap()
            for key, definition in servable.signature_defs.items():
                definitions.signature_def[key].CopyFrom(definition)
            response.model_spec.name = servable.model
            response.model_spec.version.value = servable.version
            response.metadata["signature_def"].Pack(definitions)

    def version_of(self, spec: Any) -> int | None:
        """The version that a ModelSpec names by number or label; None = it names none.

        Raises:
            ServingFault: an unknown label.
        """
        if spec.version_label:
            return self.library.version_of_label(spec.name, spec.version_label)
        return int(spec.version.value) if spec.HasField("version") else None

    def status(self, request: Any, response: Any) -> None:
        """Fills a GetModelStatusResponse.

        Raises:
            ServingFault: an unknown model or version.
        """
        if not request.HasField("model_spec"):
            raise invalid("Missing ModelSpec")
        spec = request.model_spec
        for status in self.library.statuses(spec.name, self.version_of(spec)):
            entry = response.model_version_status.add(version=status.version, state=_STATES[status.state])
            entry.status.error_code = status.code.number
            entry.status.error_message = status.message


_STATES = {"START": 10, "LOADING": 20, "AVAILABLE": 30, "UNLOADING": 40, "END": 50}


def _named(spec: Any) -> tuple[str, int | None, str]:
    if not spec.name:
        raise invalid("Missing ModelSpec" if not spec.ByteSize() else "ModelSpec has no name specified.")
    version = spec.version.value if spec.HasField("version") else None
    return spec.name, version, spec.version_label


def _fill_spec(spec: Any, servable: Servable, key: str) -> None:
    spec.name, spec.signature_name = servable.model, key
    spec.version.value = servable.version


def _check_tasks(servable: Servable, tasks: Any) -> list[str]:
    """Checks all tasks of a MultiInferenceRequest before the first one is run; their signatures' keys."""
    model, keys = "", []
    for task in tasks:
        spec = task.model_spec
        if not spec.name:
            raise invalid("Found ModelSpec with an empty model name.")
        if spec.name != (model or spec.name):
            raise invalid("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        model, key = spec.name, spec.signature_name or "serving_default"
        if key in keys:
            raise invalid(f"Duplicate evaluation of signature: {key}")
        keys.append(key)
        if key in servable.signatures and task.method_name not in (CLASSIFY, REGRESS):
            raise ServingFault(Code.UNIMPLEMENTED, f"Unsupported signature method_name: {task.method_name}")
        example_signature(servable, key, task.method_name, words="Requested signature not found in model graph: ")
    return keys
