"""A model server whose answers a test decides: REST and gRPC in one process, no TensorFlow."""

import contextlib
import http.server
import json
import threading
import time
from concurrent import futures

import grpc

from infra.serving.router import wire


class Backend:
    """Answers each version as `behaviour[version]` says: {"status", "scores", "delay_s"}; remembers what it was asked.

    Attributes:
        asked: (protocol, version, body or message) in the order of arrival.
    """

    def __init__(self):
        self.behaviour, self.asked, self.lock = {}, [], threading.Lock()

    def answer(self, protocol, version, content):
        with self.lock:
            self.asked.append((protocol, version, content))
        now = {"status": 200, "scores": [[0.6, 0.4]], "delay_s": 0.0, **self.behaviour.get(version, {})}
        time.sleep(now["delay_s"])
        return now

    def versions(self, protocol="rest"):
        with self.lock:
            return [version for how, version, _ in self.asked if how == protocol]


def _message(number, content):
    return bytes([number << 3 | 2]) + wire._encoded(len(content)) + content


def predict_response(scores):
    """A PredictResponse by hand."""
    import struct

    dims = b"".join(_message(2, b"\x08" + wire._encoded(size)) for size in (len(scores), len(scores[0])))
    flat = [value for row in scores for value in row]
    tensor = b"\x08\x01" + _message(2, dims) + _message(5, struct.pack(f"<{len(flat)}f", *flat))
    return _message(1, _message(1, b"scores") + _message(2, tensor))


class _Generic(grpc.GenericRpcHandler):
    def __init__(self, backend):
        self._backend = backend

    def service(self, details):
        method = details.method.rpartition("/")[2]

        def handle(request, context):
            now = self._backend.answer("grpc", _version(method, request), request)
            if now["status"] != 200:
                context.abort(grpc.StatusCode.INTERNAL if now["status"] >= 500 else grpc.StatusCode.INVALID_ARGUMENT, "as the test says")
            return predict_response(now["scores"])

        return grpc.unary_unary_rpc_method_handler(handle)


def _version(method, request):
    """The version that a request names, as text; None when it names none."""
    number = wire.SPEC_FIELDS.get(method)
    if number is None:
        return None
    found = None
    for spec in wire._messages(request, number):
        for wrapped in wire._messages(spec, 2):
            found = str(wire._varint(wrapped, 1)[0])
    return found


@contextlib.contextmanager
def backend():
    """A running backend with `rest_port` and `grpc_port`."""
    made = Backend()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = self.path.split("/")
            version = parts[5].partition(":")[0] if len(parts) > 5 and parts[4] == "versions" else None
            now = made.answer("rest", version, content)
            body = {"predictions": [{"scores": row} for row in now["scores"]]} if now["status"] == 200 else {"error": "as the test says"}
            text = json.dumps(body).encode()
            self.send_response(now["status"])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST

        def log_message(self, *arguments):
            del arguments

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    rpc = grpc.server(futures.ThreadPoolExecutor(16), handlers=[_Generic(made)])
    made.grpc_port = rpc.add_insecure_port("127.0.0.1:0")
    made.rest_port = server.server_port
    rpc.start()
    try:
        yield made
    finally:
        rpc.stop(0).wait()
        server.shutdown()
        server.server_close()
