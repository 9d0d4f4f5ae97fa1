"""The REST side: TensorFlow Serving's paths over `Inference`, metrics and health, on aiohttp."""

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from google.protobuf import json_format
from tensorflow_serving.apis import classification_pb2, regression_pb2

from infra.serving.model_server import rest_json
from infra.serving.model_server.faults import Code, ServingFault, invalid
from infra.serving.model_server.inference import Inference
from infra.serving.model_server.rest_answers import classify_answer, predict_answer, regress_answer
from infra.serving.model_server.rest_examples import serialized_examples
from infra.serving.model_server.servable import CLASSIFY, REGRESS, Servable

LOG = logging.getLogger("tandem.serve")
METRICS_PATH = "/monitoring/prometheus/metrics"
_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(rf"(?ai){_MODEL}:(?P<verb>classify|regress|predict)")
_GET = re.compile(rf"(?ai){_MODEL}(?P<metadata>/metadata)?")
_TIMEOUT_S = 30.0
"""Seconds, the real server's --rest_api_timeout_in_ms."""
_Target = tuple[str, int | None, str]


class RestApp:
    """Answers HTTP requests; inference runs in threads, so that one slow call holds up nobody."""

    def __init__(self, inference: Inference, *, max_body_bytes: int, threads: int) -> None:
        self._inference = inference
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="rest")
        self.draining = False
        self.app = web.Application(client_max_size=max_body_bytes)
        self.app.router.add_route("*", "/{path:.*}", self._respond)

    async def _respond(self, request: web.Request) -> web.Response:
        # As it was sent: a name may hold an encoded slash.
        path = request.rel_url.raw_path
        if request.method == "GET" and path in ("/healthz", "/readyz", METRICS_PATH):
            return self._about_itself(path)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _refusal(413, f"the body is larger than {request.app._client_max_size} bytes, the limit of this server")
        if request.method == "POST":
            match = _POST.fullmatch(path)
            if match:
                call = _caller(self._infer, match, body)
                return await asyncio.get_running_loop().run_in_executor(self._pool, call)
        elif request.method == "GET":
            match = _GET.fullmatch(path)
            if match:
                return await asyncio.get_running_loop().run_in_executor(self._pool, _caller(self._describe, match, body))
            if path.rstrip("/").lower() == "/v1/models":
                return _refusal(Code.INVALID_ARGUMENT.http, "Missing model name in request.")
        return _refusal(Code.INVALID_ARGUMENT.http, f"Malformed request: {request.method} {path}")

    def _about_itself(self, path: str) -> web.Response:
        if path == METRICS_PATH:
            return web.Response(text=self._inference.metrics_text(), content_type="text/plain")
        ready = path == "/healthz" or (self._inference.library.ready() and not self.draining)
        return _json({"status": "ok" if ready else "not ready"}, 200 if ready else 503)

    def _infer(self, match: re.Match[str], body: bytes) -> web.Response:
        began = time.perf_counter()
        name, verb, status = match["name"], match["verb"].lower(), "OK"
        try:
            name, version, label = _target(match)
            content = rest_json.parse(body)
            with self._inference.library.use(name, version, label=label) as servable:
                methods = {"predict": self._predict, "classify": self._classify, "regress": self._regress}
                return _json(methods[verb](servable, content))
        except ServingFault as fault:
            status = fault.code.name
            return _refusal(fault.code.http, fault.message)
        finally:
            self._inference.metrics.request(name, verb, "REST", status=status, latency_s=time.perf_counter() - began)

    def _predict(self, servable: Servable, content: dict[str, Any]) -> dict[str, Any]:
        key = rest_json.signature_name(content) or "serving_default"
        signature = servable.signatures.get(key)
        if signature is None:
            raise invalid(f'Serving signature name: "{key}" not found in signature def')
        if not signature.inputs:
            raise invalid(f"Failed to get input map for signature: {key}")
        inputs, rows = rest_json.predict_inputs(content, signature, max_elements=self._inference.limits.max_elements)
        return predict_answer(self._inference.call(servable, signature, inputs, timeout_s=_TIMEOUT_S), rows=rows)

    def _classify(self, servable: Servable, content: dict[str, Any]) -> dict[str, Any]:
        result = classification_pb2.ClassificationResult()
        self._by_examples(servable, content, result, CLASSIFY)
        return classify_answer(result)

    def _regress(self, servable: Servable, content: dict[str, Any]) -> dict[str, Any]:
        result = regression_pb2.RegressionResult()
        self._by_examples(servable, content, result, REGRESS)
        return regress_answer(result)

    def _by_examples(self, servable: Servable, content: dict[str, Any], result: Any, method: str) -> None:
        key = rest_json.signature_name(content)
        examples = serialized_examples(content)
        self._inference.by_examples(servable, key, examples, result, method=method, timeout_s=_TIMEOUT_S)

    def _describe(self, match: re.Match[str], body: bytes) -> web.Response:
        del body
        try:
            return _json(self._metadata(_target(match)) if match["metadata"] else self._status(_target(match)))
        except ServingFault as fault:
            return _refusal(fault.code.http, fault.message)

    def _status(self, target: _Target) -> dict[str, Any]:
        name, version, label = target
        if label:
            version = self._inference.library.version_of_label(name, label)
        return {
            "model_version_status": [
                {
                    "version": str(status.version),
                    "state": status.state,
                    "status": {"error_code": status.code.name, "error_message": status.message},
                }
                for status in self._inference.library.statuses(name, version)
            ]
        }

    def _metadata(self, target: _Target) -> dict[str, Any]:
        name, version, label = target
        with self._inference.library.use(name, version, label=label) as servable:
            spec = {"name": servable.model, "signature_name": "", "version": str(servable.version)}
            definitions = {
                key: json_format.MessageToDict(value, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
                for key, value in servable.signature_defs.items()
            }
            return {"model_spec": spec, "metadata": {"signature_def": {"signature_def": definitions}}}


def _caller(method: Callable[[re.Match[str], bytes], web.Response], match: re.Match[str], body: bytes) -> Callable[[], web.Response]:
    """What runs in a thread; a fault of our own is told as one, not as a broken connection."""

    def call() -> web.Response:
        try:
            return method(match, body)
        except Exception as error:
            LOG.exception("a request to %s failed: %s", match.string, type(error).__name__)
            return _refusal(Code.INTERNAL.http, "the server failed on this request; its log says why")

    return call


def _target(match: re.Match[str]) -> _Target:
    version = match["version"]
    if version is not None and int(version) >= 2**63:
        raise invalid(f"Failed to convert version: {version} to numeric.")
    return unquote(match["name"]), None if version is None else int(version), unquote(match["label"] or "")


def _json(content: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=json.dumps(content).encode(), status=status, content_type="application/json")


def _refusal(status: int, message: str) -> web.Response:
    return _json({"error": message}, status)
