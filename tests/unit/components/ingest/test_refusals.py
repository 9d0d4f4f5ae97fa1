"""Bad input: one message with file, line, column, value, what is allowed and the remedy; nothing is left behind."""

import resource

import pytest

from components.core.errors import DataError, EnvironmentFault
from components.ingest.ingest_csv import ingest_csv
from components.ingest.locate_row import find_invalid_utf8

INTEGER = "a whole number from -9007199254740992 to 9007199254740992, in digits alone"


@pytest.mark.parametrize(
    "cell", ["1.5", "5.0", "1e3", "0x1F", "+5", " 5", "NaN", "nan", "inf", "NA", "1_000", "５", "9007199254740993", "9" * 30, "-"]
)
def test_a_cell_that_is_no_integer(refusal, cell, make_spec, padding):
    message = refusal(f"id,y\n1,no\n\n{cell},no\n{padding}", make_spec())
    assert message.startswith(f"in.csv, line 4, column 'id': {cell!r} is not {INTEGER}; ")
    assert "null_tokens" in message


@pytest.mark.parametrize("cell", ["NaN", "-inf", "Infinity", "1e39", "1e999", "0x1", "1,5", "one", " 1", "1d3", "."])
def test_a08_a_cell_that_is_no_number(refusal, cell, make_spec):
    message = refusal(f'x,y\n1,no\n"{cell}",no\n', make_spec("x:number"))
    assert message.startswith(
        f"in.csv, line 3, column 'x': {cell!r} is not a finite decimal number with a point, of at most 3.4e38 (float32)"
    )


@pytest.mark.parametrize("batch_bytes", [32, 1 << 20])
def test_lines_are_physical_with_blank_lines_quoted_line_ends_and_any_batch(refusal, batch_bytes, make_spec):
    text = 'txt,id,y\r\n\r\n"a\r\nb",1,no\r\n\r\nc,2,no\r\n"d\r\ne",x,no\r\n'  # rows begin on lines 3, 6, 7; the cell x is on line 8
    message = refusal(text, make_spec("txt:category id:integer"), batch_bytes=batch_bytes)
    assert message.startswith("in.csv, line 8, column 'id': 'x' is not ")


def test_the_first_row_with_a_fault_is_named_whatever_its_column(refusal, make_spec):
    message = refusal("a,b,y\n1,1,no\n1,bad,no\nbad,1,no\n", make_spec("a:integer b:integer"))
    assert message.startswith("in.csv, line 3, column 'b': 'bad'")


def test_labels(refusal, make_spec):
    spec = make_spec("index:integer s:category?")
    assert refusal("index,y,s\n0,no,ABC\n9,,\n", spec) == (
        "in.csv, line 3, column 'y': '' is a missing value, which this column may not have; fill it, remove the row, "
        "or (a feature) declare it optional"
    )  # A04
    assert refusal("index,y,s\n0,no,ABC\n9,No,\n", spec).startswith(
        "in.csv, line 3, column 'y': 'No' is not one of the classes 'no', 'yes'; "
    )


def test_a_missing_cell_where_none_may_be(refusal, make_spec):
    spec = make_spec("id:integer", null_tokens=["NA"])
    assert refusal("id,y\n1,no\nNA,no\n", spec).startswith("in.csv, line 3, column 'id': 'NA' is a missing value")
    assert refusal("id,y\n,no\n", spec).startswith("in.csv, line 2, column 'id': '' is a missing value")


@pytest.mark.parametrize(("row", "cells"), [("4,no", "2 cells"), ("4", "1 cell"), ("4,5,no,6", "4 cells")])
def test_a11_short_and_long_rows(refusal, row, cells, make_spec):
    message = refusal(f'id,x,y\n1,"2\n",no\n\n{row}\n7,8,no\n', make_spec("id:integer x:category"))
    assert message.startswith(f"in.csv, line 5: the row has {cells}, the header 3 columns: '{row}'; give each column a cell")


def test_a01_a_column_without_a_name(refusal, make_spec):
    message = refusal(",y,x\n0,no,1.5\n1,no,2.5\n", make_spec("x:number"))
    assert message.startswith("in.csv, line 1: the header names no column at position 1 of 3; ")
    assert "index=False" in message
    assert "position 3 of 3" in refusal("x,y, \n1,no,\n", make_spec("x:number"))


def test_a09_a_column_named_twice(refusal, make_spec):
    message = refusal("x,x,y\n9,1.5,no\n8,2.5,no\n", make_spec("x:number"))
    assert message == "in.csv, line 1: the header names column 'x' at positions 1, 2; each name may stand once, rename one"


def test_columns_that_are_missing_or_unknown(refusal, make_spec):
    message = refusal("Id,z,y\n1,2,no\n", make_spec("id:integer"))
    assert "lacks 'id', which" in message
    assert "has 'Id', 'z', which the configuration does not know" in message
    assert "ignored_columns" in message


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "in.csv: the file is empty; "),
        (b"\n\n", "in.csv: the file is empty; "),
        (b"id,y\n", "in.csv: no rows, only a header; "),  # A14
        (b"id,y", "in.csv: no rows, only a header; "),
        (b"id,y\n1,no\n", "is empty: all 1 rows fell to the other one at weights {'train': 2, 'eval': 1}; "),
        (b"id,y\n1,no\n2,\xff\n", "in.csv, line 3: byte 12 (from 0) is not UTF-8; "),
        (b"i\xffd,y\n1,no\n", "in.csv, line 1: byte 1 (from 0) is not UTF-8; "),
        ("id,y\n1,no\n".encode("utf-16"), "in.csv, line 1: byte 0 (from 0) is not UTF-8; "),
        (b"id,y\n1,no\n2,yes\xe6\xbc", "in.csv, line 3: byte 15 (from 0) is not UTF-8; "),
    ],
)
def test_files_that_cannot_be_used(refusal, content, expected, make_spec):
    assert expected in refusal(content, make_spec())


def test_a_row_longer_than_a_batch_and_a_quote_that_is_never_closed(refusal, make_spec):
    spec = make_spec("id:integer txt:category")
    message = refusal(f"id,txt,y\n1,a,no\n2,{'b' * 200},no\n", spec, batch_bytes=100)
    assert message.startswith("in.csv, line 3: the row that begins here is longer than 100 bytes; ")
    message = refusal('id,txt,y\n1,a,no\n2,"b,no\n' + "3,c,no\n" * 100, spec, batch_bytes=100)
    assert message.startswith("in.csv, line 3: the row that begins here is longer than 100 bytes; close its double quote")


def test_long_values_and_control_characters_are_cut_and_escaped(refusal, make_spec):
    message = refusal(f'id,y\n"\x1b[31m{"x" * 500}",no\n', make_spec())
    assert "'\\x1b[31m" in message
    assert len(message) < 400


def test_paths(tmp_path, make_spec):
    with pytest.raises(DataError, match="nowhere: no such file or folder; correct the data path"):
        ingest_csv(tmp_path / "nowhere", make_spec(), output_folder=tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: the folder has no \*\.csv file; it is empty"):
        ingest_csv(tmp_path / "empty", make_spec(), output_folder=tmp_path / "out")
    (tmp_path / "empty" / ".DS_Store").touch()
    with pytest.raises(DataError, match=r"it holds only \.DS_Store"):
        ingest_csv(tmp_path / "empty", make_spec(), output_folder=tmp_path / "out")


def test_invalid_utf8_is_found_across_chunks(tmp_path):
    path = tmp_path / "big.csv"
    good = b"\n" * ((1 << 20) - 1) + "漢".encode()  # the character lies on both sides of a chunk's end
    path.write_bytes(good)
    assert find_invalid_utf8(path) is None
    path.write_bytes(good[:-1] + b"\n")
    assert find_invalid_utf8(path) == ((1 << 20) - 1, 1 << 20)


@pytest.mark.parametrize("batch_bytes", range(5, 16))
def test_a_batch_that_ends_with_the_header_loses_no_row(ingest, batch_bytes, make_spec):
    rows = "".join(f"{number},no\n" for number in range(60))
    assert ingest("id,y\n" + rows, make_spec(), batch_bytes=batch_bytes)[0].rows == 60


def test_a_full_file_system_is_told_and_leaves_nothing(tmp_path, make_spec):
    source = tmp_path / "in.csv"
    source.write_text("id,y\n" + "".join(f"{number * 7919 % 1000003},no\n" for number in range(50_000)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # larger files get an error, as on a full disk
    try:
        with pytest.raises(EnvironmentFault, match=r"examples cannot be written .* free disk space"):
            ingest_csv(source, make_spec(), output_folder=tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
