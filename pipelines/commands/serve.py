"""`tandem serve`: the embedded model server, with TensorFlow Serving's gRPC and REST interfaces."""

import argparse
import sys
from pathlib import Path

from components.core.errors import ConfigError
from components.core.model_server import config_path
from pipelines.commands.shared_arguments import add_json, print_json
from pipelines.text_layout import write_text

GRPC_PORT, REST_PORT, MAX_ROWS = 8500, 8501, 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER", help="serve the newest version in this folder")
    what.add_argument("--config", type=Path, metavar="FILE", help="a models.config of TensorFlow Serving, watched")
    what.add_argument(
        "--serving",
        default="serving",
        metavar="DIR",
        help="[directories] serving: serve what is in production there (default: %(default)s)",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--grpc-port", type=int, default=GRPC_PORT, metavar="PORT", help="0 for a free one (default: %(default)s)")
    parser.add_argument("--rest-port", type=int, default=REST_PORT, metavar="PORT", help="0 for a free one (default: %(default)s)")
    parser.add_argument("--poll", type=float, default=1.0, metavar="SECONDS", help="between looks at folders and configuration")
    parser.add_argument("--batching", action="store_true", help="requests that come together share a call")
    parser.add_argument("--batching-parameters", type=Path, metavar="FILE", help="TensorFlow Serving's batching_parameters_file")
    parser.add_argument("--xla", action="store_true", help="leave XLA on, for the _xla signatures")
    parser.add_argument("--max-rows", type=int, default=MAX_ROWS, metavar="N", help="most rows in one request (default: %(default)s)")
    parser.add_argument("--max-body-mb", type=int, default=64, metavar="MB", help="largest request (default: %(default)s)")
    parser.add_argument(
        "--drain", type=float, default=30.0, metavar="SECONDS", help="for running requests at the end (default: %(default)s)"
    )
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C or SIGTERM."""
    for name, port in (("--grpc-port", arguments.grpc_port), ("--rest-port", arguments.rest_port)):
        if not 0 <= port <= 65535:
            raise ConfigError(f"{name} {port}: no port; allowed are 1 to 65535, and 0 for a free one")
    if arguments.config is not None and not arguments.config.is_file():
        raise ConfigError(f"{arguments.config}: no such file; `tandem promote` writes <serving>/production/models.config")
    if arguments.poll <= 0 or arguments.drain < 0 or arguments.max_body_mb < 1 or arguments.max_rows < 1:
        raise ConfigError("--poll is above 0 s, --drain at least 0 s, --max-body-mb and --max-rows at least 1")
    from infra.serving.model_server.batching_parameters import BatchingParameters, read_parameters
    from infra.serving.model_server.config import from_arguments
    from infra.serving.model_server.inference import Limits
    from infra.serving.model_server.server import Ports, ServerOptions, serve

    parameters = read_parameters(arguments.batching_parameters) if arguments.batching_parameters else BatchingParameters()
    watched = None if arguments.model else (arguments.config or config_path(arguments.serving)).resolve()
    options = ServerOptions(
        models=from_arguments(arguments.model),
        config_path=watched,
        host=arguments.host,
        grpc_port=arguments.grpc_port,
        rest_port=arguments.rest_port,
        poll_s=arguments.poll,
        batching=parameters if arguments.batching or arguments.batching_parameters else None,
        xla=arguments.xla,
        limits=Limits(max_rows=arguments.max_rows),
        max_body_bytes=arguments.max_body_mb * 1024 * 1024,
        drain_s=arguments.drain,
    )

    def announce(ports: Ports) -> None:
        address = f"http://{arguments.host}:{ports.rest}"
        if arguments.json:
            found = {"grpc_port": ports.grpc, "rest_port": ports.rest, "models": list(ports.models)}
            print_json({"schema_version": 1, **found, "config": str(watched) if watched else None})
        else:
            write_text(sys.stdout, f"serving on {address}/v1/models and gRPC {arguments.host}:{ports.grpc} (Ctrl-C ends it)\n")
        sys.stdout.flush()

    serve(options, announce)
    return 0
