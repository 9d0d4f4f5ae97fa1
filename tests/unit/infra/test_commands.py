"""Makefile and .ci/run: what a person or a machine calls first."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
OF_MAKE = re.compile(r"MAKE.*|MFLAGS|ARGS|USE_CASE|UPGRADE|WORKERS")
"""What the `make test` around this test hands down: its own flags and variables."""
TARGETS = ("help", "run", "test", "bench", "lock", "doctor", "clean")


def make(*arguments, **environment):
    command = ["make", "--no-print-directory", *arguments]
    kept = {name: value for name, value in os.environ.items() if not OF_MAKE.fullmatch(name)}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env={**kept, **environment})


def test_make_alone_lists_targets_and_variables():
    finished = make()
    assert finished.returncode == 0
    assert re.findall(r"^  make (\w+)", finished.stdout, re.MULTILINE) == list(TARGETS)
    used = set(re.findall(r"\bTANDEM_[A-Z_]+", "".join(path.read_text() for path in (ROOT / "infra/environment").glob("*.sh"))))
    assert used
    assert [name for name in sorted(used) if name not in finished.stdout] == []


def steps_of(target):
    return [line for line in make("-n", target).stdout.splitlines() if line.strip()]


def test_run_sets_up_and_runs_the_use_case():
    assert steps_of("run")[0] == "bash infra/environment/setup.sh run"
    assert steps_of("run")[1].strip() == ".venv/bin/tandem run credit_risk"


def test_test_sets_up_with_the_test_group_and_checks_everything():
    steps = steps_of("test")
    assert steps[0] == "bash infra/environment/setup.sh test"
    for step, word in zip(steps[1:], ["ruff check", "ruff format --check", "mypy", "lint_imports", "pytest"], strict=True):
        assert word in step


@pytest.mark.parametrize("failing", ["false", "exit 3"])
def test_a_failing_step_fails_make(failing):
    finished = make("run", f"SETUP={failing};")
    assert finished.returncode == 2
    assert "tandem run" not in finished.stdout


def test_ci_runs_make_test_and_nothing_after_it():
    lines = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line.strip()]
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert lines[-1] == "make test"
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.parametrize("script", sorted(path.relative_to(ROOT) for path in [*ROOT.glob("infra/**/*.sh"), ROOT / ".ci/run"]), ids=str)
def test_scripts_parse_and_stop_at_the_first_fault(script):
    assert subprocess.run(["bash", "-n", str(ROOT / script)], check=False).returncode == 0
    assert "set -euo pipefail" in (ROOT / script).read_text()
