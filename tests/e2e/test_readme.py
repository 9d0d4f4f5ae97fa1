"""The commands of README.md, each executed."""

import re
import shlex
import signal
import subprocess

import pytest

from tests.e2e.desk import ROOT, Answer, Desk

pytestmark = pytest.mark.slow
EXPECTED_CODES = {
    "tandem run credit_risk --set audit.floors.auc=0.9": 3,
    # Everything passed: there is nothing to override, and the command says so.
    'tandem override credit-risk/2 --key ada.pem --reason "only where evidence did not pass"': 2,
    # Nobody asked the router yet: there is nothing to replay, and the command says so.
    "tandem rehearse credit-risk/2 --log-dir requests": 2,
}
SERVERS = ("serve", "route")
ELSEWHERE = {"tandem demo": "test_demo.py"}
"""Executed by another test file."""


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
    for line, file in ELSEWHERE.items():
        assert line in commands()
        assert f'desk.call("{line.split()[1]}"' in (ROOT / "tests" / "e2e" / file).read_text(encoding="utf-8")


def test_each_command_works_in_the_order_of_the_readme(credit: tuple[Desk, Answer]) -> None:
    desk = credit[0]
    servers: list[subprocess.Popen[str]] = []
    try:
        for line in commands():
            if line not in ELSEWHERE:
                run_line(desk, line, servers)
    finally:
        for server in servers:
            server.terminate()
        codes = [desk.wait(server).code for server in servers]
    assert codes == [0] * len(SERVERS)


def run_line(desk: Desk, line: str, servers: "list[subprocess.Popen[str]]") -> None:
    """Calls one line; a server goes on beside the lines after it."""
    words = shlex.split(line)[1:]
    if words[0] in SERVERS:
        server = desk.start(*words)
        servers.append(server)
        assert server.stdout is not None
        assert "Ctrl-C ends it" in server.stdout.readline()
        return
    if words[0] == "ui":
        process = desk.start(*words, "--no-browser")
        assert process.stdout is not None
        assert "127.0.0.1" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert desk.wait(process).code == 0
        return
    answer = desk.call(*words)
    assert answer.code == EXPECTED_CODES.get(line, 0), f"{line}: {answer.err}"


def test_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target
