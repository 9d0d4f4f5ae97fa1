"""What all pages share: the settings, the stores, the forms, and who may see which model."""

import dataclasses
import threading
from typing import cast

from components.core.ledger import Entry
from components.core.ledger_store import LedgerStore
from components.core.registry import Registry
from infra.console.access import Permission, permission_on
from infra.console.candidates import Candidates
from infra.console.forms import Forms
from infra.console.ledger_state import LedgerState, read_ledger
from infra.console.refusal import not_found
from infra.console.settings import ConsoleSettings

EXTENSION = "tandem"


@dataclasses.dataclass(frozen=True)
class Console:
    """One running console.

    Attributes:
        deciding: held while a decision is checked and entered; the server is one process, so two clicks are two after each other.
    """

    settings: ConsoleSettings
    store: LedgerStore
    candidates: Candidates
    forms: Forms
    deciding: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    @classmethod
    def open(cls, settings: ConsoleSettings, secret: str) -> "Console":
        """Opens the stores.

        Raises:
            StoreError: one of them cannot be used.
        """
        return cls(settings, LedgerStore(settings.ledger_url), Candidates(Registry(settings.tracking)), Forms(secret))

    def ledger(self) -> LedgerState:
        """The ledger, checked now."""
        return read_ledger(self.store, self.settings)

    def readable_models(self) -> list[str]:
        """Models that the sender of this request may read, sorted."""
        return [name for name in self.candidates.names() if permission_on(name) != "none"]

    def require_readable(self, model: str) -> Permission:
        """The sender's permission on a model.

        Raises:
            Refused: there is none, or no such model; the answer is the same.
        """
        permission = permission_on(model) if model in self.candidates.names() else "none"
        if permission == "none":
            raise not_found(f"model {model}")
        return permission

    def readable_entries(self, state: LedgerState) -> list[Entry]:
        """Entries about models that the sender may read, in the order of the ledger."""
        known = {entry.statement.subject.model for entry in state.entries}
        readable = {model for model in known if permission_on(model) != "none"}
        return [entry for entry in state.entries if entry.statement.subject.model in readable]


def running() -> Console:
    """The console of this request's application."""
    from flask import current_app

    return cast("Console", current_app.extensions[EXTENSION])
