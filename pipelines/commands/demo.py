"""`tandem demo`: training, decisions, promotion, rollout and rollback on this machine, and what was done."""

import argparse
import datetime
import sys
import time
from collections.abc import Callable
from pathlib import Path

from components.core.files import write_bytes
from pipelines.commands.shared_arguments import add_json, print_json
from pipelines.demo.desk import DemoDesk
from pipelines.demo.place import MODEL, make_place
from pipelines.demo.report import REPORT_FILE, DemoReport, StepReport
from pipelines.demo.story import Story
from pipelines.interruption import ended_in_order
from pipelines.text_layout import indented, printable, terminal_width, write_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "--dir", type=Path, default=Path("tandem-demo"), metavar="DIR", help="new folder in which all of it happens (default: %(default)s)"
    )
    add_json(parser)


def execute(arguments: argparse.Namespace) -> int:
    """Tells the story; everything that it started has ended when it returns."""
    place = make_place(arguments.dir)
    desk = DemoDesk(place.folder)
    tell = _say_nothing if arguments.json else _say
    tell(f"The whole cycle on this machine, in {place.folder}; it takes some minutes, Ctrl-C ends it. Nothing outside that folder changes.")
    try:
        with ended_in_order():
            report = _told(Story(place, desk), desk, tell)
    except KeyboardInterrupt:
        sys.stderr.write(f"tandem: the demonstration was ended; delete {place.folder} before the next one\n")
        raise
    finally:
        desk.close()
    if arguments.json:
        print_json(report.model_dump(mode="json"))
    else:
        tell(
            f"Done in {report.seconds:.0f} s; what was called and seen is in {place.folder / REPORT_FILE}. To look around: "
            f"`cd {place.folder}`, then `tandem ui` (logins in logins.txt), `tandem ledger`, `tandem rollout {MODEL}`."
        )
    return 0


def _told(story: Story, desk: DemoDesk, tell: Callable[[str], None]) -> DemoReport:
    started, began = datetime.datetime.now(datetime.UTC), time.monotonic()
    steps: list[StepReport] = []
    for number, (title, act) in enumerate(story.steps, start=1):
        tell(f"{number}. {title}")
        step_began, known = time.monotonic(), len(desk.calls)
        saw = act()
        calls = tuple(desk.calls[known:])
        for call in calls:
            tell(f"$ {call.line} ({call.seconds:.1f} s)")
        for line in saw:
            tell(f"= {line}")
        steps.append(StepReport(number=number, title=title, seconds=round(time.monotonic() - step_began, 1), calls=calls, saw=tuple(saw)))
    report = DemoReport(
        folder=str(desk.folder),
        started=started.isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 1),
        steps=tuple(steps),
    )
    write_bytes(desk.folder / REPORT_FILE, (report.model_dump_json(indent=2) + "\n").encode())
    return report


def _say(line: str) -> None:
    """Headings stand at the margin, what belongs to them is set in."""
    inner = line.startswith(("$ ", "= "))
    text = indented(printable(line.removeprefix("= ")), terminal_width(), by=5 if inner else 0)
    write_text(sys.stdout, text if inner else f"\n{text}")
    sys.stdout.flush()


def _say_nothing(line: str) -> None:
    """For --json."""
    del line
