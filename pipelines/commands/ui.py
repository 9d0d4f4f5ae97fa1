"""`tandem ui`: the MLflow UI and the approval pages over the runs of a home folder, under one login, until Ctrl-C."""

import argparse
import os
import sys
import webbrowser

from infra.console.first_start import ADMIN, PASSWORD_VARIABLE, ConsoleFiles, prepare
from infra.ui_server import UiServer, require_store, serve_ui
from pipelines.commands.shared_arguments import add_home, home_of
from pipelines.config import experiment_link
from pipelines.console_settings import add_service_key, console_settings, service_key_path
from pipelines.interruption import ended_in_order
from pipelines.ledger_access import add_keys, add_ledger
from pipelines.text_layout import write_text

DEFAULT_PORT = 5000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, metavar="PORT", help="port on 127.0.0.1, 0 for a free one (default: %(default)s)"
    )
    parser.add_argument("--no-browser", action="store_true", help="open no browser")
    add_home(parser)
    add_ledger(parser)
    add_keys(parser)
    add_service_key(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C or SIGTERM, which end it well: exit code 0."""
    home = home_of(arguments)
    require_store(home)
    files = prepare(home, console_settings(arguments), chosen_password=os.environ.get(PASSWORD_VARIABLE, ""))
    try:
        with ended_in_order(), serve_ui(home, files.environment, port=arguments.port) as server:
            _announce(server, files, arguments)
            if not arguments.no_browser and _has_desktop():
                webbrowser.open(server.address)
            server.wait()
    except KeyboardInterrupt:
        write_text(sys.stdout, "the MLflow UI has ended\n")
    return 0


def _announce(server: UiServer, files: ConsoleFiles, arguments: argparse.Namespace) -> None:
    lines = [f"MLflow UI: {server.address} (Ctrl-C ends it)", f"  decisions: {server.address}/tandem/"]
    lines += [f"  experiment {name}: {experiment_link(server.address, number)}" for number, name in server.experiments()]
    where = f"its first password is in {files.password_file}" if files.password_file else f"its password was chosen by {PASSWORD_VARIABLE}"
    lines.append(f"  log in as {ADMIN}: {where}")
    if not service_key_path(arguments).is_file():
        lines.append(f"  the pages only show, they decide nothing: there is no service key {service_key_path(arguments)} (`tandem keys`)")
    write_text(sys.stdout, "\n".join(lines) + "\n")
    sys.stdout.flush()


def _has_desktop() -> bool:
    """Whether a browser would open beside this terminal, not inside it."""
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
