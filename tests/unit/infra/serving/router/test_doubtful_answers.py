"""Whose fault a doubtful answer is."""

import numpy as np
import pytest

from components.core.rollout import ServedVersion, Traffic
from infra.serving.router.routing import Answered, Route, Routing
from tests.unit.infra.serving.router.rollout_ledger import MODEL, version

GOOD, NAN = np.array([[0.6, 0.4]]), np.array([[np.nan, 0.4]])


class Watching:
    """A conductor that watches, and remembers what it was shown."""

    def __init__(self):
        self.shown = []

    def watches(self, model):
        return model == MODEL

    def saw(self, model, served, observation):
        self.shown.append((served.version, observation.failed, observation.not_finite))


def answered(*, failed=False, scores=GOOD):
    return Answered("rest", "predict", "500" if failed else "200", failed, 3.0, b"", None if failed else scores)


@pytest.mark.parametrize(
    ("canary", "champion", "shown"),
    [
        (answered(failed=True), answered(), [("2", True, False), ("1", False, False)]),
        (answered(scores=NAN), answered(), [("2", False, True), ("1", False, False)]),
        (answered(failed=True), answered(failed=True), [("1", True, False)]),
        (answered(scores=NAN), answered(scores=NAN), [("1", False, True)]),
        (answered(failed=True), answered(scores=NAN), [("1", False, True)]),
    ],
)
def test_what_the_champion_cannot_answer_either_is_not_the_canarys_fault(canary, champion, shown):
    watching = Watching()
    routing = Routing(watching, log=None, log_share=None)
    split = Traffic(model=MODEL, champion=version("1"), canary=version("2"), share=50)
    route = Route(split, ServedVersion.model_validate(version("2")), "canary", b"k")
    assert (canary.doubtful, champion.doubtful) == (True, champion.failed or champion.scores is NAN)
    routing.saw_both(route, canary, route.to_champion(), champion)
    assert watching.shown == shown
    assert [routing.counts.total(MODEL, role) for role in ("canary", "champion")] == [1, 1]
