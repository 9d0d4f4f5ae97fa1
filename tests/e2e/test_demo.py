"""`tandem demo`: the whole cycle on one machine, with three logins of the console."""

import json
import re
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.e2e.desk import Answer, Desk

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, Answer]:
    """The folder from which it was called, and what it said."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    return desk, desk.call("demo", "--json")


def saw(answer: Answer, number: int) -> str:
    return "\n".join(answer.json()["steps"][number - 1]["saw"])


def processes_in(folder: Path) -> list[str]:
    """Processes that work in a folder or below it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def test_it_tells_what_it_did(demo: tuple[Desk, Answer]) -> None:
    desk, answer = demo
    assert answer.code == 0, answer.err
    assert answer.json() == json.loads((desk.folder / "tandem-demo" / "demo.json").read_text())
    assert [step["number"] for step in answer.json()["steps"]] == list(range(1, 12))
    assert all(step["saw"] for step in answer.json()["steps"])
    lines = [call["line"] for step in answer.json()["steps"] for call in step["calls"]]
    assert {line.split()[1] for line in lines} >= {
        "run",
        "keys",
        "ui",
        "serve",
        "promote",
        "route",
        "rehearse",
        "rollback",
        "ledger",
        "verify",
    }


def test_three_logins_decide_and_who_may_not_is_told_why(demo: tuple[Desk, Answer]) -> None:
    _, answer = demo
    assert "trainer requested credit-demo/1: waiting for decisions" in saw(answer, 4)
    assert "trainer cannot: Approve: " in saw(answer, 4)
    assert "auditor cannot: Approve: " in saw(answer, 4)
    assert "approver approved credit-demo/1: approved" in saw(answer, 5)
    assert "403" in saw(answer, 10)


def test_traffic_follows_the_steps_and_comes_back(demo: tuple[Desk, Answer]) -> None:
    _, answer = demo
    assert "200 requests: version 1 200; 0 failed" in saw(answer, 6)
    seen = re.findall(r"^at (\d+) %: (\d+) .*?, ([\d.]+) %", saw(answer, 8), re.MULTILINE)
    assert [int(share) for share, _, _ in seen] == [5, 20, 100]
    for share, count, given in seen:
        # Keys are hashed: four standard deviations of a binomial.
        assert abs(float(given) - int(share)) <= 4 * (int(share) * (100 - int(share)) / int(count)) ** 0.5 + 0.05
    assert saw(answer, 8).count(" 0 failed") == saw(answer, 8).count(" requests, ")
    assert "champion: credit-demo-prod version 1" in saw(answer, 9)
    assert "200 requests: version 1 200; 0 failed" in saw(answer, 9)


def test_the_record_is_that_of_the_ledger(demo: tuple[Desk, Answer]) -> None:
    desk, answer = demo
    with sqlite3.connect(desk.folder / "tandem-demo" / ".tandem" / "ledger.db") as store:
        (count,) = store.execute("SELECT count(*) FROM ledger_entries").fetchone()
    assert f"{count} entries hold" in saw(answer, 11)
    assert re.search(r"entry \d+", saw(answer, 10))


def test_nothing_goes_on_and_passwords_are_the_owners(demo: tuple[Desk, Answer]) -> None:
    desk, _ = demo
    assert processes_in(desk.folder) == []
    assert (desk.folder / "tandem-demo" / "logins.txt").stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in desk.folder.iterdir()) == ["tandem-demo"]


def test_a_folder_in_use_is_left_alone(demo: tuple[Desk, Answer]) -> None:
    desk, _ = demo
    answer = desk.call("demo")
    assert answer.code == 2
    assert re.fullmatch(r"tandem: .*tandem-demo: is there already and not empty.*--dir\n", answer.err)


def test_ctrl_c_ends_all_of_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    process = desk.start("demo", "--dir", "shown")
    assert process.stdout is not None
    while not process.stdout.readline().startswith("1. "):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    answer = desk.wait(process)
    assert answer.code == 130
    assert "delete" in answer.err
    assert processes_in(tmp_path) == []
