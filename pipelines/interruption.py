"""How a command that serves ends: SIGTERM and a closed terminal like Ctrl-C."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def ended_in_order() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP raise KeyboardInterrupt inside."""

    def interrupt(signum: int, frame: Any) -> None:
        del signum, frame
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
