"""A model server's directory: whole or not at all, never another model under the same number."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.core import placement
from components.core.errors import PushError
from components.core.files import tree_digest
from components.core.placement import is_pushed, place, version_folder


@pytest.fixture
def saved_model(tmp_path):
    folder = tmp_path / "Format-Serving"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"graph")
    (folder / "variables" / "variables.index").write_bytes(b"index")
    return folder


@pytest.fixture
def root(tmp_path):
    return str(tmp_path / "serving")


def test_a_version_appears_with_the_same_bytes(saved_model, root):
    digest = tree_digest(saved_model)
    folder = version_folder(root, "credit-risk", "3")
    assert folder == Path(root).resolve() / "staging" / "credit-risk" / "3"
    assert not is_pushed(root, "credit-risk", "3", digest)
    assert place(saved_model, folder, digest=digest) is True
    assert tree_digest(folder) == digest
    assert is_pushed(root, "credit-risk", "3", digest)
    assert not is_pushed(root, "credit-risk", "3", "0" * 64)
    assert [path.name for path in folder.parent.iterdir() if not path.name.startswith(".")] == ["3"]


def test_the_same_bytes_again_change_nothing(saved_model, root):
    folder = version_folder(root, "credit-risk", "3")
    place(saved_model, folder, digest=tree_digest(saved_model))
    before = folder.stat().st_mtime_ns
    assert place(saved_model, folder, digest=tree_digest(saved_model)) is False
    assert folder.stat().st_mtime_ns == before


def test_another_model_under_the_same_number_is_refused(saved_model, root):
    folder = version_folder(root, "credit-risk", "3")
    first = tree_digest(saved_model)
    place(saved_model, folder, digest=first)
    (saved_model / "saved_model.pb").write_bytes(b"another graph")
    second = tree_digest(saved_model)
    with pytest.raises(PushError, match=f"{first}.*{second}.*immutable"):
        place(saved_model, folder, digest=second)
    assert tree_digest(folder) == first


def test_changed_bytes_are_not_pushed(saved_model, root):
    folder = version_folder(root, "credit-risk", "3")
    with pytest.raises(PushError, match="its bytes changed"):
        place(saved_model, folder, digest="0" * 64)
    with pytest.raises(PushError, match="digest none"):
        place(saved_model / "nothing", folder, digest="0" * 64)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["", "..", "a/b", "Credit", "-a", "a_b", "a\n", "../a", "a.b", "ä"])
def test_names_that_are_no_plain_path_component_are_refused(root, name):
    with pytest.raises(PushError, match="allowed: small letters"):
        version_folder(root, name, "1")


@pytest.mark.parametrize("version", ["", "0", "01", "-1", "1/../2", "1\n", "latest", "١"])
def test_versions_are_whole_numbers(root, version):
    with pytest.raises(PushError, match="whole numbers from 1"):
        version_folder(root, "credit-risk", version)


def test_a_link_out_of_the_directory_is_refused(root, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    staging = Path(root) / "staging"
    staging.mkdir(parents=True)
    (staging / "credit-risk").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PushError, match="leads out of the serving directory"):
        version_folder(root, "credit-risk", "1")


def test_what_a_killed_push_left_is_removed(saved_model, root):
    folder = version_folder(root, "credit-risk", "3")
    for left in (".incoming", "..incoming.abc.tmp"):
        (folder.parent / left / "tree").mkdir(parents=True)
    place(saved_model, folder, digest=tree_digest(saved_model))
    assert sorted(path.name for path in folder.parent.iterdir()) == [".lock", "3"]


def test_a_copy_that_differs_is_never_seen(saved_model, root, monkeypatch):
    folder = version_folder(root, "credit-risk", "3")
    copy = placement.copy_tree

    def spoil(source, target):
        copy(source, target)
        (target / "saved_model.pb").write_bytes(b"spoilt")

    monkeypatch.setattr(placement, "copy_tree", spoil)
    with pytest.raises(PushError, match="check the disk"):
        place(saved_model, folder, digest=tree_digest(saved_model))
    assert [path.name for path in folder.parent.iterdir()] == [".lock"]


def test_a_directory_that_cannot_be_written_is_one_line(saved_model, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PushError, match="cannot write"):
        place(saved_model, tmp_path / "file" / "credit-risk" / "1", digest=tree_digest(saved_model))


def _place(arguments):
    saved_model, folder, digest = arguments
    return place(saved_model, folder, digest=digest)


def test_two_processes_at_once_push_once(saved_model, root):
    work = (saved_model, version_folder(root, "credit-risk", "3"), tree_digest(saved_model))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        made = pool.map(_place, [work] * 4)
    assert sorted(made) == [False, False, False, True]


def test_asking_costs_no_heavy_import():
    script = (
        "import sys, components.core.placement; "
        "print([m for m in ('mlflow', 'ml_metadata', 'tensorflow', 'tfx', 'pydantic', 'numpy') if m in sys.modules])"
    )
    root = Path(placement.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
