"""CSV files to the splits of an Examples artifact, streamed: memory depends on `batch_bytes`, not on the size of the files."""

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from components.core.contracts import DataSpec
from components.core.errors import DataError
from components.ingest.digest import find_source_files
from components.ingest.encode_examples import assign_splits, encode_batch
from components.ingest.locate_row import find_row, shown
from components.ingest.parse_cells import CellFault, Column, count_leading_zeros, parse_feature, parse_label, slice_columns
from components.ingest.read_csv import Header, read_header, stream_batches
from components.ingest.write_examples import open_splits

BATCH_BYTES = 1 << 20
SPLITS = ("train", "eval")


@dataclasses.dataclass(frozen=True)
class IngestSummary:
    """What was read.

    Attributes:
        rows: data rows in all.
        split_rows: split name -> rows.
        class_rows: split name -> class name -> rows.
        missing_cells: feature -> missing cells, features without any left out.
        skipped_files: entries of the input folder that were not read.
        notes: what a reader should know though nothing is wrong, a line each.
    """

    rows: int
    split_rows: dict[str, int]
    class_rows: dict[str, dict[str, int]]
    missing_cells: dict[str, int]
    skipped_files: tuple[str, ...]
    notes: tuple[str, ...]


class _Counts:
    """Grows while batches pass."""

    def __init__(self) -> None:
        self.classes: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.missing: Counter[str] = Counter()
        self.leading_zeros: Counter[str] = Counter()
        self.marked: list[str] = []

    def notes(self) -> tuple[str, ...]:
        marks = [f"{name}: a UTF-8 byte order mark was left out" for name in self.marked]
        zeros = [
            f"column {name!r}: {count} cells lost leading zeros as integers; declare the feature as category to keep them"
            for name, count in sorted(self.leading_zeros.items())
        ]
        return (*marks, *zeros)


def ingest_csv(path: Path | str, spec: DataSpec, *, output_folder: Path | str, batch_bytes: int = BATCH_BYTES) -> IngestSummary:
    """Writes `Split-train` and `Split-eval` below `output_folder`.

    Each row becomes a tf.Example: int64, float32 and bytes features under their names, a missing cell left out; the label as bytes, the
    class name; a bytes feature `slice_<key>` for each slice key. Files are read in name order, rows stay in order. The same rows, spec
    and files give the same bytes, whatever `batch_bytes` is.

    Args:
        path: a CSV file, or a folder of them; UTF-8, comma-separated, with a header.
        spec: columns and their kinds, label, slices, weights of the splits.
        output_folder: folder of the Examples artifact.
        batch_bytes: bytes of text in memory at a time for each batch; the longest row must fit.

    Raises:
        DataError: the first bad file, row or cell, or an empty split. Nothing is left below `output_folder` then.
    """
    source = find_source_files(path)
    weights = {split: spec.split_weights[split] for split in SPLITS}
    counts = _Counts()
    with open_splits(Path(output_folder), SPLITS) as writers:
        for file in source.files:
            header = read_header(file, spec, batch_bytes=batch_bytes)
            counts.marked += [file.name] * header.byte_order_mark
            first_row = 0
            for batch in stream_batches(file, header, spec, batch_bytes=batch_bytes):
                columns = _parse_batch(batch, spec)
                if isinstance(columns, CellFault):
                    raise _bad_cell(file, header, columns, first_row=first_row, batch_bytes=batch_bytes)
                splits = assign_splits(batch, weights)
                _write_batch(columns, splits, writers)
                _count_batch(batch, splits, spec, counts)
                first_row += len(batch)
        summary = _summarize(counts, source.skipped)
        _check_rows(path, summary, weights)
    return summary


def _parse_batch(batch: pa.RecordBatch, spec: DataSpec) -> dict[str, Column] | CellFault:
    """Gives all features of the examples, or the fault of the first row that has one."""
    parsed = {feature.name: parse_feature(batch.column(feature.name), feature) for feature in spec.features}
    parsed[spec.label.name] = parse_label(batch.column(spec.label.name), spec)
    faults = [column for column in parsed.values() if isinstance(column, CellFault)]
    if faults:
        return min(faults, key=lambda fault: fault.row)
    columns = {name: column for name, column in parsed.items() if isinstance(column, Column)}
    return columns | slice_columns(columns, spec)


def _write_batch(columns: dict[str, Column], splits: Any, writers: list[Any]) -> None:
    for split, serialized in zip(splits.tolist(), encode_batch(columns).to_pylist(), strict=True):
        writers[split].write(serialized)


def _count_batch(batch: pa.RecordBatch, splits: Any, spec: DataSpec, counts: _Counts) -> None:
    for feature in spec.features:
        cells = batch.column(feature.name)
        counts.missing[feature.name] += cells.null_count
        if feature.kind == "integer" and (zeros := count_leading_zeros(cells)):
            counts.leading_zeros[feature.name] += zeros
    labels = batch.column(spec.label.name)
    for position, split in enumerate(SPLITS):
        for found in labels.filter(pa.array(np.equal(splits, position))).value_counts().to_pylist():
            counts.classes[split][found["values"]] += found["counts"]


def _summarize(counts: _Counts, skipped: tuple[str, ...]) -> IngestSummary:
    split_rows = {split: counts.classes[split].total() for split in SPLITS}
    return IngestSummary(
        rows=sum(split_rows.values()),
        split_rows=split_rows,
        class_rows={split: dict(sorted(counts.classes[split].items())) for split in SPLITS},
        missing_cells={name: count for name, count in sorted(counts.missing.items()) if count},
        skipped_files=skipped,
        notes=counts.notes(),
    )


def _check_rows(path: Path | str, summary: IngestSummary, weights: dict[str, int]) -> None:
    if summary.rows == 0:
        raise DataError(f"{path}: no rows, only a header; data rows must follow it")
    empty = [split for split, rows in summary.split_rows.items() if rows == 0]
    if empty:
        raise DataError(
            f"{path}: split {empty[0]!r} is empty: all {summary.rows} rows fell to the other one at weights {weights}; "
            "add rows that differ from each other, or change the weights of the splits"
        )


def _bad_cell(file: Path, header: Header, fault: CellFault, *, first_row: int, batch_bytes: int) -> DataError:
    """Explains a fault with the physical line of its cell."""
    number = first_row + fault.row
    row = find_row(file, number, batch_bytes)
    position = header.names.index(fault.column)
    where = f"line {row.line_of(position)}" if row else f"data row {number + 1}"
    value = shown(row.cells[position]) if row and position < len(row.cells) else "the cell"
    if fault.expected is None:
        return DataError(
            f"{file}, {where}, column {fault.column!r}: {value} is a missing value, which this column may not have; fill it, "
            "remove the row, or (a feature) declare it optional"
        )
    return DataError(
        f"{file}, {where}, column {fault.column!r}: {value} is not {fault.expected}; correct the cell, "
        "leave it empty and list what means missing in null_tokens, or change the column's declaration"
    )
