"""Files are written whole or not at all, and the tree digest is what its definition says."""

import hashlib
from pathlib import Path

import pytest

from components.core.files import copy_tree, read_json, tree_digest, tree_size_bytes, write_bytes, write_json


def make_tree(root: Path) -> Path:
    (root / "b").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"one")
    (root / "b" / "c.bin").write_bytes(b"\x00\x01")
    return root


def test_the_digest_is_the_sha256_of_sorted_lines_of_digest_and_path(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "m")
    one, two = hashlib.sha256(b"one").hexdigest(), hashlib.sha256(b"\x00\x01").hexdigest()
    expected = hashlib.sha256(f"{one}  a.txt\n{two}  b/c.bin\n".encode()).hexdigest()
    assert tree_digest(tree) == expected
    assert tree_size_bytes(tree) == 5


@pytest.mark.parametrize("change", ["content", "name", "added", "moved"])
def test_any_change_changes_the_digest(tmp_path: Path, change: str) -> None:
    tree = make_tree(tmp_path / "m")
    before = tree_digest(tree)
    if change == "content":
        (tree / "a.txt").write_bytes(b"onE")
    elif change == "name":
        (tree / "a.txt").rename(tree / "z.txt")
    elif change == "added":
        (tree / "empty").write_bytes(b"")
    else:
        (tree / "a.txt").rename(tree / "b" / "a.txt")
    assert tree_digest(tree) != before


def test_an_empty_tree_has_no_identity(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file below"):
        tree_digest(tmp_path)


def test_a_copy_has_the_same_digest_and_never_replaces(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "m")
    copy_tree(tree, tmp_path / "serving" / "1")
    assert tree_digest(tmp_path / "serving" / "1") == tree_digest(tree)
    assert [path.name for path in (tmp_path / "serving").iterdir()] == ["1"]
    with pytest.raises(FileExistsError):
        copy_tree(tree, tmp_path / "serving" / "1")


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "m")
    (tree / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match=r"nowhere|dangling"):
        copy_tree(tree, tmp_path / "serving" / "1")
    assert list((tmp_path / "serving").iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert read_json(path) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_a_reader_sees_the_old_or_the_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    write_bytes(path, b"old")

    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        write_bytes(path, b"new and longer")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]
