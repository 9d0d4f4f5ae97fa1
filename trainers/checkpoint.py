"""Where an unfinished training waits to be continued: one file an input fingerprint, written whole or not at all."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Self

from components.core.contracts import Contract
from components.core.errors import StoreError
from components.core.files import read_json, write_bytes, write_json
from trainers.progress import LOGGER

_CHECKPOINT_FILE = "checkpoint.bin"
_RUN_FILE = "run.json"
_SLOTS = 16


class CourseState(Contract):
    """Where a training stands after a finished epoch.

    Attributes:
        epoch: finished epochs.
        best_epoch: epoch of the lowest `val/loss`, counted from 1; 0 before the first.
        steps: batches used so far.
        history: metrics of each epoch, the first epoch first; undefined ones are left out.
        gradient_norms: parameter name -> L2 norm of the last step's gradient.
    """

    epoch: int = 0
    best_epoch: int = 0
    steps: int = 0
    history: tuple[dict[str, float], ...] = ()
    gradient_norms: dict[str, float] = {}


class CheckpointSlot:
    """The folder of one training, locked for this process. Use as a context.

    Two trainings of the same inputs at once get different folders: `<fingerprint>`, `<fingerprint>.2`, ...

    Attributes:
        folder: holds `checkpoint.bin` (a line of JSON, then the framework's bytes) and `run.json` (the MLflow run).
    """

    def __init__(self, root: Path | str, fingerprint: str) -> None:
        self._root = Path(root)
        self._fingerprint = fingerprint
        self._lock: int | None = None
        self.folder = self._root / fingerprint

    def __enter__(self) -> Self:
        """Locks the first folder that no living process holds.

        Raises:
            StoreError: 16 trainings of the same inputs run at once.
        """
        for number in range(1, _SLOTS + 1):
            folder = self._root / (self._fingerprint if number == 1 else f"{self._fingerprint}.{number}")
            if self._claim(folder):
                self.folder = folder
                return self
        raise StoreError(f"{_SLOTS} trainings of the same inputs hold their checkpoints in {self._root}; wait until one has ended")

    def __exit__(self, *_: object) -> None:
        """Gives the folder back; what it holds stays, unless `clear` was called."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _claim(self, folder: Path) -> bool:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:  # its owner has just finished and cleared it
            return False
        # Somebody else holds it, or cleared the folder since; either way it is not ours.
        with contextlib.suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_ino == (folder / "lock").stat().st_ino:
                self._lock = lock
                return True
        os.close(lock)
        return False

    @property
    def run_id(self) -> str | None:
        """MLflow run of the training that was ended here, or None."""
        path = self.folder / _RUN_FILE
        return str(read_json(path)["run_id"]) if path.is_file() else None

    def keep_run(self, run_id: str) -> None:
        """Remembers the MLflow run from the first moment, so that a kill before the first checkpoint leaves no run behind."""
        write_json(self.folder / _RUN_FILE, {"run_id": run_id})

    def save(self, state: CourseState, payload: bytes) -> None:
        """Replaces the checkpoint: the old one is there until the new one is safely on disk."""
        header = {"state": json.loads(state.to_json()), "sha256": hashlib.sha256(payload).hexdigest()}
        write_bytes(self.folder / _CHECKPOINT_FILE, json.dumps(header).encode() + b"\n" + payload)

    def load(self) -> tuple[CourseState, bytes] | None:
        """State and framework's bytes of the last finished epoch; None when there are none.

        A damaged file is renamed to `damaged-<time>` with a warning, and None is returned: training starts anew.
        """
        path = self.folder / _CHECKPOINT_FILE
        if not path.is_file():
            return None
        head, _, payload = path.read_bytes().partition(b"\n")
        try:
            header = json.loads(head)
            state = CourseState.from_json(json.dumps(header["state"]))
            fault = "" if header["sha256"] == hashlib.sha256(payload).hexdigest() else "its digest differs"
        except (ValueError, KeyError, TypeError) as error:
            fault = " ".join(str(error).split())
        if not fault:
            return state, payload
        aside = path.with_name(f"damaged-{time.time_ns()}")
        path.rename(aside)
        LOGGER.warning("checkpoint %s is damaged (%s); it was moved to %s, training starts anew", path, fault, aside.name)
        return None

    def clear(self) -> None:
        """Removes the folder: there is nothing left to continue. Damaged checkpoints go with it."""
        shutil.rmtree(self.folder)
