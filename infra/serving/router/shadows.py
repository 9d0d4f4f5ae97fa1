"""Copies of requests for a canary in shadow mode: in the background, bounded, and never in the way of an answer."""

import asyncio
from collections.abc import Coroutine
from typing import Any

_AT_ONCE = 32
_BYTES_AT_ONCE = 64 * 1024 * 1024


class Shadows:
    """Runs copies beside the requests of one proxy.

    Attributes:
        dropped: copies that were not made, because too many ran.
    """

    def __init__(self, *, at_once: int = _AT_ONCE, bytes_at_once: int = _BYTES_AT_ONCE) -> None:
        self.dropped = 0
        self._at_once, self._bytes_at_once = at_once, bytes_at_once
        self._closed = False
        self._running: dict[asyncio.Task[None], int] = {}

    def has_room(self, size_bytes: int) -> bool:
        """Whether one more copy may run; counts it as dropped where it may not. A single copy always may."""
        if self._closed:
            return False
        full = len(self._running) >= self._at_once or sum(self._running.values()) + size_bytes > self._bytes_at_once
        if full and self._running:
            self.dropped += 1
            return False
        return True

    def start(self, copy: Coroutine[Any, Any, None], size_bytes: int) -> None:
        """Runs a copy."""
        task = asyncio.create_task(copy)
        self._running[task] = size_bytes
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)

    def close(self) -> None:
        """Ends what runs and takes no more: a copy that meets a closed connection must not count against the canary."""
        self._closed = True
        for task in list(self._running):
            task.cancel()
