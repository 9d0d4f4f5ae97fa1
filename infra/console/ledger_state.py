"""The ledger as the pages show it: read and checked for each request, so that nothing is shown that does not hold."""

import dataclasses
from pathlib import Path

from components.core.decisions import Decisions, known_by
from components.core.errors import ConfigError, DecisionError, StoreError, TandemError
from components.core.ledger import EMPTY, Entry, Head, entry_problem
from components.core.ledger_store import LedgerStore
from components.core.signing import PrivateKey, PublicKeys, read_private_key
from infra.console.settings import ConsoleSettings

NO_KEY = (
    "Nothing can be decided on these pages: the console has no service key. An admin makes one by `tandem keys new --key FILE`, enrols it "
    "by `tandem keys enrol console FILE.pub --role service`, and starts `tandem ui --service-key FILE`."
)


@dataclasses.dataclass(frozen=True)
class LedgerState:
    """A checked ledger.

    Attributes:
        entries: those that hold, from the first on.
        head: the last of them.
        problem: the first thing that does not hold, one line; empty when all does.
        disabled: why nothing can be decided on the pages, one line; empty when it can.
    """

    entries: tuple[Entry, ...]
    head: Head
    problem: str
    disabled: str


def read_ledger(store: LedgerStore, settings: ConsoleSettings) -> LedgerState:
    """Reads and checks the whole ledger; a fault becomes a line of the state."""
    try:
        keys = PublicKeys.read(Path(settings.public_keys))
    except ConfigError as error:
        empty = store.head() == EMPTY
        return LedgerState((), EMPTY, "" if empty else f"it cannot be checked: {error}", str(error))
    held: list[Entry] = []
    head, problem = EMPTY, ""
    try:
        for entry in store.entries():
            problem = entry_problem(entry, head, keys)
            if problem:
                break
            held.append(entry)
            head = entry.head
    except StoreError as error:
        problem = str(error)
    disabled = "Nothing is decided on a ledger that does not hold." if problem else _why_disabled(settings, keys)
    return LedgerState(tuple(held), head, problem, disabled)


def decisions_of(store: LedgerStore, settings: ConsoleSettings) -> tuple[Decisions, PrivateKey]:
    """The ledger to decide on, and the service's key.

    Raises:
        DecisionError: there is no service key, or it does not count.
        ConfigError: a key file cannot be read.
    """
    keys = PublicKeys.read(Path(settings.public_keys))
    return Decisions(store, keys), _service_key(settings, keys)


def _service_key(settings: ConsoleSettings, keys: PublicKeys) -> PrivateKey:
    path = Path(settings.service_key)
    if not settings.service_key or not path.is_file():
        raise DecisionError(NO_KEY)
    signer = read_private_key(path)
    if known_by(signer, keys)[1] != "service":
        raise DecisionError(f"key {signer.key_id} is a person's key; the console signs with one that was enrolled with --role service")
    return signer


def _why_disabled(settings: ConsoleSettings, keys: PublicKeys) -> str:
    try:
        _service_key(settings, keys)
    except TandemError as error:
        return str(error)
    return ""
