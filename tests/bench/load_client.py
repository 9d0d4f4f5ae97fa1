"""A client of a model server for a given time: `python load_client.py` reads a JSON object on stdin and writes one on stdout.

In: {"protocol": "grpc" | "rest" | "mlflow" | "function", "port", "clients", "rows", "seconds", "model", "saved_model", "mark"}. The rows
are those of the model's own warm-up file, repeated. Out: {"requests", "rows", "seconds", "p50_ms", "p99_ms", "cpu_s", "errors"}; `cpu_s`
is the client's own. With "mark", a file, the latencies before and after that file appeared are told apart ("p99_after_ms").
"""

import base64
import http.client
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WARM_UP = 20


def main() -> None:
    """Measures what stdin says."""
    asked = json.load(sys.stdin)
    make = {"grpc": grpc_caller, "rest": rest_caller, "mlflow": rest_caller, "function": function_caller}[asked["protocol"]]
    json.dump(run(asked, make), sys.stdout)


def run(asked: dict[str, Any], make: Callable[[dict[str, Any]], Callable[[], None]]) -> dict[str, Any]:
    """Calls from several threads until the time is over."""
    mark = Path(asked["mark"]) if asked.get("mark") else None
    found: list[list[tuple[bool, float]]] = [[] for _ in range(asked["clients"])]
    errors = [0] * asked["clients"]
    gate = threading.Barrier(asked["clients"] + 1)
    ends = [0.0]

    def work(place: int) -> None:
        call = make(asked)
        for _ in range(WARM_UP):
            call()
        gate.wait()
        while time.perf_counter() < ends[0] or not ends[0]:
            began = time.perf_counter()
            try:
                call()
            except (RuntimeError, OSError, http.client.HTTPException):
                errors[place] += 1
                continue
            found[place].append((mark is not None and mark.exists(), 1000 * (time.perf_counter() - began)))

    threads = [threading.Thread(target=work, args=(place,)) for place in range(asked["clients"])]
    for thread in threads:
        thread.start()
    gate.wait()
    began, cpu = time.perf_counter(), time.process_time()
    ends[0] = began + asked["seconds"]
    for thread in threads:
        thread.join()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    latencies = [latency for part in found for after, latency in part if not after]
    later = [latency for part in found for after, latency in part if after]
    requests = len(latencies) + len(later)
    return {
        "requests": requests,
        "rows": requests * asked["rows"],
        "seconds": seconds,
        "p50_ms": float(np.percentile(latencies, 50)),
        "p99_ms": float(np.percentile(latencies, 99)),
        "p99_after_ms": float(np.percentile(later, 99)) if later else None,
        "cpu_s": cpu,
        "errors": sum(errors),
    }


def warmup_requests(saved_model: str) -> dict[str, Any]:
    """Signature -> the largest warm-up request."""
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    path = Path(saved_model) / "assets.extra" / "tf_serving_warmup_requests"
    records = [prediction_log_pb2.PredictionLog.FromString(record) for record in tf.compat.v1.io.tf_record_iterator(str(path))]
    return {record.predict_log.request.model_spec.signature_name: record.predict_log.request for record in records}


def examples(asked: dict[str, Any]) -> list[bytes]:
    """Serialized rows."""
    import tensorflow as tf

    rows = tf.make_ndarray(warmup_requests(asked["saved_model"])["serving_default"].inputs["examples"]).tolist()
    return [rows[number % len(rows)] for number in range(asked["rows"])]


def grpc_caller(asked: dict[str, Any]) -> Callable[[], None]:
    """One client with a connection of its own; the message is made once."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    channel = grpc.insecure_channel(f"127.0.0.1:{asked['port']}", options=[("grpc.use_local_subchannel_pool", 1)])
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = predict_pb2.PredictRequest()
    request.model_spec.name = asked["model"]
    request.inputs["examples"].CopyFrom(tf.make_tensor_proto(examples(asked)))
    return lambda: stub.Predict(request, timeout=30)


def rest_caller(asked: dict[str, Any]) -> Callable[[], None]:
    """One client with a connection of its own; `mlflow` asks MLflow's scoring server with raw features."""
    if asked["protocol"] == "mlflow":
        path, body = "/invocations", json.dumps({"dataframe_records": raw_rows(asked)})
    else:
        path = f"/v1/models/{asked['model']}:predict"
        body = json.dumps({"instances": [{"b64": base64.b64encode(row).decode()} for row in examples(asked)]})
    connection = http.client.HTTPConnection("127.0.0.1", asked["port"], timeout=60)

    def call() -> None:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(content[:200])

    return call


def raw_rows(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The same rows as raw features."""
    import tensorflow as tf

    columns = {
        name: tf.make_ndarray(tensor).ravel().tolist()
        for name, tensor in warmup_requests(asked["saved_model"])["serving_raw"].inputs.items()
    }
    size = min(len(values) for values in columns.values())

    def cell(value: Any) -> Any:
        if isinstance(value, bytes):
            return value.decode()
        return None if value != value else value

    return [{name: cell(values[number % size]) for name, values in columns.items()} for number in range(asked["rows"])]


def function_caller(asked: dict[str, Any]) -> Callable[[], None]:
    """The signature as a tf.function of this process: no server at all."""
    import tensorflow as tf

    function = tf.saved_model.load(asked["saved_model"]).signatures["serving_default"]
    rows = tf.constant(examples(asked))

    def call() -> None:
        function(examples=rows)["scores"].numpy()

    return call


if __name__ == "__main__":
    main()
