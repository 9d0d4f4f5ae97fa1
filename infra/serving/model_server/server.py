"""A model server from its start to its orderly end."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from components.core.errors import EnvironmentFault
from infra.serving.model_server.batching import Batcher, BatchingParameters
from infra.serving.model_server.config import ModelConfig, read_config
from infra.serving.model_server.inference import Inference, Limits
from infra.serving.model_server.library import Library
from infra.serving.model_server.loader import Loader
from infra.serving.model_server.metrics import Metrics
from infra.serving.model_server.session import disable_xla

LOG = logging.getLogger("tandem.serve")


@dataclasses.dataclass(frozen=True)
class ServerOptions:
    """How a server runs.

    Attributes:
        models: what it holds, where there is no `config_path`.
        config_path: models.config, watched; it may come later.
        host: address that both ports listen on.
        grpc_port, rest_port: 0 takes a free one.
        poll_s: seconds between looks at folders and models.config.
        batching: None = each request is a call of its own.
        xla: leave XLA on.
        max_body_bytes: of a REST request and of a gRPC message.
        drain_s: seconds that running requests get at the end.
        threads: that answer, for each of the two ports.
    """

    models: tuple[ModelConfig, ...] = ()
    config_path: Path | None = None
    host: str = "127.0.0.1"
    grpc_port: int = 8500
    rest_port: int = 8501
    poll_s: float = 1.0
    batching: BatchingParameters | None = None
    xla: bool = False
    max_body_bytes: int = 64 * 1024 * 1024
    limits: Limits = dataclasses.field(default_factory=Limits)
    drain_s: float = 30.0
    threads: int = max(8, 2 * len(os.sched_getaffinity(0)))


@dataclasses.dataclass(frozen=True)
class Ports:
    """Where a server listens."""

    grpc: int
    rest: int


def serve(options: ServerOptions, announce: Callable[[Ports], None]) -> None:
    """Serves until SIGTERM or SIGINT; then takes no new requests and finishes those that run.

    Args:
        options: how.
        announce: called once, when both ports answer.

    Raises:
        ConfigError: models.config is there and wrong at the start.
        EnvironmentFault: a port cannot be listened on.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    if options.config_path is not None and options.config_path.is_file():
        read_config(options.config_path)
    if not options.xla:
        disable_xla()
    asyncio.run(_serve(options, announce))


async def _serve(options: ServerOptions, announce: Callable[[Ports], None]) -> None:
    from aiohttp import web

    from infra.serving.model_server.grpc_service import make_server
    from infra.serving.model_server.rest_app import RestApp

    library = Library()
    library.configure(options.models)
    batcher = Batcher(options.batching) if options.batching is not None else None
    inference = Inference(library, batcher=batcher, limits=options.limits, metrics=Metrics())
    loader = Loader(library, config_path=options.config_path, poll_s=options.poll_s)
    try:
        grpc_server, grpc_port = make_server(
            inference,
            loader,
            address=f"{options.host}:{options.grpc_port}",
            max_message_bytes=options.max_body_bytes,
            threads=options.threads,
        )
    except RuntimeError as error:
        raise EnvironmentFault(f"port {options.grpc_port} on {options.host} cannot be used; choose another one with --grpc-port") from error
    rest = RestApp(inference, max_body_bytes=options.max_body_bytes, threads=options.threads)
    runner = web.AppRunner(rest.app, access_log=None, shutdown_timeout=options.drain_s)
    await runner.setup()
    site = web.TCPSite(runner, options.host, options.rest_port)
    try:
        await site.start()
    except OSError as error:
        raise EnvironmentFault(
            f"port {options.rest_port} on {options.host} cannot be used ({error.strerror}); choose another one with --rest-port"
        ) from error
    grpc_server.start()
    loader.start()
    rest_port = int(runner.addresses[0][1])
    announce(Ports(grpc_port, rest_port))
    await _until_told(loader)
    rest.draining = True
    LOG.info("ending: no new requests, running ones get %g s", options.drain_s)
    stopped = grpc_server.stop(options.drain_s)
    await runner.cleanup()
    await asyncio.to_thread(stopped.wait)
    await asyncio.to_thread(loader.stop)
    if batcher is not None:
        await asyncio.to_thread(batcher.stop)
    await asyncio.to_thread(loader.unload_all)


async def _until_told(loader: Loader) -> None:
    """Waits for SIGTERM or SIGINT; SIGHUP looks at folders and configuration now."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    loop.add_signal_handler(signal.SIGHUP, loader.wake)
    with contextlib.suppress(asyncio.CancelledError):
        await told.wait()
