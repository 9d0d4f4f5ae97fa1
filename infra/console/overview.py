"""The first page: what waits for a decision, what nobody asked for yet, and what is in production."""

import dataclasses
import datetime
from collections.abc import Iterable, Sequence

from components.core.approval import ApprovalRule, Standing, standing
from components.core.ledger import Entry
from components.core.rollout import Traffic, rollback_reason, traffic
from infra.console.candidates import Candidates, Listed
from infra.console.settings import ConsoleSettings

NEWEST = 6
"""Candidates that nobody requested, shown for each model; its own page shows all."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A candidate in a list.

    Attributes:
        standing: None where its evidence cannot be read or no rule is known.
        problem: why, one line.
        rule: of its use case; None where it is not known.
        rolled_back: why it was taken out of production; empty where it was not.
    """

    listed: Listed
    standing: Standing | None
    problem: str
    rule: ApprovalRule | None
    rolled_back: str = ""

    @property
    def alarming(self) -> bool:
        """Something that is required did not pass, or somebody overrode it, or it was rolled back."""
        return self.standing is None or bool(self.standing.failed or self.standing.overridden_by or self.rolled_back)


@dataclasses.dataclass(frozen=True)
class Overview:
    """The first page.

    Attributes:
        waiting: requested, not decided yet; what did not pass comes first.
        approved: may be promoted, and is not in production yet.
        unrequested: newest first.
        more: candidates that were left out of `unrequested`.
        production: a line for each model.
    """

    waiting: list[Row]
    approved: list[Row]
    unrequested: list[Row]
    more: int
    production: list[Traffic]


def row_of(listed: Listed, entries: Iterable[Entry], settings: ConsoleSettings, *, now: datetime.datetime) -> Row:
    """Where one candidate stands."""
    model = settings.models.get(listed.version.name)
    if listed.evidence is None:
        return Row(listed, None, listed.problem, model.rule if model else None)
    if model is None:
        return Row(listed, None, f"no pipeline.toml that is known here has the name {listed.version.name}, so no rule is known", None)
    return Row(listed, standing(entries, listed.evidence.candidate, model.rule, now=now), "", model.rule)


def overview(
    candidates: Candidates, names: Iterable[str], entries: Sequence[Entry], *, settings: ConsoleSettings, now: datetime.datetime
) -> Overview:
    """Gathers the first page.

    Args:
        candidates: of the registry.
        names: models that may be shown.
        entries: the ledger, checked.
        settings: of the console.
        now: decisions expire against it.
    """
    found = Overview([], [], [], 0, [])
    more = 0
    for name in names:
        versions = candidates.versions(name)
        if not versions:
            continue
        split = traffic(entries, name)
        found.production.append(split)
        asked = {entry.statement.subject.version for entry in entries if entry.statement.subject.model == name}
        unasked = [version for version in versions if version.version not in asked]
        more += max(0, len(unasked) - NEWEST)
        shown = [*(version for version in versions if version.version in asked), *unasked[:NEWEST]]
        for version in shown:
            _sort_in(found, row_of(candidates.listed(version), entries, settings, now=now), split)
    for rows in (found.waiting, found.approved):
        rows.sort(key=lambda row: (not row.alarming, row.listed.version.name, -int(row.listed.version.version)))
    return dataclasses.replace(found, more=more)


def _sort_in(found: Overview, row: Row, split: Traffic) -> None:
    """Puts a row where it belongs; what ended (rejected, revoked, in production) stands on the model's page alone."""
    placed = {version.subject for version in (*split.served, *split.promoted)}
    status = row.standing.status if row.standing else "not_requested"
    if status == "waiting":
        found.waiting.append(row)
    elif status == "approved":
        if row.listed.evidence is not None and row.listed.evidence.subject not in placed:
            found.approved.append(dataclasses.replace(row, rolled_back=rollback_reason(split, row.listed.evidence.subject)))
    elif status not in ("rejected", "revoked"):
        found.unrequested.append(row)
