"""Text for any terminal."""

import io

import pytest

from pipelines.text_layout import columns, display_width, printable, terminal_width, wrap, write_text

ROWS = [["", "keras", "lightning"], ["auc", "0.8612 [0.8400, 0.8800]", "0.8600 [0.8400, 0.8800]"], ["digest", "a" * 64, "b" * 64]]


def test_wraps_at_spaces_and_breaks_long_words():
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]
    assert wrap("", 10) == [""]


def test_wide_characters_take_two_columns():
    assert display_width("北京ab") == 6
    assert wrap("北京北京", 5) == ["北京", "北京"]


def test_data_cannot_command_the_terminal():
    assert printable("a\x1b[31mb\n\u202ec") == "a\\x1b[31mb\\n\\u202ec"
    assert printable("北京 é") == "北京 é"
    assert printable("\udc80") == "\\udc80"


@pytest.mark.parametrize("width", [20, 40, 60, 100, 400])
def test_no_line_is_wider_than_the_terminal(width):
    text = columns([[*row, *row[1:], *row[1:]] for row in ROWS], width)
    assert max(map(display_width, text.splitlines())) <= width
    assert "".join(text.split()).count("aaaa") >= 3


def test_columns_that_do_not_fit_follow_below_with_their_labels():
    wide = [[*row, *row[1:]] for row in ROWS]
    assert columns(wide, 200).count("digest") == 1
    assert columns(wide, 40).count("digest") == 4


def test_a_table_that_fits_is_one_line_a_row():
    assert columns([["", "aa", "b"], ["x", "1", "22"]], 80) == "   aa  b\nx  1   22\n"


def test_an_encoding_without_a_character_gets_its_escape():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    write_text(stream, "北京 ok\n")
    stream.flush()
    assert raw.getvalue() == b"\\u5317\\u4eac ok\n"


def test_the_width_has_a_lower_end(monkeypatch):
    monkeypatch.setenv("COLUMNS", "3")
    assert terminal_width() == 20
    monkeypatch.setenv("COLUMNS", "77")
    assert terminal_width() == 77
