"""compose.yaml: what it starts is what the commands and the real server take. The engine itself is not needed for that."""

import argparse
import importlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from infra.serving.router.server import METRICS_PATH

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "infra" / "compose.yaml"
# tensorflow_serving/model_servers/main.cc
FLAGS = {
    "port",
    "rest_api_port",
    "model_config_file",
    "model_config_file_poll_wait_seconds",
    "allow_version_labels_for_unavailable_models",
    "monitoring_config_file",
}


@pytest.fixture(scope="module")
def composed():
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def test_the_model_server_gets_flags_that_it_has(composed):
    words = composed["services"]["model-server"]["command"]
    given = dict(word.removeprefix("--").split("=", 1) for word in words)
    assert given.keys() == FLAGS
    assert given["model_config_file"] == "models.config"
    assert composed["services"]["model-server"]["working_dir"].endswith("/serving/production")


def test_it_waits_for_the_first_promotion_and_then_hands_its_flags_on(composed, tmp_path):
    """The shell of the entrypoint, with a command of that name that says what it was given."""
    said = tmp_path / "bin" / "tensorflow_model_server"
    said.parent.mkdir()
    said.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    said.chmod(0o755)
    service = composed["services"]["model-server"]
    words = [word.replace("$$", "$") for word in (*service["entrypoint"], *service["command"])]
    process = subprocess.Popen(words, cwd=tmp_path, env={"PATH": f"{said.parent}:/usr/bin:/bin"}, stdout=subprocess.PIPE, text=True)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        (tmp_path / "models.config").write_text("")
        out, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    assert out.splitlines() == service["command"]


def test_the_router_gets_words_that_tandem_route_takes(composed):
    name, *words = composed["services"]["router"]["command"]
    command = importlib.import_module(f"pipelines.commands.{name}")
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_arguments(parser)
    given = parser.parse_args(words)
    assert (given.host, given.backend, given.grpc_backend) == ("0.0.0.0", "http://127.0.0.1:8501", "127.0.0.1:8500")
    assert composed["services"]["router"]["network_mode"] == "service:model-server"
    published = {port.rpartition(":")[2] for port in composed["services"]["model-server"]["ports"]}
    assert published == {"8500", "8501", str(given.port), str(given.grpc_port)}


def test_nothing_but_the_router_may_be_reached_from_elsewhere(composed):
    ports = composed["services"]["model-server"]["ports"]
    assert [port for port in ports if not re.match(r"127\.0\.0\.1:|\$\{ROUTER_ADDRESS:-127\.0\.0\.1\}:860[01]:", port)] == []


def test_the_monitoring_configuration_is_the_servers(composed):
    """MonitoringConfig of tensorflow_serving/config/monitoring_config.proto, which the Python package leaves out."""
    content = composed["configs"]["monitoring"]["content"]
    assert re.fullmatch(r'prometheus_config \{ enable: true path: "(/[a-z/]+)" \}\s*', content)[1] == METRICS_PATH


def test_folders_have_the_same_path_inside_and_outside(composed):
    for service in composed["services"].values():
        for volume in service["volumes"]:
            outside, inside = volume.split(":")[:2]
            assert outside == inside


def test_docker_compose_reads_it(tmp_path):
    if shutil.which("docker") is None or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("`docker compose` is not there; the package docker-compose of Debian 13, or Docker's own, brings it")
    (tmp_path / "router.pem").write_text("")
    words = ("docker", "compose", "-f", FILE, "--project-directory", tmp_path, "config", "--quiet")
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
