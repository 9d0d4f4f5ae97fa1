"""A dossier holds only with the bytes and the files that it was frozen with."""

import hashlib

import pytest

from components.core.dossier import DOSSIER_FILE, Dossier, digests, evidence_digest
from components.core.errors import RegistryError

DIGEST = "a" * 64


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "audit.json").write_text("{}")
    (tmp_path / "parity.json").write_text("[]")
    made = Dossier(
        framework="keras", model_digest=DIGEST, training_run_id="r", recorded={"git_commit": "c"}, files=digests(tmp_path.iterdir())
    )
    (tmp_path / DOSSIER_FILE).write_text(made.to_json())
    return tmp_path


def read(folder, digest=DIGEST):
    return Dossier.read(folder, model_digest=digest, of="m/1")


def test_it_comes_back_as_it_was(folder):
    found = read(folder)
    assert found.files == {"audit.json": hashlib.sha256(b"{}").hexdigest(), "parity.json": hashlib.sha256(b"[]").hexdigest()}
    assert found.recorded == {"git_commit": "c"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: (folder / "parity.json").write_text("{}"), r"parity\.json has digest [0-9a-f]{64}, the dossier of m/1 says"),
        (lambda folder: (folder / "parity.json").unlink(), "none: it is not there"),
        (lambda folder: (folder / "more.json").write_text("{}"), "says nothing of it"),
        (lambda folder: (folder / DOSSIER_FILE).unlink(), "m/1 has no evidence dossier"),
        (lambda folder: (folder / DOSSIER_FILE).write_text("{"), "is no evidence dossier that this version reads"),
        (lambda folder: (folder / DOSSIER_FILE).write_bytes(b"\xff"), "is no evidence dossier that this version reads"),
    ],
)
def test_what_was_changed_is_named(folder, change, words):
    change(folder)
    with pytest.raises(RegistryError, match=words):
        read(folder)


def test_it_is_of_one_models_bytes(folder):
    with pytest.raises(RegistryError, match=f"is of bytes {DIGEST}, there are {'b' * 64}"):
        read(folder, "b" * 64)


def test_the_evidence_digest_is_over_names_and_digests():
    files = {"b.json": "2" * 64, "a.json": "1" * 64}
    assert evidence_digest(files) == hashlib.sha256(f"a.json {'1' * 64}\nb.json {'2' * 64}\n".encode()).hexdigest()
    assert evidence_digest({"a.json": "2" * 64, "b.json": "1" * 64}) != evidence_digest(files)
