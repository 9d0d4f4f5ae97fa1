"""Measures: runs all benches, or the named ones, and adds a dated section to RESULTS.md. Call: `make bench`, or this file.

Every figure is written, a missed target as well as a met one. Targets are printed beside the figures and never fail a test: a loaded
machine must not break a build. Exit code: 0 when everything was measured, 1 when a bench could not be.
"""

import argparse
import datetime
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import Figure, read_figures
from machine_facts import machine_facts
from process_tree import last_line
from product import ROOT, environment

HERE = Path(__file__).resolve().parent
BENCHES = {
    "whole_run": "whole runs, cold and unchanged, against a stock TFX pipeline",
    "command_line": "CPU of the commands that people wait for",
    "torch_feed": "the torch feed against the bare tf.data reader",
    "serving_load": "the embedded model server under load, beside the bare function and mlflow models serve",
    "audit_checks": "the audit's checks beyond TFMA, beside the TFMA run of the same model",
    "router_overhead": "what the router adds to a call, and how it splits",
    "five_seeds": "eval AUC of both frameworks over five seeds",
}
COLUMNS = ("figure", "value", "target", "verdict", "repetitions", "note")


def main() -> int:
    """Measures what the command line names."""
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as scratch:
        folder = (arguments.folder or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        text = _heading(arguments.repeats)
        sys.stdout.write(text)
        sys.stdout.flush()
        failed = False
        for name in arguments.benches:
            part = _measured(name, folder, arguments.repeats)
            failed = failed or isinstance(part, str)
            lines = f"\n### {name}: {BENCHES[name]}\n\n" + (f"Not measured: {part}\n" if isinstance(part, str) else table(part))
            sys.stdout.write(lines)
            sys.stdout.flush()
            text += lines
    with arguments.results.open("a", encoding="utf-8") as results:
        results.write("\n" + text)
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs the benches and adds a section to RESULTS.md.")
    parser.add_argument("benches", nargs="*", type=_bench_name, metavar="BENCH", help=f"of {', '.join(BENCHES)} (default: all)")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="rounds of each bench (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="keep scratch data and logs here (default: a temporary folder)")
    parser.add_argument("--results", type=Path, default=HERE / "RESULTS.md", help="file that takes the section (default: %(default)s)")
    arguments = parser.parse_args()
    arguments.benches = list(dict.fromkeys(arguments.benches)) or list(BENCHES)
    if arguments.repeats < 1:
        parser.error("--repeats: at least 1")
    return arguments


def _bench_name(text: str) -> str:
    if text not in BENCHES:
        raise argparse.ArgumentTypeError(f"no bench {text!r}; there are {', '.join(BENCHES)}")
    return text


def _heading(repeats: int) -> str:
    moment = datetime.datetime.now(datetime.UTC)
    facts = "".join(f"- {name}: {value}\n" for name, value in machine_facts(ROOT))
    return f"## {moment:%Y-%m-%d %H:%M} UTC, {repeats} rounds\n\n{facts}"


def _measured(name: str, folder: Path, repeats: int) -> list[Figure] | str:
    """The figures of one bench, which runs in a process of its own, or why there are none."""
    out, log = folder / f"{name}.figures.json", folder / f"{name}.log"
    out.unlink(missing_ok=True)
    command = [sys.executable, str(HERE / f"{name}.py"), "--folder", str(folder), "--repeats", str(repeats), "--out", str(out)]
    with log.open("wb") as output:
        finished = subprocess.run(command, env=environment(), stdout=output, stderr=output, check=False)
    # Results are part of the repository: no path of this machine goes in.
    return read_figures(out) if finished.returncode == 0 else re.sub(r"/\S+/", "", last_line(log))


def table(figures: list[Figure]) -> str:
    """Figures as a Markdown table; columns that are empty in every row are left out."""
    rows = [COLUMNS, *(figure.row() for figure in figures)]
    kept = [index for index in range(len(COLUMNS)) if any(row[index] for row in rows[1:])]
    cells = [[row[index].replace("|", "\\|") for index in kept] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(kept))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
