"""Finds the physical line of a fault by a second, slower reading. Runs only once a fault is known."""

import codecs
import contextlib
import csv
import re
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

CHUNK_BYTES = 1 << 20
SHOWN_CHARACTERS = 60


class Row(NamedTuple):
    """A row as it stands in the file.

    Attributes:
        line: physical line on which it begins, from 1; a line ends with LF, CRLF or CR.
        cells: its cells, without the quotes.
    """

    line: int
    cells: list[str]

    def line_of(self, position: int) -> int:
        """Physical line on which the cell at `position` (from 0) begins; line ends inside quoted cells before it count."""
        return self.line + sum(len(re.findall(r"\r\n|\r|\n", cell)) for cell in self.cells[:position])


class LongField(Exception):
    """A cell is longer than the limit; `line` is the physical line on which its row begins. Always caught inside this stage."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def read_rows(path: Path, field_limit: int, *, errors: str = "backslashreplace") -> Generator[Row, None, None]:
    """Reads rows one at a time, the header first; blank lines are passed over and a byte order mark is left out.

    Args:
        path: a CSV file.
        field_limit: longest cell in characters; it bounds the memory when a quote is never closed.
        errors: what is done with bytes that are not UTF-8 (see `bytes.decode`).

    Raises:
        LongField: a cell is longer than `field_limit`.
        UnicodeDecodeError: with `errors="strict"`.
    """
    before = csv.field_size_limit(field_limit)
    try:
        with path.open(encoding="utf-8-sig", errors=errors, newline="") as file:
            reader = csv.reader(file)
            line = 1
            try:
                for cells in reader:
                    if cells:
                        yield Row(line, cells)
                    line = reader.line_num + 1
            except csv.Error as error:
                raise LongField(line) from error
    finally:
        csv.field_size_limit(before)


def find_row(path: Path, number: int, field_limit: int) -> Row | None:
    """The data row `number` (from 0; the header does not count), or None when this reading finds fewer rows."""
    with contextlib.closing(read_rows(path, field_limit)) as rows, contextlib.suppress(LongField):
        for position, row in enumerate(rows):
            if position == number + 1:
                return row
    return None


def find_uneven_row(path: Path, width: int, field_limit: int) -> Row | None:
    """The first row that has not `width` cells."""
    with contextlib.closing(read_rows(path, field_limit)) as rows, contextlib.suppress(LongField):
        return next((row for row in rows if len(row.cells) != width), None)
    return None


def find_long_row(path: Path, limit: int) -> int | None:
    """Physical line of the first row of at least `limit` characters or bytes, or of the row whose quote is never closed."""
    with contextlib.closing(read_rows(path, limit)) as rows:
        try:
            return next((row.line for row in rows if sum(len(cell.encode()) + 1 for cell in row.cells) >= limit), None)
        except LongField as found:
            return found.line


def find_invalid_utf8(path: Path) -> tuple[int, int] | None:
    """Offset in bytes (from 0) and physical line (from 1) of the first byte that is not UTF-8; None when all is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    position, feeds, returns = 0, 0, 0
    with path.open("rb") as file:
        while True:
            chunk = file.read(CHUNK_BYTES)
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                offset = position + len(chunk) - len(error.object) + error.start
                good = chunk[: max(0, offset - position)]
                return offset, 1 + (feeds + good.count(b"\n") or returns + good.count(b"\r"))
            if not chunk:
                return None
            position += len(chunk)
            feeds += chunk.count(b"\n")
            returns += chunk.count(b"\r")


def shown(value: str) -> str:
    """A cell as messages show it: quoted, control characters escaped, cut after 60 characters."""
    return repr(value if len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS] + "…")
