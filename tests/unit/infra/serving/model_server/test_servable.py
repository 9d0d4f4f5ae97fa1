"""A loaded version: calls beside TensorFlow's own, threads, memory that goes."""

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from infra.serving.model_server.config import ModelConfig
from infra.serving.model_server.faults import Code, ServingFault
from infra.serving.model_server.library import Library, VersionStatus
from infra.serving.model_server.loader import Loader
from infra.serving.model_server.servable import Servable


def texts(*values):
    array = np.empty(len(values), object)
    array[:] = values
    return array


def test_a_call_is_that_of_the_weight(servable):
    answer = servable.call(servable.signature("double"), {"x": np.array([1.5, -2.0], np.float32)})
    np.testing.assert_array_equal(answer["y"], np.array([4.5, -6.0], np.float32))
    assert answer["y"].dtype == np.float32


@pytest.mark.parametrize("size", [0, 1, 22, 23, 24, 100_000])
def test_strings_of_any_length_come_back(servable, size):
    """Up to 22 bytes lie within TensorFlow's own 24 bytes of a string, longer ones elsewhere."""
    name = bytes(number % 256 for number in range(size))
    answer = servable.call(servable.signature("raw"), {"x": np.ones(2, np.float32), "name": texts(name, b"z")})
    assert answer["name_bytes"].tolist() == [name, b"z"]


def test_no_rows_are_answered_by_no_rows(servable):
    answer = servable.call(servable.signature("raw"), {"x": np.ones(0, np.float32), "name": texts()})
    assert {name: value.shape for name, value in answer.items()} == {"scores": (0, 2), "classes": (0, 2), "name_bytes": (0,)}


def test_arrays_that_lie_crosswise_in_memory_are_read_right(servable):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)[:, 1]
    assert servable.call(servable.signature("double"), {"x": values})["y"].tolist() == [3.0, 15.0, 27.0]


def test_many_threads_get_their_own_answers(servable):
    signature = servable.signature("raw")

    def ask(number):
        answer = servable.call(signature, {"x": np.full(3, number, np.float32), "name": texts(*[f"n{number}".encode() * 9] * 3)})
        return answer["scores"][:, 1].tolist(), set(answer["name_bytes"].tolist())

    with ThreadPoolExecutor(8) as pool:
        for number, (scores, names) in enumerate(pool.map(ask, range(200))):
            assert scores == pytest.approx([0.3 * number] * 3, rel=1e-6)
            assert names == {f"n{number}".encode() * 9}


def test_a_refusal_of_tensorflow_keeps_code_and_words_and_harms_nothing(servable):
    signature = servable.signature("checked")
    for _ in range(3):
        with pytest.raises(ServingFault, match="x is negative") as caught:
            servable.call(signature, {"x": np.array([-1.0], np.float32)})
        assert caught.value.code is Code.INVALID_ARGUMENT
    assert servable.call(signature, {"x": np.array([2.0], np.float32)})["y"].tolist() == [2.0]


def test_closing_waits_for_users_and_takes_no_new_ones(saved_model):
    loaded = Servable("m", 1, saved_model)
    assert loaded.acquire()
    closing = threading.Thread(target=loaded.close)
    closing.start()
    time.sleep(0.1)
    assert closing.is_alive()
    assert not loaded.acquire()
    assert loaded.call(loaded.signature("double"), {"x": np.ones(1, np.float32)})["y"].tolist() == [3.0]
    loaded.release()
    closing.join(10)
    assert not closing.is_alive()


def test_an_unloaded_version_leaves_nothing_behind(saved_model):
    """Loaded and unloaded many times over: no object of a version stays referenced."""
    gone = []
    library = Library()
    config = ModelConfig("m", saved_model.parent)
    library.configure([config])
    loader = Loader(library, config_path=None, poll_s=60.0)
    for _ in range(5):
        loader.look()
        with library.use("m") as used:
            gone.append(weakref.ref(used))
            used.call(used.signature("double"), {"x": np.ones(1, np.float32)})
        del used
        loader.unload_all()
        library.set_status("m", VersionStatus(1))
    gc.collect()
    assert [reference() for reference in gone] == [None] * 5


def test_a_folder_without_a_model_is_refused(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\x12\x01")
    with pytest.raises(ServingFault) as caught:
        Servable("m", 1, tmp_path)
    assert caught.value.code is Code.NOT_FOUND
