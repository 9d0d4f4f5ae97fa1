"""The commands of README.md, each executed."""

import re
import signal
import time

import pytest

from tests.e2e.desk import ROOT, Answer, Desk

pytestmark = pytest.mark.slow
EXPECTED_CODES = {"tandem run credit_risk --set audit.floors.auc=0.9": 3}


def commands() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"<!-- commands:.*?```sh\n(.*?)```\n<!-- end of commands -->", text, re.DOTALL)
    assert block is not None
    return block[1].splitlines()


def test_the_table_names_every_command() -> None:
    from pipelines.cli import COMMANDS

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, _ in COMMANDS:
        assert f"| `tandem {name}" in text
        assert any(line.split()[1] == name for line in commands())


def test_each_command_works_in_the_order_of_the_readme(credit: tuple[Desk, Answer]) -> None:
    desk = credit[0]
    for line in commands():
        words = line.split()[1:]
        if words[0] == "ui":
            process = desk.start(*words, "--no-browser")
            time.sleep(20)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            answer = desk.wait(process)
            assert answer.code in (0, 130), answer.err
            assert "127.0.0.1" in answer.out + answer.err
            continue
        answer = desk.call(*words)
        assert answer.code == EXPECTED_CODES.get(line, 0), f"{line}: {answer.err}"


def test_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target
