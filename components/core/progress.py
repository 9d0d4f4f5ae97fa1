"""Progress of a long stage: told to whoever listens, else a bar on a terminal, else one line a step."""

import sys
from collections.abc import Callable
from typing import Any

Listener = Callable[[dict[str, Any]], None]
_listeners: list[Listener] = []
_WIPE = "\r\x1b[K"


def listen(listener: Listener | None) -> None:
    """From now on `listener` is told, and nothing is written; the local runner does so in each stage's process. None: nobody is."""
    _listeners[:] = [listener] if listener else []


def shows_bars() -> bool:
    """Whether progress finer than a line a step is of use: somebody listens, or standard error is a terminal."""
    return bool(_listeners) or sys.stderr.isatty()


def report_progress(stage: str, *, done: int, total: int, text: str = "") -> None:
    """Says that `done` of `total` steps (epochs, buckets, ...) are done; `text` is one short line, e.g. `val/auc 0.861`."""
    if _listeners:
        _listeners[0]({"stage": stage, "done": done, "total": total, "text": text})
    elif sys.stderr.isatty():
        sys.stderr.write(f"{_WIPE}{bar(done, total)} {stage} {text}")
    else:
        sys.stderr.write(f"{stage} {done}/{total} {text}\n")
    sys.stderr.flush()


def clear_progress() -> None:
    """Wipes the bar, so that a line can be written in its place."""
    if not _listeners and sys.stderr.isatty():
        sys.stderr.write(_WIPE)
        sys.stderr.flush()


def bar(done: int, total: int, *, width: int = 20) -> str:
    """A bar of `width` cells."""
    filled = width if total <= 0 else min(width, width * done // total)
    return f"[{'#' * filled}{'.' * (width - filled)}] {done}/{total}"
