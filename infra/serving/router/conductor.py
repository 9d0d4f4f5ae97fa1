"""Follows the ledger and carries rollouts on: steps when they are due, rollbacks when a guard complains, each one signed entry.

Everything that matters is in the ledger: a router that is started again finds the same split. Only what was counted begins anew: a step
takes its requests again, and the guards judge what they see from then on.

A guard does not wait for the ledger. Where it complains, the champion serves everything from that moment on; the entry follows as soon as
the ledger can be written. A router that is started again before that finds the share of the ledger.
"""

import datetime
import logging
import threading
from collections.abc import Callable
from typing import Any

from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from components.core.errors import DecisionError, TandemError
from components.core.ledger import Entry
from components.core.ledger_store import HeadMoved
from components.core.rollout import SHARE, ServedVersion, Traffic, traffic
from infra.serving.router.ledger_follower import LedgerFollower
from infra.serving.router.observations import Observation
from infra.serving.router.watched_rollout import WatchedRollout

LOG = logging.getLogger("tandem.route")
POLL_S = 0.5
_MIRROR_RETRY_S = 5.0
_MIRROR_END_S = 10.0


class Conductor:
    """The split of every model, and the thread that keeps it.

    Attributes:
        problem: why the ledger cannot be followed or written now; the last split that held goes on. Empty when it can.
    """

    def __init__(self, ledger: LedgerFollower, *, on_change: Callable[[list[Entry]], None], poll_s: float = POLL_S) -> None:
        self.problem = ""
        self._ledger, self._on_change, self._poll_s = ledger, on_change, poll_s
        self._splits: dict[str, Traffic] = {}
        self._rollouts: dict[str, WatchedRollout] = {}
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
        """Ends the threads; a mirror that hangs is left behind."""
        self._stopping.set()
        for thread, wait_s in ((self._thread, None), (self._mirror_thread, _MIRROR_END_S)):
            if thread.is_alive():
                thread.join(wait_s)

    def split(self, model: str) -> Traffic | None:
        """How the traffic of a model is split now; None when the ledger does not know it."""
        rollout = self._rollouts.get(model)
        return rollout.served if rollout is not None else self._splits.get(model)

    def splits(self) -> list[Traffic]:
        """Every split as the ledger says."""
        return list(self._splits.values())

    def held(self) -> dict[str, str]:
        """Model -> why its canary gets nothing, though the ledger does not say so yet."""
        return {model: rollout.held for model, rollout in list(self._rollouts.items()) if rollout.held}

    def saw(self, model: str, version: ServedVersion, observation: Observation) -> None:
        """Takes note of an answer of a version that is part of a rollout."""
        rollout = self._rollouts.get(model)
        if rollout is not None:
            rollout.saw(version, observation)

    def compared(self, model: str, canary: Any, champion: Any) -> None:
        """Takes note of the scores, float[N, C], that both versions gave to one request."""
        rollout = self._rollouts.get(model)
        if rollout is not None:
            rollout.comparison.add(canary, champion)

    def watches(self, model: str) -> bool:
        """Whether answers of this model are looked at now."""
        return model in self._rollouts

    def report(self) -> dict[str, Any]:
        """Every split with what was seen, as JSON."""
        models = {}
        for model, split in list(self._splits.items()):
            rollout = self._rollouts.get(model)
            models[model] = {
                "labels": split.labels,
                "share": split.share,
                "since": split.since or None,
                "rolled_back": split.rolled_back,
                **(rollout.report() if rollout is not None else {}),
            }
        return {"schema_version": 1, "problem": self.problem, "models": models}

    def _run(self) -> None:
        while not self._stopping.wait(self._poll_s):
            problem = _problem_of(self._follow)
            self._judge()
            problem = problem or _problem_of(self._carry_on)
            if problem and problem != self.problem:
                LOG.warning("the split stays as it is: %s", problem)
            self.problem = problem

    def _follow(self) -> None:
        if self._ledger.follow():
            entries = self._ledger.entries
            models = {entry.statement.subject.model for entry in entries}
            splits = {model: traffic(entries, model) for model in models}
            changed = splits != self._splits
            self._splits = splits
            for model, split in splits.items():
                self._settle_rollout(model, split)
            if changed:
                self._to_mirror = entries
        if self._ledger.problem:
            raise DecisionError(self._ledger.problem)

    def _settle_rollout(self, model: str, split: Traffic) -> None:
        """Begins a rollout, carries it a step on, or lets it go where none goes on."""
        rollout = self._rollouts.get(model)
        if split.canary is None:
            self._rollouts.pop(model, None)
            return
        if rollout is not None and rollout.goes_on_as(split):
            if rollout.split.since == split.since:
                return
            rollout.begin_step(split)
        else:
            self._rollouts[model] = WatchedRollout(split)
        LOG.info("%s: version %s serves %d %%", model, split.canary.version, split.share)

    def _judge(self) -> None:
        for model, rollout in list(self._rollouts.items()):
            if rollout.judge():
                LOG.warning("%s: version %s is rolled back: %s", model, rollout.canary_version.version, rollout.held)

    def _carry_on(self) -> None:
        now = datetime.datetime.now(datetime.UTC)
        for model, rollout in list(self._rollouts.items()):
            if self._rollouts.get(model) is not rollout:
                continue  # what was followed behind another model's entry ended it
            canary = rollout.canary_version
            if rollout.held:
                self._ledger.enter("rollback", canary, reason=rollout.held)
            elif rollout.is_due(now):
                self._ledger.enter("rollout_step", canary, details={SHARE: str(rollout.next_share)})
            else:
                continue
            self._follow()

    def _mirror(self) -> None:
        """Carries each new split to models.config and the aliases; tries again until it is done, and holds up nothing."""
        wait = self._poll_s
        while not self._stopping.wait(wait):
            entries = self._to_mirror
            if entries is None:
                continue
            wait = _MIRROR_RETRY_S
            try:
                self._on_change(entries)
            except (TandemError, OSError) as error:
                LOG.warning("not mirrored yet: %s", error)
                continue
            except Exception as error:
                # Whatever a mirror's library raises: the thread has to live for the next split.
                LOG.exception("not mirrored yet: %s", type(error).__name__)
                continue
            wait = self._poll_s
            if self._to_mirror is entries:
                self._to_mirror = None


def _problem_of(act: Callable[[], None]) -> str:
    """What went wrong, one line; empty when nothing did, or when another router was first: that shows at the next look."""
    try:
        act()
    except HeadMoved as error:
        LOG.info("somebody else was first: %s", error)
    except TandemError as error:
        return str(error)
    except (SQLAlchemyError, ValidationError, OSError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    except Exception as error:
        # Routing goes on with the last split whatever happens here; /healthz tells.
        LOG.exception("the split stays as it is")
        return f"{type(error).__name__}: {error}"
    return ""
