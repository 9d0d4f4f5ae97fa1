"""What TensorFlow Serving's interfaces mean, without a transport: Predict, Classify, Regress, MultiInference, status and metadata."""

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from infra.serving.model_server.batching import Answer, Batcher
from infra.serving.model_server.faults import Code, ServingFault, invalid
from infra.serving.model_server.library import Library
from infra.serving.model_server.metrics import Metrics
from infra.serving.model_server.servable import CLASSIFY, REGRESS, Servable, Signature, rows_of
from infra.serving.model_server.session import Array
from infra.serving.model_server.tensors import fill_proto, to_array

CLASSIFY_INPUTS = "inputs"
_CLASSES, _SCORES, _OUTPUTS = "classes", "scores", "outputs"


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
    ) -> Answer:
        """Calls a signature, shared with other requests where batching is on.

        Raises:
            ServingFault: refused.
        """
        rows = rows_of(inputs)
        if rows > self.limits.max_rows:
            raise invalid(f"{rows} rows in one request, the limit of this server is {self.limits.max_rows}")
        began = time.perf_counter()
        if self.batcher is not None and not outputs:
            answer = self.batcher.call(servable, signature, inputs, timeout_s=timeout_s)
        else:
            answer = servable.call(signature, inputs, outputs=outputs)
        self.metrics.runtime(servable.model, time.perf_counter() - began)
        return answer

    def _asked(self, spec: Any) -> contextlib.AbstractContextManager[Servable]:
        """The servable that a ModelSpec means, in use."""
        name, version, label = _named(spec)
        return self.library.use(name, version, label=label)

    def predict(self, request: Any, response: Any, *, timeout_s: float | None = None) -> None:
        """Fills a PredictResponse.

        Raises:
            ServingFault: refused.
        """
        with self._asked(request.model_spec) as servable:
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
        with self._asked(request.model_spec) as servable:
            signature = servable.signature(request.model_spec.signature_name)
            answer = self._by_examples(servable, signature, request.input, CLASSIFY, timeout_s)
            _fill_spec(response.model_spec, servable, signature.key)
            _fill_classes(response.result, answer)

    def regress(self, request: Any, response: Any, *, timeout_s: float | None = None) -> None:
        """Fills a RegressionResponse.

        Raises:
            ServingFault: refused; also where the signature is no regression.
        """
        with self._asked(request.model_spec) as servable:
            signature = servable.signature(request.model_spec.signature_name)
            answer = self._by_examples(servable, signature, request.input, REGRESS, timeout_s)
            _fill_spec(response.model_spec, servable, signature.key)
            _fill_values(response.result, answer)

    def multi_inference(self, request: Any, response: Any, *, timeout_s: float | None = None) -> None:
        """Fills a MultiInferenceResponse: several classifications and regressions of one model on the same examples.

        Raises:
            ServingFault: refused.
        """
        if not request.tasks:
            raise invalid("Inference request does not contain any tasks")
        names = {task.model_spec.name for task in request.tasks}
        if len(names) > 1:
            raise invalid("All ModelSpecs in a MultiInferenceRequest must access the same model name.")
        keys = [(task.model_spec.signature_name, task.method_name) for task in request.tasks]
        doubled = [key for key, _ in keys if [other for other, _ in keys].count(key) > 1]
        if doubled:
            raise invalid(f"Duplicate evaluation of signature: {doubled[0]}")
        with self._asked(request.tasks[0].model_spec) as servable:
            for key, method in keys:
                if method not in (CLASSIFY, REGRESS):
                    raise ServingFault(Code.UNIMPLEMENTED, f"Unsupported signature method_name: {method}")
                signature = servable.signature(key)
                answer = self._by_examples(servable, signature, request.input, method, timeout_s)
                result = response.results.add()
                _fill_spec(result.model_spec, servable, signature.key)
                if method == CLASSIFY:
                    _fill_classes(result.classification_result, answer)
                else:
                    _fill_values(result.regression_result, answer)

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
        with self._asked(request.model_spec) as servable:
            definitions = get_model_metadata_pb2.SignatureDefMap()
            for key, definition in servable.signature_defs.items():
                definitions.signature_def[key].CopyFrom(definition)
            response.model_spec.name = servable.model
            response.model_spec.version.value = servable.version
            response.metadata["signature_def"].Pack(definitions)

    def status(self, request: Any, response: Any) -> None:
        """Fills a GetModelStatusResponse.

        Raises:
            ServingFault: an unknown model or version.
        """
        name, version, label = _named(request.model_spec)
        if label:
            version = self.library.version_of_label(name, label)
        for status in self.library.statuses(name, version):
            entry = response.model_version_status.add(version=status.version, state=_STATES[status.state])
            entry.status.error_code = status.code.number
            entry.status.error_message = status.message

    def _by_examples(self, servable: Servable, signature: Signature, given: Any, method: str, timeout_s: float | None) -> Answer:
        if signature.method != method:
            kind = "classification" if method == CLASSIFY else "regression"
            raise invalid(f"Expected {kind} signature method_name to be {method}. Was: {signature.method}")
        examples = serialized_examples(given)
        answer = self.call(servable, signature, {CLASSIFY_INPUTS: examples}, timeout_s=timeout_s)
        odd = [name for name, value in answer.items() if value.ndim < 1 or len(value) != len(examples)]
        if odd:
            raise ServingFault(Code.INTERNAL, f"output {odd[0]} has no row for each of {len(examples)} examples")
        return answer


_STATES = {"START": 10, "LOADING": 20, "AVAILABLE": 30, "UNLOADING": 40, "END": 50}


def _named(spec: Any) -> tuple[str, int | None, str]:
    if not spec.name:
        raise invalid("Missing ModelSpec" if not spec.ByteSize() else "ModelSpec has no name specified.")
    version = spec.version.value if spec.HasField("version") else None
    return spec.name, version, spec.version_label


def _fill_spec(spec: Any, servable: Servable, key: str) -> None:
    spec.name, spec.signature_name = servable.model, key
    spec.version.value = servable.version


def serialized_examples(given: Any) -> Array:
    """The examples of an Input, each with the context merged in; string[N].

    Raises:
        ServingFault: there are none.
    """
    kind = given.WhichOneof("kind")
    if kind == "example_list":
        texts = [example.SerializeToString() for example in given.example_list.examples]
    elif kind == "example_list_with_context":
        context = given.example_list_with_context.context
        texts = []
        for example in given.example_list_with_context.examples:
            merged = type(example)()
            merged.CopyFrom(context)
            for name, feature in example.features.feature.items():
                merged.features.feature[name].CopyFrom(feature)
            texts.append(merged.SerializeToString())
    else:
        texts = []
    if not texts:
        raise invalid("Input is empty.")
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


def _fill_classes(result: Any, answer: Answer) -> None:
    classes, scores = answer.get(_CLASSES), answer.get(_SCORES)
    if classes is None and scores is None:
        raise ServingFault(Code.FAILED_PRECONDITION, "Expected classification signature outputs to contain at least one of classes, scores")
    for row in range(len(classes if classes is not None else scores if scores is not None else ())):
        names = np.atleast_1d(classes[row]) if classes is not None else None
        values = np.atleast_1d(scores[row]) if scores is not None else None
        entry = result.classifications.add()
        for place in range(len(names) if names is not None else len(values) if values is not None else 0):
            one = entry.classes.add()
            if names is not None:
                one.label = names[place]
            if values is not None:
                one.score = float(values[place])


def _fill_values(result: Any, answer: Answer) -> None:
    values = answer.get(_OUTPUTS)
    if values is None or values.size != len(values):
        raise ServingFault(Code.FAILED_PRECONDITION, "Expected regression signature outputs to contain outputs, one value a row")
    for value in values.ravel():
        result.regressions.add(value=float(value))
