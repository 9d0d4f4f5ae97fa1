"""Warm-up records of every kind that the real server takes, and those that must fail a load."""

import shutil

import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from infra.serving.model_server.faults import Code, ServingFault
from infra.serving.model_server.warmup import MAX_RECORDS, WARMUP, warm_up
from tests.integration.serving.served import write_warmup


@pytest.fixture
def folder(tmp_path):
    (tmp_path / WARMUP).parent.mkdir()
    return tmp_path


def write(folder, *records):
    with tf.io.TFRecordWriter(str(folder / WARMUP)) as writer:
        for record in records:
            writer.write(record if isinstance(record, bytes) else record.SerializeToString())


def by_examples(kind, signature):
    log = prediction_log_pb2.PredictionLog()
    asked = getattr(log, kind).request
    asked.model_spec.name, asked.model_spec.signature_name = "m", signature
    asked.input.example_list.examples.add().features.feature["x"].float_list.value.append(1.0)
    return log


def multi(method):
    log = prediction_log_pb2.PredictionLog()
    asked = log.multi_inference_log.request
    task = asked.tasks.add(method_name=f"tensorflow/serving/{method}")
    task.model_spec.name, task.model_spec.signature_name = "m", "regress"
    asked.input.example_list.examples.add().features.feature["x"].float_list.value.append(1.0)
    return log


def test_no_file_is_no_warm_up(servable, tmp_path):
    assert warm_up(servable, tmp_path) == 0


def test_every_kind_is_answered(servable, folder):
    write(folder, by_examples("classify_log", "classify"), by_examples("regress_log", "regress"), multi("regress"))
    assert warm_up(servable, folder) == 3
    write_warmup(folder, [[1.0], [1.0, 2.0]])
    assert warm_up(servable, folder) == 2


@pytest.mark.parametrize(
    ("record", "code", "words"),
    [
        (b"\xff\xff", Code.INVALID_ARGUMENT, "Failed to parse warmup record: 1"),
        (by_examples("classify_log", "double"), Code.INVALID_ARGUMENT, "No classification inputs found"),
        (multi("predict"), Code.UNIMPLEMENTED, "Unsupported signature method_name"),
        (prediction_log_pb2.PredictionLog(session_run_log=prediction_log_pb2.SessionRunLog()), Code.UNIMPLEMENTED, "session_run_log"),
    ],
)
def test_a_record_that_fails_fails_the_load(servable, folder, record, code, words):
    write(folder, record)
    with pytest.raises(ServingFault, match=words) as caught:
        warm_up(servable, folder)
    assert caught.value.code is code


def test_too_many_records_fail_the_load(servable, folder):
    write_warmup(folder, [[1.0]] * (MAX_RECORDS + 1))
    with pytest.raises(ServingFault, match="exceeds the maximum"):
        warm_up(servable, folder)


def test_a_damaged_file_fails_the_load(servable, folder, tmp_path):
    write_warmup(folder, [[1.0], [2.0]])
    whole = (folder / WARMUP).read_bytes()
    (folder / WARMUP).write_bytes(whole[:-5])
    with pytest.raises(ServingFault, match="damaged behind record 1") as caught:
        warm_up(servable, folder)
    assert caught.value.code is Code.DATA_LOSS
    shutil.rmtree(tmp_path / "assets.extra")
