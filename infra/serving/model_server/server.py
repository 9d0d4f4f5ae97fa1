"""A model server from its start to its orderly end."""

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.core.errors import EnvironmentFault
from infra.serving.model_server.batching import Batcher
from infra.serving.model_server.batching_parameters import BatchingParameters
from infra.serving.model_server.config import ModelConfig, read_config
from infra.serving.model_server.inference import Inference, Limits
from infra.serving.model_server.library import Library
from infra.serving.model_server.loader import Loader
from infra.serving.model_server.metrics import Metrics
from infra.serving.model_server.session import disable_xla

LOG = logging.getLogger("tandem.serve")
_SETTLED_POLL_S = 0.02
_UNLOAD_S = 5.0


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
    """Where a server listens, and the models that it is configured to hold."""

    grpc: int
    rest: int
    models: tuple[str, ...] = ()


def serve(options: ServerOptions, announce: Callable[[Ports], None]) -> None:
    """Serves until SIGTERM or SIGINT; then takes no new requests and finishes those that run.

    Args:
        options: how.
        announce: called once, when both ports answer and each version that lay there was loaded or was tried.

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
    library = Library()
    library.configure(options.models)
    metrics = Metrics()
    batcher = Batcher(options.batching, metrics) if options.batching is not None else None
    inference = Inference(library, batcher=batcher, limits=options.limits, metrics=metrics)
    loader = Loader(library, config_path=options.config_path, poll_s=options.poll_s)
    grpc_server, grpc_port = _bind_grpc(options, inference, loader)
    rest, runner, rest_port = await _start_rest(options, inference)
    grpc_server.start()
    loader.start()
    told = _listen_to_signals(loader)
    await _until_settled(library, told)
    announce(Ports(grpc_port, rest_port, tuple(sorted(library.snapshot()))))
    await told.wait()
    rest.draining = True
    LOG.info("ending: no new requests, running ones get %g s", options.drain_s)
    stopped = grpc_server.stop(options.drain_s)
    await runner.cleanup()
    await asyncio.to_thread(stopped.wait)
    _end(loader, batcher)


def _bind_grpc(options: ServerOptions, inference: Inference, loader: Loader) -> tuple[Any, int]:
    from infra.serving.model_server.grpc_service import make_server

    address = f"{options.host}:{options.grpc_port}"
    try:
        return make_server(inference, loader, address=address, max_message_bytes=options.max_body_bytes, threads=options.threads)
    except RuntimeError as error:
        raise EnvironmentFault(f"port {options.grpc_port} on {options.host} cannot be used; choose another one with --grpc-port") from error


async def _start_rest(options: ServerOptions, inference: Inference) -> tuple[Any, Any, int]:
    """The application, what runs it, and the port that it listens on."""
    from aiohttp import web

    from infra.serving.model_server.rest_app import RestApp

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
    return rest, runner, int(runner.addresses[0][1])


def _listen_to_signals(loader: Loader) -> asyncio.Event:
    """The event is set on SIGTERM and SIGINT; SIGHUP looks at folders and configuration now."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    loop.add_signal_handler(signal.SIGHUP, loader.wake)
    return told


async def _until_settled(library: Library, told: asyncio.Event) -> None:
    """Waits until every version that lay there at the start was loaded, or was tried."""
    while not library.settled() and not told.is_set():
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(told.wait(), _SETTLED_POLL_S)


def _end(loader: Loader, batcher: Batcher | None) -> None:
    """Lets the versions go. A call or a load that does not end in time is left behind: the process ends without it."""

    def unload() -> None:
        loader.stop()
        if batcher is not None:
            batcher.stop()
        loader.unload_all()

    thread = threading.Thread(target=unload, name="ending", daemon=True)
    thread.start()
    thread.join(_UNLOAD_S)
    if thread.is_alive():
        LOG.warning("something still runs %g s after the time to end; it ends with the process", _UNLOAD_S)
        logging.shutdown()
        # The interpreter would wait for the pools' threads, and so for a call that may never come back.
        os._exit(0)
