"""Which version gets how much traffic: read from the ledger, and from nothing else.

Each step and each rollback is one signed entry, so a process that dies between two of them finds on restart exactly one champion. The
router, the model server's configuration and the registry's aliases follow what `traffic` says; none of them decides.
"""

import hashlib
import itertools
from collections.abc import Iterable
from typing import Self

from pydantic import Field, ValidationError, model_validator

from components.core.contracts import Contract
from components.core.ledger import Entry, Subject

PRODUCTION_VERSION = "production_version"
SHARE = "share"
RULE = "rollout"
"""Keys of the details of promote, push, rollout_step and rollback entries."""
_BUCKETS = 10_000
"""A share is whole percents; the hash places a key to a hundredth of one."""


class Guards(Contract):
    """`[rollout.guards]`: what a candidate may do, over the last `window_s` seconds of its traffic.

    Beyond any limit, and so far that chance does not explain it, it is rolled back.

    Attributes:
        window_s: seconds that are looked at; the newest `min_requests` where fewer came in that time.
        min_requests: of the candidate before a share, a latency or a distribution is judged; NaN is judged at once.
        max_error_share: of its requests that the server answered with an error of its own, 0 to 1.
        max_p99_ms: p99 latency in milliseconds; None = not judged.
        max_p99_ratio: p99 latency over the champion's; None = not judged.
        max_score_shift: Kolmogorov-Smirnov distance (0 to 1) of its scores to the champion's, which see other keys of the same traffic.
    """

    window_s: float = Field(default=60.0, gt=0, le=86_400)
    min_requests: int = Field(default=50, ge=1)
    max_error_share: float = Field(default=0.01, ge=0, lt=1)
    max_p99_ms: float | None = Field(default=None, gt=0)
    max_p99_ratio: float | None = Field(default=3.0, gt=1)
    max_score_shift: float = Field(default=0.25, gt=0, le=1)


class RolloutRule(Contract):
    """`[rollout]`: how traffic moves to a promoted version.

    Attributes:
        steps: percent of the keys that the candidate serves, ascending, the last 100.
        step_s: seconds that a step lasts at least.
        step_requests: requests that the candidate answered in a step at least; not fewer than the guards want to judge.
        shadow: before the first step the candidate gets copies of requests, and its answers are only compared.
        log_share: of the requests that are logged for skew checks, 0 to 1.
        guards: see Guards.
    """

    steps: tuple[int, ...] = (5, 20, 100)
    step_s: float = Field(default=3600.0, ge=0)
    step_requests: int = Field(default=200, ge=1)
    shadow: bool = False
    log_share: float = Field(default=0.0, ge=0, le=1)
    guards: Guards = Guards()

    @model_validator(mode="after")
    def _check(self) -> Self:
        ascending = all(low < high for low, high in itertools.pairwise(self.steps))
        if not self.steps or self.steps[-1] != 100 or self.steps[0] < 1 or not ascending:
            raise ValueError("steps are whole percents that ascend to 100, e.g. [5, 20, 100]")
        if self.step_requests < self.guards.min_requests:
            raise ValueError(
                f"step_requests ({self.step_requests}) is below guards.min_requests ({self.guards.min_requests}): "
                "a step would go on before anything was judged; raise the one or lower the other"
            )
        return self

    def next_share(self, share: int) -> int | None:
        """The step behind `share`; None behind the last."""
        return next((step for step in self.steps if step > share), None)


class ServedVersion(Contract):
    """A version of the production model.

    Attributes:
        version: its number in `<name>-prod`, also the folder on the model server.
        subject: the candidate that it was made from.
        pushed: its bytes lie at the model server.
    """

    version: str
    subject: Subject
    pushed: bool = False


class Traffic(Contract):
    """How the traffic of one model is split.

    Attributes:
        model: name in the registry, without `-prod`.
        champion: serves what the canary does not; None before the first promotion.
        canary: gets `share` percent of the keys; None when no rollout goes on.
        previous: what the champion replaced: where a rollback goes to.
        share: percent of the canary, 0 in shadow mode.
        since: UTC, ISO 8601, of the last step; empty when no rollout goes on.
        rule: of the rollout that goes on.
        promoted: versions that were promoted and not yet started, oldest first.
        retired: versions that may serve no more.
        rolled_back: versions that were rolled back, with the reason.
        stopped: the same versions, as they were.
        odd: entries that do not fit what was before them, one line each; they change nothing.
    """

    model: str
    champion: ServedVersion | None = None
    canary: ServedVersion | None = None
    previous: ServedVersion | None = None
    share: int = 0
    since: str = ""
    rule: RolloutRule = RolloutRule()
    promoted: tuple[ServedVersion, ...] = ()
    retired: tuple[str, ...] = ()
    rolled_back: dict[str, str] = {}
    stopped: tuple[ServedVersion, ...] = ()
    odd: tuple[str, ...] = ()

    @property
    def served(self) -> tuple[ServedVersion, ...]:
        """Every version that a model server has to hold: champion, canary, previous, and what was pushed and waits."""
        waiting = [version for version in self.promoted if version.pushed]
        held = [version for version in (self.champion, self.canary, self.previous, *waiting) if version is not None]
        return tuple({version.version: version for version in held}.values())

    @property
    def labels(self) -> dict[str, str]:
        """Label -> version, as the model server's configuration and the registry's aliases carry them."""
        named = {"champion": self.champion, "canary": self.canary, "previous": self.previous}
        return {label: version.version for label, version in named.items() if version is not None}

    def version_for(self, key: bytes) -> ServedVersion | None:
        """Who serves this request key; the same for the same key while the share stands, and a key once moved to the canary stays there."""
        if self.canary is not None and bucket(self.model, key) < self.share * (_BUCKETS // 100):
            return self.canary
        return self.champion


def bucket(model: str, key: bytes) -> int:
    """Where a request key lies, 0 to 9,999, evenly: the first 8 bytes of SHA-256 over model and key, modulo 10,000."""
    digest = hashlib.sha256(model.encode() + b"\0" + key).digest()
    return int.from_bytes(digest[:8], "big") % _BUCKETS


def traffic(entries: Iterable[Entry], model: str) -> Traffic:
    """Folds the ledger into the split of one model.

    Args:
        entries: the ledger, checked by `ledger.verify`.
        model: name in the registry, without `-prod`.
    """
    state = Traffic(model=model)
    steps = {"promote": _promoted, "push": _pushed, "rollout_step": _stepped, "rollback": _rolled_back, "retire": _retired}
    for entry in entries:
        said = entry.statement
        if said.subject.model != model or said.kind not in steps:
            continue
        version = said.details.get(PRODUCTION_VERSION, "")
        changed = steps[said.kind](state, entry, version)
        if isinstance(changed, str):
            odd = f"entry {said.sequence}: {said.kind.replace('_', ' ')} of {model}-prod/{version or '?'}: {changed}"
            changed = state.model_copy(update={"odd": (*state.odd, odd)})
        state = changed
    return state


def rollback_reason(split: Traffic, subject: Subject) -> str:
    """Why the version made from this candidate was rolled back; empty where it was not, or serves again."""
    return next((split.rolled_back[held.version] for held in reversed(split.stopped) if held.subject == subject), "")


def _promoted(state: Traffic, entry: Entry, version: str) -> Traffic | str:
    known = {held.version for held in (*state.served, *state.promoted)} | set(state.retired)
    if not version or version in known:
        return "it was promoted before" if version else "it names no version"
    made = ServedVersion(version=version, subject=entry.statement.subject)
    stopped = tuple(held for held in state.stopped if held.version != version)
    back = {number: reason for number, reason in state.rolled_back.items() if number != version}
    return state.model_copy(update={"promoted": (*state.promoted, made), "rolled_back": back, "stopped": stopped})


def _pushed(state: Traffic, entry: Entry, version: str) -> Traffic | str:
    waiting = _find(state.promoted, version)
    if waiting is None or waiting.subject != entry.statement.subject:
        return "it was not promoted with these digests"
    pushed = tuple(held.model_copy(update={"pushed": True}) if held is waiting else held for held in state.promoted)
    return state.model_copy(update={"promoted": pushed})


def _stepped(state: Traffic, entry: Entry, version: str) -> Traffic | str:
    said = entry.statement
    try:
        share = int(said.details.get(SHARE, ""))
        rule = RolloutRule.from_json(said.details[RULE]) if RULE in said.details else state.rule
    except (ValueError, ValidationError):
        return "its share or its rule cannot be read"
    if not 0 <= share <= 100:
        return f"a share of {share} %"
    held = state.canary if state.canary and state.canary.version == version else _find(state.promoted, version)
    if held is None or not held.pushed or held.subject != said.subject:
        return "it was not promoted and pushed with these digests"
    if state.canary is not None and held is not state.canary:
        return f"version {state.canary.version} is being rolled out"
    waiting = tuple(other for other in state.promoted if other.version != version)
    common = {"promoted": waiting, "rule": rule}
    if share == 100 or state.champion is None:
        return state.model_copy(update={**common, "champion": held, "previous": state.champion, "canary": None, "share": 0, "since": ""})
    return state.model_copy(update={**common, "canary": held, "share": share, "since": said.at})


def _rolled_back(state: Traffic, entry: Entry, version: str) -> Traffic | str:
    waiting = _find(state.promoted, version)
    changed: dict[str, object]
    if state.canary is not None and state.canary.version == version:
        ended, changed = state.canary, {"canary": None, "share": 0, "since": ""}
    elif state.champion is not None and state.champion.version == version:
        if state.previous is None:
            return "there is no version before it"
        ended, changed = state.champion, {"champion": state.previous, "previous": None, "canary": None, "share": 0, "since": ""}
    elif waiting is not None:
        ended, changed = waiting, {"promoted": tuple(held for held in state.promoted if held is not waiting)}
    else:
        return "it serves nothing"
    back = {**state.rolled_back, version: entry.statement.reason or "no reason given"}
    return state.model_copy(update={**changed, "rolled_back": back, "stopped": (*state.stopped, ended)})


def _retired(state: Traffic, entry: Entry, version: str) -> Traffic | str:
    del entry
    if version in {held.version for held in (state.champion, state.canary) if held is not None}:
        return "it serves; roll it back first"
    previous = None if state.previous is not None and state.previous.version == version else state.previous
    waiting = tuple(held for held in state.promoted if held.version != version)
    stopped = tuple(held for held in state.stopped if held.version != version)
    changed = {"previous": previous, "promoted": waiting, "stopped": stopped, "retired": (*state.retired, version)}
    return state.model_copy(update=changed)


def _find(versions: Iterable[ServedVersion], version: str) -> ServedVersion | None:
    return next((held for held in versions if held.version == version), None)
