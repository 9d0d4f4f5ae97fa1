"""Progress of a long stage: told to whoever listens, else a bar on a terminal, else one line now and then."""

import sys
from collections.abc import Callable
from typing import Any

Listener = Callable[[dict[str, Any]], None]
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """From now on `listener` is told, and nothing is written; the local runner does so in each stage's process."""
    _listeners[:] = [listener]


def report_progress(stage: str, *, done: int, total: int, text: str = "") -> None:
    """Says that `done` of `total` steps (epochs, buckets, ...) are done; `text` is one short line, e.g. `val/auc 0.861`."""
    if _listeners:
        _listeners[0]({"stage": stage, "done": done, "total": total, "text": text})
    elif sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{bar(done, total)} {stage} {text}" + ("\n" if done >= total else ""))
    else:
        sys.stderr.write(f"{stage} {done}/{total} {text}\n")
    sys.stderr.flush()


def bar(done: int, total: int, *, width: int = 20) -> str:
    """A bar of `width` cells."""
    filled = width if total <= 0 else min(width, width * done // total)
    return f"[{'#' * filled}{'.' * (width - filled)}] {done}/{total}"
