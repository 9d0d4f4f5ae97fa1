"""The gRPC side of the router: bytes in, bytes out, the version pinned on the way."""

import asyncio
import time
from typing import Any

import grpc
import grpc.aio

from infra.serving.router import wire
from infra.serving.router.routing import ROLE_HEADER, VERSION_HEADER, Answered, Route, Routing

_PREDICTION, _MODEL = "tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"
_ROUTED = ("Predict", "Classify", "Regress", "MultiInference", "GetModelMetadata")
_FAILED = frozenset(
    (
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DATA_LOSS,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.NOT_FOUND,
    )
)
"""Faults of the server; NOT_FOUND too, because the router, not the caller, named the version."""
_SHADOWS_AT_ONCE = 32
_TIMEOUT_S = 60.0


class GrpcProxy(grpc.GenericRpcHandler):
    """Forwards PredictionService and ModelService; a reload of the configuration is refused, it is not a client's business."""

    def __init__(self, routing: Routing, *, backend: str, max_message_bytes: int) -> None:
        self._routing = routing
        options = [("grpc.max_receive_message_length", max_message_bytes), ("grpc.max_send_message_length", -1)]
        self._channel = grpc.aio.insecure_channel(backend, options=options)
        self._calls = {
            f"/{service}/{method}": self._channel.unary_unary(f"/{service}/{method}")
            for service, methods in ((_PREDICTION, _ROUTED), (_MODEL, ("GetModelStatus",)))
            for method in methods
        }
        self._shadows: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Lets the connection to the backend go."""
        for task in self._shadows:
            task.cancel()
        await self._channel.close()

    def service(self, details: Any) -> Any:
        """The handler of one method."""
        path = details.method
        if path == f"/{_MODEL}/HandleReloadConfigRequest":
            return grpc.unary_unary_rpc_method_handler(_refuse_reload)
        if path not in self._calls:
            return None

        async def forward(request: bytes, context: Any) -> bytes:
            return await self._forward(path, request, context)

        return grpc.unary_unary_rpc_method_handler(forward)

    async def _forward(self, path: str, request: bytes, context: Any) -> bytes:
        method = path.rpartition("/")[2]
        try:
            asked = wire.target(method, request)
            key = dict(context.invocation_metadata() or ()).get(self._routing.key_header)
            text = key.decode("latin-1") if isinstance(key, bytes) else key
            routed = method in _ROUTED and not asked.pinned
            route = self._routing.route(asked.name, text, request) if routed else None
            pinned = wire.pin(method, request, int(route.version.version)) if route else request
        except wire.Malformed as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the request is no message of {method}: {error}")
        left = context.time_remaining()
        timeout_s = left if left is not None and left < _TIMEOUT_S else _TIMEOUT_S
        if route is None:
            status, answer, message = await self._send(path, request, timeout_s)
        else:
            status, answer, message, route = await self._routed(path, route, request, pinned, timeout_s)
            context.set_trailing_metadata(((VERSION_HEADER, route.version.version), (ROLE_HEADER, route.role)))
        if status is not grpc.StatusCode.OK:
            await context.abort(status, message, context.trailing_metadata() or ())
        return answer

    async def _routed(
        self, path: str, route: Route, request: bytes, pinned: bytes, timeout_s: float
    ) -> tuple[grpc.StatusCode, bytes, str, Route]:
        method = path.rpartition("/")[2]
        shadow = route.to_shadow()
        if shadow is not None and method != "GetModelMetadata":
            self._start_shadow(path, shadow, request, timeout_s)
        status, answer, message = await self._ask(path, route, request, pinned, timeout_s)
        second = route.to_champion() if status in _FAILED else None
        if second is not None:
            route = second
            pinned = wire.pin(method, request, int(route.version.version))
            status, answer, message = await self._ask(path, route, request, pinned, timeout_s)
        return status, answer, message, route

    async def _ask(self, path: str, route: Route, request: bytes, pinned: bytes, timeout_s: float) -> tuple[grpc.StatusCode, bytes, str]:
        method = path.rpartition("/")[2]
        began = time.perf_counter()
        status, answer, message = await self._send(path, pinned, timeout_s)
        scores = None
        if status is grpc.StatusCode.OK and method == "Predict" and self._routing.looks_at(route):
            scores = _scores(answer)
        latency_ms = 1000 * (time.perf_counter() - began)
        self._routing.saw(route, Answered("grpc", method, status.name, status in _FAILED, latency_ms, request, scores))
        return status, answer, message

    def _start_shadow(self, path: str, route: Route, request: bytes, timeout_s: float) -> None:
        if len(self._shadows) >= _SHADOWS_AT_ONCE:
            self._routing.counts.shadows_dropped += 1
            return
        task = asyncio.create_task(self._shadow(path, route, request, timeout_s))
        self._shadows.add(task)
        task.add_done_callback(self._shadows.discard)

    async def _shadow(self, path: str, route: Route, request: bytes, timeout_s: float) -> None:
        pinned = wire.pin(path.rpartition("/")[2], request, int(route.version.version))
        await self._ask(path, route, request, pinned, timeout_s)

    async def _send(self, path: str, request: bytes, timeout_s: float) -> tuple[grpc.StatusCode, bytes, str]:
        try:
            return grpc.StatusCode.OK, await self._calls[path](request, timeout=timeout_s), ""
        except grpc.aio.AioRpcError as error:
            return error.code(), b"", error.details() or ""


def _scores(answer: bytes) -> Any:
    try:
        return wire.scores(answer)
    except (wire.Malformed, ValueError):
        return None  # the client will see what it is; there is nothing to look at


async def _refuse_reload(request: bytes, context: Any) -> bytes:
    del request
    await context.abort(grpc.StatusCode.PERMISSION_DENIED, "the configuration follows the ledger; it is not reloaded through the router")
    return b""
