"""Whole files through `ingest_csv`: values, splits, slices, notes."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from components.core.contracts import Band, DataSpec, Feature, Label
from components.core.errors import DataError
from components.ingest.ingest_csv import ingest_csv

CREDIT = Path(__file__).parents[4] / "pipelines/credit_risk/data/credit.csv"


@pytest.fixture
def find(read_rows):
    """Gives the one example whose feature has the value."""

    def one(folder, key, value):
        found = [row for row in read_rows(folder) if row.get(key) == [value]]
        assert len(found) == 1
        return found[0]

    return one


def test_cells_become_values_of_the_declared_kind_and_missing_ones_are_left_out(ingest, make_spec, find):
    spec = make_spec("id:integer n:number? i:integer? c:category?")
    filler = "".join(f"{number},,,,no\n" for number in range(100, 140))
    summary, folder = ingest(f"id,n,i,c,y\n1,-2.5e1,-7,深圳,yes\n2,,,,no\n3,0.1,9007199254740992,007,no\n{filler}", spec)
    assert find(folder, "id", 1) == {"id": [1], "n": [-25.0], "i": [-7], "c": ["深圳".encode()], "y": [b"yes"]}
    assert find(folder, "id", 2) == {"id": [2], "y": [b"no"]}
    assert find(folder, "id", 3) == {"id": [3], "n": [float(np.float32(0.1))], "i": [2**53], "c": [b"007"], "y": [b"no"]}
    assert summary.rows == 43
    assert summary.missing_cells == {"n": 41, "i": 41, "c": 41}


def test_a02_quoted_commas_quotes_and_line_ends_are_text(ingest, make_spec, padding, find):
    _, folder = ingest('id,txt,y\n1,"a, ""b""\nc",no\n' + padding.replace(",", ",z,"), make_spec("id:integer txt:category"))
    assert find(folder, "id", 1)["txt"] == [b'a, "b"\nc']


def test_a06_a_byte_order_mark_is_left_out_and_noted(ingest, make_spec, read_rows, padding):
    summary, folder = ingest(b"\xef\xbb\xbfid,y\n" + padding.encode(), make_spec())
    assert {key for row in read_rows(folder) for key in row} == {"id", "y"}
    assert summary.notes == ("in.csv: a UTF-8 byte order mark was left out",)


def test_a08_null_tokens_mean_missing_in_every_column(ingest, make_spec, padding, find):
    text = "id,x,c,y\n1,NA,NA,no\n2,3.5,N/A,no\n" + padding.replace(",", ",1,a,")
    summary, folder = ingest(text, make_spec("id:integer x:number? c:category?", null_tokens=["NA"]))
    assert find(folder, "id", 1) == {"id": [1], "y": [b"no"]}
    assert find(folder, "id", 2)["c"] == [b"N/A"]
    assert summary.missing_cells == {"x": 1, "c": 1}


def test_a10_leading_zeros_stay_in_text_and_are_noted_in_integers(ingest, make_spec, padding, find):
    text = "id,zip,y\n1,00123,no\n2,90210,no\n3,-07,no\n4,0,no\n" + padding.replace(",", ",5,")
    _, folder = ingest(text, make_spec("id:integer zip:category"))
    assert find(folder, "id", 1)["zip"] == [b"00123"]
    summary, folder = ingest(text, make_spec("id:integer zip:integer"))
    assert find(folder, "id", 1)["zip"] == [123]
    assert summary.notes == ("column 'zip': 2 cells lost leading zeros as integers; declare the feature as category to keep them",)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a17_line_ends_blank_lines_and_chinese_names(ingest, end, make_spec, find):
    text = "城市,id,y\n北京,1,no\n\n\n" + "".join(f"上海,{number},yes\n" for number in range(10, 40))
    summary, folder = ingest(text.replace("\n", end), make_spec("id:integer 城市:category"))
    assert find(folder, "id", 1)["城市"] == ["北京".encode()]
    assert summary.rows == 31


def test_a_last_line_without_an_end_counts(ingest, make_spec, padding):
    summary, _ = ingest("id,y\n" + padding.rstrip("\n"), make_spec())
    assert summary.rows == 40


def test_ignored_columns_are_not_read(ingest, make_spec, read_rows, padding):
    summary, folder = ingest("id,note,y\n" + padding.replace(",", ",x,"), make_spec(ignored_columns=["note"]))
    assert (summary.rows, {key for row in read_rows(folder) for key in row}) == (40, {"id", "y"})


def test_a_row_falls_to_the_split_that_its_hash_says(ingest, make_spec, read_split, padding):
    _, folder = ingest("id,y\n" + padding, make_spec(split_weights={"eval": 1, "train": 2}))
    expected = {"train": [], "eval": []}
    for line in padding.splitlines():
        number, label = line.split(",")
        text = f"{len(number)}:{number}{len(label)}:{label}"
        draw = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % 3
        expected["train" if draw < 2 else "eval"].append((int(number), label.encode()))
    for split, rows in expected.items():
        assert [(row["id"][0], row["y"][0]) for row in read_split(folder, split)] == rows


def test_shares_of_the_splits_are_those_of_the_weights(ingest, make_spec):
    text = "id,y\n" + "".join(f"{number},no\n" for number in range(6000))
    summary, _ = ingest(text, make_spec(split_weights={"train": 4, "eval": 1}))
    assert abs(summary.split_rows["eval"] - 1200) < 4 * np.sqrt(6000 * 0.2 * 0.8)  # four standard deviations
    assert summary.class_rows == {"train": {"no": summary.split_rows["train"]}, "eval": {"no": summary.split_rows["eval"]}}


def test_equal_rows_share_a_split_whatever_their_order_and_the_order_of_columns(ingest, make_spec, read_split):
    rows = [(number % 50, "no") for number in range(400)]
    _, folder = ingest("id,y\n" + "".join(f"{number},{label}\n" for number, label in rows), make_spec())
    first = {split: {row["id"][0] for row in read_split(folder, split)} for split in ("train", "eval")}
    assert first["train"] | first["eval"] == set(range(50))
    assert not first["train"] & first["eval"]
    _, folder = ingest("y,id\n" + "".join(f"{label},{number}\n" for number, label in rows[::-1]), make_spec())
    assert first == {split: {row["id"][0] for row in read_split(folder, split)} for split in ("train", "eval")}


def test_missing_and_text_that_looks_like_a_separator_are_different_rows(ingest, make_spec, read_split):
    spec = make_spec("a:category? b:category?")
    text = "a,b,y\n" + "".join(f"{a},{b},no\n" for a in ("", "-", "1:x", "x") for b in ("", "-", "1:x", "x")) * 3
    summary, folder = ingest(text, spec)
    assert summary.rows == 48
    train, evaluation = ({str(sorted(row.items())) for row in read_split(folder, split)} for split in ("train", "eval"))
    assert (len(train | evaluation), train & evaluation) == (16, set())


def test_bands_are_half_open_and_name_missing_cells(ingest, make_spec, padding, find):
    spec = make_spec(
        "id:integer age:integer? rate:number? job:category?",
        slices=["job"],
        bands=[{"name": "age_band", "feature": "age", "edges": [25.0, 35.0]}, {"name": "rate_band", "feature": "rate", "edges": [0.7]}],
    )
    text = "id,age,rate,job,y\n1,24,0.69,fixed,no\n2,25,0.7,,no\n3,34,,x,no\n4,35,1,x,no\n5,,,,no\n" + padding.replace(",", ",40,1,z,")
    _, folder = ingest(text, spec)
    keys = ("slice_age_band", "slice_rate_band", "slice_job")
    assert [[find(folder, "id", number)[key][0].decode() for key in keys] for number in range(1, 6)] == [
        ["<25", "<0.7", "fixed"],
        ["[25, 35)", ">=0.7", "(missing)"],
        ["[25, 35)", "(missing)", "x"],
        [">=35", ">=0.7", "x"],
        ["(missing)", "(missing)", "(missing)"],
    ]


def test_batch_size_does_not_change_a_byte(ingest, make_spec):
    spec = make_spec("id:integer txt:category?")
    text = "id,txt,y\n" + "".join(f'{number},"é{"漢" * (number % 9)}\n",{"no" if number % 3 else "yes"}\n' for number in range(500))
    written = []
    for batch_bytes in (64, 1000, 1 << 20):
        summary, folder = ingest(text, spec, batch_bytes=batch_bytes)
        written.append((summary, [path.read_bytes() for path in sorted(folder.rglob("*.gz"))]))
    assert written[0] == written[1] == written[2]
    assert len(written[0][1]) == 2


def test_a03_a_folder_is_read_in_name_order_and_what_is_skipped_is_named(tmp_path, make_spec, read_split):
    folder = tmp_path / "data"
    (folder / "deeper.csv").mkdir(parents=True)
    (folder / ".DS_Store").write_bytes(b"\x00\xff")
    (folder / ".hidden.csv").write_bytes(b"\xff")
    (folder / "notes.txt").write_text("x")
    (folder / "b.csv").write_text("y,id\n" + "".join(f"no,{number}\n" for number in range(30)))
    (folder / "a.CSV").write_text("id,y\n" + "".join(f"{number},yes\n" for number in range(30, 60)))
    summary = ingest_csv(folder, make_spec(), output_folder=tmp_path / "out")
    assert summary.skipped_files == (".DS_Store", ".hidden.csv", "deeper.csv", "notes.txt")
    assert [row["id"][0] >= 30 for row in read_split(tmp_path / "out", "eval")] == sorted(
        (row["id"][0] >= 30 for row in read_split(tmp_path / "out", "eval")), reverse=True
    )
    (folder / "b.csv").write_text("id,y\n1,no\n\n2,maybe\n")
    with pytest.raises(DataError, match=r"b\.csv, line 4, column 'y': 'maybe'"):
        ingest_csv(folder, make_spec(), output_folder=tmp_path / "out")


def test_the_real_file(tmp_path, read_rows):
    categories = {"Home", "Marital", "Records", "Job"}
    names = ["Seniority", "Home", "Time", "Age", "Marital", "Records", "Job", "Expenses", "Income", "Assets", "Debt", "Amount", "Price"]
    gaps = {"Home": 6, "Marital": 1, "Job": 2, "Income": 381, "Assets": 47, "Debt": 18}
    spec = DataSpec(
        features=tuple(Feature(name=name, kind="category" if name in categories else "integer", optional=name in gaps) for name in names),
        label=Label(name="Status", classes=("good", "bad"), positive="bad"),
        slices=("Home", "Marital", "Job"),
        bands=(Band(name="age_band", feature="Age", edges=(25.0, 35.0, 45.0, 55.0)),),
    )
    summary = ingest_csv(CREDIT, spec, output_folder=tmp_path)
    assert summary.rows == 4454
    assert summary.missing_cells == gaps
    assert abs(summary.split_rows["eval"] / 4454 - 1 / 3) < 0.03
    assert {name: sum(rows[name] for rows in summary.class_rows.values()) for name in ("good", "bad")} == {"good": 3200, "bad": 1254}
    rows = read_rows(tmp_path)
    assert len(rows) == 4454
    assert {name: sum(name not in row for row in rows) for name in names if any(name not in row for row in rows)} == gaps
    assert sum(row["slice_Home"] == [b"(missing)"] for row in rows) == 6
    incomes = [int(line.split(",")[9]) for line in CREDIT.read_text().splitlines()[1:] if line.split(",")[9]]
    assert sum(row["Income"][0] for row in rows if "Income" in row) == sum(incomes)
