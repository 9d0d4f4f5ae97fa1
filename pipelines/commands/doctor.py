"""`tandem doctor`: what is wrong with this machine, the environment or the stores, and the remedy."""

import argparse
import sys
from pathlib import Path

from infra.environment.doctor import examine
from pipelines.commands.shared_arguments import add_home, add_json, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_home(parser)
    parser.add_argument("--serving", default="serving", metavar="DIR", help="[directories] serving (default: %(default)s)")
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Prints one line a finding; 1 if anything is wrong."""
    home, serving = Path(arguments.home).expanduser().resolve(), Path(arguments.serving).expanduser().resolve()
    findings = examine(home=home, serving=serving)
    if arguments.json:
        rows = [{"name": f.name, "ok": f.ok, "checked": f.checked, "detail": f.detail, "remedy": f.remedy} for f in findings]
        print_json({"schema_version": 1, "ok": all(f.ok for f in findings), "findings": rows})
    else:
        for finding in findings:
            remedy = "" if finding.ok else f"; {finding.remedy}"
            verdict = "-" if not finding.checked else "ok" if finding.ok else "wrong"
            sys.stdout.write(f"{verdict:<6} {finding.name:<10} {finding.detail}{remedy}\n")
    return 0 if all(finding.ok for finding in findings) else 1
