"""What a router does to requests on the way, and how it lives through a backend that fails, restarts, or closes connections."""

import contextlib
import gzip
import http.client
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
from concurrent import futures

import grpc
import pytest

from components.core.ledger import Draft
from components.core.rollout import Guards, RolloutRule, bucket
from components.core.signing import PrivateKey, PublicKey, PublicKeys
from tests.integration.serving.backend import _Generic, backend, predict_response
from tests.integration.serving.served import COMMAND, ROOT, free_port, until
from tests.integration.serving.test_router import BODY, MODEL, PREDICT, Place, ask, version

MESSAGE = b"\x0a\x0d\x0a\x0bcredit-risk"
PREDICT_RPC = "/tensorflow.serving.PredictionService/Predict"
FAST = Guards(window_s=30, min_requests=20, max_error_share=0.05, max_p99_ms=150, max_score_shift=0.3)


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


def raw(port, request):
    """The answer to these bytes, up to 64 KiB of it."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request)
        return connection.recv(65_536)


def post(headers, body):
    head = b"".join(b"%s: %s\r\n" % pair for pair in headers)
    return b"POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s" % (PREDICT.encode(), head, len(body), body)


@contextlib.contextmanager
def recording_backend(answers):
    """An HTTP server that sends `answers` in turn, the last again and again; yields (port, requests as bytes)."""
    requests = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            while True:
                data = b""
                while b"\r\n\r\n" not in data:
                    more = self.request.recv(65_536)
                    if not more:
                        return
                    data += more
                head, _, body = data.partition(b"\r\n\r\n")
                size = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
                while len(body) < size:
                    body += self.request.recv(65_536)
                requests.append(head + b"\r\n\r\n" + body)
                answer = answers.pop(0) if len(answers) > 1 else answers[0]
                if answer is None:
                    return  # the connection is closed under the request
                self.request.sendall(answer)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = allow_reuse_address = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], requests
        server.shutdown()


GOOD = json.dumps({"predictions": [[0.6, 0.4]]}).encode()
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Served-By: it\r\nContent-Length: %d\r\n\r\n%s" % (len(GOOD), GOOD)


def test_headers_and_bodies_on_the_way(halfway):
    body = json.dumps(BODY).encode()
    with recording_backend([PLAIN]) as (port, requests), halfway.router("--backend", f"http://127.0.0.1:{port}") as router:
        requests.clear()
        sent = [
            (b"X-Tandem-Key", b"\xff\xfe"), (b"Content-Encoding", b"gzip"), (b"Accept-Encoding", b"gzip"), (b"X-Trace", b"a"),
            (b"X-Trace", b"b"), (b"Connection", b"x-hop, keep-alive"), (b"X-Hop", b"1"), (b"Expect", b"100-continue"),
        ]  # fmt: skip
        with socket.create_connection(("127.0.0.1", router.rest_port), timeout=20) as connection:
            connection.sendall(post(sent, gzip.compress(body)))
            answer = b""
            while GOOD not in answer:
                answer += connection.recv(65_536)
        (request,) = requests
        head, _, forwarded = request.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        served = "2" if bucket(MODEL, b"\xff\xfe") < 500 else "1"
        assert lines[0] == f"post /v1/models/{MODEL}/versions/{served}:predict http/1.1".encode()
        assert forwarded == body
        assert [line for line in lines if line.startswith(b"x-trace")] == [b"x-trace: a", b"x-trace: b"]
        assert b"accept-encoding: identity" in lines
        assert not [line for line in lines if line.startswith((b"content-encoding", b"x-hop", b"expect"))]
        assert b"X-Served-By: it" in answer
        assert f"x-tandem-version: {served}".encode() in answer.lower()


def test_requests_that_are_no_good_are_told_and_hurt_nobody(halfway):
    with halfway.router("--max-body-mb", "1") as router:
        port = router.rest_port
        assert raw(port, post([], b"x" * (1024 * 1024 + 1))).startswith(b"HTTP/1.1 413")
        assert raw(port, post([(b"Content-Encoding", b"gzip")], b"no gzip")).startswith(b"HTTP/1.1 400")
        bomb = gzip.compress(b"0" * 20_000_000)
        assert raw(port, post([(b"Content-Encoding", b"gzip")], bomb)).startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))
        assert raw(port, b"GET http://127.0.0.1:1/x HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 400")
        assert raw(port, b"GET @127.0.0.1:1/ HTTP/1.1\r\nHost: x\r\n\r\n")[9:12] == b"400"
        assert raw(port, b"nonsense\r\n\r\n")[9:12] == b"400"
        assert halfway.backend.versions() == []
        assert ask(router, "user-1")[0] == 200


def test_a_connection_that_is_closed_under_a_request_is_no_fault_of_a_version(halfway):
    """A server that ends an idle connection just then has not said anything about the version."""
    with recording_backend([PLAIN, None, PLAIN]) as (port, requests), halfway.router("--backend", f"http://127.0.0.1:{port}") as router:
        assert [ask(router, f"user-{number}")[0] for number in range(5)] == [200] * 5
        metrics = router.rest("/monitoring/prometheus/metrics")[1]
    assert 'status="503"' not in metrics
    assert len(requests) >= 6


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ({"status": 500}, "errors: 100.00%"),
        ({"delay_s": 0.25}, "p99: "),
        ({"scores": [[0.01, 0.99]]}, "score shift: "),
        ({"scores": [[float("nan"), 0.4]]}, "nan: "),
    ],
)
def test_each_guard_rolls_back_over_grpc_and_clients_see_no_error(place, behaviour, words):
    place.begin("1", 100)
    place.begin("2", 50, RolloutRule(steps=(50, 100), step_s=86_400, guards=FAST))
    place.backend.behaviour["2"] = behaviour
    with place.router() as router, grpc.insecure_channel(f"127.0.0.1:{router.grpc_port}") as channel:
        call = channel.unary_unary(PREDICT_RPC)
        for number in range(2000):
            call(MESSAGE, metadata=(("x-tandem-key", f"user-{number}"),), timeout=20)
            if number % 10 == 0 and place.split().canary is None:
                break
        assert place.book.entries()[-1].statement.reason.startswith(words)
        assert place.split().labels == {"champion": "1"}

        def last():
            return dict(call.with_call(MESSAGE, metadata=(("x-tandem-key", "user-1"),))[1].trailing_metadata())

        until(lambda: last() == {"x-tandem-version": "1", "x-tandem-role": "champion"})


def test_malformed_grpc_and_callers_metadata(halfway):
    seen = []

    class Recording(_Generic):
        def service(self, details):
            seen.append(dict(details.invocation_metadata))
            return super().service(details)

    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Recording(halfway.backend)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with halfway.router("--grpc-backend", f"127.0.0.1:{port}") as router, grpc.insecure_channel(f"127.0.0.1:{router.grpc_port}") as channel:
        for path in ("Predict", "Classify", "Regress", "MultiInference", "GetModelMetadata"):
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(f"/tensorflow.serving.PredictionService/{path}")(b"\x0a\xff\xff\xff\xff\x0f")
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/tensorflow.serving.SessionService/SessionRun")(b"")
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert channel.unary_unary(PREDICT_RPC)(MESSAGE, metadata=(("x-trace", "7"),)) == predict_response([[0.6, 0.4]])
    server.stop(0).wait()
    assert seen[-1]["x-trace"] == "7"


def test_a_backend_that_comes_back_is_asked_again_soon(halfway):
    """gRPC's own waits grow to two minutes."""
    port = free_port()
    with halfway.router("--grpc-backend", f"127.0.0.1:{port}") as router, grpc.insecure_channel(f"127.0.0.1:{router.grpc_port}") as channel:
        call = channel.unary_unary(PREDICT_RPC)
        ended = time.monotonic() + 6
        while time.monotonic() < ended:
            with pytest.raises(grpc.RpcError) as caught:
                call(MESSAGE, timeout=5)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            time.sleep(0.2)
        server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[_Generic(halfway.backend)])
        server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()
        began = time.monotonic()

        def answers():
            try:
                return bool(call(MESSAGE, timeout=5))
            except grpc.RpcError:
                return False

        until(answers)
        assert time.monotonic() - began < 4
        server.stop(0).wait()


def test_a_grpc_call_that_runs_is_answered_at_the_end(halfway):
    halfway.backend.behaviour["1"] = halfway.backend.behaviour["2"] = {"delay_s": 1.0}
    with halfway.router() as router, grpc.insecure_channel(f"127.0.0.1:{router.grpc_port}") as channel:
        running = channel.unary_unary(PREDICT_RPC).future(MESSAGE, timeout=20)
        until(lambda: halfway.backend.versions("grpc"))
        assert router.stop() == 0
        assert running.result() == predict_response([[0.6, 0.4]])


def test_an_approver_who_is_enrolled_later_does_not_stop_the_router(place):
    """The guards must work on: version 2 fails after the entry of a key that the router did not know when it started."""
    place.begin("1", 100)
    place.begin("2", 50, RolloutRule(steps=(50, 100), step_s=86_400, guards=FAST))
    with place.router() as router:
        ben, op = PrivateKey.generate(), PrivateKey.read(place.folder / "op.pem")
        file = place.folder / ".tandem" / "public_keys.json"
        made = PublicKey(
            public=ben.public, owner="ben", role="person", enrolled_by=op.key_id, enrolled_at="2026-01-02T00:00:00.000000+00:00"
        )
        PublicKeys.read(file).with_key(made.signed_by(op)).write(file)
        place.book.store.append(Draft(kind="request", subject=version("3").subject, actor="ben", known_by="personal_key"), ben)
        time.sleep(1.2)
        assert router.rest("/healthz")[1] == {"status": "ok", "ledger": "holds", "held": {}}
        place.backend.behaviour["2"] = {"scores": [[float("nan"), 0.4]]}
        for number in range(200):
            ask(router, f"user-{number}")
        place.book.keys = PublicKeys.read(file)
        until(lambda: place.split().canary is None, timeout_s=5)


def test_the_champion_serves_when_a_guard_complains_and_the_ledger_does_not_hold(place):
    place.begin("1", 100)
    place.begin("2", 50, RolloutRule(steps=(50, 100), step_s=86_400, guards=FAST))
    with place.router() as router:
        place.book.store.append(
            Draft(kind="request", subject=version("3").subject, actor="x", known_by="personal_key"), PrivateKey.generate()
        )
        until(lambda: "does not hold" in router.rest("/healthz")[1]["ledger"])
        assert {ask(router, f"user-{number}")[2] for number in range(60)} == {"1", "2"}
        place.backend.behaviour["2"] = {"scores": [[float("nan"), 0.4]]}
        for number in range(20):
            ask(router, f"user-{number}")
        until(lambda: router.rest("/healthz")[1]["held"], timeout_s=2)
        assert {ask(router, f"user-{number}")[2] for number in range(60)} == {"1"}
        assert router.rest("/tandem/rollout")[1]["models"][MODEL]["held"].startswith("nan: ")


@pytest.mark.parametrize("behaviour", [{"status": 500}, {"scores": [[float("nan"), 0.4]]}])
@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_what_the_champion_cannot_answer_either_rolls_nothing_back(place, protocol, behaviour):
    """A server in trouble, or requests that no model has an answer to."""
    place.begin("1", 100)
    place.begin("2", 50, RolloutRule(steps=(50, 100), step_s=86_400, guards=FAST))
    place.backend.behaviour["1"] = place.backend.behaviour["2"] = behaviour
    with place.router() as router, grpc.insecure_channel(f"127.0.0.1:{router.grpc_port}") as channel:
        call = channel.unary_unary(PREDICT_RPC)
        for number in range(80):
            if protocol == "rest":
                ask(router, f"user-{number}")
            else:
                with contextlib.suppress(grpc.RpcError):
                    call(MESSAGE, metadata=(("x-tandem-key", f"user-{number}"),))
        time.sleep(1.5)
        assert router.rest("/healthz")[1]["held"] == {}
        assert place.split().canary is not None
        assert place.backend.versions(protocol).count("2") > 20


def test_callers_who_wait_too_short_roll_nothing_back(place):
    place.begin("1", 100)
    place.begin("2", 50, RolloutRule(steps=(50, 100), step_s=86_400, guards=FAST))
    place.backend.behaviour["1"] = place.backend.behaviour["2"] = {"delay_s": 0.1}
    with place.router() as router, grpc.insecure_channel(f"127.0.0.1:{router.grpc_port}") as channel:
        call = channel.unary_unary(PREDICT_RPC)
        for number in range(60):
            with pytest.raises(grpc.RpcError) as caught:
                call(MESSAGE, metadata=(("x-tandem-key", f"user-{number}"),), timeout=0.03)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        time.sleep(1.5)
        assert router.rest("/healthz")[1]["held"] == {}
        assert place.split().canary is not None


@pytest.mark.parametrize("protocol", ["rest", "grpc"])
def test_shadow_answers_are_compared_and_reach_nobody(place, protocol):
    place.begin("1", 100)
    place.begin("2", 0, RolloutRule(shadow=True, step_s=86_400, guards=Guards(max_score_shift=1.0, max_p99_ratio=None)))
    place.backend.behaviour["2"] = {"scores": [[0.3, 0.7]], "delay_s": 0.05}
    with place.router() as router, grpc.insecure_channel(f"127.0.0.1:{router.grpc_port}") as channel:
        call = channel.unary_unary(PREDICT_RPC)
        for number in range(30):
            if protocol == "rest":
                assert ask(router, f"user-{number}")[1]["predictions"] == [{"scores": [0.6, 0.4]}]
            else:
                assert call(MESSAGE, metadata=(("x-tandem-key", f"user-{number}"),)) == predict_response([[0.6, 0.4]])
            time.sleep(0.01)

        def seen():
            return router.rest("/tandem/rollout")[1]["models"][MODEL]

        until(lambda: (seen()["comparison"] or {"rows": 0})["rows"] == 30)
        found = seen()
    assert found["comparison"]["mean_absolute_difference"] == pytest.approx(0.3, abs=1e-6)
    assert (found["comparison"]["label_agreement"], found["score_distance"], found["step_requests"]) == (0.0, 1.0, 30)


def test_taken_ports_and_missing_ledgers_are_one_line(halfway):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        cases = [
            (("--port", port), f"port {port} on 127.0.0.1 cannot be used"),
            (("--port", "0", "--grpc-port", port), f"port {port} on 127.0.0.1 cannot be used"),
            (("--ledger", "sqlite:///none.db"), "there is no ledger at sqlite:///none.db"),
            (("--backend", "http://127.0.0.1:99999"), "not of the form"),
            (("--grpc-backend", "127.0.0.1:99999"), "HOST:PORT"),
            (("--key-header", "x tandem"), "no name of a header"),
            (("--max-body-mb", "0"), "at least 1"),
        ]
        for words, said in cases:
            done = subprocess.run(
                [sys.executable, "-c", COMMAND, "route", "--key", "router.pem", *words],
                cwd=halfway.folder, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            told = [line for line in done.stderr.splitlines() if line.startswith("tandem: ")]
            assert (done.returncode, len(told), said in told[0], "Traceback" in done.stderr) == (2, 1, True, False), words
    assert not (halfway.folder / "none.db").exists()


def test_one_kept_connection_serves_many_requests(halfway):
    with halfway.router() as router:
        connection = http.client.HTTPConnection("127.0.0.1", router.rest_port)
        for number in range(50):
            connection.request("POST", PREDICT, json.dumps(BODY).encode(), {"x-tandem-key": f"user-{number}"})
            response = connection.getresponse()
            assert (response.status, json.loads(response.read())["predictions"]) == (200, [{"scores": [0.6, 0.4]}])
        connection.close()
