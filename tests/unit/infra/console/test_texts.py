"""What people and data wrote, and how values are written."""

import pytest

from infra.console.markdown import render_card
from infra.console.wording import counted, moment, number, share, size, status


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[a](javascript:alert(1))",
        "![a](http://evil.example/a.png)",
        "<http://evil.example>",
        "[a]: javascript:x\n\n[a]",
        "| a |\n|:-:|\n| <b onclick=x> |",
        "```<script>\nx\n```",
        "&lt;script&gt;",
        '<a href="x">',
        "# <svg/onload=x>",
    ],
)
def test_nothing_of_a_card_becomes_markup_that_acts(text):
    rendered = str(render_card(text))
    for forbidden in ("<script", "<img", "<a ", "<svg", "<b ", "style=", 'href="', "onclick=x>"):
        assert forbidden not in rendered.replace("onclick=x&gt;", "")


def test_a_card_keeps_its_headings_tables_and_code():
    rendered = str(render_card("# One\n\n### Three\n\n- **bold** `code`\n\n| a | b |\n|---|--:|\n| 1\\_2 | 3 |\n"))
    for expected in ("<h3>One</h3>", "<h3>Three</h3>", "<strong>bold</strong>", "<code>code</code>", "<td>1_2</td>", "<td>3</td>"):
        assert expected in rendered


@pytest.mark.parametrize(
    ("given", "written"),
    [(None, "–"), (0.854432, "0.8544"), (0.0, "0"), (1.19e-7, "1.19e-07"), (1234.5, "1,234"), (52_000.4, "52,000"), (float("nan"), "–")],
)
def test_numbers(given, written):
    assert number(given) == written


def test_other_values():
    assert (counted(1462), counted(None)) == ("1,462", "–")
    assert (share(1, 4), share(0, 0)) == ("25.0 %", "–")
    assert (size(999), size(579_000), size(2_500_000_000), size(None)) == ("999 bytes", "579.0 kB", "2.5 GB", "–")
    assert moment("2026-12-01T04:08:53.123456+00:00") == "2026-12-01 04:08:53"
    assert status("voided") == "evidence changed"
