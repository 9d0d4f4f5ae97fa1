"""The gRPC side of the router: bytes in, bytes out, the version pinned on the way."""

import dataclasses
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
_TIMEOUT_S = 60.0
_CHANNEL = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    # gRPC's own waits grow to two minutes: a model server that is back would stay unreachable that long.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
_KEPT_BACK = ("user-agent", "grpc-", ":", "te", "content-type")


@dataclasses.dataclass(frozen=True)
class _Call:
    """One request: path and name of the method, message, metadata to hand on, and until when (`time.monotonic`) it is waited for.

    `callers_deadline` says that the caller wants it no later.
    """

    path: str
    method: str
    request: bytes
    metadata: tuple[tuple[str, Any], ...]
    until: float
    callers_deadline: bool = False


@dataclasses.dataclass(frozen=True)
class _Reply:
    """What the backend said."""

    status: grpc.StatusCode
    message: bytes
    details: str = ""


class GrpcProxy(grpc.GenericRpcHandler):
    """Forwards PredictionService and ModelService; a reload of the configuration is refused, it is not a client's business."""

    def __init__(self, routing: Routing, *, backend: str) -> None:
        self._routing = routing
        self._channel = grpc.aio.insecure_channel(backend, options=_CHANNEL)
        self._calls = {
            f"/{service}/{method}": self._channel.unary_unary(f"/{service}/{method}")
            for service, methods in ((_PREDICTION, _ROUTED), (_MODEL, ("GetModelStatus",)))
            for method in methods
        }

    async def close(self) -> None:
        """Lets the connection to the backend go."""
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
        metadata = tuple(context.invocation_metadata() or ())
        left = context.time_remaining()
        callers = left is not None and left < _TIMEOUT_S
        timeout_s = left if left is not None and callers else _TIMEOUT_S
        call = _Call(path, method, request, _handed_on(metadata), time.monotonic() + timeout_s, callers)
        try:
            asked = wire.target(method, request)
        except wire.Malformed as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the request is no message of {method}: {error}")
        routed = method in _ROUTED and not asked.pinned
        route = self._routing.route(asked.name, _key(metadata, self._routing.key_header), request) if routed else None
        if route is None:
            reply = await self._send(call, request)
        else:
            reply, route = await self._routed(call, route)
            context.set_trailing_metadata(((VERSION_HEADER, route.version.version), (ROLE_HEADER, route.role)))
        if reply.status is not grpc.StatusCode.OK:
            await context.abort(reply.status, reply.details, context.trailing_metadata() or ())
        return reply.message

    async def _routed(self, call: _Call, route: Route) -> tuple[_Reply, Route]:
        reply, answered = await self._ask(call, route)
        second = route.to_champion() if answered.doubtful else None
        if second is None:
            self._routing.saw(route, answered)
        else:
            # The canary's fault is not the caller's: the champion answers.
            reply, champion = await self._ask(call, second)
            self._routing.saw_both(route, answered, second, champion)
            route, answered = second, champion
        shadow = route.to_shadow() if answered.judged and not answered.doubtful else None
        if shadow is not None and self._routing.shadows.has_room(len(call.request)):
            copy = dataclasses.replace(call, until=time.monotonic() + _TIMEOUT_S, callers_deadline=False)
            self._routing.shadows.start(self._shadow(copy, shadow, answered.scores), len(call.request))
        return reply, route

    async def _ask(self, call: _Call, route: Route) -> tuple[_Reply, Answered]:
        """The reply, and what is to be taken note of."""
        pinned = wire.pin(call.method, call.request, int(route.version.version))
        began = time.perf_counter()
        reply = await self._send(call, pinned)
        latency_ms = 1000 * (time.perf_counter() - began)
        looked_at = reply.status is grpc.StatusCode.OK and call.method == "Predict" and self._routing.looks_at(route)
        scores = _scores(reply.message) if looked_at else None
        # A caller who waits too short has its own fault; a version that is slow shows in the latencies.
        impatient = call.callers_deadline and reply.status is grpc.StatusCode.DEADLINE_EXCEEDED
        failed, judged = reply.status in _FAILED and not impatient, call.method != "GetModelMetadata"
        return reply, Answered("grpc", call.method, reply.status.name, failed, latency_ms, call.request, scores, judged=judged)

    async def _shadow(self, call: _Call, route: Route, champion_scores: Any) -> None:
        _, answered = await self._ask(call, route)
        self._routing.saw(route, answered)
        self._routing.conductor.compared(route.split.model, answered.scores, champion_scores)

    async def _send(self, call: _Call, request: bytes) -> _Reply:
        try:
            answer = await self._calls[call.path](request, timeout=max(0.0, call.until - time.monotonic()), metadata=call.metadata)
            return _Reply(grpc.StatusCode.OK, answer)
        except grpc.aio.AioRpcError as error:
            return _Reply(error.code(), b"", error.details() or "")


def _handed_on(metadata: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, value) for name, value in metadata if not name.startswith(_KEPT_BACK))


def _key(metadata: tuple[tuple[str, Any], ...], name: str) -> bytes | None:
    for found, value in metadata:
        if found == name:
            return value if isinstance(value, bytes) else str(value).encode()
    return None


def _scores(answer: bytes) -> Any:
    try:
        return wire.scores(answer)
    except (wire.Malformed, ValueError):
        return None  # the client will see what it is; there is nothing to look at


async def _refuse_reload(request: bytes, context: Any) -> bytes:
    del request
    await context.abort(grpc.StatusCode.PERMISSION_DENIED, "the configuration follows the ledger; it is not reloaded through the router")
    return b""
