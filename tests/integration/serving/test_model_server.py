"""A server's life: hot load and unload, faults of models and of configuration, kill, and an orderly end."""

import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.integration.serving.served import COMMAND, ROOT, Running, free_port, running, until, write_warmup

PORTS = ("--grpc-port", "0", "--rest-port", "0", "--poll", "0.05")
BODY = {"signature_name": "double", "instances": [1.0]}


def answer(server, path="/v1/models/m"):
    return server.rest(f"{path}:predict", BODY)[:2]


def state(server, version):
    status, body, _ = server.rest(f"/v1/models/m/versions/{version}")
    return body["model_version_status"][0]["state"] if status == 200 else None


def bring(models, folder, version):
    """Copies a version into place as the pusher does: under another name, then renamed."""
    shutil.copytree(models / "m" / str(version), folder / "m" / ".incoming")
    (folder / "m" / ".incoming").rename(folder / "m" / str(version))


class Load:
    """Asks without a pause from several threads, until it is stopped; keeps every answer."""

    def __init__(self, server, threads=4):
        self.answers, self.stopping = [], False
        self._port = server.rest_port
        self._threads = [threading.Thread(target=self._ask) for _ in range(threads)]

    def _ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        body = json.dumps(BODY)
        while not self.stopping:
            connection.request("POST", "/v1/models/m:predict", body)
            response = connection.getresponse()
            self.answers.append((response.status, json.loads(response.read())))
        connection.close()

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *stopped):
        self.stopping = True
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("batching", [(), ("--batching",)])
def test_a_new_version_comes_and_the_old_one_goes_without_a_lost_request(own_models, models, batching):
    with running("serve", "--model", f"m={own_models}/m", *PORTS, *batching, cwd=own_models, ready="/readyz") as server:
        with Load(server) as load:
            until(lambda: len(load.answers) > 50)
            bring(models, own_models, 2)
            until(lambda: state(server, 1) == "END")
            count = len(load.answers)
            until(lambda: len(load.answers) > count + 50)
        assert {status for status, _ in load.answers} == {200}
        values = [body["predictions"][0] for _, body in load.answers]
        assert set(values) == {1.0, 2.0}
        assert set(values[-20:]) == {2.0}


def test_a_version_that_fails_to_load_takes_no_traffic_and_says_why(own_models, models):
    with running("serve", "--model", f"m={own_models}/m", *PORTS, cwd=own_models, ready="/readyz") as server:
        (own_models / "m" / "2").mkdir()
        (own_models / "m" / "2" / "saved_model.pb").write_bytes(b"no graph")
        until(lambda: state(server, 2) == "END")
        entry = server.rest("/v1/models/m/versions/2")[1]["model_version_status"][0]["status"]
        assert entry["error_code"] != "OK"
        assert "2" in entry["error_message"]
        assert answer(server) == (200, {"predictions": [1.0]})
        assert answer(server, "/v1/models/m/versions/2")[0] == 404
        shutil.rmtree(own_models / "m" / "2")
        bring(models, own_models, 2)
        until(lambda: answer(server) == (200, {"predictions": [2.0]}))


def test_a_failing_warm_up_fails_the_load(own_models, models):
    shutil.copytree(models / "m" / "2", own_models / "incoming")
    write_warmup(own_models / "incoming", [[-1.0]], signature="checked")
    with running("serve", "--model", f"m={own_models}/m", *PORTS, cwd=own_models, ready="/readyz") as server:
        (own_models / "incoming").rename(own_models / "m" / "2")
        until(lambda: state(server, 2) == "END")
        assert "x is negative" in server.rest("/v1/models/m/versions/2")[1]["model_version_status"][0]["status"]["error_message"]
        assert answer(server) == (200, {"predictions": [1.0]})


def test_half_copied_and_foreign_folders_are_no_versions(own_models, models):
    with running("serve", "--model", f"m={own_models}/m", *PORTS, cwd=own_models, ready="/readyz") as server:
        for name in ("3", ".4", "05", "x"):
            (own_models / "m" / name).mkdir()
        (own_models / "m" / "3" / "variables").mkdir()
        shutil.copytree(models / "m" / "2", own_models / "m" / "05", dirs_exist_ok=True)
        time.sleep(0.5)
        assert [entry["version"] for entry in server.rest("/v1/models/m")[1]["model_version_status"]] == ["1"]


def test_a_version_that_was_not_whole_is_loaded_when_it_is(own_models, models):
    """What a plain copy does: saved_model.pb is there before the variables."""
    with running("serve", "--model", f"m={own_models}/m", *PORTS, cwd=own_models, ready="/readyz") as server:
        (own_models / "m" / "2").mkdir()
        shutil.copy(models / "m" / "2" / "saved_model.pb", own_models / "m" / "2")
        until(lambda: state(server, 2) == "END")
        assert answer(server) == (200, {"predictions": [1.0]})
        shutil.copytree(models / "m" / "2" / "variables", own_models / "m" / "2" / "variables")
        until(lambda: answer(server) == (200, {"predictions": [2.0]}))


def test_models_config_may_come_later_and_is_followed(models, tmp_path):
    config = tmp_path / "serving" / "production" / "models.config"
    with running("serve", *PORTS, cwd=tmp_path) as server:
        assert answer(server)[0] == 404

        def write(*versions, label=None):
            labels = f'version_labels {{ key: "champion" value: {label} }}' if label else ""
            wanted = " ".join(f"versions: {version}" for version in versions)
            config.parent.mkdir(parents=True, exist_ok=True)
            config.with_suffix(".new").write_text(
                f'model_config_list {{ config {{ name: "m" base_path: "{models}/m" model_version_policy {{ specific {{ {wanted} }} }} '
                f"{labels} }} }}"
            )
            config.with_suffix(".new").rename(config)

        write(1)
        until(lambda: answer(server) == (200, {"predictions": [1.0]}))
        write(1, 2, label=9)
        until(lambda: state(server, 2) == "AVAILABLE")
        assert server.rest("/v1/models/m/labels/champion:predict", BODY)[:2] == (
            400, {"error": "Unrecognized servable version label: champion"},
        )  # fmt: skip
        write(1, 2, label=1)
        until(lambda: state(server, 2) == "AVAILABLE")
        until(lambda: answer(server, "/v1/models/m/labels/champion") == (200, {"predictions": [1.0]}))
        config.write_text("model_config_list { nonsense }")
        time.sleep(0.4)
        assert answer(server, "/v1/models/m/versions/1")[0] == 200
        write(2)
        until(lambda: state(server, 1) == "END")
        assert answer(server) == (200, {"predictions": [2.0]})


def test_the_last_version_that_answers_stays_when_its_successor_is_broken(own_models):
    with running("serve", "--model", f"m={own_models}/m", *PORTS, cwd=own_models, ready="/readyz") as server:
        shutil.rmtree(own_models / "m" / "1")
        time.sleep(0.4)
        assert answer(server) == (200, {"predictions": [1.0]})


SLOW = {"signature_name": "slow", "instances": [float(2**18)]}


def slowly(server):
    """A request that takes seconds, asked in a thread; the answer comes into the list."""
    found = []
    thread = threading.Thread(target=lambda: found.append(server.rest("/v1/models/m:predict", SLOW)[:2]))
    thread.start()
    time.sleep(0.3)
    return thread, found


def test_a_version_goes_when_its_last_request_is_answered(own_models, models):
    with running("serve", "--model", f"m={own_models}/m", *PORTS, cwd=own_models, ready="/readyz") as server:
        thread, found = slowly(server)
        bring(models, own_models, 2)
        until(lambda: answer(server) == (200, {"predictions": [2.0]}))
        thread.join()
        assert found == [(200, {"predictions": [float(2**18)]})]
        until(lambda: state(server, 1) == "END")


@pytest.mark.parametrize(("drain", "answered"), [("60", True), ("0.2", False)])
def test_the_end_waits_for_what_runs_but_not_longer_than_told(own_models, drain, answered):
    with running("serve", "--model", f"m={own_models}/m", *PORTS, "--drain", drain, cwd=own_models, ready="/readyz") as server:
        body = {**SLOW, "instances": [float(2**18 if answered else 2**24)]}
        found = []

        def ask():
            try:
                found.append(server.rest("/v1/models/m:predict", body)[0])
            except OSError as error:
                found.append(type(error))

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.5)
        assert server.stop(timeout_s=90) == 0
        thread.join()
        assert (found == [200]) == answered


def test_sigterm_answers_what_runs_and_ends_well(own_models):
    with running("serve", "--model", f"m={own_models}/m", *PORTS, cwd=own_models, ready="/readyz") as server, Load(server) as load:
        until(lambda: len(load.answers) > 50)
        load.stopping = True
        assert server.stop() == 0
        assert {status for status, _ in load.answers} == {200}


def test_who_is_told_that_it_is_ready_can_ask_at_once(own_models):
    """The ports are announced when what lay there is loaded, with the models by name."""
    words = [sys.executable, "-c", COMMAND, "serve", "--model", f"m={own_models}/m", *PORTS, "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(words, cwd=own_models, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        said = b""
        while not said.rstrip().endswith(b"}"):
            said += process.stdout.readline()
        told = json.loads(said)
        server = Running(process, told["grpc_port"], told["rest_port"])
        assert (told["schema_version"], told["models"], told["config"]) == (1, ["m"], None)
        assert server.rest("/readyz")[:2] == (200, {"status": "ok"})
        assert server.rest("/healthz")[:2] == (200, {"status": "ok"})
        assert answer(server) == (200, {"predictions": [1.0]})
        assert server.stop() == 0


def test_a_server_whose_model_does_not_load_lives_and_is_not_ready(own_models):
    (own_models / "m" / "1" / "saved_model.pb").write_bytes(b"no graph")
    with running("serve", "--model", f"m={own_models}/m", *PORTS, cwd=own_models) as server:
        assert server.rest("/readyz")[:2] == (503, {"status": "not ready"})
        assert answer(server) == (404, {"error": "Servable not found for request: Latest(m)"})


def test_a_hang_up_signal_looks_at_once(own_models, models):
    with running("serve", "--model", f"m={own_models}/m", *PORTS[:4], "--poll", "3600", cwd=own_models, ready="/readyz") as server:
        bring(models, own_models, 2)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: state(server, 2) == "AVAILABLE")
        assert answer(server) == (200, {"predictions": [2.0]})


def test_after_a_kill_the_same_command_serves_again(own_models):
    port = str(free_port())
    words = ("serve", "--model", f"m={own_models}/m", "--grpc-port", "0", "--rest-port", port, "--poll", "0.05")
    with running(*words, cwd=own_models, ready="/readyz") as server:
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    with running(*words, cwd=own_models, ready="/readyz") as server:
        assert answer(server) == (200, {"predictions": [1.0]})


def test_limits_are_told(own_models):
    words = ("--max-body-mb", "1", "--max-rows", "3")
    with running("serve", "--model", f"m={own_models}/m", *PORTS, *words, cwd=own_models, ready="/readyz") as server:
        status, body, _ = server.rest("/v1/models/m:predict", b'{"instances": [' + b"1," * 600_000 + b"1]}")
        assert status == 413
        assert "limit of this server" in body["error"]
        status, body, _ = server.rest("/v1/models/m:predict", {**BODY, "instances": [1.0] * 4})
        assert (status, body) == (400, {"error": "4 rows in one request, the limit of this server is 3"})
        deep = b'{"signature_name": "double", "instances": ' + b"[" * 200_000
        assert server.rest("/v1/models/m:predict", deep)[0] == 400
        deep = b'{"signature_name": "double", "inputs": ' + b"[" * 40 + b"]" * 40 + b"}"
        assert "nested deeper than 32" in server.rest("/v1/models/m:predict", deep)[1]["error"]
        assert answer(server)[0] == 200


def test_random_changes_of_a_body_never_end_the_server(own_models):
    """A valid body, changed at random: an answer or a refusal in JSON, never a fault of the server's own."""
    chance = random.Random(7)
    valid = [json.dumps(body).encode() for body in (
        {"signature_name": "raw", "instances": [{"x": 1.0, "name": "a"}, {"x": 2e3, "name": {"b64": "AAE="}}]},
        {"signature_name": "double", "inputs": [1.0, -2, 3.5]},
        {"signature_name": "regress", "context": {"x": 1.0}, "examples": [{}, {"x": [2.5]}]},
    )]  # fmt: skip
    pieces = [b"[", b"]", b"{", b"}", b",", b":", b"null", b"NaN", b"1e400", b"-", b'"', b"\\ud800", b"\xff", b"\x00", b"true", b"9" * 30]
    with running("serve", "--model", f"m={own_models}/m", *PORTS, "--batching", cwd=own_models, ready="/readyz") as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=30)
        codes = set()
        for _ in range(500):
            body = bytearray(chance.choice(valid))
            for _ in range(chance.randint(1, 4)):
                begin = chance.randrange(len(body))
                body[begin : begin + chance.randrange(4)] = chance.choice(pieces)
            connection.request("POST", f"/v1/models/m:{chance.choice(('predict', 'predict', 'regress', 'classify'))}", bytes(body))
            response = connection.getresponse()
            assert isinstance(json.loads(response.read()), dict)
            codes.add(response.status)
        connection.close()
        assert codes == {200, 400}
        assert answer(server) == (200, {"predictions": [1.0]})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "m"), "not of the form NAME=BASE_PATH"),
        (("--model", "m=none"), "is no folder"),
        (("--config", "none.config"), "no such file"),
        (("--config", "wrong.config"), "no ModelServerConfig"),
        (("--rest-port", "70000"), "allowed are 1 to 65535"),
        (("--batching-parameters", "none.txt"), "cannot be read"),
        (("--poll", "0"), "above 0"),
    ],
)
def test_wrong_words_are_one_line_and_exit_code_2(tmp_path, words, said):
    (tmp_path / "wrong.config").write_text("model_config_list {")
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "serve", *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.startswith("tandem: ")]
    assert (done.returncode, len(lines)) == (2, 1)
    assert said in lines[0]
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_told(own_models):
    with running("serve", "--model", f"m={own_models}/m", *PORTS, cwd=own_models, ready="/readyz") as server:
        words = ("--model", f"m={own_models}/m", "--grpc-port", "0", "--rest-port", str(server.rest_port))
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, "serve", *words],
            cwd=own_models, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 2
        assert f"port {server.rest_port}" in done.stderr
