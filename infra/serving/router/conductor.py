"""Follows the ledger and carries rollouts on: steps when they are due, rollbacks when a guard complains, each one signed entry.

Everything that matters is in the ledger: a router that is started again finds the same split. Only the counts of the step that goes on
begin anew, so a step takes its requests again.
"""

import dataclasses
import datetime
import logging
import threading
from collections.abc import Callable
from typing import Any

from components.core.errors import GateError, TandemError
from components.core.ledger import EMPTY, Entry, Head
from components.core.production_ledger import ProductionLedger
from components.core.rollout import SHARE, ServedVersion, Traffic, traffic
from infra.serving.router.observations import Observation, Window, complaint, summary

LOG = logging.getLogger("tandem.route")
POLL_S = 0.5
_MIRROR_RETRY_S = 5.0


@dataclasses.dataclass
class _Rollout:
    """What was seen since the step that goes on began."""

    split: Traffic
    champion: Window = dataclasses.field(default_factory=Window)
    canary: Window = dataclasses.field(default_factory=Window)


class Conductor:
    """The split of every model, and the thread that keeps it.

    Attributes:
        problem: why the ledger cannot be followed now; the last split that held goes on. Empty when it can.
    """

    def __init__(self, book: ProductionLedger, *, on_change: Callable[[list[Entry]], None], poll_s: float = POLL_S) -> None:
        self.problem = ""
        self._book, self._on_change, self._poll_s = book, on_change, poll_s
        self._head: Head | None = None
        self._splits: dict[str, Traffic] = {}
        self._rollouts: dict[str, _Rollout] = {}
        self._to_mirror: list[Entry] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conductor", daemon=True)
        self._mirror_thread = threading.Thread(target=self._mirror, name="mirror", daemon=True)

    def start(self) -> None:
        """Reads the ledger once, then follows it.

        Raises:
            DecisionError: it does not hold: there is no split to begin with.
            StoreError: it cannot be read.
        """
        self._follow()
        self._thread.start()
        self._mirror_thread.start()

    def stop(self) -> None:
        """Ends the threads."""
        self._stopping.set()
        for thread in (self._thread, self._mirror_thread):
            if thread.is_alive():
                thread.join()

    def split(self, model: str) -> Traffic | None:
        """How the traffic of a model is split; None when the ledger does not know it."""
        return self._splits.get(model)

    def splits(self) -> list[Traffic]:
        """Every split."""
        return list(self._splits.values())

    def saw(self, model: str, version: ServedVersion, observation: Observation) -> None:
        """Takes note of an answer of a version that is part of a rollout."""
        rollout = self._rollouts.get(model)
        if rollout is None:
            return
        canary, champion = rollout.split.canary, rollout.split.champion
        if canary is not None and version.version == canary.version:
            rollout.canary.add(observation)
        elif champion is not None and version.version == champion.version:
            rollout.champion.add(observation)

    def watches(self, model: str) -> bool:
        """Whether answers of this model are looked at now."""
        return model in self._rollouts

    def report(self) -> dict[str, Any]:
        """Every split with what was seen, as JSON."""
        models = {}
        for model, split in self._splits.items():
            rollout = self._rollouts.get(model)
            window_s = split.rule.guards.window_s
            seen = {"canary": rollout.canary, "champion": rollout.champion} if rollout else {}
            models[model] = {
                "labels": split.labels,
                "share": split.share,
                "since": split.since or None,
                "step_requests": rollout.canary.total if rollout else None,
                "window": {role: summary(window.last(window_s)) for role, window in seen.items()},
            }
        return {"schema_version": 1, "problem": self.problem, "models": models}

    def _run(self) -> None:
        while not self._stopping.wait(self._poll_s):
            try:
                self._follow()
                self._conduct()
                self.problem = ""
            except TandemError as error:
                if str(error) != self.problem:
                    LOG.warning("the split stays as it is: %s", error)
                self.problem = str(error)
            except Exception as error:
                # Routing goes on with the last split whatever happens here; /healthz tells.
                self.problem = f"{type(error).__name__}: {error}"
                LOG.exception("the split stays as it is")

    def _follow(self) -> None:
        head = self._book.store.head()
        if head == self._head:
            return
        entries = self._book.entries()
        models = {entry.statement.subject.model for entry in entries}
        splits = {model: traffic(entries, model) for model in models}
        for model, split in splits.items():
            self._settle_rollout(model, split)
        if splits != self._splits:
            self._to_mirror = entries
        self._splits = splits
        self._head = entries[-1].head if entries else EMPTY

    def _settle_rollout(self, model: str, split: Traffic) -> None:
        """Begins the counts anew where a step began; lets them go where no rollout goes on."""
        rollout = self._rollouts.get(model)
        if split.canary is None:
            self._rollouts.pop(model, None)
        elif rollout is None or (rollout.split.canary, rollout.split.since) != (split.canary, split.since):
            self._rollouts[model] = _Rollout(split)
            LOG.info("%s: version %s serves %d %%", model, split.canary.version, split.share)

    def _conduct(self) -> None:
        for model, rollout in list(self._rollouts.items()):
            split, canary = rollout.split, rollout.split.canary
            if canary is None:
                continue
            guards = split.rule.guards
            reason = complaint(rollout.canary.last(guards.window_s), rollout.champion.last(guards.window_s), guards)
            if reason:
                self._enter("rollback", canary, reason=reason)
                LOG.warning("%s: version %s is rolled back: %s", model, canary.version, reason)
            elif self._is_due(rollout):
                share = split.rule.next_share(split.share)
                if share is not None:
                    self._enter("rollout_step", canary, share=share)

    def _is_due(self, rollout: _Rollout) -> bool:
        rule = rollout.split.rule
        lasted = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(rollout.split.since)
        return lasted.total_seconds() >= rule.step_s and rollout.canary.total >= rule.step_requests

    def _enter(self, kind: Any, version: ServedVersion, *, reason: str = "", share: int | None = None) -> None:
        details = {SHARE: str(share)} if share is not None else {}
        try:
            self._book.enter(kind, version, details=details, reason=reason)
        except GateError as error:
            LOG.info("somebody else was first: %s", error)
        self._follow()

    def _mirror(self) -> None:
        """Carries each new split to models.config and the aliases; tries again until it is done, and holds up nothing."""
        wait = self._poll_s
        while not self._stopping.wait(wait):
            entries = self._to_mirror
            if entries is None:
                continue
            try:
                self._on_change(entries)
            except (TandemError, OSError) as error:
                LOG.warning("not mirrored yet: %s", error)
                wait = _MIRROR_RETRY_S
                continue
            wait = self._poll_s
            if self._to_mirror is entries:
                self._to_mirror = None
