"""kill -9 of a promotion at every boundary of its stages, of the router and of the model server, while somebody asks all the time."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest

from components.core.files import tree_digest
from tests.e2e.desk import Answer, Desk
from tests.integration.serving.served import free_port, until

pytestmark = pytest.mark.slow
STAGES = ("promotion-gate", "load-tester", "promoter", "production-pusher", "rollout-starter")
ROW = {
    "Seniority": 9, "Time": 60, "Age": 30, "Expenses": 73, "Income": 129.0, "Assets": 0, "Debt": 0, "Amount": 800, "Price": 846,
    "Home": "rent", "Marital": "married", "Records": "no", "Job": "freelance",
}  # fmt: skip
BODY = json.dumps({"signature_name": "serving_raw", "inputs": {name: [value] for name, value in ROW.items()}})


class House:
    """A desk with two candidates, both approved, and the servers of its production."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.server_port, self.router_port = free_port(), free_port()
        self.settings = ("--set", f"production.server=http://127.0.0.1:{self.server_port}")
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def say(self, line: str) -> Answer:
        answer = self.desk.call(*line.split())
        assert answer.code == 0, f"{line}: {answer.err}"
        return answer

    def decide(self) -> None:
        for name in ("ada", "ben", "router"):
            self.say(f"keys new --key {name}.pem")
        self.say("keys init ada --key ada.pem")
        self.say("keys enrol ben ben.pem.pub --key ada.pem")
        self.say("keys enrol router router.pem.pub --role service --key ada.pem")
        for number in (1, 2):
            self.say(f"request credit-risk/{number} --key ben.pem")
            self.say(f"approve credit-risk/{number} --key ada.pem")

    def start(self, name: str) -> None:
        words = {
            "serve": f"--rest-port {self.server_port} --grpc-port 0 --poll 0.2",
            "route": f"--key router.pem --backend http://127.0.0.1:{self.server_port} --port {self.router_port} --grpc-port 0",
        }[name]
        log = (self.desk.folder / f"{name}.log").open("ab")
        with log:
            process = subprocess.Popen(
                self.desk.command(name, *words.split()),
                cwd=self.desk.folder, env=self.desk.environment(), stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
            )  # fmt: skip
        self.processes[name] = process
        assert process.stdout is not None
        assert "Ctrl-C ends it" in process.stdout.readline()

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def promote(self, number: int) -> "subprocess.Popen[str]":
        return self.desk.start("promote", f"credit-risk/{number}", "--key", "ben.pem", *self.settings)

    def promoted(self, number: int) -> None:
        answer = self.desk.wait(self.promote(number))
        assert answer.code == 0, answer.err

    def killed_behind(self, number: int, stage: str) -> None:
        """A promotion that is killed when this stage said that it is complete."""
        process = self.promote(number)
        assert process.stderr is not None
        for line in process.stderr:
            if re.search(rf"\b{stage}\s+(complete|cached)\b", line):
                break
        else:
            raise AssertionError(f"{stage} was never complete")
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def traffic(self) -> dict[str, object]:
        found: dict[str, object] = self.say("rollout credit-risk --json").json()["traffic"]
        return found

    def kinds(self) -> list[str]:
        return [entry["kind"] for entry in self.say("ledger credit-risk --json").json()["entries"]]

    def ask(self) -> tuple[int, str]:
        """Status and version of one answer through the router."""
        connection = http.client.HTTPConnection("127.0.0.1", self.router_port, timeout=60)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/models/credit-risk:predict", BODY)
            answer = connection.getresponse()
            answer.read()
            return answer.status, answer.getheader("x-tandem-version", "")


@pytest.fixture(scope="module")
def house(credit: tuple[Desk, Answer]) -> Iterator[House]:
    made = House(credit[0])
    made.decide()
    made.start("serve")
    made.promoted(1)
    made.start("route")
    yield made
    for name in list(made.processes):
        made.kill(name)


@contextlib.contextmanager
def asking(ask: Callable[[], tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Somebody asks all the time; what came."""
    answers: list[tuple[int, str]] = []
    ended = threading.Event()

    def go_on() -> None:
        while not ended.is_set():
            answers.append(ask())

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield answers
    finally:
        ended.set()
        thread.join()


def test_after_a_kill_at_any_boundary_the_champion_serves_and_the_next_start_ends_it(house: House) -> None:
    production = house.desk.folder / "serving" / "production" / "credit-risk"
    # Which framework's candidate became version 1 depends on which registrar was first.
    assert tree_digest(production / "1") == house.say("lineage credit-risk/1 --json").json()["model"]["digest"]
    with asking(house.ask) as answers:
        for place, stage in enumerate(STAGES):
            house.killed_behind(2, stage)
            split = house.traffic()
            assert split["champion"]["version"] == "1"  # type: ignore[index]
            assert (split["canary"] is not None) == (stage == "rollout-starter")
            assert {path.name for path in production.glob("[0-9]*")} == ({"1"} if place < STAGES.index("production-pusher") else {"1", "2"})
        house.promoted(2)
    assert len(answers) > 100
    assert {status for status, _ in answers} == {200}
    assert {version for _, version in answers} <= {"1", "2"}
    decided = ["request", "approve"]
    assert house.kinds() == [*decided, *decided, *["promote", "push", "rollout_step"] * 2]
    house.say("ledger --export ledger.jsonl --head head.json")
    assert house.say("verify ledger.jsonl --head head.json --json").json()["problem"] == ""


def test_router_and_model_server_that_were_killed_find_the_same_split(house: House) -> None:
    before = house.traffic()
    for name in ("route", "serve"):
        house.kill(name)
    house.start("serve")
    house.start("route")
    until(lambda: house.ask()[0] == 200)
    assert house.traffic() == before
    assert house.ask()[1] in ("1", "2")
    labels = {"champion": "1", "canary": "2"}
    for label, version in labels.items():
        connection = http.client.HTTPConnection("127.0.0.1", house.server_port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", f"/v1/models/credit-risk/labels/{label}")
            told = json.loads(connection.getresponse().read())["model_version_status"]
        assert [(entry["version"], entry["state"]) for entry in told] == [(version, "AVAILABLE")]
