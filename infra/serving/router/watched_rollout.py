"""One rollout that goes on: what was seen of its two versions, what the guards say, and when the next step is due."""

import datetime
from typing import Any

from components.core.rollout import ServedVersion, Traffic
from infra.serving.router.observations import Comparison, Observation, Window, complaint, score_distance, summary


class WatchedRollout:
    """A rollout and its windows. They live as long as the rollout: a step does not make the guards forget.

    Attributes:
        split: as the ledger says.
        served: as requests are routed: the same, or all to the champion where a guard complained.
        held: what the guard said; empty when none did. It stays until the ledger has the rollback.
        comparison: of the scores that both versions gave to the same requests (shadow mode).
    """

    def __init__(self, split: Traffic) -> None:
        self.split = self.served = split
        self.held = ""
        self.comparison = Comparison()
        self._champion, self._canary = Window(), Window()
        self._before_step = 0

    @property
    def canary_version(self) -> ServedVersion:
        """The version that is rolled out."""
        if self.split.canary is None:
            raise ValueError("a rollout without a canary")
        return self.split.canary

    @property
    def requests(self) -> int:
        """That the canary answered in this step."""
        return self._canary.total - self._before_step

    @property
    def next_share(self) -> int | None:
        """Percent of the next step."""
        return self.split.rule.next_share(self.split.share)

    def goes_on_as(self, split: Traffic) -> bool:
        """Whether `split` is the same rollout, at this step or a later one."""
        return (split.canary, split.champion) == (self.split.canary, self.split.champion) and split.share >= self.split.share

    def begin_step(self, split: Traffic) -> None:
        """The ledger moved it on."""
        self.split, self._before_step = split, self._canary.total
        self.served = self.split if not self.held else _without_canary(split)

    def saw(self, version: ServedVersion, observation: Observation) -> None:
        """Takes note of an answer of either version."""
        if version.version == self.canary_version.version:
            self._canary.add(observation)
        elif self.split.champion is not None and version.version == self.split.champion.version:
            self._champion.add(observation)

    def judge(self) -> bool:
        """Asks the guards; whether one complains that did not before."""
        if self.held:
            return False
        seen = self._seen()
        self.held = complaint(seen["canary"], seen["champion"], self.split.rule.guards)
        if self.held:
            self.served = _without_canary(self.split)
        return bool(self.held)

    def _seen(self) -> dict[str, list[Observation]]:
        """What the guards look at, by role."""
        guards = self.split.rule.guards
        windows = {"canary": self._canary, "champion": self._champion}
        return {role: window.last(guards.window_s, at_least=guards.min_requests) for role, window in windows.items()}

    def is_due(self, now: datetime.datetime) -> bool:
        """Whether the step lasted and answered what its rule asks for."""
        return self.next_share is not None and now >= self._not_before() and self.requests >= self.split.rule.step_requests

    def _not_before(self) -> datetime.datetime:
        return datetime.datetime.fromisoformat(self.split.since) + datetime.timedelta(seconds=self.split.rule.step_s)

    def report(self) -> dict[str, Any]:
        """What was seen, and what the next step waits for, as JSON."""
        rule = self.split.rule
        seen = self._seen()
        return {
            "step_requests": self.requests,
            "window": {role: summary(observations) for role, observations in seen.items()},
            "score_distance": score_distance(seen["canary"], seen["champion"]),
            "comparison": self.comparison.summary(),
            "held": self.held or None,
            "next_step": {
                "share": self.next_share,
                "not_before": self._not_before().isoformat(),
                "requests_lacking": max(0, rule.step_requests - self.requests),
            },
        }


def _without_canary(split: Traffic) -> Traffic:
    return split.model_copy(update={"share": 0, "rule": split.rule.model_copy(update={"shadow": False})})
