"""The REST side of the router, on aiohttp."""

import asyncio
import re
import time
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp import web

from infra.serving.router.routing import ROLE_HEADER, VERSION_HEADER, Answered, Route, Routing, json_scores

_PATH = re.compile(r"(?i)/v1/models/(?P<name>[^/:]+):(?P<verb>classify|regress|predict)")
_HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "content-length", "proxy-authorization")
)
_SHADOWS_AT_ONCE = 32
_TIMEOUT_S = 60.0


class RestProxy:
    """Forwards every request; those that ask a model without a version are routed."""

    def __init__(self, routing: Routing, *, backend: str, max_body_bytes: int) -> None:
        self._routing, self._backend = routing, backend.rstrip("/")
        self._client: aiohttp.ClientSession | None = None
        self._shadows: set[asyncio.Task[None]] = set()
        self.app = web.Application(client_max_size=max_body_bytes)
        self.app.router.add_route("*", "/{path:.*}", self._forward)
        self.app.on_startup.append(self._open)
        self.app.on_cleanup.append(self._close)
        self.max_body_bytes = max_body_bytes

    async def _open(self, app: web.Application) -> None:
        del app
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60)
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        self._client = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False, trust_env=False)

    async def _close(self, app: web.Application) -> None:
        del app
        for task in self._shadows:
            task.cancel()
        if self._client is not None:
            await self._client.close()

    async def backend_ready(self) -> bool:
        """Whether the backend answers at all."""
        try:
            await self._send("GET", "/v1/models", {}, b"")
        except (aiohttp.ClientError, TimeoutError):
            return False
        return True

    async def _forward(self, request: web.Request) -> web.Response:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return web.json_response(
                {"error": f"the body is larger than {self.max_body_bytes} bytes, the limit of this router"}, status=413
            )
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        match = _PATH.fullmatch(request.path) if request.method == "POST" else None
        route = self._routing.route(match["name"], request.headers.get(self._routing.key_header), body) if match else None
        try:
            if match is None or route is None:
                status, answer, kind = await self._send(request.method, request.raw_path, headers, body)
                return web.Response(body=answer, status=status, headers={"Content-Type": kind})
            return await self._routed(route, match["verb"].lower(), headers, body)
        except (aiohttp.ClientError, TimeoutError) as error:
            return web.json_response({"error": f"the model server does not answer: {type(error).__name__}"}, status=503)

    async def _routed(self, route: Route, verb: str, headers: dict[str, str], body: bytes) -> web.Response:
        shadow = route.to_shadow()
        if shadow is not None:
            self._start_shadow(shadow, verb, headers, body)
        status, answer, kind, failed = await self._ask(route, verb, headers, body)
        second = route.to_champion() if failed else None
        if second is not None:
            # The canary's fault is not the caller's: it is counted, and the champion answers.
            route = second
            status, answer, kind, failed = await self._ask(route, verb, headers, body)
        told = {"Content-Type": kind, VERSION_HEADER: route.version.version, ROLE_HEADER: route.role}
        return web.Response(body=answer, status=status, headers=told)

    async def _ask(self, route: Route, verb: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, str, bool]:
        path = f"/v1/models/{quote(route.split.model)}/versions/{route.version.version}:{verb}"
        began = time.perf_counter()
        try:
            status, answer, kind = await self._send("POST", path, headers, body)
        except (aiohttp.ClientError, TimeoutError):
            status, answer, kind = 503, b'{"error": "the model server does not answer"}', "application/json"
        # A version that the server does not hold is the server's fault: the caller named none.
        failed = status >= 500 or status in (404, 429)
        scores = json_scores(answer) if status == 200 and self._routing.looks_at(route) else None
        latency_ms = 1000 * (time.perf_counter() - began)
        self._routing.saw(route, Answered("rest", verb, str(status), failed, latency_ms, body, scores))
        return status, answer, kind, failed

    def _start_shadow(self, route: Route, verb: str, headers: dict[str, str], body: bytes) -> None:
        if len(self._shadows) >= _SHADOWS_AT_ONCE:
            self._routing.counts.shadows_dropped += 1
            return
        task = asyncio.create_task(self._shadow(route, verb, headers, body))
        self._shadows.add(task)
        task.add_done_callback(self._shadows.discard)

    async def _shadow(self, route: Route, verb: str, headers: dict[str, str], body: bytes) -> None:
        await self._ask(route, verb, headers, body)

    async def _send(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes, str]:
        client: Any = self._client
        async with client.request(method, self._backend + path, headers=headers, data=body or None, allow_redirects=False) as response:
            return response.status, await response.read(), response.headers.get("Content-Type", "application/json")
