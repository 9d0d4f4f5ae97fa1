import logging

import pytest

from components.core.errors import StoreError
from trainers.checkpoint import CheckpointSlot, CourseState
from trainers.progress import LOGGER

STATE = CourseState(epoch=2, best_epoch=1, steps=8, history=({"val/loss": 0.5}, {"val/loss": 0.6}), gradient_norms={"kernel": 0.25})


@pytest.fixture
def heard(caplog):
    caplog.set_level(logging.INFO, logger=LOGGER.name)
    return caplog


def test_what_was_saved_is_loaded_by_the_next_process(tmp_path):
    with CheckpointSlot(tmp_path, "f") as slot:
        assert slot.load() is None
        assert slot.run_id is None
        slot.keep_run("run")
        slot.save(STATE, b"bytes\nwith lines\n")
    with CheckpointSlot(tmp_path, "f") as slot:
        assert slot.load() == (STATE, b"bytes\nwith lines\n")
        assert slot.run_id == "run"
        slot.clear()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: b"", lambda content: b"{}\n", lambda content: b"\xff\n"])
def test_a_damaged_checkpoint_is_set_aside_with_a_warning(tmp_path, heard, damage):
    with CheckpointSlot(tmp_path, "f") as slot:
        slot.save(STATE, b"payload")
        path = slot.folder / "checkpoint.bin"
        damaged = damage(path.read_bytes())
        path.write_bytes(damaged)
        assert slot.load() is None
        (aside,) = slot.folder.glob("damaged-*")
        assert aside.read_bytes() == damaged
        assert "is damaged" in heard.text
        assert "starts anew" in heard.text
        slot.save(STATE, b"payload")
        assert slot.load() == (STATE, b"payload")


def test_two_equal_trainings_at_once_do_not_share_a_folder(tmp_path):
    with CheckpointSlot(tmp_path, "f") as first, CheckpointSlot(tmp_path, "f") as second:
        assert first.folder != second.folder
        second.clear()
        with CheckpointSlot(tmp_path, "f") as third:
            assert third.folder == second.folder
    with CheckpointSlot(tmp_path, "f") as again:
        assert again.folder == first.folder


def test_more_equal_trainings_than_folders_are_refused(tmp_path):
    import contextlib

    with contextlib.ExitStack() as stack:
        for _ in range(16):
            stack.enter_context(CheckpointSlot(tmp_path, "f"))
        with pytest.raises(StoreError, match="16 trainings"):
            stack.enter_context(CheckpointSlot(tmp_path, "f"))
