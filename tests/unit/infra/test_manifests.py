"""The manifests: valid by Kubernetes' own schemas, strictly, and what they start is what the commands and the real server take."""

import argparse
import importlib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from tests.unit.infra.test_compose import FLAGS

BASE = Path(__file__).resolve().parents[3] / "infra" / "kubernetes" / "base"
VERSION = "1.33"


def resources():
    files = sorted(path for path in BASE.glob("*.yaml") if path.name != "kustomization.yaml")
    return [
        (f"{path.name}/{made['kind']}/{made['metadata']['name']}", made) for path in files for made in yaml.safe_load_all(path.read_text())
    ]


RESOURCES = dict(resources())


def container(name):
    spec = RESOURCES["serving.yaml/Deployment/tandem-serving"]["spec"]["template"]["spec"]
    return next(container for container in spec["containers"] if container["name"] == name)


@pytest.mark.parametrize("name", RESOURCES)
def test_it_is_valid(name):
    assert kubernetes_validate.validate(RESOURCES[name], VERSION, strict=True) == VERSION


def test_a_wrong_key_is_seen():
    broken = {**RESOURCES["storage.yaml/PersistentVolumeClaim/tandem-work"], "spce": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSION, strict=True)


def test_kustomize_takes_every_file():
    found = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    assert set(found["resources"]) == {path.name for path in BASE.glob("*.yaml")} - {"kustomization.yaml"}
    images = {image["name"] for image in found["images"]}
    assert images == {container(name)["image"] for name in ("model-server", "router")}


def test_the_model_server_gets_flags_that_it_has():
    given = dict(word.removeprefix("--").split("=", 1) for word in container("model-server")["args"])
    assert given.keys() == FLAGS


def test_the_router_gets_words_that_tandem_route_takes():
    name, *words = container("router")["args"]
    parser = argparse.ArgumentParser(exit_on_error=False)
    importlib.import_module(f"pipelines.commands.{name}").add_arguments(parser)
    given = parser.parse_args(words)
    ports = {port["containerPort"] for port in container("router")["ports"]}
    assert ports == {given.port, given.grpc_port}
    assert given.backend.endswith(f":{container('model-server')['ports'][1]['containerPort']}")


@pytest.mark.parametrize("name", ["model-server", "router"])
def test_it_runs_without_privileges_and_within_limits(name):
    found = container(name)
    assert found["securityContext"]["allowPrivilegeEscalation"] is False
    assert found["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert set(found["resources"]) == {"requests", "limits"}
    spec = RESOURCES["serving.yaml/Deployment/tandem-serving"]["spec"]["template"]["spec"]
    assert (spec["securityContext"]["runAsNonRoot"], spec["automountServiceAccountToken"]) == (True, False)


def test_secrets_are_named_and_never_written():
    for name, made in RESOURCES.items():
        assert made["kind"] != "Secret", name
    assert [variable["valueFrom"]["secretKeyRef"]["name"] for variable in container("router")["env"]] == ["tandem-stores"]


def test_services_and_policy_name_ports_that_are_there():
    ports = {port["name"] for name in ("model-server", "router") for port in container(name)["ports"]}
    for service in ("tandem-router", "tandem-model-server"):
        assert {port["targetPort"] for port in RESOURCES[f"serving.yaml/Service/{service}"]["spec"]["ports"]} <= ports
    rules = RESOURCES["network.yaml/NetworkPolicy/tandem-serving"]["spec"]["ingress"]
    assert {port["port"] for rule in rules for port in rule["ports"]} == ports
