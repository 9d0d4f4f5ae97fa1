"""Turns text cells into typed values, strictly: what is not exactly of the declared kind is a fault, never a guess.

Work is done on the different values of a batch, not on its cells: a column of 20,000 cells has often 50 values.
"""

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.core.contracts import MISSING_BAND, Band, DataSpec, Feature, FeatureKind, slice_feature

LARGEST_INTEGER = 2**53
"""Integers are served as float64, which is exact up to here."""

EXPECTED: dict[FeatureKind, str] = {
    "integer": f"a whole number from -{LARGEST_INTEGER} to {LARGEST_INTEGER}, in digits alone",
    "number": "a finite decimal number with a point, of at most 3.4e38 (float32)",
    "category": "text",
}
_INTEGER = r"^-?0*[0-9]{1,18}$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_LEADING_ZERO = r"^-?0[0-9]"


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of a batch of N rows: row i has the value `values[codes[i]]`, and none where `codes[i]` is null.

    Attributes:
        codes: int32[N].
        values: the different values: int64, float64 or string; none is null.
    """

    codes: pa.Array
    values: pa.Array


@dataclasses.dataclass(frozen=True)
class CellFault:
    """A cell that cannot be taken.

    Attributes:
        row: row in the batch, from 0.
        column: column name.
        expected: what is allowed, or None where the cell is missing and may not be.
    """

    row: int
    column: str
    expected: str | None


def parse_feature(cells: pa.Array, feature: Feature) -> Column | CellFault:
    """Parses the cells of one feature.

    Args:
        cells: string[N], null where the cell is missing.
        feature: integers become int64 within 2^53, numbers float64 within the range of float32, categories stay text.

    Returns:
        The column, or its first fault.
    """
    coded = cells.dictionary_encode()
    parsed, bad = _parse_values(coded.dictionary, feature.kind)
    rows = [_first_row(coded.indices, bad)]
    if not feature.optional:
        rows.append(_first(cells.is_null()))
    row = min((row for row in rows if row is not None), default=None)
    if row is None:
        return Column(coded.indices, parsed)
    return CellFault(row, feature.name, EXPECTED[feature.kind] if cells[row].is_valid else None)


def _parse_values(values: pa.Array, kind: FeatureKind) -> tuple[pa.Array, pa.Array]:
    """Gives the typed values and a mask of those that are refused (whose typed value means nothing)."""
    if kind == "category":
        return values, pa.array(np.zeros(len(values), dtype=bool))
    pattern, dtype = (_INTEGER, pa.int64()) if kind == "integer" else (_NUMBER, pa.float64())
    malformed = pc.invert(pc.match_substring_regex(values, pattern))
    typed = pc.cast(pc.if_else(malformed, "0", values), dtype)
    if kind == "integer":
        beyond = pc.greater(pc.abs(typed), LARGEST_INTEGER)
    else:
        beyond = pc.invert(pc.is_finite(pc.cast(typed, pa.float32(), safe=False)))
    return typed, pc.or_(malformed, beyond)


def parse_label(cells: pa.Array, spec: DataSpec) -> Column | CellFault:
    """Parses the label: string[N] of class names, none missing."""
    coded = cells.dictionary_encode()
    unknown = pc.invert(pc.is_in(coded.dictionary, value_set=pa.array(spec.label.classes, pa.string())))
    rows = [row for row in (_first_row(coded.indices, unknown), _first(cells.is_null())) if row is not None]
    if not rows:
        return Column(coded.indices, coded.dictionary)
    row = min(rows)
    expected = "one of the classes " + ", ".join(map(repr, spec.label.classes))
    return CellFault(row, spec.label.name, expected if cells[row].is_valid else None)


def count_leading_zeros(cells: pa.Array) -> int:
    """Counts cells such as `007`, whose zeros an integer loses."""
    coded = cells.dictionary_encode()
    found = pc.match_substring_regex(coded.dictionary, _LEADING_ZERO)
    return 0 if not pc.any(found).as_py() else int(pc.sum(found.take(coded.indices)).as_py())


def slice_columns(columns: dict[str, Column], spec: DataSpec) -> dict[str, Column]:
    """Makes the column `slice_<key>` of each slice key: text, `(missing)` where the cell is missing, so no row lacks one."""
    made = {slice_feature(key): _filled(columns[key]) for key in spec.slices}
    return made | {slice_feature(band.name): _banded(columns[band.feature], band) for band in spec.bands}


def _filled(column: Column) -> Column:
    """Gives missing cells the value `(missing)`."""
    values = pa.concat_arrays([column.values.cast(pa.string()), pa.array([MISSING_BAND])])
    return Column(pc.fill_null(column.codes, pa.scalar(len(values) - 1, pa.int32())), values)


def _banded(column: Column, band: Band) -> Column:
    """Replaces values by the names of their half-open bands: an edge belongs to the band above it."""
    values = column.values.cast(pa.float64()).to_numpy()
    positions = np.searchsorted(np.array(band.edges, dtype=np.float64), values, side="right")
    codes = pa.array(positions.astype(np.int32)).take(column.codes)
    return _filled(Column(codes, pa.array(band.names())))


def _first_row(codes: pa.Array, bad: pa.Array) -> int | None:
    """The first row whose value is marked in `bad`."""
    return _first(pc.fill_null(bad.take(codes), False)) if pc.any(bad).as_py() else None


def _first(mask: pa.Array) -> int | None:
    position = int(pc.index(mask, True).as_py())
    return None if position < 0 else position
