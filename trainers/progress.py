"""How training shows that it goes on: bars where somebody watches, and one line an epoch in the log."""

import logging
import time
from collections.abc import Mapping

from components.core.progress import clear_progress, report_progress, shows_bars

LOGGER = logging.getLogger("tandem.training")
_REDRAW_S = 0.1
_SHOWN = ("val/auc", "val/loss")
"""What a bar has room for."""


def show_lines() -> None:
    """Sends lines to standard error, unless the program has already said where they go."""
    if not LOGGER.hasHandlers() or not LOGGER.isEnabledFor(logging.INFO):
        stream = logging.StreamHandler()
        stream.setFormatter(logging.Formatter("%(message)s"))
        LOGGER.addHandler(stream)
        LOGGER.setLevel(logging.INFO)
        LOGGER.propagate = False


class EpochProgress:
    """Shows the steps of the running epoch and the result of each finished one.

    Attributes:
        framework: what stands before each line, e.g. `keras`.
        epochs: upper limit of epochs.
    """

    def __init__(self, framework: str, epochs: int) -> None:
        self.framework = framework
        self.epochs = epochs
        self._result = ""
        self._drawn_at = 0.0

    def step(self, epoch: int, done: int, total: int | None) -> None:
        """Tells the step within the epoch, at most ten times a second. `total` is None where the number of steps is unknown."""
        now = time.monotonic()
        if not shows_bars() or now - self._drawn_at < _REDRAW_S:
            return
        self._drawn_at = now
        self._report(epoch - 1, f"step {done}/{total or '?'}  {self._result}".rstrip())

    def end_epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Tells the epoch's result and writes it as a line to the log."""
        self._result = "  ".join(f"{name} {metrics[name]:.4f}" for name in _SHOWN if name in metrics)
        self.clear()
        values = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        LOGGER.info("%s epoch %d/%d  %s", self.framework, epoch, self.epochs, values)
        if shows_bars():
            self._report(epoch, self._result)

    def clear(self) -> None:
        """Wipes the bar."""
        clear_progress()

    def _report(self, done: int, text: str) -> None:
        report_progress(f"{self.framework}-trainer", done=done, total=self.epochs, text=text)
