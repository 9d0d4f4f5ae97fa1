"""How training shows that it goes on: a bar on a terminal, one line an epoch elsewhere; both on standard error."""

import logging
import sys
import time
from collections.abc import Mapping
from typing import TextIO

LOGGER = logging.getLogger("tandem.training")
_BAR_WIDTH = 24
_REDRAW_S = 0.1


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
        title: what stands before each line, e.g. `keras`.
        epochs: upper limit of epochs.
    """

    def __init__(self, title: str, epochs: int, *, stream: TextIO | None = None) -> None:
        self.title = title
        self.epochs = epochs
        self._stream = stream if stream is not None else sys.stderr
        self._is_terminal = self._stream.isatty()
        self._drawn_at = 0.0
        self._width = 0

    def step(self, epoch: int, done: int, total: int | None) -> None:
        """Draws the bar; nothing happens where there is no terminal. `total` is None where the number of steps is unknown."""
        now = time.monotonic()
        if not self._is_terminal or now - self._drawn_at < _REDRAW_S:
            return
        self._drawn_at = now
        filled = min(_BAR_WIDTH, _BAR_WIDTH * done // total) if total else 0
        bar = "#" * filled + "-" * (_BAR_WIDTH - filled)
        text = f"{self.title} epoch {epoch}/{self.epochs} [{bar}] {done}/{total or '?'}"
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def end_epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Wipes the bar and writes the epoch's line."""
        self.clear()
        values = "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        LOGGER.info("%s epoch %d/%d  %s", self.title, epoch, self.epochs, values)

    def clear(self) -> None:
        """Wipes the bar."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0
