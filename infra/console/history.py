"""The history of one model: which version was champion from when to when."""

import dataclasses
from collections.abc import Sequence

from components.core.ledger import Entry
from components.core.rollout import ServedVersion, traffic

_MOVES = ("rollout_step", "rollback")


@dataclasses.dataclass(frozen=True)
class Reign:
    """A time in which one version was champion.

    Attributes:
        begun, ended: UTC, ISO 8601; `ended` is empty while it goes on.
        entry: sequence of the ledger's entry that began it.
    """

    version: ServedVersion
    begun: str
    ended: str
    entry: int


def reigns(entries: Sequence[Entry], model: str) -> list[Reign]:
    """Every champion of a model, the newest first.

    Args:
        entries: the ledger, checked.
        model: name in the registry, without `-prod`.
    """
    about = [entry for entry in entries if entry.statement.subject.model == model]
    found: list[Reign] = []
    for place, entry in enumerate(about, 1):
        if entry.statement.kind not in _MOVES:
            continue
        champion = traffic(about[:place], model).champion
        now = found[-1].version.version if found else None
        if champion is None or champion.version == now:
            continue
        if found:
            found[-1] = dataclasses.replace(found[-1], ended=entry.statement.at)
        found.append(Reign(champion, entry.statement.at, "", entry.statement.sequence))
    return found[::-1]
