"""A folder of wheels to install from without a network: small ones made here, build tools packed from this environment."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
SCRIPTS = ROOT / "infra/environment"
BUILD_TOOLS = ("setuptools", "wheel", "packaging")
PYPROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"
[project]
name = "sample"
version = "1"
dependencies = ["tiny==1.*"]
[project.optional-dependencies]
test = ["extra"]
[project.scripts]
sample = "sample_code:main"
[tool.setuptools]
packages = ["sample_code"]
"""


def write_wheel(folder, name, version, *, requires=()):
    """A wheel of one module `name` that holds its version."""
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    files = {
        f"{name}.py": f"version = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


def pack_installed(folder, name):
    """The wheel of an installed pure-Python distribution, made of its files."""
    distribution = importlib.metadata.distribution(name)
    left_out = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json")
    files = [file for file in distribution.files if not file.parts[0].startswith("..") and "__pycache__" not in file.parts]
    files = [file for file in files if not (file.parts[0].endswith(".dist-info") and file.name in left_out)]
    info = next(file.parts[0] for file in files if file.parts[0].endswith(".dist-info"))
    with zipfile.ZipFile(folder / f"{name}-{distribution.version}-py3-none-any.whl", "w") as wheel:
        for file in files:
            wheel.write(file.locate(), str(file))
        wheel.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"]))


def pins(**versions):
    tools = {name: importlib.metadata.version(name) for name in BUILD_TOOLS}
    return "".join(f"{name}=={version}\n" for name, version in sorted({**tools, **versions}.items()))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    for name in BUILD_TOOLS:
        pack_installed(folder, name)
    for name, version in (("tiny", "1.0"), ("tiny", "1.1"), ("tiny", "2.0"), ("extra", "3.0")):
        write_wheel(folder, name, version)
    write_wheel(folder, "demanding", "1.0", requires=["tiny>=2"])
    return folder


@pytest.fixture
def offline(wheels):
    """The environment variables under which pip sees the folder of wheels and nothing else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON", "VIRTUAL_ENV"))}
    return {**kept, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1"}


class SetUp:
    """A project of one small package with the real set-up script; the private C library is a stand-in that notes its call."""

    def __init__(self, folder, environment):
        self.folder = folder
        self.environment = {**environment, "PYTHON": sys.executable}
        (folder / "infra/environment").mkdir(parents=True)
        (folder / "sample_code").mkdir()
        (folder / "sample_code/__init__.py").write_text("def main():\n    return 0\n")
        (folder / "pyproject.toml").write_text(PYPROJECT)
        shutil.copy(SCRIPTS / "setup.sh", folder / "infra/environment/setup.sh")
        self.write_libc_script('echo "$@" >>"$(dirname "$0")/called"')
        self.write_lock(tiny="1.0")
        (folder / "requirements-test.lock").write_text("extra==3.0\n")

    def write_libc_script(self, line):
        (self.folder / "infra/environment/private_libc.sh").write_text(f"{line}\n")

    def write_lock(self, **versions):
        (self.folder / "requirements.lock").write_text(pins(**versions))

    @property
    def venv(self):
        return self.folder / ".venv"

    @property
    def stamp(self):
        return self.venv / ".tandem-stamp"

    def start(self, group="run"):
        command = ["bash", str(self.folder / "infra/environment/setup.sh"), group]
        return subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def call(self, group="run"):
        """Exit code and output."""
        process = self.start(group)
        output, _ = process.communicate(timeout=300)
        return process.returncode, output

    def version_of(self, module):
        program = f"import {module}; print({module}.version)"
        return subprocess.run([self.venv / "bin/python", "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def set_up(tmp_path, offline):
    return SetUp(tmp_path / "project", offline)


@pytest.fixture
def few_tools(tmp_path):
    """Makes a PATH of the named programs of this system alone."""

    def make(*names):
        folder = tmp_path / "few-tools"
        folder.mkdir(exist_ok=True)
        for name in names:
            (folder / name).symlink_to(shutil.which(name))
        return folder

    return make


@pytest.fixture
def program(tmp_path):
    """Writes an executable shell script into a folder of its own."""

    def write(name, body):
        folder = tmp_path / "programs"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    return write
