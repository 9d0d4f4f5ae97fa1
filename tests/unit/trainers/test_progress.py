import io
import logging

import pytest

from trainers.progress import LOGGER, EpochProgress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bar_on_a_terminal(monkeypatch):
    clock = iter([1.0, 1.01, 2.0])
    monkeypatch.setattr("trainers.progress.time.monotonic", lambda: next(clock))
    stream = Terminal()
    progress = EpochProgress("keras", 9, stream=stream)
    for done in (1, 2, 12):
        progress.step(3, done, 24)
    progress.end_epoch(3, {"val/auc": 0.5})
    drawn = stream.getvalue().split("\r")
    # the second call came too soon after the first
    assert [line for line in drawn if line.strip()] == [
        "keras epoch 3/9 [#-----------------------] 1/24",
        "keras epoch 3/9 [############------------] 12/24",
    ]
    assert drawn[-2].strip() == drawn[-1] == ""


def test_a_bar_without_a_known_end():
    stream = Terminal()
    EpochProgress("keras", 9, stream=stream).step(1, 5, None)
    assert stream.getvalue().endswith("5/?")


@pytest.mark.parametrize("terminal", [True, False])
def test_one_line_an_epoch(terminal, caplog):
    caplog.set_level(logging.INFO, logger=LOGGER.name)
    stream = Terminal() if terminal else io.StringIO()
    progress = EpochProgress("lightning", 5, stream=stream)
    if not terminal:
        progress.step(1, 1, 2)
    progress.end_epoch(1, {"train/loss": 0.25, "val/auc": 0.5})
    assert caplog.messages == ["lightning epoch 1/5  train/loss 0.2500  val/auc 0.5000"]
    assert stream.getvalue() == ""
