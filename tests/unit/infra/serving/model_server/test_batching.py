"""Requests that share a call: nobody gets another's rows, one bad request fails alone."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest

from components.core.errors import ConfigError
from infra.serving.model_server.batching import Batcher
from infra.serving.model_server.batching_parameters import BatchingParameters, read_parameters
from infra.serving.model_server.faults import Code, ServingFault
from infra.serving.model_server.metrics import Metrics
from infra.serving.model_server.servable import Signature

SIGNATURE = Signature("serving_default", "tensorflow/serving/predict", {}, {}, {})


class Doubling:
    """Stands for a loaded model: answers 2 x, refuses a call in which a row is negative, and remembers the sizes of its calls."""

    def __init__(self, delay_s=0.0):
        self.sizes, self.delay_s, self.lock = [], delay_s, threading.Lock()

    def call(self, signature, inputs, outputs=()):
        del signature, outputs
        with self.lock:
            self.sizes.append(len(inputs["x"]))
        time.sleep(self.delay_s)
        if (inputs["x"] < 0).any():
            raise ServingFault(Code.INVALID_ARGUMENT, "negative")
        return {"y": 2 * inputs["x"]}


def together(batcher, servable, inputs):
    """Calls all at once; answers or faults in the order of the inputs."""
    found = [None] * len(inputs)
    gate = threading.Barrier(len(inputs))

    def call(place):
        gate.wait()
        try:
            found[place] = batcher.call(servable, SIGNATURE, inputs[place])
        except ServingFault as fault:
            found[place] = fault

    threads = [threading.Thread(target=call, args=(place,)) for place in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.fixture
def make():
    made = []

    def batcher(**changes):
        made.append(Batcher(BatchingParameters(**changes)))
        return made[-1]

    yield batcher
    for one in made:
        one.stop()


def test_each_gets_the_answer_to_its_own_rows(make):
    servable = Doubling(0.002)
    batcher = make(max_batch_size=16, batch_timeout_micros=3000)
    chance = np.random.default_rng(1)
    inputs = [{"x": chance.random((int(chance.integers(1, 6)), 2))} for _ in range(40)]
    for given, answer in zip(inputs, together(batcher, servable, inputs), strict=True):
        np.testing.assert_array_equal(answer["y"], 2 * given["x"])
    assert len(servable.sizes) < 40
    assert max(servable.sizes) <= 16


def test_one_bad_request_fails_alone(make):
    batcher = make(max_batch_size=8, batch_timeout_micros=20_000, num_batch_threads=1)
    inputs = [{"x": np.array([[float(value)]])} for value in (1, -1, 3, 4)]
    found = together(batcher, Doubling(), inputs)
    assert [found[place]["y"][0, 0] for place in (0, 2, 3)] == [2.0, 6.0, 8.0]
    assert isinstance(found[1], ServingFault)


def test_calls_are_filled_up_to_an_allowed_size(make):
    servable = Doubling()
    batcher = make(max_batch_size=8, allowed_batch_sizes=(4, 8))
    assert batcher.call(servable, SIGNATURE, {"x": np.ones((3, 1))})["y"].shape == (3, 1)
    assert servable.sizes == [4]


def test_other_shapes_do_not_share_a_call(make):
    servable = Doubling(0.002)
    batcher = make(max_batch_size=8, batch_timeout_micros=20_000)
    found = together(batcher, servable, [{"x": np.ones((1, 2))}, {"x": np.ones((1, 3))}])
    assert [answer["y"].shape for answer in found] == [(1, 2), (1, 3)]
    assert servable.sizes == [1, 1]


def test_more_rows_than_a_batch_are_refused(make):
    with pytest.raises(ServingFault, match="Task size 9 is larger than maximum input batch size 4"):
        make(max_batch_size=4).call(Doubling(), SIGNATURE, {"x": np.ones((9, 1))})


def test_rows_of_other_sizes_share_a_call_when_they_are_padded(make):
    servable = Doubling(0.002)
    batcher = make(max_batch_size=2, batch_timeout_micros=2_000_000, pad_variable_length_inputs=True, num_batch_threads=1)
    found = together(batcher, servable, [{"x": np.array([[1.0, 2.0]])}, {"x": np.array([[3.0, 4.0, 5.0, 6.0]])}])
    # 1 is the first value of the shorter one; it goes behind the values of each of its rows.
    assert [answer["y"].tolist() for answer in found] == [[[2.0, 4.0, 2.0, 2.0]], [[6.0, 8.0, 10.0, 12.0]]]
    assert servable.sizes == [2]


def test_a_request_that_nobody_waits_for_is_not_called(make):
    servable = Doubling()
    batcher = make(max_batch_size=64, batch_timeout_micros=300_000)
    with pytest.raises(ServingFault, match="timeout"):
        batcher.call(servable, SIGNATURE, {"x": np.ones((1, 1))}, timeout_s=0.01)
    assert batcher.waiting_rows() == 0
    time.sleep(0.4)
    assert servable.sizes == []


def test_an_unexpected_fault_ends_no_thread(make):
    batcher = make(num_batch_threads=1)

    class Broken:
        def call(self, signature, inputs, outputs=()):
            raise MemoryError

    with pytest.raises(ServingFault, match="its log says why") as caught:
        batcher.call(Broken(), SIGNATURE, {"x": np.ones((1, 1))})
    assert caught.value.code is Code.INTERNAL
    assert batcher.call(Doubling(), SIGNATURE, {"x": np.ones((1, 1))})["y"].tolist() == [[2.0]]


def test_a_version_is_not_held_after_its_calls(make):
    servable = Doubling()
    gone = weakref.ref(servable)
    batcher = make()
    batcher.call(servable, SIGNATURE, {"x": np.ones((1, 1))})
    del servable
    deadline = time.monotonic() + 5
    while gone() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
        gc.collect()
    assert gone() is None


def test_batches_and_waits_are_counted():
    metrics = Metrics()
    batcher = Batcher(BatchingParameters(), metrics)
    batcher.call(Doubling(), SIGNATURE, {"x": np.ones((3, 1))})
    batcher.stop()
    text = metrics.text(waiting_rows=batcher.waiting_rows())
    assert ":tensorflow:serving:batching_session:wrapped_run_count{} 1" in text
    assert ':tensorflow:serving:batching_session:batch_rows_sum{thread_pool_name=""} 3' in text
    assert ':tensorflow:serving:batching_session:queuing_latency_count{thread_pool_name=""} 1' in text
    assert ":tensorflow:serving:batching_session:queue_rows{} 0" in text


def test_a_full_queue_refuses(make):
    batcher = make(max_batch_size=1, max_enqueued_batches=1, num_batch_threads=1)
    found = together(batcher, Doubling(0.2), [{"x": np.ones((1, 1))}] * 6)
    refused = [one for one in found if isinstance(one, ServingFault)]
    assert refused
    assert {one.code for one in refused} == {Code.RESOURCE_EXHAUSTED}
    assert len(refused) < 6


def test_a_deadline_that_passes_in_the_queue(make):
    batcher = make(max_batch_size=64, batch_timeout_micros=10_000_000)
    with pytest.raises(ServingFault, match="timeout") as caught:
        batcher.call(Doubling(), SIGNATURE, {"x": np.ones((1, 1))}, timeout_s=0.05)
    assert caught.value.code is Code.DEADLINE_EXCEEDED


def test_what_waits_is_answered_before_the_end():
    batcher = Batcher(BatchingParameters(max_batch_size=64, batch_timeout_micros=10_000_000))
    found = []
    thread = threading.Thread(target=lambda: found.append(batcher.call(Doubling(), SIGNATURE, {"x": np.ones((1, 1))})))
    thread.start()
    time.sleep(0.05)
    batcher.stop()
    thread.join(5)
    assert found[0]["y"].tolist() == [[2.0]]


def test_parameters_in_the_words_of_tensorflow_serving(tmp_path):
    path = tmp_path / "batching.txt"
    path.write_text(
        "max_batch_size { value: 128 }  # rows\nbatch_timeout_micros { value: 0 }\nmax_enqueued_batches: { value: 10 }\n"
        "num_batch_threads { value: 8 }\nallowed_batch_sizes : 32\nallowed_batch_sizes: 128\n"
        "pad_variable_length_inputs: true"
    )
    assert read_parameters(path) == BatchingParameters(128, 0, 10, 8, (32, 128), pad_variable_length_inputs=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_batch_sise { value: 3 }", "max_batch_sise"),
        ("max_batch_size { value: many }", "many"),
        ("max_batch_size { value: 0 }", "at least 1"),
        ("max_batch_size { value: 8 }\nallowed_batch_sizes: 4", "end with max_batch_size"),
        ("allowed_batch_sizes: 64\nallowed_batch_sizes: 32", "ascend"),
        ("nonsense", "nonsense"),
        ("max_batch_size: 8", "another form"),
        ("max_batch_size { value: 8 } max_batch_size { value: 9 }", "twice"),
        ("pad_variable_length_inputs: 1", "true and false"),
        ("max_batch_size { value: 99999999999 }", "whole numbers"),
        ("max_batch_size { value: 8", "no batching parameter"),
    ],
)
def test_wrong_parameters_are_refused_by_name(tmp_path, text, words):
    path = tmp_path / "batching.txt"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_parameters(path)
