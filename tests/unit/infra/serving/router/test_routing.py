"""Who serves a request, what is seen of its answer, and what is logged."""

import hashlib
import math

import numpy as np
import pytest

from components.core.rollout import RolloutRule, Traffic, bucket
from infra.serving.router.routing import Answered, Routing, json_scores
from tests.unit.infra.serving.router.rollout_ledger import MODEL, version


class Conductor:
    """A split that stands; remembers what it was shown."""

    def __init__(self, split, *, watching=True):
        self.held_split, self.watching, self.seen = split, watching, []

    def split(self, model):
        return self.held_split if model == MODEL else None

    def watches(self, model):
        del model
        return self.watching

    def saw(self, model, served, observation):
        self.seen.append((model, served.version, observation))


class Log:
    def __init__(self, *, chosen=True):
        self.chosen, self.shares, self.logged = chosen, [], []

    def wants(self, share):
        self.shares.append(share)
        return self.chosen

    def add(self, request):
        self.logged.append(request)


def split(share=20, **rule):
    return Traffic(model=MODEL, champion=version("1"), canary=version("2"), share=share, rule=RolloutRule(**rule))


def routing(traffic, *, log=None, log_share=None, watching=True):
    return Routing(Conductor(traffic, watching=watching), log=log, log_share=log_share)


def test_the_hash_of_the_key_decides():
    made = routing(split())
    for number in range(500):
        key = f"user-{number}".encode()
        route = made.route(MODEL, key, b"body")
        assert (route.version.version, route.role) == (("2", "canary") if bucket(MODEL, key) < 2000 else ("1", "champion"))
    assert made.route("unknown", b"k", b"") is None
    assert routing(Traffic(model=MODEL)).route(MODEL, b"k", b"") is None


@pytest.mark.parametrize("key", [None, b""])
def test_without_a_key_the_content_decides(key):
    route = routing(split()).route(MODEL, key, b"body")
    assert route.key == hashlib.sha256(b"body").digest()


def test_any_bytes_are_a_key():
    assert routing(split()).route(MODEL, b"\xff\x00\xfe", b"").key == b"\xff\x00\xfe"


def test_a_canary_that_failed_gives_the_request_to_the_champion():
    made = routing(split(share=100))
    route = made.route(MODEL, b"k", b"")
    assert (route.role, route.to_champion().version.version) == ("canary", "1")
    assert route.to_champion().to_champion() is None


def test_shadows_only_in_shadow_mode():
    assert routing(split(share=0)).route(MODEL, b"k", b"").to_shadow() is None
    route = routing(split(share=0, shadow=True), log=Log()).route(MODEL, b"k", b"")
    assert (route.version.version, route.to_shadow().version.version, route.to_shadow().role) == ("1", "2", "shadow")
    assert (route.logged, route.to_shadow().logged) == (True, False)
    assert routing(split(share=5, shadow=True)).route(MODEL, b"k", b"").to_shadow() is None


def answered(**changed):
    return Answered(**{
        "protocol": "rest", "method": "predict", "status": "200", "failed": False, "latency_ms": 2.0, "request": b"body",
        "scores": np.array([[0.5, math.nan]]), **changed,
    })  # fmt: skip


def test_answers_are_counted_judged_and_logged():
    log = Log()
    made = routing(split(log_share=0.25), log=log)
    route = made.route(MODEL, b"secret user", b"body")
    made.saw(route, answered())
    (seen,) = made.conductor.seen
    assert (seen[1], seen[2].not_finite) == (route.version.version, True)
    assert log.shares == [0.25]
    (logged,) = log.logged
    assert (logged.request, logged.scores[0][0], math.isnan(logged.scores[0][1])) == (b"body", 0.5, True)
    assert logged.key_digest == hashlib.sha256(b"secret user").hexdigest()[:16]
    assert f'tandem_router_requests_total{{model="{MODEL}",version="1",role="champion",status="200"}} 1' in text(made)


def text(made):
    return made.counts.text([made.conductor.split(MODEL)], held=[MODEL], log_dropped=3, shadows_dropped=4)


def test_questions_about_a_model_are_counted_and_not_judged():
    log = Log()
    made = routing(split(), log=log)
    made.saw(made.route(MODEL, b"k", b""), answered(method="GetModelMetadata", judged=False))
    assert (made.conductor.seen, log.logged) == ([], [])
    assert "} 1" in text(made)


def test_scores_are_read_only_where_they_are_needed():
    quiet = routing(split(), log=Log(chosen=False), watching=False)
    assert not quiet.looks_at(quiet.route(MODEL, b"k", b""))
    logging = routing(split(), log=Log(), watching=False)
    assert logging.looks_at(logging.route(MODEL, b"k", b""))
    watching = routing(split())
    assert watching.looks_at(watching.route(MODEL, b"k", b""))


def test_the_share_of_the_command_line_comes_first():
    log = Log()
    routing(split(log_share=0.25), log=log, log_share=1.0).route(MODEL, b"k", b"")
    assert log.shares == [1.0]


def test_metrics_say_what_is_held_and_dropped():
    lines = text(routing(split())).splitlines()
    for line in (
        f'tandem_router_canary_share{{model="{MODEL}"}} 0.2',
        f'tandem_router_canary_held{{model="{MODEL}"}} 1',
        "tandem_router_log_dropped_total 3",
        "tandem_router_shadows_dropped_total 4",
    ):
        assert line in lines


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"predictions": [{"scores": [0.25, 0.75], "classes": ["a", "b"]}]}', [[0.25, 0.75]]),
        (b'{"predictions": [[0.25, 0.75], [1, 0]]}', [[0.25, 0.75], [1, 0]]),
        (b'{"predictions": [0.25, 0.75]}', [[0.25], [0.75]]),
        (b'{"outputs": {"scores": [[0.25, 0.75]]}}', [[0.25, 0.75]]),
        (b'{"outputs": [[0.25, 0.75]]}', [[0.25, 0.75]]),
        (b'{"predictions": [{"scores": [NaN, Infinity]}]}', [[math.nan, math.inf]]),
        (b'{"predictions": [[null, 0.5]]}', [[math.nan, 0.5]]),
        (b'{"predictions": [[0.1], [0.1, 0.2]]}', None),
        (b'{"predictions": [{"value": [0.1]}]}', None),
        (b'{"predictions": [["a"]]}', None),
        (b'{"predictions": [[[0.1]]]}', None),
        (b'{"error": "no"}', None),
        (b"[1]", None),
        (b"\xff", None),
        (b'{"predictions": [[1' + b"0" * 400 + b"]]}", None),
        (b"[" * 100_000, None),
    ],
)
def test_scores_of_a_rest_answer(body, expected):
    found = json_scores(body)
    if expected is None:
        assert found is None
    else:
        np.testing.assert_array_equal(found, np.array(expected, float))
