"""`tandem route`: the router in front of a model server, which carries rollouts on and rolls back by itself."""

import argparse
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

import sqlalchemy as sql

from components.core.decisions import known_by
from components.core.errors import ConfigError
from components.core.ledger import Entry
from components.core.signing import PublicKeys, read_private_key
from pipelines.candidate_access import known_configs
from pipelines.commands.shared_arguments import add_home, add_json, home_of, print_json
from pipelines.ledger_access import add_signing
from pipelines.production_access import ledger_spec
from pipelines.promotion_plan import production_spec
from pipelines.text_layout import write_text

_LAST_PORT = 65535


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("--backend", default="http://127.0.0.1:8501", metavar="URL", help="REST of the model server (default: %(default)s)")
    parser.add_argument("--grpc-backend", default="127.0.0.1:8500", metavar="HOST:PORT", help="its gRPC (default: %(default)s)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8601, help="REST port, 0 for a free one (default: %(default)s)")
    parser.add_argument("--grpc-port", type=int, default=8600, metavar="PORT", help="gRPC port, 0 for a free one (default: %(default)s)")
    parser.add_argument("--key-header", default="x-tandem-key", metavar="NAME", help="carries the request key (default: %(default)s)")
    parser.add_argument("--log-dir", type=Path, metavar="DIR", help="log requests there as Parquet")
    parser.add_argument("--log-share", type=float, metavar="SHARE", help="of the requests, 0 to 1 (default: [rollout] log_share)")
    parser.add_argument("--max-body-mb", type=int, default=64, metavar="MB", help="largest request (default: %(default)s)")
    add_signing(parser)
    add_home(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Routes until Ctrl-C or SIGTERM."""
    _check(arguments)
    spec = ledger_spec(arguments)
    _require_ledger(spec.url)
    _, how = known_by(read_private_key(Path(spec.private_key)), PublicKeys.read(Path(spec.public_keys)))
    if how != "service":
        raise ConfigError("the router signs by a service's key: make one by `tandem keys new`, let an admin enrol it with --role service")
    from infra.serving.router.server import RouterOptions, route

    options = RouterOptions(
        ledger=spec,
        backend=arguments.backend,
        grpc_backend=arguments.grpc_backend,
        host=arguments.host,
        port=arguments.port,
        grpc_port=arguments.grpc_port,
        key_header=arguments.key_header,
        log_folder=arguments.log_dir,
        log_share=arguments.log_share,
        max_body_bytes=arguments.max_body_mb * 1024 * 1024,
    )

    def announce(grpc_port: int, port: int) -> None:
        if arguments.json:
            print_json({"schema_version": 1, "grpc_port": grpc_port, "rest_port": port})
        else:
            write_text(
                sys.stdout, f"routing on http://{arguments.host}:{port}/v1/models and gRPC {arguments.host}:{grpc_port} (Ctrl-C ends it)\n"
            )
        sys.stdout.flush()

    route(options, announce, lambda entries: _mirror(arguments, entries))
    return 0


def _check(arguments: argparse.Namespace) -> None:
    if not re.fullmatch(r"https?://[^/\s@?#]+/?", arguments.backend) or not _port_holds(arguments.backend):
        raise ConfigError(f"--backend {arguments.backend}: not of the form http://HOST:PORT")
    if not re.fullmatch(r"[^/\s@]+:\d{1,5}", arguments.grpc_backend) or not _port_holds(f"//{arguments.grpc_backend}"):
        raise ConfigError(f"--grpc-backend {arguments.grpc_backend}: not of the form HOST:PORT")
    for name, port in (("--port", arguments.port), ("--grpc-port", arguments.grpc_port)):
        if not 0 <= port <= _LAST_PORT:
            raise ConfigError(f"{name} {port}: no port; allowed are 1 to {_LAST_PORT}, and 0 for a free one")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", arguments.key_header) or arguments.key_header.lower().startswith("grpc-"):
        raise ConfigError(f"--key-header {arguments.key_header}: no name of a header and of gRPC metadata, e.g. x-tandem-key")
    if arguments.max_body_mb < 1:
        raise ConfigError(f"--max-body-mb {arguments.max_body_mb}: at least 1")
    if arguments.log_share is not None and not (0 <= arguments.log_share <= 1 and arguments.log_dir):
        raise ConfigError(f"--log-share {arguments.log_share}: a share from 0 to 1, together with --log-dir")


def _port_holds(address: str) -> bool:
    try:
        return urlsplit(address).port != 0
    except ValueError:
        return False


def _require_ledger(url: str) -> None:
    """A router makes no ledger: a wrong path would give an empty one, and every request would pass unrouted."""
    parsed = sql.make_url(url)
    if parsed.get_backend_name() == "sqlite" and not (parsed.database and Path(parsed.database).is_file()):
        raise ConfigError(f"there is no ledger at {url}; name it with --ledger or --home, `tandem request` begins one")


def _mirror(arguments: argparse.Namespace, entries: list[Entry]) -> None:
    """Carries the split to the model server's configuration and the registry's aliases of the use cases that are known here."""
    from components.core.mirror import mirror

    models = {entry.statement.subject.model for entry in entries}
    for config in known_configs(home_of(arguments)):
        if config.name in models:
            mirror(lambda: entries, config.name, production=production_spec(config), tracking=config.tracking)
