"""How values are written on the pages: numbers, times, digests, sizes, words for states."""

import datetime
import math
from collections.abc import Callable
from typing import Any

_MISSING = "\N{EN DASH}"
STATUS_WORDS = {
    "not_requested": "not requested",
    "waiting": "waiting for decisions",
    "approved": "approved",
    "rejected": "rejected",
    "revoked": "revoked",
    "expired": "request expired",
    "voided": "evidence changed",
}
KNOWN_BY_WORDS = {"personal_key": "personal key", "console_login": "login, vouched for by the console", "service": "the service itself"}


def number(value: float | None) -> str:
    """Four significant digits; an en dash where there is none."""
    if value is None or not math.isfinite(value):
        return _MISSING
    size = abs(value)
    return f"{value:.2e}" if size and (size < 1e-3 or size >= 1e6) else f"{value:,.4g}" if size < 1e4 else f"{value:,.0f}"


def counted(value: int | None) -> str:
    """A whole number with separators of thousands."""
    return _MISSING if value is None else f"{value:,}"


def share(part: int, whole: int) -> str:
    """A share in percent; an en dash of nothing."""
    return f"{100 * part / whole:.1f} %" if whole else _MISSING


def size(value: int | None) -> str:
    """Bytes in the unit that fits."""
    if value is None:
        return _MISSING
    amount = float(value)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return _MISSING


def moment(text: str) -> str:
    """A UTC time of the ledger, to the second."""
    return datetime.datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M:%S") if text else _MISSING


def short(digest: str) -> str:
    """The beginning of a digest; the whole one stands in the title beside it."""
    return digest[:12] if digest else _MISSING


def status(word: str) -> str:
    """A status of the approval rule, for people."""
    return STATUS_WORDS.get(word, word.replace("_", " "))


def known_by(word: str) -> str:
    """How an actor was known, for people."""
    return KNOWN_BY_WORDS.get(word, word)


def words(name: str) -> str:
    """A name of the code as words."""
    return name.replace("_", " ")


FILTERS: dict[str, Callable[..., Any]] = {
    "number": number,
    "counted": counted,
    "share": share,
    "size": size,
    "moment": moment,
    "short": short,
    "status": status,
    "known_by": known_by,
    "words": words,
}
