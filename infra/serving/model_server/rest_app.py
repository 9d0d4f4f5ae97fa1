"""The REST side: TensorFlow Serving's paths over `Inference`, metrics and health, on aiohttp."""

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from aiohttp import web
from google.protobuf import json_format

from infra.serving.model_server import rest_json
from infra.serving.model_server.faults import Code, ServingFault, invalid
from infra.serving.model_server.inference import CLASSIFY_INPUTS, Inference
from infra.serving.model_server.servable import CLASSIFY, REGRESS, Servable, Signature
from infra.serving.model_server.session import Array

LOG = logging.getLogger("tandem.serve")
METRICS_PATH = "/monitoring/prometheus/metrics"
_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(rf"(?i){_MODEL}:(?P<verb>classify|regress|predict)")
_GET = re.compile(rf"(?i){_MODEL}(?P<metadata>/metadata)?")
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
        path = request.path
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
            return web.Response(text=self._inference.metrics.text(), content_type="text/plain")
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
            api = verb.capitalize()
            self._inference.metrics.request(name, api, "REST", status=status, latency_s=time.perf_counter() - began)

    def _predict(self, servable: Servable, content: dict[str, Any]) -> dict[str, Any]:
        signature = _signature(servable, content)
        inputs, rows = rest_json.predict_inputs(content, signature, max_elements=self._inference.limits.max_elements)
        return rest_json.predict_answer(self._inference.call(servable, signature, inputs), rows=rows)

    def _classify(self, servable: Servable, content: dict[str, Any]) -> dict[str, Any]:
        answer = self._by_examples(servable, content, CLASSIFY)
        classes, scores = answer.get("classes"), answer.get("scores")
        given = [value for value in (classes, scores) if value is not None]
        if not given:
            raise ServingFault(Code.FAILED_PRECONDITION, "the signature gives neither classes nor scores")
        results = []
        for row in range(len(given[0])):
            labels = [text.decode("utf-8", "replace") for text in np.atleast_1d(classes[row])] if classes is not None else None
            values = np.atleast_1d(scores[row]).astype("U32").astype(float).tolist() if scores is not None else None
            size = len(labels if labels is not None else values or [])
            results.append([[labels[place] if labels else "", values[place] if values else 0.0] for place in range(size)])
        return {"results": results}

    def _regress(self, servable: Servable, content: dict[str, Any]) -> dict[str, Any]:
        answer = self._by_examples(servable, content, REGRESS)
        values = answer.get("outputs")
        if values is None or values.size != len(values):
            raise ServingFault(Code.FAILED_PRECONDITION, "the signature gives no output `outputs` with one value a row")
        return {"results": values.ravel().astype("U32").astype(float).tolist()}

    def _by_examples(self, servable: Servable, content: dict[str, Any], method: str) -> dict[str, Array]:
        signature = _signature(servable, content)
        if signature.method != method:
            raise invalid(f"Expected signature method_name to be {method}. Was: {signature.method}")
        examples, context = content.get("examples"), content.get("context", {})
        if not isinstance(examples, list) or not examples or not all(isinstance(example, dict) for example in examples):
            raise invalid("When method is classify or regress, key 'examples' is expected and is a list of objects")
        if not isinstance(context, dict):
            raise invalid("'context' is an object of features that all examples share")
        texts = np.empty(len(examples), object)
        texts[:] = [rest_json.example_of({**context, **example}) for example in examples]
        return self._inference.call(servable, signature, {CLASSIFY_INPUTS: texts})

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


def _signature(servable: Servable, content: dict[str, Any]) -> Signature:
    key = content.get("signature_name", "")
    if not isinstance(key, str):
        raise invalid("'signature_name' key must be a string value.")
    if key and key not in servable.signatures:
        raise invalid(f'Serving signature name: "{key}" not found in signature def')
    return servable.signature(key)


def _target(match: re.Match[str]) -> _Target:
    version = match["version"]
    if version is not None and int(version) >= 2**63:
        raise invalid(f"version {version} is out of the range of int64")
    return match["name"], None if version is None else int(version), match["label"] or ""


def _json(content: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=json.dumps(content).encode(), status=status, content_type="application/json")


def _refusal(status: int, message: str) -> web.Response:
    return _json({"error": message}, status)
