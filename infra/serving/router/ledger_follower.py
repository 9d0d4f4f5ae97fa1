"""The ledger as a router reads it: checked once from the first entry on, then entry by entry as they come.

An entry counts when it extends what was accepted before. So a ledger that was shortened, changed or made anew behind a running router is a
problem that is told, and never a split; what was accepted stays.
"""

import time
from collections.abc import Mapping
from pathlib import Path

from components.core.decisions import known_by
from components.core.errors import DecisionError, StoreError
from components.core.ledger import EMPTY, Draft, Entry, Head, Kind, entry_problem, verify
from components.core.ledger_store import LedgerStore
from components.core.promotion import LedgerSpec
from components.core.rollout import PRODUCTION_VERSION, ServedVersion
from components.core.signing import PublicKeys, read_private_key

_LOOK_AGAIN_S = 10.0
"""A ledger that did not hold is read again that often, though neither its head nor the list of keys changed: a row may be put right."""


class LedgerFollower:
    """A ledger, the list of keys as it is now, and the service's key.

    Attributes:
        entries: those that hold, from the first on; replaced, never changed.
        problem: the first thing that does not hold, one line; empty when all does.

    Raises:
        ConfigError: a key file cannot be read.
        StoreError: the ledger cannot be used.
    """

    def __init__(self, spec: LedgerSpec) -> None:
        self._keys_path = Path(spec.public_keys)
        self._keys = PublicKeys.read(self._keys_path)
        # Read once: a rollback must not wait for a file.
        self._signer = read_private_key(Path(spec.private_key))
        self._store = LedgerStore(spec.url)
        self.entries: list[Entry] = []
        self.problem = ""
        self._seen: tuple[object, ...] = ()

    @property
    def head(self) -> Head:
        """Of what holds."""
        return self.entries[-1].head if self.entries else EMPTY

    def follow(self) -> bool:
        """Reads what is new; the list of keys too, so that an enrolment or a revocation counts without a restart.

        Returns:
            Whether there are entries that hold and were not there before.

        Raises:
            ConfigError: the list of keys cannot be read.
            StoreError: the ledger cannot be read.
        """
        seen = self._state()
        if seen == self._seen:
            return False
        keys = PublicKeys.read(self._keys_path)
        found = list(self._store.entries())
        extends = found[: len(self.entries)] == self.entries
        holding, problem = self._checked(found, keys, extends=extends)
        new = extends and holding > len(self.entries)
        if extends and holding >= len(self.entries):
            # Only a list under which everything before holds: under another one all is checked again, until it is put right.
            self.entries, self._keys = found[:holding], keys
        self.problem, self._seen = problem and f"the ledger at {self._store.place} does not hold: {problem}", seen
        return new

    def _state(self) -> tuple[object, ...]:
        try:
            file = self._keys_path.stat()
        except OSError as error:
            raise StoreError(f"{self._keys_path}: the public keys cannot be read ({error.strerror}); restore the file") from error
        again = time.monotonic() // _LOOK_AGAIN_S if self.problem else None
        return self._store.head(), file.st_mtime_ns, file.st_size, again

    def _checked(self, found: list[Entry], keys: PublicKeys, *, extends: bool) -> tuple[int, str]:
        """How many entries hold, and what does not; the new ones alone where nothing before them can have changed."""
        if keys.root != self._keys.root:
            return 0, f"the list of keys begins with another admin's key, {keys.root}; restart the router if that is meant"
        same_keys = (keys.keys, keys.revocations) == (self._keys.keys, self._keys.revocations)
        if not (extends and same_keys and self.entries):
            whole = verify(found, keys, kept=self.head)
            return whole.entries, whole.problem
        head, holding = self.head, len(self.entries)
        for entry in found[holding:]:
            problem = entry_problem(entry, head, keys)
            if problem:
                return holding, problem
            head, holding = entry.head, holding + 1
        return holding, ""

    def enter(self, kind: Kind, version: ServedVersion, *, details: Mapping[str, str] | None = None, reason: str = "") -> None:
        """Enters what the service does, directly behind what was followed.

        Args:
            kind: `rollout_step` or `rollback`.
            version: that it is about.
            details: beside the version's number.
            reason: why.

        Raises:
            HeadMoved: somebody entered meanwhile; follow, and decide anew.
            DecisionError: the ledger does not hold, or the key may not sign any more.
            StoreError: the ledger cannot be written.
        """
        if self.problem:
            raise DecisionError(self.problem)
        actor, how = known_by(self._signer, self._keys)
        told = {PRODUCTION_VERSION: version.version, **(details or {})}
        draft = Draft(kind=kind, subject=version.subject, actor=actor, known_by=how, reason=reason, details=told)
        self._store.append(draft, self._signer, expected=self.head)
