"""The REST side of the router, on aiohttp."""

import re
import time
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from infra.serving.router.routing import ROLE_HEADER, VERSION_HEADER, Answered, Route, Routing, json_scores

_PATH = re.compile(r"(?i)/v1/models/(?P<name>[^/:]+):(?P<verb>classify|regress|predict)")
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "proxy-authorization", "content-length")
)
_NOT_ASKED_ON = _HOP_BY_HOP | {"host", "expect", "accept-encoding", "content-encoding"}
"""The body is here unpacked already, and an answer is asked for unpacked: its scores are read, and the client may take no other."""
_TIMEOUT_S = 60.0
_READY_TIMEOUT_S = 2.0
_KEPT_ALIVE_S = 15.0
"""Idle connections: shorter than any model server keeps them, so that none is closed under a request."""

_Answer = tuple[int, bytes, CIMultiDict[str]]


class RestProxy:
    """Forwards every request; those that ask a model without a version are routed."""

    def __init__(self, routing: Routing, *, backend: str, max_body_bytes: int) -> None:
        self._routing, self._backend = routing, backend.rstrip("/")
        self._client: aiohttp.ClientSession | None = None
        self.app = web.Application(client_max_size=max_body_bytes)
        self.app.router.add_route("*", "/{path:.*}", self._forward)
        self.app.on_startup.append(self._open)
        self.app.on_cleanup.append(self._close)
        self.max_body_bytes = max_body_bytes

    async def _open(self, app: web.Application) -> None:
        del app
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_ALIVE_S)
        self._client = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
        )

    async def _close(self, app: web.Application) -> None:
        del app
        if self._client is not None:
            await self._client.close()

    async def backend_ready(self) -> bool:
        """Whether the backend answers at all, soon."""
        try:
            await self._send("GET", "/v1/models", CIMultiDict(), b"", timeout=aiohttp.ClientTimeout(total=_READY_TIMEOUT_S))
        except (aiohttp.ClientError, TimeoutError):
            return False
        return True

    async def _forward(self, request: web.Request) -> web.Response:
        if not request.raw_path.startswith("/"):
            return web.json_response({"error": "the request names another server; this router forwards to one only"}, status=400)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return web.json_response(
                {"error": f"the body is larger than {self.max_body_bytes} bytes, the limit of this router"}, status=413
            )
        except web.RequestPayloadError:
            return web.json_response({"error": "the body is cut off, or not packed as its Content-Encoding says"}, status=400)
        headers = _without(request.headers, _NOT_ASKED_ON)
        headers["Accept-Encoding"] = "identity"
        match = _PATH.fullmatch(request.path) if request.method == "POST" else None
        route = self._routing.route(match["name"], _key(request, self._routing.key_header), body) if match else None
        try:
            if match is None or route is None:
                status, answer, told = await self._send(request.method, request.raw_path, headers, body)
                return web.Response(body=answer, status=status, headers=told)
            return await self._routed(route, match["verb"].lower(), headers, body)
        except (aiohttp.ClientError, TimeoutError) as error:
            return web.json_response({"error": f"the model server does not answer: {type(error).__name__}"}, status=503)

    async def _routed(self, route: Route, verb: str, headers: CIMultiDict[str], body: bytes) -> web.Response:
        answer, answered = await self._ask(route, verb, headers, body)
        second = route.to_champion() if answered.doubtful else None
        if second is None:
            self._routing.saw(route, answered)
        else:
            # The canary's fault is not the caller's: the champion answers.
            answer, champion = await self._ask(second, verb, headers, body)
            self._routing.saw_both(route, answered, second, champion)
            route, answered = second, champion
        shadow = route.to_shadow() if not answered.doubtful else None
        if shadow is not None and self._routing.shadows.has_room(len(body)):
            self._routing.shadows.start(self._shadow(shadow, verb, headers, body, champion_scores=answered.scores), len(body))
        status, content, told = answer
        told[VERSION_HEADER], told[ROLE_HEADER] = route.version.version, route.role
        return web.Response(body=content, status=status, headers=told)

    async def _ask(self, route: Route, verb: str, headers: CIMultiDict[str], body: bytes) -> tuple[_Answer, Answered]:
        """The answer, and what is to be taken note of."""
        path = f"/v1/models/{quote(route.split.model)}/versions/{route.version.version}:{verb}"
        began = time.perf_counter()
        try:
            try:
                answer = await self._send("POST", path, headers, body)
            except (aiohttp.ServerDisconnectedError, ConnectionResetError):
                # The server closed an idle connection at that moment; a prediction may be asked for twice.
                answer = await self._send("POST", path, headers, body)
        except (aiohttp.ClientError, TimeoutError):
            answer = 503, b'{"error": "the model server does not answer"}', CIMultiDict({"Content-Type": "application/json"})
        latency_ms = 1000 * (time.perf_counter() - began)
        status = answer[0]
        # A version that the server does not hold is the server's fault: the caller named none.
        failed = status >= 500 or status in (404, 429)
        scores = json_scores(answer[1]) if status == 200 and self._routing.looks_at(route) else None
        return answer, Answered("rest", verb, str(status), failed, latency_ms, body, scores)

    async def _shadow(self, route: Route, verb: str, headers: CIMultiDict[str], body: bytes, *, champion_scores: Any) -> None:
        _, answered = await self._ask(route, verb, headers, body)
        self._routing.saw(route, answered)
        self._routing.conductor.compared(route.split.model, answered.scores, champion_scores)

    async def _send(self, method: str, path: str, headers: CIMultiDict[str], body: bytes, **more: Any) -> _Answer:
        client: Any = self._client
        url = URL(self._backend + path, encoded=True)
        async with client.request(method, url, headers=headers, data=body or None, allow_redirects=False, **more) as response:
            return response.status, await response.read(), _without(response.headers, _HOP_BY_HOP)


def _without(headers: Any, names: frozenset[str]) -> CIMultiDict[str]:
    connection = headers.get("Connection")
    if connection is not None:
        names = names.union(name.strip().lower() for name in connection.split(","))
    return CIMultiDict([(name, value) for name, value in headers.items() if name.lower() not in names])


def _key(request: web.Request, header: str) -> bytes | None:
    """The bytes that the caller sent; aiohttp keeps those that are no UTF-8 as surrogates."""
    key = request.headers.get(header)
    return None if key is None else key.encode("utf-8", "surrogateescape")
