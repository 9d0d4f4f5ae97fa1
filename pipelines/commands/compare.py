"""`tandem compare`: the candidates of runs side by side."""

import argparse
import sys

from pipelines.commands.shared_arguments import add_home, add_json, home_of, print_json
from pipelines.comparison import DEFAULT_UI, choose_runs, compare
from pipelines.comparison_view import comparison_text
from pipelines.run_facts import read_run_facts
from pipelines.text_layout import terminal_width, write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run id or its beginning (default: the newest run that audited both)")
    parser.add_argument("--ui", default=DEFAULT_UI, metavar="URL", help="where the MLflow UI listens (default: %(default)s)")
    add_home(parser)
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Reads journals and measurements; no store but one question to MLflow's SQLite file."""
    home = home_of(arguments)
    runs = [read_run_facts(record) for record in choose_runs(home / "runs", arguments.runs)]
    document = compare(runs, mlflow_store=home / "mlflow.db", ui_address=arguments.ui.rstrip("/"))
    if arguments.json:
        print_json(document)
    else:
        write_text(sys.stdout, comparison_text(document, terminal_width()))
    return 0
