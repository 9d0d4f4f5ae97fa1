"""Warm-up files: requests that a model server answers while it loads, so that no user waits for a first call.

The plain file is read by a stock server, and a record that fails there fails the load: it holds plain signatures only. The second file is
for servers that have XLA on. The rows are the synthetic edge rows; no row of a person leaves with the model.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from components.core.served_model import EXAMPLES, EXTRA_ASSETS, SERVING_DEFAULT, SERVING_RAW, WARMUP_FILE, WARMUP_XLA_FILE, XLA_SUFFIX


def write_warmup(folder: Path, model_name: str, *, buckets: Sequence[int], examples: Sequence[bytes], raw: Mapping[str, Any]) -> None:
    """Writes both files into a SavedModel that is not published yet: a request a signature and bucket.

    Args:
        folder: the SavedModel.
        model_name: name under which a server will hold the model.
        buckets: rows of the requests.
        examples: serialized rows, repeated where a bucket needs more.
        raw: the same rows as inputs of `serving_raw`, tensors [N].
    """
    extra = folder / EXTRA_ASSETS
    extra.mkdir(parents=True, exist_ok=True)
    for name, suffix in ((WARMUP_FILE, ""), (WARMUP_XLA_FILE, XLA_SUFFIX)):
        with tf.io.TFRecordWriter(str(extra / name)) as writer:
            for bucket in buckets:
                rows = list(itertools.islice(itertools.cycle(range(len(examples))), bucket))
                by_example = {EXAMPLES: tf.constant([examples[row] for row in rows], tf.string)}
                by_feature = {key: tf.gather(tensor, rows) for key, tensor in raw.items()}
                for signature, inputs in ((SERVING_DEFAULT, by_example), (SERVING_RAW, by_feature)):
                    writer.write(_record(model_name, signature + suffix, inputs))


def _record(model_name: str, signature: str, inputs: Mapping[str, Any]) -> bytes:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model_name
    request.model_spec.signature_name = signature
    for name, tensor in inputs.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(tensor))
    log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
    return bytes(log.SerializeToString(deterministic=True))
