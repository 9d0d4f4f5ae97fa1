"""What a person sees of a run: a live block on a terminal, plain lines elsewhere."""

import shutil
import time
from typing import Any, TextIO

from components.core.progress import bar
from pipelines.journal import RunRecord, StageRecord

MARKS = {
    "running": ">",
    "complete": "ok",
    "cached": "=",
    "failed": "!!",
    "interrupted": "--",
    "skipped": "-",
    "waiting": ".",
}


class LineDisplay:
    """Plain lines: one when a stage begins, one when it ends, progress at most every ten seconds a stage."""

    PROGRESS_EVERY_S = 10.0

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.last: dict[str, float] = {}

    def stage_changed(self, record: RunRecord, stage: str) -> None:
        """Writes one line."""
        entry = record.stage(stage)
        self.last[stage] = time.monotonic()
        took = "" if entry.state == "running" else f"  {entry.seconds:.1f} s"
        self.note(f"{record.seconds:6.1f} s  {stage:<24} {entry.state}{took}")

    def progress(self, event: dict[str, Any]) -> None:
        """Writes a line now and then, and always the last."""
        stage, now = str(event["stage"]), time.monotonic()
        if event["done"] < event["total"] and now - self.last.get(stage, 0.0) < self.PROGRESS_EVERY_S:
            return
        self.last[stage] = now
        self.note(f"          {stage:<24} {event['done']}/{event['total']} {event['text']}")

    def note(self, text: str) -> None:
        """Writes one line."""
        self.stream.write(text + "\n")
        self.stream.flush()

    def closing(self, record: RunRecord) -> None:
        """Says how the run ended and what to do next."""
        for line in closing_lines(record):
            self.note(line)


class QuietDisplay(LineDisplay):
    """Says nothing but faults: for `--json`."""

    def stage_changed(self, record: RunRecord, stage: str) -> None:
        """Says nothing."""

    def progress(self, event: dict[str, Any]) -> None:
        """Says nothing."""

    def note(self, text: str) -> None:
        """Says nothing."""


class TerminalDisplay(LineDisplay):
    """A terminal: finished stages scroll by, running ones are one live line with their bars."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.running: dict[str, str] = {}

    def stage_changed(self, record: RunRecord, stage: str) -> None:
        """Moves an ended stage from the live line to the scroll."""
        entry = record.stage(stage)
        if entry.state == "running":
            self.running[stage] = ""
        else:
            self.running.pop(stage, None)
            self._clear()
            self.stream.write(f"{MARKS[entry.state]:>2}  {stage:<24} {entry.seconds:6.1f} s{_remark(entry)}\n")
        self._draw()

    def progress(self, event: dict[str, Any]) -> None:
        """Redraws the live line."""
        stage = str(event["stage"])
        if stage in self.running:
            self.running[stage] = f"{bar(event['done'], event['total'], width=10)} {event['text']}"
            self._draw()

    def note(self, text: str) -> None:
        """Writes one line above the live one."""
        self._clear()
        super().note(text)
        self._draw()

    def _clear(self) -> None:
        self.stream.write("\r\x1b[K")

    def _draw(self) -> None:
        width = shutil.get_terminal_size().columns - 1
        live = "   ".join(f"{stage} {text}".strip() for stage, text in self.running.items())
        self._clear()
        if live:
            self.stream.write(f" >  {live}"[: max(10, width)])
        self.stream.flush()


def display_for(stream: TextIO, *, quiet: bool) -> LineDisplay:
    """The display that fits the stream."""
    if quiet:
        return QuietDisplay(stream)
    return TerminalDisplay(stream) if stream.isatty() else LineDisplay(stream)


def _remark(entry: StageRecord) -> str:
    return "  (cached)" if entry.state == "cached" else ""


def closing_lines(record: RunRecord) -> list[str]:
    """The last lines of a run."""
    cached = sum(stage.state == "cached" for stage in record.stages)
    lines = [f"run {record.id}: {record.state} after {record.seconds:.1f} s, {cached} of {len(record.stages)} stages cached"]
    if record.error:
        lines.append(f"tandem: {record.error}")
    if record.state == "succeeded" and record.kind == "promotion":
        lines.append("next: `tandem route` carries the rollout on, `tandem rollout MODEL` shows it")
    elif record.state == "succeeded":
        pushed = record.artifacts.get("pusher/push_report")
        if pushed:
            lines += _pushed_lines(pushed)
        lines.append("next: `tandem compare` lays the candidates side by side, `tandem ui` opens the MLflow UI")
    elif record.kind == "promotion":
        lines.append("next: mend that and give the same command again; what was done stays done")
    elif record.state in ("failed", "nothing blessed"):
        lines.append(f"next: `tandem why {record.id}` names the gate, slice and rows, and the remedy")
    return lines


def _pushed_lines(folder: str) -> list[str]:
    from pathlib import Path

    from components.core.measurements import PUSH_FILE, PushReport, read_measurement

    if not (Path(folder) / PUSH_FILE).is_file():
        return []
    report = read_measurement(PushReport, folder, PUSH_FILE)
    return [f"pushed {report.name}/{report.version} ({report.framework}) to {report.path}: {report.reason}"]
