"""Small SavedModels and real servers over them."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COMMAND = "import sys; from pipelines.cli import main; sys.exit(main(sys.argv[1:]))"


def _tensor_functions():
    """The class of modules with the functions of x alone."""
    import tensorflow as tf

    class Functions(tf.Module):
        def __init__(self, scale):
            super().__init__()
            self.scale = tf.Variable(float(scale))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def double(self, x):
            return {"y": self.scale * x}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def checked(self, x):
            with tf.control_dependencies([tf.debugging.assert_non_negative(x, message="x is negative")]):
                return {"y": tf.identity(x)}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def slow(self, x):
            steps = tf.reduce_max(x)
            return {"y": tf.fill(tf.shape(x), self.scale * tf.while_loop(lambda i: i < steps, lambda i: [i + 1.0], [0.0])[0])}

    return Functions


def make_model(folder, scale):
    """A model of one weight, `scale`.

    `double`: x float32[N] -> y = scale * x. `raw`: x float32[N], name string[N] -> scores = [1 - p, p] with p = scale * x / 10, classes.
    `serving_default`: examples string[N] with a float feature x -> the same. `classify`, `regress`: for the methods of that name.
    `checked`: x float32[N] -> y = x, an error where x is negative. `slow`: x -> y = scale * x, counted step by step, microseconds each.
    `serving_raw` is `raw`.
    """
    import tensorflow as tf

    class Model(_tensor_functions()):
        def answer(self, x):
            positive = self.scale * x / 10.0
            return {
                "scores": tf.stack([1.0 - positive, positive], axis=1),
                "classes": tf.tile(tf.constant([["good", "bad"]]), [tf.shape(x)[0], 1]),
            }

        @tf.function(
            input_signature=[tf.TensorSpec([None], tf.float32, name="x"), tf.TensorSpec([None], tf.string, name="name")],
        )
        def raw(self, x, name):
            return {**self.answer(x), "name_bytes": tf.identity(name)}

        def parsed(self, examples):
            return tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([], tf.float32)})["x"]

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serving_default(self, examples):
            return self.answer(self.parsed(examples))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
        def classify(self, inputs):
            return self.answer(self.parsed(inputs))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
        def regress(self, inputs):
            return {"outputs": self.scale * self.parsed(inputs)}

    model = Model(scale)
    names = ("double", "checked", "slow", "raw", "serving_default", "classify", "regress")
    signatures = {name: getattr(model, name) for name in names}
    tf.saved_model.save(model, str(folder), signatures={**signatures, "serving_raw": model.raw})
    _name_methods(Path(folder) / "saved_model.pb")
    write_warmup(folder, [[1.0], [1.0, 2.0]])


def _name_methods(path):
    """TensorFlow 2 saves every signature as a prediction."""
    from tensorflow.core.protobuf import saved_model_pb2

    graph = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for name in ("classify", "regress"):
        graph.meta_graphs[0].signature_def[name].method_name = f"tensorflow/serving/{name}"
    path.write_bytes(graph.SerializeToString())


def example(x):
    """A serialized tf.Example with the feature x."""
    import tensorflow as tf

    made = tf.train.Example()
    made.features.feature["x"].float_list.value.append(x)
    return made.SerializeToString()


def write_warmup(folder, batches, signature="double"):
    """Warm-up requests: float batches for signatures that take x, else serialized examples with that x."""
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    path = Path(folder) / "assets.extra" / "tf_serving_warmup_requests"
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for values in batches:
            request = predict_pb2.PredictRequest()
            request.model_spec.name, request.model_spec.signature_name = "m", signature
            if signature == "serving_default":
                request.inputs["examples"].CopyFrom(tf.make_tensor_proto([example(value) for value in values]))
            else:
                request.inputs["x"].CopyFrom(tf.make_tensor_proto(values, tf.float32))
            log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
            writer.write(log.SerializeToString())


@dataclasses.dataclass
class Running:
    """A server process and where it listens."""

    process: subprocess.Popen
    grpc_port: int
    rest_port: int

    def rest(self, path, body=None, *, headers=None, method=None):
        """(status, body as JSON, headers)."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.rest_port}{path}", data, headers or {}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, _json(answer.read()), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, _json(error.read()), error.headers

    def stop(self, number=signal.SIGTERM, timeout_s=30):
        """Ends it; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout_s)


def _json(text):
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()


@contextlib.contextmanager
def running(*words, cwd, env=None, ready="/healthz"):
    """A `tandem` server that is up, ended at the end."""
    log = (Path(cwd) / f"{words[0]}.log").open("ab")
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", COMMAND, *map(str, words), "--json"],
        cwd=cwd, stdout=subprocess.PIPE, stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
    )  # fmt: skip
    try:
        said = b""
        while not said.rstrip().endswith(b"}"):
            line = process.stdout.readline()
            assert line, f"{words} ended: {(Path(cwd) / f'{words[0]}.log').read_text()[-2000:]}"
            said += line
        ports = json.loads(said)
        server = Running(process, ports["grpc_port"], ports["rest_port"])
        until(lambda: server.rest(ready)[0] == 200)
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()
        log.close()


@contextlib.contextmanager
def running_real(binary, config, *, cwd):
    """A tensorflow_model_server that is up, with Prometheus on, ended at the end."""
    grpc_port, rest_port = free_port(), free_port()
    monitoring = Path(cwd) / "monitoring.config"
    monitoring.write_text('prometheus_config { enable: true path: "/monitoring/prometheus/metrics" }')
    words = (
        f"--port={grpc_port}", f"--rest_api_port={rest_port}", f"--model_config_file={config}", f"--monitoring_config_file={monitoring}",
        "--allow_version_labels_for_unavailable_models=true",
    )  # fmt: skip
    with (Path(cwd) / "tensorflow_model_server.log").open("wb") as log:
        process = subprocess.Popen([binary, *words], stdout=log, stderr=log)
    server = Running(process, grpc_port, rest_port)

    def answers():
        with contextlib.suppress(OSError):
            return server.rest("/v1/models/m")[0] == 200
        return False

    try:
        until(answers)
        yield server
    finally:
        process.terminate()
        process.wait(30)


def until(condition, timeout_s=60.0):
    """Waits; fails when the time is over."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
