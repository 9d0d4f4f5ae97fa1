"""infra/Dockerfile: facts that can be read from it. No engine is here, so it is not built."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def instructions():
    """(instruction, rest) pairs, continuation lines joined."""
    text = (ROOT / "infra/Dockerfile").read_text().replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line and not line.startswith("#")]


def rest_of(instructions, name):
    return [rest for instruction, rest in instructions if instruction == name]


def test_the_base_is_debian_13_with_python_3_11_in_both_stages(instructions):
    assert "BASE=python:3.11-slim-trixie" in rest_of(instructions, "ARG")
    assert rest_of(instructions, "FROM") == ["${BASE} AS build", "${BASE}"]


def test_packages_come_from_the_lock_alone(instructions):
    installs = [part for rest in rest_of(instructions, "RUN") for part in rest.split("&&") if "pip install" in part]
    assert len(installs) == 3
    assert "/build/requirements.lock" in installs[0]
    assert "-r /build/requirements.lock" in installs[1]
    assert "--no-deps" in installs[2]
    assert "--no-index" in installs[2]
    assert not any(re.search(r"[<>=]=\d", install) for install in installs)


def test_it_runs_tandem_as_an_unprivileged_user(instructions):
    last_stage = instructions[max(i for i, (name, _) in enumerate(instructions) if name == "FROM") :]
    assert rest_of(last_stage, "USER") == ["tandem"]
    assert [name for name, _ in last_stage].index("USER") < [name for name, _ in last_stage].index("ENTRYPOINT")
    assert any("useradd --uid 10001" in rest for rest in rest_of(last_stage, "RUN"))
    assert rest_of(last_stage, "ENTRYPOINT") == ['["tandem"]']


def test_it_names_no_host(instructions):
    assert [rest for _, rest in instructions if re.search(r"https?://|\b[\w-]+\.(org|com|io|net)\b", rest)] == []


def test_what_it_copies_is_there_and_let_through(instructions):
    ignored = (ROOT / "infra/Dockerfile.dockerignore").read_text().split()
    copied = [word for rest in rest_of(instructions, "COPY") if not rest.startswith("--from") for word in rest.split()[:-1]]
    assert {"requirements.lock", "pyproject.toml", "pipelines", "components", "trainers", "infra"} <= set(copied)
    assert [word for word in copied if not (ROOT / word).exists()] == []
    assert [word for word in copied if f"!{word}" not in ignored] == []
