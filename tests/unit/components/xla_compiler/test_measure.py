"""Latency: a disturbed round is measured again, and the calmest round is given whole."""

import time
from typing import Any

import pytest
import tensorflow as tf

from components.core.served_model import EXAMPLES, SCORES
from components.xla_compiler import measure


class Signature:
    """Answers after a delay that depends on how often it was called."""

    def __init__(self, slow_calls: int, delay_s: float) -> None:
        self.slow_calls, self.delay_s, self.calls = slow_calls, delay_s, 0

    def __call__(self, **inputs: Any) -> dict[str, Any]:
        self.calls += 1
        if self.calls <= self.slow_calls:
            time.sleep(self.delay_s)
        return {SCORES: tf.zeros([len(inputs[EXAMPLES]), 2])}


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "CALLS", 10)
    monkeypatch.setattr(measure, "LEAST_CALLS", 10)


def test_one_calm_round_is_enough() -> None:
    plain, xla = Signature(0, 0), Signature(0, 0)
    latency = measure.measure_latency(plain, xla, [b"a"], enough_ms=10_000)
    assert (latency.rounds, latency.calls, plain.calls, xla.calls) == (1, 10, 10, 10)


def test_a_disturbed_round_is_measured_again() -> None:
    plain = Signature(5, 0.2)
    latency = measure.measure_latency(plain, Signature(0, 0), [b"a", b"b"], enough_ms=100)
    assert latency.rounds == 2
    assert latency.plain_p99_ms < 100
    assert latency.plain_p50_ms <= latency.plain_p99_ms


def test_a_slow_signature_stays_slow() -> None:
    plain = Signature(10**6, 0.02)
    latency = measure.measure_latency(plain, Signature(0, 0), [b"a"], enough_ms=10)
    assert (latency.rounds, plain.calls) == (measure.ROUNDS, 10 * measure.ROUNDS)
    assert latency.plain_p99_ms >= 20
