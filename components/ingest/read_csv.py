"""Reads CSV files as bounded batches of text cells, with pyarrow's reader, after the header was checked."""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from components.core.contracts import DataSpec
from components.core.errors import DataError
from components.ingest.locate_row import (
    LongField,
    find_invalid_utf8,
    find_long_row,
    find_row,
    find_uneven_row,
    read_rows,
    shown,
)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclasses.dataclass(frozen=True)
class Header:
    """The header of one file.

    Attributes:
        names: column names, in the order of the file.
        byte_order_mark: the file begins with a UTF-8 byte order mark, which is no part of the first name.
    """

    names: tuple[str, ...]
    byte_order_mark: bool


def used_columns(spec: DataSpec) -> tuple[str, ...]:
    """Columns that are read: features and label, by name. The order is that in which a row's content is hashed."""
    return tuple(sorted((*(feature.name for feature in spec.features), spec.label.name)))


def read_header(path: Path, spec: DataSpec, *, batch_bytes: int) -> Header:
    """Reads and checks the header of `path`.

    Raises:
        DataError: the file is empty or not UTF-8; a column is unnamed, named twice, missing or unknown. The message has the remedy.
    """
    try:
        with contextlib.closing(read_rows(path, batch_bytes, errors="strict")) as rows:
            first = next(rows, None)
    except UnicodeDecodeError as error:
        raise _not_utf8(path) or DataError(f"{path}: cannot be decoded as UTF-8; save it as UTF-8") from error
    except LongField as error:
        raise _too_long(path, error.line, batch_bytes) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); correct the path or its permissions") from error
    if first is None:
        raise DataError(f"{path}: the file is empty; the first line must name the columns, data rows follow")
    _check_names(path, first.cells, first.line)
    _check_columns(path, first.cells, spec)
    with path.open("rb") as file:
        return Header(tuple(first.cells), byte_order_mark=file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK)


def _check_names(path: Path, names: list[str], line: int) -> None:
    empty = [position for position, name in enumerate(names, start=1) if not name.strip()]
    if empty:
        where = ", ".join(map(str, empty))
        raise DataError(
            f"{path}, line {line}: the header names no column at position {where} of {len(names)}; name it, or remove it "
            "(pandas writes such a column for its index: to_csv(index=False))"
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        where = ", ".join(str(position) for position, name in enumerate(names, start=1) if name == twice[0])
        raise DataError(
            f"{path}, line {line}: the header names column {twice[0]!r} at positions {where}; each name may stand once, rename one"
        )


def _check_columns(path: Path, names: list[str], spec: DataSpec) -> None:
    missing = [name for name in used_columns(spec) if name not in names]
    unknown = [name for name in names if name not in (*used_columns(spec), *spec.ignored_columns)]
    parts = []
    if missing:
        parts.append(f"the header lacks {_listed(missing)}, which the configuration names as feature or label")
    if unknown:
        parts.append(f"the header has {_listed(unknown)}, which the configuration does not know")
    if parts:
        remedy = "correct the names, or list columns that no feature uses in ignored_columns"
        raise DataError(f"{path}: {'; '.join(parts)}; {remedy}; the header is {_listed(names)}")


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(map(repr, names[:20])) + rest


def stream_batches(path: Path, header: Header, spec: DataSpec, *, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yields the data rows of `path` in order, in batches of about `batch_bytes` of text.

    A batch has a string column for each of `used_columns(spec)`; an empty cell and a null token are null. pyarrow reads a few
    batches ahead; no more of the file is in memory.

    Raises:
        DataError: a row is short, long or longer than `batch_bytes`, or the text is not UTF-8. The message has file, line and remedy.
    """
    invalid: list[Any] = []

    def note_invalid(row: Any) -> str:
        invalid.append(row)
        return "error"

    columns = used_columns(spec)
    try:
        yield from arrow_csv.open_csv(
            path,
            read_options=arrow_csv.ReadOptions(block_size=batch_bytes),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=note_invalid),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(columns),
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=["", *spec.null_tokens],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid as error:
        if not invalid and find_row(path, 0, batch_bytes) is None and _not_utf8(path) is None:
            return  # a header without a line end and nothing after it: no rows
        raise _unreadable(path, header, invalid, batch_bytes=batch_bytes, cause=str(error)) from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}); correct the path or its permissions") from error


def _unreadable(path: Path, header: Header, invalid: list[Any], *, batch_bytes: int, cause: str) -> DataError:
    """Explains why pyarrow's reader gave up."""
    if invalid:
        width = len(header.names)
        row = find_uneven_row(path, width, batch_bytes)
        where = f"{path}, line {row.line}" if row else str(path)
        cells = len(row.cells) if row else invalid[0].actual_columns
        text = ",".join(row.cells) if row else invalid[0].text
        return DataError(
            f"{where}: the row has {cells} cell{'' if cells == 1 else 's'}, the header {width} columns: {shown(text)}; "
            "give each column a cell (an empty one is a missing value) and put cells that hold a comma in double quotes"
        )
    fault = _not_utf8(path)
    if fault:
        return fault
    line = find_long_row(path, batch_bytes)
    if line is not None:
        return _too_long(path, line, batch_bytes)
    return DataError(
        f"{path}: cannot be read as CSV ({cause}); save it as comma-separated UTF-8 text, or raise batch_bytes ({batch_bytes})"
    )


def _not_utf8(path: Path) -> DataError | None:
    found = find_invalid_utf8(path)
    if found is None:
        return None
    offset, line = found
    return DataError(f"{path}, line {line}: byte {offset} (from 0) is not UTF-8; save the file as UTF-8")


def _too_long(path: Path, line: int, batch_bytes: int) -> DataError:
    return DataError(
        f"{path}, line {line}: the row that begins here is longer than {batch_bytes} bytes; close its double quote if one is left open, "
        "or raise batch_bytes"
    )
