"""setup.sh, run for real on a lock of one small package; nothing is fetched."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

TOOLS = (
    "bash",
    "cat",
    "dirname",
    "grep",
    "sha256sum",
    "cut",
    "flock",
    "uname",
    "df",
    "du",
    "awk",
    "sed",
    "sort",
    "head",
    "tail",
    "rm",
    "mkdir",
    "ls",
)


def wait_for(path, process):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_builds_completes_and_rebuilds(set_up):
    code, output = set_up.call()
    assert code == 0, output
    assert "installing 4 packages" in output
    assert re.search(r"ready in \d+ s$", output.strip())
    assert set_up.version_of("tiny") == "1.0"
    assert not (set_up.venv / ".tmp").exists()
    subprocess.run([set_up.venv / "bin/sample"], check=True, cwd="/")

    # unchanged: nothing is built, nothing is said
    mark = set_up.venv / "built-once"
    mark.write_text("")
    began = time.monotonic()
    assert set_up.call() == (0, "")
    assert time.monotonic() - began < 2

    # the test group and a new pyproject.toml are added to what is there
    code, output = set_up.call("test")
    assert code == 0, output
    assert set_up.version_of("extra") == "3.0"
    assert mark.exists()
    assert set_up.call("test") == set_up.call("run") == (0, "")
    (set_up.folder / "pyproject.toml").write_text((set_up.folder / "pyproject.toml").read_text().replace("sample =", "renamed ="))
    code, output = set_up.call("run")
    assert code == 0, output
    assert (set_up.venv / "bin/renamed").exists()
    assert mark.exists()
    assert set_up.call("test") == (0, "")

    # another lock: from nothing
    set_up.write_lock(tiny="1.1")
    code, output = set_up.call("run")
    assert code == 0, output
    assert set_up.version_of("tiny") == "1.1"
    assert not mark.exists()
    assert subprocess.run([set_up.venv / "bin/python", "-c", "import extra"], capture_output=True, check=False).returncode == 1


@pytest.mark.slow
def test_an_interrupted_set_up_starts_clean(set_up):
    process = set_up.start()
    wait_for(set_up.venv / ".tandem-begun", process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not set_up.stamp.exists()
    (set_up.venv / "half-written").write_text("")

    process = set_up.start()
    while not process.stdout.readline().startswith("tandem set-up: building"):
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; the next set-up starts clean" in output
    assert not (set_up.venv / "half-written").exists()
    assert not set_up.stamp.exists()

    code, output = set_up.call()
    assert code == 0, output
    assert set_up.version_of("tiny") == "1.0"


@pytest.mark.slow
def test_two_set_ups_at_once_build_once(set_up):
    first = set_up.start()
    wait_for(set_up.venv / ".tandem-begun", first)
    second_code, second_output = set_up.call()
    first_output, _ = first.communicate(timeout=300)
    assert (first.returncode, second_code) == (0, 0), first_output + second_output
    assert second_output == "tandem set-up: another set-up is at work here; waiting for it\n"
    assert set_up.version_of("tiny") == "1.0"


def test_a_folder_of_someone_else_is_left_alone(set_up):
    set_up.venv.mkdir()
    (set_up.venv / "precious").write_text("kept")
    code, output = set_up.call()
    assert code == 2
    assert "was not made by this set-up, so it is left alone; move it away" in output
    assert (set_up.venv / "precious").read_text() == "kept"


def test_no_python_says_what_is_needed_and_how_to_get_it(set_up, few_tools):
    set_up.environment |= {"PATH": str(few_tools(*TOOLS)), "PYTHON": ""}
    code, output = set_up.call()
    assert code == 2
    assert output.count("\n") == 1
    assert "needs CPython 3.11 with venv and headers, found python3.11: not there, python3: not there, python: not there" in output
    assert "uv python install 3.11" in output
    assert not set_up.venv.exists()


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ("CPython 3.12.4 64 2.41 venv headers", "CPython 3.12.4 but is not 64-bit CPython 3.11"),
        ("PyPy 3.11.7 64 2.41 venv headers", "PyPy 3.11.7 but is not 64-bit CPython 3.11"),
        ("CPython 3.11.7 32 2.41 venv headers", "CPython 3.11.7 but is not 64-bit CPython 3.11"),
        ("CPython 3.11.7 64 2.41 no-venv headers", "without venv (Debian, Ubuntu: install python3.11-venv)"),
        ("CPython 3.11.7 64 2.41 venv no-headers", "without Python.h (Debian, Ubuntu: install python3.11-dev)"),
        ("CPython 3.11.7 64 none venv headers", "without glibc (musl systems are not supported: use the container image"),
    ],
)
def test_an_unfit_python_is_refused_with_its_lack(facts, found, set_up, program):
    set_up.environment["PYTHON"] = str(program("fake-python", f'echo "{facts} $0"'))
    code, output = set_up.call()
    assert code == 2
    assert output.count("\n") == 1
    assert found in output


@pytest.mark.parametrize(
    ("tool", "body", "message"),
    [
        (
            "uname",
            '[ "$1" = -s ] && echo Linux || echo aarch64',
            "needs Linux on x86-64 (TensorFlow Extended has no other wheels), this is Linux-aarch64",
        ),
        ("df", "echo head; echo disk 9 9 1200 9 /", "needs 6500 MB of free disk"),
    ],
)
def test_an_unfit_machine_is_refused(tool, body, message, set_up, program):
    set_up.environment["PATH"] = f"{program(tool, body).parent}:{os.environ['PATH']}"
    code, output = set_up.call()
    assert code == 2
    assert output.count("\n") == 1
    assert message in output


@pytest.mark.parametrize(("glibc", "called"), [("2.36", True), ("2.4", True), ("2.39", False), ("2.41", False), ("3.0", False)])
def test_the_private_c_library_is_made_only_below_glibc_2_39(glibc, called, set_up, program):
    body = f"""
[ "$1" = -c ] && exec echo "CPython 3.11.7 64 {glibc} venv headers $0"
exec "{sys.executable}" -m venv --without-pip --copies "$4"
"""
    set_up.environment["PYTHON"] = str(program("fake-python", body))
    set_up.write_libc_script('touch "$(dirname "$0")/called"; echo "tandem set-up: no apt here" >&2; exit 2')
    code, output = set_up.call()  # ends for want of pip at the latest
    assert code == 2
    assert (set_up.folder / "infra/environment/called").exists() is called
    assert ("No module named pip; check the network and pip's settings" in output) is not called
    assert ("no private C library: no apt here; use the container image (infra/Dockerfile)" in output) is called
    assert not set_up.stamp.exists()


def test_a_lock_that_cannot_be_installed_is_one_line_with_pips_reason(set_up):
    set_up.write_lock(setuptools="0.0.0.unknown")
    code, output = set_up.call()
    assert code == 2
    last = output.splitlines()[-1]
    assert "pip could not install setuptools==0.0.0.unknown" in last
    assert "No matching distribution found" in last
    assert last.endswith(f"details in {set_up.folder}/.venv-setup.log")


@pytest.mark.parametrize("group", ["", "all"])
def test_another_group_is_refused(group, set_up):
    assert set_up.call(group) == (2, "tandem set-up: usage: setup.sh run|test\n")


def test_a_missing_lock_is_named(set_up):
    (set_up.folder / "requirements.lock").unlink()
    code, output = set_up.call()
    assert code == 2
    assert output == f"tandem set-up: {set_up.folder}/requirements.lock is missing; restore it from the repository\n"
