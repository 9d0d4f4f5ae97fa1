"""A real router process over a real ledger, in front of a server whose answers the test decides."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from components.core.ledger import Subject
from components.core.production_ledger import ProductionLedger
from components.core.promotion import LedgerSpec
from components.core.rollout import Guards, RolloutRule, ServedVersion, bucket
from components.core.signing import PrivateKey
from infra.serving.router.request_log import read_log
from tests.enrolled import enrolled
from tests.integration.serving.backend import backend
from tests.integration.serving.served import COMMAND, ROOT, running, until

MODEL = "credit-risk"
PREDICT = f"/v1/models/{MODEL}:predict"
BODY = {"instances": [{"x": 1.0}]}
STILL = RolloutRule(step_s=86_400)
"""A rollout that does not move on by itself."""


def version(number):
    subject = Subject(model=MODEL, version=number, model_digest=number * 64, dossier_digest="d" * 64)
    return ServedVersion(version=number, subject=subject)


class Place:
    """A folder with keys, a ledger, a backend, and routers over them."""

    def __init__(self, folder, server):
        self.folder, self.backend = folder, server
        (folder / ".tandem").mkdir()
        keys, people = enrolled({"op": "admin", "router": "service"})
        for name, key in keys.items():
            key.write(folder / f"{name}.pem")
        people.write(folder / ".tandem" / "public_keys.json")
        self.database = folder / ".tandem" / "ledger.db"
        self.book = ProductionLedger(
            LedgerSpec(
                url=f"sqlite:///{self.database}",
                public_keys=str(folder / ".tandem" / "public_keys.json"),
                private_key=str(folder / "op.pem"),
            )
        )

    def begin(self, number, share, rule=STILL):
        self.book.enter("promote", version(number))
        self.book.enter("push", version(number))
        self.book.enter("rollout_step", version(number), details={"share": str(share), "rollout": rule.to_json()})

    def router(self, *more):
        return running(
            "route", "--key", "router.pem", "--port", "0", "--grpc-port", "0", "--backend", f"http://127.0.0.1:{self.backend.rest_port}",
            "--grpc-backend", f"127.0.0.1:{self.backend.grpc_port}", *more, cwd=self.folder,
        )  # fmt: skip

    def split(self):
        return self.book.traffic(MODEL)

    def kinds(self):
        return [entry.statement.kind for entry in self.book.entries()]


@pytest.fixture
def place(tmp_path):
    with backend() as server:
        yield Place(tmp_path, server)


@pytest.fixture
def halfway(place):
    """Version 1 is champion, version 2 has 5 %."""
    place.begin("1", 100)
    place.begin("2", 5)
    return place


def ask(router, key, body=BODY):
    status, answer, headers = router.rest(PREDICT, body, headers={"x-tandem-key": key})
    return status, answer, headers.get("x-tandem-version"), headers.get("x-tandem-role")


def drive(router, count, *, until_rolled_back=None):
    """Asks with different keys until the canary is gone, at most `count` times; seconds until it was."""
    began = time.monotonic()
    for number in range(count):
        ask(router, f"user-{number}")
        if until_rolled_back is not None and number % 20 == 0 and until_rolled_back.split().canary is None:
            return time.monotonic() - began
    return None


def test_calls_split_as_the_hash_says(halfway):
    """Each one; tests/bench/router_overhead.py asks 10,000."""
    keys = [f"user-{number}" for number in range(2000)]
    with halfway.router() as router:
        import http.client

        def some(part):
            connection = http.client.HTTPConnection("127.0.0.1", router.rest_port)
            for key in part:
                connection.request("POST", PREDICT, json.dumps(BODY), {"x-tandem-key": key})
                response = connection.getresponse()
                response.read()
                yield key, response.status, response.headers["x-tandem-version"]
            connection.close()

        with ThreadPoolExecutor(4) as pool:
            found = [one for part in pool.map(lambda start: list(some(keys[start::4])), range(4)) for one in part]
    assert {status for _, status, _ in found} == {200}
    assert {key: number for key, _, number in found} == {key: "2" if bucket(MODEL, key.encode()) < 500 else "1" for key in keys}
    on_canary = sum(number == "2" for _, _, number in found)
    assert abs(on_canary - 100) <= 3 * (2000 * 0.05 * 0.95) ** 0.5


def test_equal_requests_without_a_key_stay_together(halfway):
    with halfway.router() as router:
        found = {}
        for number in range(200):
            body = {"instances": [{"x": float(number % 40)}]}
            found.setdefault(number % 40, set()).add(router.rest(PREDICT, body)[2]["x-tandem-version"])
    assert {len(versions) for versions in found.values()} == {1}


def test_grpc_is_split_in_the_same_way(halfway):
    message = b"\x0a\x0d\x0a\x0bcredit-risk"
    with halfway.router() as router, grpc.insecure_channel(f"127.0.0.1:{router.grpc_port}") as channel:
        call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        for number in range(300):
            key = f"user-{number}"
            _, said = call.with_call(message, metadata=(("x-tandem-key", key),))
            assert dict(said.trailing_metadata())["x-tandem-version"] == ("2" if bucket(MODEL, key.encode()) < 500 else "1")
        reload = channel.unary_unary("/tensorflow.serving.ModelService/HandleReloadConfigRequest")
        with pytest.raises(grpc.RpcError) as caught:
            reload(b"")
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        with pytest.raises(grpc.RpcError) as caught:
            call(b"\x0a\x05ab")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert set(halfway.backend.versions("grpc")) == {"1", "2"}


def test_what_names_a_version_and_unknown_models_pass_as_they_are(halfway):
    with halfway.router() as router:
        assert router.rest(f"/v1/models/{MODEL}/versions/7:predict", BODY)[0] == 200
        assert router.rest("/v1/models/unknown:predict", BODY)[0] == 200
        assert router.rest(f"/v1/models/{MODEL}")[0] == 200
    assert halfway.backend.versions() == ["7", None, None]


FAST = Guards(window_s=30, min_requests=20, max_error_share=0.05, max_p99_ms=150, max_score_shift=0.3)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ({"status": 500}, "errors: 100.00%"),
        ({"delay_s": 0.25}, "p99: "),
        ({"scores": [[0.01, 0.99]]}, "score shift: Kolmogorov-Smirnov distance 1.000"),
        ({"scores": [[float("nan"), 0.4]]}, "nan: "),
    ],
)
def test_each_guard_rolls_back_by_itself_and_clients_see_no_error(place, behaviour, words):
    place.begin("1", 100)
    place.begin("2", 50, RolloutRule(steps=(50, 100), step_s=86_400, guards=FAST))
    place.backend.behaviour["2"] = behaviour
    with place.router() as router:
        statuses = set()
        for number in range(2000):
            statuses.add(ask(router, f"user-{number}")[0])
            if number % 10 == 0 and place.split().canary is None:
                break
        found = place.split()
        assert (found.labels, statuses) == ({"champion": "1"}, {200})
        entry = place.book.entries()[-1].statement
        assert (entry.kind, entry.actor, entry.known_by) == ("rollback", "router", "service")
        assert entry.reason.startswith(words)
        until(lambda: ask(router, "user-1")[2] == "1")
        assert {ask(router, f"late-{number}")[2] for number in range(60)} == {"1"}


def test_a_rollback_comes_within_two_seconds_of_the_fault(place):
    place.begin("1", 100)
    place.begin("2", 50, RolloutRule(steps=(50, 100), step_s=86_400, guards=FAST))
    with place.router() as router:
        drive(router, 100)
        assert place.split().canary is not None
        place.backend.behaviour["2"] = {"scores": [[float("inf"), 0.0]]}
        seconds = drive(router, 5000, until_rolled_back=place)
    assert seconds is not None
    assert seconds < 2


def test_steps_come_when_time_and_requests_are_there(place):
    place.begin("1", 100)
    place.begin("2", 5, RolloutRule(steps=(5, 20, 100), step_s=1.0, step_requests=10, guards=Guards(min_requests=10, max_p99_ratio=None)))
    with place.router() as router:
        time.sleep(1.5)
        assert place.split().share == 5
        seen = []
        for number in range(20_000):
            ask(router, f"user-{number}")
            seen.append(place.split().share if number % 50 == 0 else seen[-1])
            if place.split().labels.get("champion") == "2":
                break
    assert place.split().labels == {"champion": "2", "previous": "1"}
    shares = [entry.statement.details["share"] for entry in place.book.entries() if entry.statement.kind == "rollout_step"]
    assert shares == ["100", "5", "20", "100"]


def test_the_backend_in_shadow_answers_nobody(place):
    place.begin("1", 100)
    place.begin("2", 0, RolloutRule(shadow=True, step_s=86_400, guards=Guards(max_score_shift=1.0)))
    place.backend.behaviour["2"] = {"scores": [[0.9, 0.1]]}
    with place.router() as router:
        for number in range(50):
            status, answer, served, _ = ask(router, f"user-{number}")
            assert (status, served, answer["predictions"][0]["scores"]) == (200, "1", [0.6, 0.4])
        until(lambda: place.backend.versions().count("2") == 50)
        until(lambda: 'role="shadow",status="200"} 50' in router.rest("/monitoring/prometheus/metrics")[1])


def test_a_killed_router_finds_the_same_split_again(halfway):
    keys = [f"user-{number}" for number in range(100)]
    with halfway.router() as router:
        before = [ask(router, key)[2] for key in keys]
        router.stop(signal.SIGKILL)
    with halfway.router() as router:
        assert [ask(router, key)[2] for key in keys] == before
        assert router.rest("/tandem/rollout")[1]["models"][MODEL]["labels"] == {"champion": "1", "canary": "2"}


def test_two_routers_enter_a_step_once(place):
    place.begin("1", 100)
    place.begin("2", 5, RolloutRule(steps=(5, 100), step_s=0.5, step_requests=5, guards=Guards(min_requests=5, max_p99_ratio=None)))
    with place.router() as first, place.router() as second:
        for number in range(4000):
            ask(first if number % 2 else second, f"user-{number}")
            if place.split().canary is None:
                break
        time.sleep(1.5)
    assert place.kinds().count("rollout_step") == 3


def test_a_changed_entry_changes_no_split(halfway):
    with halfway.router() as router:
        with contextlib.closing(sqlite3.connect(halfway.database)) as database, database:
            database.execute("DROP TRIGGER ledger_no_update")
            database.execute('UPDATE ledger_entries SET entry = replace(entry, \'"share":"5"\', \'"share":"100"\')')
        stranger = PrivateKey.generate()
        from components.core.ledger import Draft, make_entry

        forged = make_entry(
            Draft(kind="rollout_step", subject=version("2").subject, actor="router", known_by="service",
                  details={"production_version": "2", "share": "100"}),
            halfway.book.store.head(), stranger,
        )  # fmt: skip
        with contextlib.closing(sqlite3.connect(halfway.database)) as database, database:
            database.execute("INSERT INTO ledger_entries VALUES (?, ?, ?)", (7, forged.digest, forged.to_json()))
        until(lambda: "does not hold" in router.rest("/healthz")[1]["ledger"])
        served = [ask(router, f"user-{number}")[2] for number in range(300)]
        assert served == ["2" if bucket(MODEL, f"user-{number}".encode()) < 500 else "1" for number in range(300)]


def test_logged_requests_come_back_as_they_were(halfway):
    with halfway.router("--log-dir", "log", "--log-share", "1") as router:
        for number in range(40):
            ask(router, f"user-{number}", {"instances": [{"x": float(number)}]})
        assert router.stop() == 0
    logged = list(read_log(halfway.folder / "log", MODEL))
    assert sorted(json.loads(one.request)["instances"][0]["x"] for one in logged) == [float(number) for number in range(40)]
    assert {(one.protocol, one.status, str(one.scores)) for one in logged} == {("rest", "200", "[[0.6, 0.4]]")}
    assert b"user-1" not in b"".join(path.read_bytes() for path in (halfway.folder / "log").rglob("*.parquet"))


def test_a_request_that_runs_is_answered_at_the_end(halfway):
    halfway.backend.behaviour["1"] = halfway.backend.behaviour["2"] = {"delay_s": 1.0}
    with halfway.router() as router:
        found = []
        thread = threading.Thread(target=lambda: found.append(ask(router, "slow")[0]))
        thread.start()
        time.sleep(0.4)
        assert router.stop() == 0
        thread.join()
    assert found == [200]


def test_nobody_behind_the_router(halfway):
    with halfway.router("--backend", "http://127.0.0.1:9") as router:
        status, answer, _ = router.rest(PREDICT, BODY)
        assert (status, set(answer)) == (503, {"error"})
        assert router.rest("/readyz")[0] == 503


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--key", "none.pem"), "private key cannot be read"),
        (("--key", "op.pem"), "by a service's key"),
        (("--key", "router.pem", "--keys", "none.json"), "none.json"),
        (("--key", "router.pem", "--backend", "localhost"), "not of the form"),
        (("--key", "router.pem", "--grpc-backend", "x"), "HOST:PORT"),
        (("--key", "router.pem", "--port", "-1"), "allowed are 1 to 65535"),
        (("--key", "router.pem", "--log-share", "0.5"), "together with --log-dir"),
        (("--key", "router.pem", "--home", "nowhere"), "no such folder"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_2(halfway, words, said):
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "route", *words],
        cwd=halfway.folder, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr
