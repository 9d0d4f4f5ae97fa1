"""Warm-up: the requests that lie in a version's own folder are answered before it takes others."""

from pathlib import Path
from typing import Any

from infra.serving.model_server.examples import example_signature, fill_result, serialized_examples, wanted_outputs
from infra.serving.model_server.faults import Code, ServingFault, invalid
from infra.serving.model_server.servable import CLASSIFY, REGRESS, Servable
from infra.serving.model_server.tensors import to_array

WARMUP = Path("assets.extra") / "tf_serving_warmup_requests"
MAX_RECORDS = 1000
_MAX_ELEMENTS = 1 << 28


def warm_up(servable: Servable, folder: Path) -> int:
    """Answers a version's warm-up requests; returns their number.

    Args:
        servable: just loaded.
        folder: of its SavedModel.

    Raises:
        ServingFault: one of them fails, the file is damaged, or there are more than 1,000: the version must not be served.
    """
    path = folder / WARMUP
    if not path.is_file():
        return 0
    import tensorflow as tf
    from google.protobuf.message import DecodeError
    from tensorflow_serving.apis import prediction_log_pb2

    count = 0
    try:
        for record in tf.compat.v1.io.tf_record_iterator(str(path)):
            count += 1
            if count > MAX_RECORDS:
                raise invalid(f"Number of warmup records exceeds the maximum ({MAX_RECORDS}) at {path}")
            _answer(servable, prediction_log_pb2.PredictionLog.FromString(record))
    except DecodeError as error:
        raise invalid(f"Failed to parse warmup record: {count} from {path}") from error
    except tf.errors.OpError as error:
        raise ServingFault(Code.DATA_LOSS, f"warm-up file {path} is damaged behind record {count}: {error.message}") from error
    return count


def _answer(servable: Servable, log: Any) -> None:
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        asked = log.predict_log.request
        inputs = {name: to_array(name, tensor, max_elements=_MAX_ELEMENTS) for name, tensor in asked.inputs.items()}
        servable.call(servable.signature(asked.model_spec.signature_name), inputs, outputs=list(asked.output_filter))
    elif kind in ("classify_log", "regress_log"):
        asked = getattr(log, kind).request
        _by_examples(servable, asked.model_spec.signature_name, asked.input, CLASSIFY if kind == "classify_log" else REGRESS)
    elif kind == "multi_inference_log":
        asked = log.multi_inference_log.request
        for task in asked.tasks:
            _by_examples(servable, task.model_spec.signature_name, asked.input, task.method_name)
    elif kind is not None:
        raise ServingFault(Code.UNIMPLEMENTED, f"Unsupported log_type for warmup: {kind}")


def _by_examples(servable: Servable, key: str, given: Any, method: str) -> None:
    from tensorflow_serving.apis import classification_pb2, regression_pb2

    if method not in (CLASSIFY, REGRESS):
        raise ServingFault(Code.UNIMPLEMENTED, f"Unsupported signature method_name: {method}")
    signature = example_signature(servable, key, method)
    examples = serialized_examples(given)
    answer = servable.call(signature, {"inputs": examples}, outputs=wanted_outputs(signature, method))
    result = classification_pb2.ClassificationResult() if method == CLASSIFY else regression_pb2.RegressionResult()
    fill_result(result, answer, method=method, rows=len(examples))
