import io
import logging
import sys

import pytest

from components.core.progress import listen, report_progress
from trainers.progress import LOGGER, EpochProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def nobody_listens():
    listen(None)
    yield
    listen(None)


def test_who_listens_is_told_steps_and_epochs(monkeypatch):
    clock = iter([1.0, 1.01, 2.0, 3.0])
    monkeypatch.setattr("trainers.progress.time.monotonic", lambda: next(clock))
    events = []
    listen(events.append)
    progress = EpochProgress("keras", 9)
    for done in (1, 2, 12):
        progress.step(3, done, 24)
    progress.end_epoch(3, {"train/loss": 0.25, "val/loss": 0.5, "val/auc": 0.75})
    progress.step(4, 1, None)
    # the second call came too soon after the first
    assert [(event["stage"], event["done"], event["total"], event["text"]) for event in events] == [
        ("keras-trainer", 2, 9, "step 1/24"),
        ("keras-trainer", 2, 9, "step 12/24"),
        ("keras-trainer", 3, 9, "val/auc 0.7500  val/loss 0.5000"),
        ("keras-trainer", 3, 9, "step 1/?  val/auc 0.7500  val/loss 0.5000"),
    ]


def test_a_bar_on_a_terminal_is_wiped_before_a_line(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = EpochProgress("lightning", 4)
    progress.step(2, 5, 10)
    progress.clear()
    assert terminal.getvalue() == "\r\x1b[K[#####...............] 1/4 lightning-trainer step 5/10\r\x1b[K"


def test_no_bar_where_nobody_watches(monkeypatch, caplog):
    caplog.set_level(logging.INFO, logger=LOGGER.name)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    progress = EpochProgress("lightning", 5)
    progress.step(1, 1, 2)
    progress.end_epoch(1, {"train/loss": 0.25, "val/auc": 0.5})
    assert caplog.messages == ["lightning epoch 1/5  train/loss 0.2500  val/auc 0.5000"]
    assert stream.getvalue() == ""


def test_other_stages_write_lines_where_there_is_no_terminal(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    report_progress("ingest", done=2, total=5, text="2,000 rows")
    assert stream.getvalue() == "ingest 2/5 2,000 rows\n"
