"""private_libc.sh: when it refuses, and that it verifies. What it makes is examined by `tandem doctor` where it was needed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[4] / "infra/environment/private_libc.sh"
TOOLS = ("bash", "realpath", "sort", "head", "grep", "tr", "mktemp", "rm", "mkdir", "chmod", "cp")


@pytest.fixture
def base_python(program):
    """Makes a base Python that runs on the given glibc."""
    return lambda glibc: program("base-python", f"echo {glibc}")


def call(venv, base_python, **environment):
    command = ["bash", str(SCRIPT), str(venv), str(base_python)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **environment})


@pytest.mark.parametrize("glibc", ["2.39", "2.41", "2.100", "3.0"])
def test_refuses_where_it_is_not_needed(glibc, base_python, tmp_path):
    venv = tmp_path / "venv"
    venv.mkdir()
    finished = call(venv, base_python(glibc))
    assert finished.returncode == 2
    assert f"glibc {glibc} is new enough, a private C library is not needed and not made" in finished.stderr
    assert list(venv.iterdir()) == []


def test_without_apt_the_container_image_is_the_way(base_python, few_tools, tmp_path):
    venv = tmp_path / "venv"
    venv.mkdir()
    finished = call(venv, base_python("2.28"), PATH=str(few_tools(*TOOLS)))
    assert finished.returncode == 2
    assert finished.stderr.count("\n") == 1
    assert "this system has glibc 2.28, the pipeline needs 2.39 or newer, and there is no apt-get here" in finished.stderr
    assert "use the container image (infra/Dockerfile) or a newer Linux" in finished.stderr
    assert list(venv.iterdir()) == []


def test_without_a_debian_mirror_says_where_to_name_one(base_python, few_tools, program, tmp_path):
    for name, body in (("apt-get", ""), ("dpkg", "echo amd64"), ("dpkg-deb", ""), ("grep", "exit 1")):
        folder = program(name, body).parent
    few = few_tools(*(tool for tool in TOOLS if tool != "grep"))
    finished = call(tmp_path, base_python("2.36"), PATH=f"{folder}:{few}", TANDEM_DEBIAN_MIRROR="")
    assert finished.returncode == 2
    assert "/etc/apt names no Debian mirror; set TANDEM_DEBIAN_MIRROR to one" in finished.stderr


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt is what is tested")
def test_a_mirror_that_cannot_be_verified_gives_nothing(base_python, tmp_path):
    venv, mirror = tmp_path / "venv", tmp_path / "mirror/debian"
    venv.mkdir()
    release = mirror / "dists/trixie/Release"
    release.parent.mkdir(parents=True)
    release.write_text("Suite: stable\nCodename: trixie\nArchitectures: amd64\nComponents: main\n")
    finished = call(venv, base_python("2.36"), TANDEM_DEBIAN_MIRROR=mirror.as_uri())
    assert finished.returncode == 2
    assert "apt could not read and verify the package list" in finished.stderr.splitlines()[-1]
    assert list(venv.iterdir()) == []
