"""A router from its start to its orderly end."""

import asyncio
import dataclasses
import json
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.core.errors import EnvironmentFault
from components.core.ledger import Entry
from components.core.promotion import LedgerSpec
from infra.serving.router.conductor import Conductor
from infra.serving.router.ledger_follower import LedgerFollower
from infra.serving.router.request_log import RequestLog
from infra.serving.router.routing import KEY_HEADER, Routing

LOG = logging.getLogger("tandem.route")
METRICS_PATH = "/monitoring/prometheus/metrics"


@dataclasses.dataclass(frozen=True)
class RouterOptions:
    """How a router runs.

    Attributes:
        ledger: whose key is the service's.
        backend: REST address of the model server.
        grpc_backend: host:port of its gRPC.
        host: address that both ports listen on.
        port, grpc_port: 0 takes a free one.
        key_header: header or metadata key that carries the request key.
        log_folder: where requests are logged; None = they are not.
        log_share: of the requests, 0 to 1; None = as the rule of the rollout says.
        max_body_bytes: of a request.
        drain_s: seconds that running requests get at the end.
    """

    ledger: LedgerSpec
    backend: str
    grpc_backend: str
    host: str = "127.0.0.1"
    port: int = 8601
    grpc_port: int = 8600
    key_header: str = KEY_HEADER
    log_folder: Path | None = None
    log_share: float | None = None
    max_body_bytes: int = 64 * 1024 * 1024
    drain_s: float = 30.0


def route(options: RouterOptions, announce: Callable[[int, int], None], on_change: Callable[[list[Entry]], None]) -> None:
    """Routes until SIGTERM or SIGINT; then finishes what runs and writes what is to be logged.

    Args:
        options: how.
        announce: called once with the gRPC and the REST port, when both answer.
        on_change: called in a thread with the ledger's entries after the split changed, until it succeeds.

    Raises:
        DecisionError: the ledger does not hold.
        EnvironmentFault: a port cannot be listened on.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    conductor = Conductor(LedgerFollower(options.ledger), on_change=on_change)
    conductor.start()
    log = RequestLog(options.log_folder) if options.log_folder is not None else None
    try:
        asyncio.run(_route(options, Routing(conductor, log=log, log_share=options.log_share, key_header=options.key_header), announce, log))
    finally:
        conductor.stop()
        if log is not None:
            log.stop()


async def _route(options: RouterOptions, routing: Routing, announce: Callable[[int, int], None], log: RequestLog | None) -> None:
    import grpc.aio
    from aiohttp import web

    from infra.serving.router.grpc_proxy import GrpcProxy
    from infra.serving.router.rest_proxy import RestProxy

    proxy = GrpcProxy(routing, backend=options.grpc_backend)
    limits = [("grpc.max_receive_message_length", options.max_body_bytes), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)]
    server = grpc.aio.server(handlers=[proxy], options=limits)
    try:
        grpc_port = server.add_insecure_port(f"{options.host}:{options.grpc_port}")
    except RuntimeError as error:
        raise EnvironmentFault(f"port {options.grpc_port} on {options.host} cannot be used; choose another one with --grpc-port") from error
    rest = RestProxy(routing, backend=options.backend, max_body_bytes=options.max_body_bytes)
    about = _About(routing, rest, log)
    rest.app.middlewares.append(about.middleware)
    runner = web.AppRunner(rest.app, access_log=None, shutdown_timeout=options.drain_s)
    await runner.setup()
    try:
        await web.TCPSite(runner, options.host, options.port).start()
    except OSError as error:
        await runner.cleanup()
        raise EnvironmentFault(
            f"port {options.port} on {options.host} cannot be used ({error.strerror}); choose another one with --port"
        ) from error
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told.set)
    await server.start()
    announce(grpc_port, int(runner.addresses[0][1]))
    await told.wait()
    about.draining = True
    LOG.info("ending: no new requests, running ones get %g s", options.drain_s)
    routing.shadows.close()
    await asyncio.gather(server.stop(options.drain_s), runner.cleanup())
    await proxy.close()


class _About:
    """What the router says of itself; everything else is a request to route."""

    def __init__(self, routing: Routing, rest: Any, log: RequestLog | None) -> None:
        self._routing, self._rest, self._log = routing, rest, log
        self.draining = False

    @property
    def middleware(self) -> Any:
        """For aiohttp."""
        from aiohttp import web

        @web.middleware
        async def about(request: web.Request, handler: Any) -> web.StreamResponse:
            if request.method == "GET":
                answer = await self._answer(request.path)
                if answer is not None:
                    status, text, kind = answer
                    return web.Response(text=text, status=status, content_type=kind)
            forwarded: web.StreamResponse = await handler(request)
            return forwarded

        return about

    async def _answer(self, path: str) -> tuple[int, str, str] | None:
        conductor = self._routing.conductor
        if path == METRICS_PATH:
            dropped = {"log_dropped": self._log.dropped if self._log is not None else 0, "shadows_dropped": self._routing.shadows.dropped}
            return 200, self._routing.counts.text(conductor.splits(), held=conductor.held(), **dropped), "text/plain"
        if path == "/tandem/rollout":
            # In a thread: percentiles over whole windows take milliseconds that requests must not wait for.
            return 200, json.dumps(await asyncio.to_thread(conductor.report)), "application/json"
        if path == "/healthz":
            told = {"status": "ok", "ledger": conductor.problem or "holds", "held": conductor.held()}
            return 200, json.dumps(told), "application/json"
        if path == "/readyz":
            if self.draining:
                return 503, json.dumps({"status": "not ready: it ends"}), "application/json"
            if not await self._rest.backend_ready():
                return 503, json.dumps({"status": "not ready: the model server does not answer"}), "application/json"
            return 200, json.dumps({"status": "ok"}), "application/json"
        return None
