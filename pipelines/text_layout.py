"""Text for terminals of any width and encoding: columns that wrap, values that cannot command the terminal."""

import shutil
import unicodedata
from collections.abc import Sequence
from typing import TextIO

NARROWEST = 20
GAP = "  "
READABLE = 16
"""Columns that a wrapped cell gets at least, where the terminal has them."""


def terminal_width() -> int:
    """Columns of the terminal (or of COLUMNS); 100 where there is none."""
    return max(NARROWEST, shutil.get_terminal_size((100, 24)).columns)


def write_text(stream: TextIO, text: str) -> None:
    r"""Writes `text`; characters that the stream's encoding lacks become `\u....`, instead of ending the command."""
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, errors="backslashreplace").decode(encoding))


def printable(text: str) -> str:
    r"""Control characters and lone surrogates become escapes: data (slice names, file names) must not command a terminal."""
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(
        character.encode("unicode_escape", errors="surrogatepass").decode() if unicodedata.category(character) in hidden else character
        for character in text
    )


def display_width(text: str) -> int:
    """Columns that `text` takes: wide East Asian characters take two, combining marks none."""
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at spaces where there are any; never empty."""
    width = max(2, width)
    lines = [""]
    for word in printable(text).split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if display_width(joined) <= width:
            lines[-1] = joined
            continue
        pieces = _pieces(word, width)
        lines = [*lines, *pieces] if lines[-1] else [*lines[:-1], *pieces]
    return lines


def _pieces(word: str, width: int) -> list[str]:
    pieces, used = [""], 0
    for character in word:
        size = _character_width(character)
        if used + size > width:
            pieces.append("")
            used = 0
        pieces[-1] += character
        used += size
    return pieces


def _pad(text: str, width: int) -> str:
    return text + " " * max(0, width - display_width(text))


def indented(text: str, width: int, *, by: int = 2) -> str:
    """A paragraph whose lines are all set in by `by` columns."""
    return "".join(f"{' ' * by}{line}\n" for line in wrap(text, width - by))


def columns(rows: Sequence[Sequence[str]], width: int) -> str:
    """A table in which each cell wraps; the first row is the head, the first column the labels.

    Args:
        rows: all of one length, at least two columns.
        width: columns of the terminal. Where the table does not fit even wrapped, its columns are dealt out to several tables below each
            other, each with the labels.
    """
    natural = [max(display_width(printable(row[column])) for row in rows) for column in range(len(rows[0]))]
    label = min(natural[0], max(8, width // 3))
    parts = []
    for chosen in _dealt_out(natural, width - label):
        widths = [label, *_shares([natural[column] for column in chosen], width - label - len(GAP) * len(chosen))]
        parts.append("".join(_row([row[0], *(row[column] for column in chosen)], widths) for row in rows))
    return "\n".join(parts)


def _dealt_out(natural: Sequence[int], room: int) -> list[list[int]]:
    """Columns (the labels not among them) in groups that fit beside each other at a width that can still be read."""
    groups: list[list[int]] = [[]]
    left = room
    for column, size in enumerate(natural[1:], start=1):
        needed = min(size, READABLE) + len(GAP)
        if groups[-1] and needed > left:
            groups.append([])
            left = room
        groups[-1].append(column)
        left -= needed
    return groups


def _shares(natural: Sequence[int], room: int) -> list[int]:
    """Widths of columns that together take at most `room`: small ones as they are, the rest shares what is left."""
    widths = [0] * len(natural)
    left, waiting = room, sorted(range(len(natural)), key=lambda column: natural[column])
    for position, column in enumerate(waiting):
        widths[column] = max(2, min(natural[column], left // (len(waiting) - position)))
        left -= widths[column]
    return widths


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    wrapped = [wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    height = max(map(len, wrapped))
    lines = []
    for number in range(height):
        parts = [_pad(lines_of[number] if number < len(lines_of) else "", width) for lines_of, width in zip(wrapped, widths, strict=True)]
        lines.append(GAP.join(parts).rstrip() + "\n")
    return "".join(lines)
