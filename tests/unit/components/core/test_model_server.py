"""models.config as TensorFlow Serving's own parser reads it, and a model server's answers."""

import contextlib
import http.server
import json
import threading

import pytest
from google.protobuf import text_format

from components.core.errors import ServingError
from components.core.ledger import Subject
from components.core.model_server import ModelServer, config_path, write_config
from components.core.rollout import ServedVersion, Traffic


def version(number):
    return ServedVersion(version=number, subject=Subject(model="m", version=number, model_digest="a" * 64, dossier_digest="b" * 64))


def read(path):
    from tensorflow_serving.config import model_server_config_pb2

    return text_format.Parse(path.read_text(), model_server_config_pb2.ModelServerConfig()).model_config_list.config


def test_versions_and_the_labels_of_those_that_are_loaded(tmp_path):
    split = Traffic(model="credit-risk", champion=version("3"), canary=version("10"), previous=version("2"), share=5)
    path = write_config([split], serving_root=str(tmp_path), available={"credit-risk": {"3", "2"}})
    assert path == config_path(str(tmp_path)) == tmp_path / "production" / "models.config"
    (entry,) = read(path)
    assert (entry.name, entry.base_path, entry.model_platform) == ("credit-risk", f"{tmp_path}/production/credit-risk", "tensorflow")
    assert list(entry.model_version_policy.specific.versions) == [2, 3, 10]
    assert dict(entry.version_labels) == {"champion": 3, "previous": 2}


def test_a_container_sees_the_folder_elsewhere_and_models_without_versions_are_left_out(tmp_path):
    splits = [Traffic(model="b", champion=version("1")), Traffic(model="a"), Traffic(model="a-1", champion=version("2"))]
    path = write_config(splits, serving_root=str(tmp_path), base_path="/models", available={})
    assert [(entry.name, entry.base_path) for entry in read(path)] == [("a-1", "/models/a-1"), ("b", "/models/b")]


@contextlib.contextmanager
def answering(answers):
    """A server that gives each path its (status, body) one after the other, the last for ever."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            left = answers[self.path]
            status, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        do_POST = do_GET

        def log_message(self, *arguments):
            del arguments

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield ModelServer(f"http://127.0.0.1:{server.server_port}/")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def status(*versions):
    return 200, {
        "model_version_status": [
            {"version": number, "state": state, "status": {"error_code": "OK", "error_message": message}}
            for number, state, message in versions
        ]
    }


def test_it_waits_until_a_version_is_available():
    answers = {"/v1/models/m": [(404, {"error": "no"}), status(("1", "LOADING", "")), status(("1", "AVAILABLE", ""), ("2", "END", ""))]}
    with answering(answers) as server:
        assert 0.15 <= server.await_available("m", "1", timeout_s=5) < 5
        assert server.available("m") == {"1"}


def test_a_failed_load_is_told_with_the_servers_words():
    with (
        answering({"/v1/models/m": [status(("1", "END", "no graph"))]}) as server,
        pytest.raises(ServingError, match="could not load m version 1: no graph"),
    ):
        server.await_available("m", "1", timeout_s=5)


def test_a_server_that_never_looks_is_told_with_the_remedy():
    with answering({"/v1/models/m": [(404, {})]}) as server, pytest.raises(ServingError, match="file_poll_wait"):
        server.await_available("m", "1", timeout_s=0.3)


def test_nobody_answers():
    with pytest.raises(ServingError, match=r"does not answer .*tandem serve"):
        ModelServer("http://127.0.0.1:9").states("m")


def test_a_refusal_carries_the_servers_words():
    answers = {"/v1/models/m/versions/4:predict": [(400, {"error": "no such input"})]}
    with answering(answers) as server, pytest.raises(ServingError, match=r"answers 400.*no such input"):
        server.predict("m", "4", {"inputs": {}})
