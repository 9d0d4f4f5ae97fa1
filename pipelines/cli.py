"""The command `tandem`: parse, call, print. Commands live in pipelines.commands, one module each, imported when called."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from components.core.errors import EXIT_FAULT, EXIT_INTERRUPTED, TandemError

VERSION = "0.1.0"
COMMANDS: tuple[tuple[str, str], ...] = (
    ("run", "run the training pipeline of a use case"),
    ("runs", "list the pipeline runs"),
    ("compare", "lay the candidates of runs side by side"),
    ("why", "say what stopped a run, and what the next one would execute"),
    ("lineage", "trace a model version back to its data, code and environment"),
    ("ui", "start the MLflow UI on this machine"),
    ("init", "make a use case of your own"),
    ("request", "ask for a decision on a candidate"),
    ("approve", "approve a candidate"),
    ("reject", "reject a candidate"),
    ("override", "let a candidate pass in spite of evidence that did not; two people have to"),
    ("revoke", "take an approval back"),
    ("serve", "serve models with TensorFlow Serving's gRPC and REST interfaces"),
    ("route", "split traffic between champion and canary, and roll back by itself"),
    ("rehearse", "replay logged requests through a candidate and the way back"),
    ("promote", "bring an approved candidate to production and start its rollout"),
    ("rollout", "show how traffic is split, or move it a step on"),
    ("rollback", "take traffic from a version, back to the one before"),
    ("retire", "take a version that serves nothing from the model server"),
    ("keys", "make a signing key, and keep the list of public keys"),
    ("ledger", "show who decided what, and export it"),
    ("verify", "check that a ledger holds, from its export and the public keys"),
    ("demo", "show the whole cycle on this machine, from training to rollback"),
    ("doctor", "check this machine, the environment and the stores"),
)
"""Name and purpose; the module is pipelines.commands.<name> with `add_arguments(parser)` and `execute(arguments) -> exit code`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Returns:
        0; 1 when `doctor` or `verify` found something wrong; 2 for an explained fault; 3 when a run blessed nothing or a rehearsal did not
        pass; 130 for Ctrl-C.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except TandemError as error:
        sys.stderr.write(f"tandem: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("tandem: interrupted\n")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        # A file or folder that a command was given, or its disk.
        place = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"tandem: {place}{error.strerror or error}; see that the place is there, writable and not full\n")
        return EXIT_FAULT
    except Exception as error:  # noqa: BLE001 - the last resort: one line for people, the rest in a file
        told = f"{_first_line(error)}; the whole story is in {_keep_traceback()}"
        sys.stderr.write(f"tandem: a fault of tandem's own: {told}, please report it\n")
        return EXIT_FAULT


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def _keep_traceback() -> str:
    """Writes the traceback of the exception that is being looked at; the file's path."""
    import tempfile
    import traceback

    descriptor, path = tempfile.mkstemp(prefix="tandem-fault-", suffix=".log")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        traceback.print_exc(file=file)
    return path


def _dispatch(words: list[str]) -> int:
    parser = _parser()
    name = next((word for word in words if not word.startswith("-")), None)
    if name in dict(COMMANDS):
        module = importlib.import_module(f"pipelines.commands.{name}")
        command = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction)).choices[name]
        module.add_arguments(command)
        arguments = parser.parse_args(words)
        code: int = module.execute(arguments)
        return code
    parser.parse_args(words)
    parser.print_help(sys.stderr if words else sys.stdout)
    return EXIT_FAULT if words else 0


class _Parser(argparse.ArgumentParser):
    """One line of error, and the help that fits."""

    def error(self, message: str) -> NoReturn:
        """Ends with exit code 2."""
        sys.stderr.write(f"{self.prog}: {message}; see `{self.prog} --help`\n")
        raise SystemExit(EXIT_FAULT)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="tandem",
        description="Train in PyTorch Lightning or TensorFlow, audit once, ship one SavedModel.",
        epilog="exit codes: 0 done, 1 doctor or verify found something wrong, 2 an explained fault, "
        "3 nothing was blessed or a rehearsal did not pass, 130 interrupted",
    )
    parser.add_argument("--version", action="version", version=f"tandem {VERSION}")
    subparsers = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    for name, purpose in COMMANDS:
        subparsers.add_parser(name, help=purpose, description=f"{purpose[:1].upper()}{purpose[1:]}.")
    return parser
