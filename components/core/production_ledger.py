"""The ledger as a promotion and an operator write it: an entry has to fit the split of traffic, and is entered once.

A stage that was killed behind its entry finds it at the next start, and goes on.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from components.core.decisions import checked_entries, known_by
from components.core.errors import GateError
from components.core.ledger import EMPTY, Draft, Entry, Kind, make_entry
from components.core.ledger_store import HeadMoved, LedgerStore
from components.core.promotion import LedgerSpec
from components.core.rollout import PRODUCTION_VERSION, SHARE, ServedVersion, Traffic, traffic
from components.core.signing import PublicKeys, read_private_key

_ATTEMPTS = 20
_ENDS = ("rollback", "retire")


class ProductionLedger:
    """A ledger, the list of keys, and the key that signs.

    Raises:
        ConfigError: the list of keys cannot be read.
        StoreError: the ledger cannot be used.
    """

    def __init__(self, spec: LedgerSpec) -> None:
        self.store = LedgerStore(spec.url)
        self.keys = PublicKeys.read(Path(spec.public_keys))
        self._key = Path(spec.private_key)

    def entries(self) -> list[Entry]:
        """Every entry, checked.

        Raises:
            DecisionError: one does not hold.
        """
        return checked_entries(self.store, self.keys)

    def traffic(self, model: str) -> Traffic:
        """The split of one model now."""
        return traffic(self.entries(), model)

    def enter(self, kind: Kind, version: ServedVersion, *, details: Mapping[str, str] | None = None, reason: str = "") -> Entry:
        """Enters what was done with a version of the production model.

        Args:
            kind: `promote`, `push`, `rollout_step`, `rollback` or `retire`.
            version: its number and what it was made from.
            details: beside the number.
            reason: in the actor's words.

        Returns:
            The entry; the one that is there already where the same was entered since the version last ended.

        Raises:
            GateError: it does not fit what the ledger says of the version now.
            DecisionError: the ledger does not hold, or the key may not sign.
            StoreError: the ledger cannot be written.
        """
        signer = read_private_key(self._key)
        actor, how = known_by(signer, self.keys)
        told = {PRODUCTION_VERSION: version.version, **(details or {})}
        draft = Draft(kind=kind, subject=version.subject, actor=actor, known_by=how, reason=reason, details=told)
        for _ in range(_ATTEMPTS):
            entries = self.entries()
            head = entries[-1].head if entries else EMPTY
            there = _entered(draft, entries)
            if there is not None:
                return there
            _require_fit(entries, make_entry(draft, head, signer))
            try:
                return self.store.append(draft, signer, expected=head)
            except HeadMoved:
                continue  # somebody entered meanwhile: what fits is to be seen anew
        raise GateError(f"the ledger at {self.store.place} is written by others all the time; run again")


def _entered(draft: Draft, entries: Sequence[Entry]) -> Entry | None:
    """The same entry since the version last ended; an end itself is never the same as an earlier one."""
    for entry in reversed(entries):
        said = entry.statement
        if said.subject.model != draft.subject.model or said.details.get(PRODUCTION_VERSION) != draft.details[PRODUCTION_VERSION]:
            continue
        if said.kind in _ENDS or draft.kind in _ENDS:
            return None
        same = said.kind == draft.kind and said.subject == draft.subject
        if same and said.details.get(SHARE) == draft.details.get(SHARE):
            return entry
    return None


def _require_fit(entries: Sequence[Entry], entry: Entry) -> None:
    model = entry.statement.subject.model
    before, after = traffic(entries, model), traffic([*entries, entry], model)
    if len(after.odd) > len(before.odd):
        raise GateError(after.odd[-1].partition(": ")[2])
