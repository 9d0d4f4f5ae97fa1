import dataclasses
import itertools
import warnings

import numpy as np
import pytest
import tensorflow as tf
import torch

from components.core.contracts import ModelSpec, TransformedFeature
from components.core.errors import TrainingError
from trainers.examples import ExampleReader
from trainers.lightning.data import ExamplesDataModule, TorchBatches

SPEC = ModelSpec(
    features=(TransformedFeature(name="row", dtype="float32"), TransformedFeature(name="id", dtype="int64", vocabulary_size=7)),
    classes=("no", "yes"),
)


def write_rows(folder, rows, shards=2):
    """Rows of (row, id, label) as gzip TFRecord files."""
    paths = [folder / f"part-{shard}.gz" for shard in range(shards)]
    for shard, path in enumerate(paths):
        with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
            for row, key, label in rows[shard::shards]:
                feature = {
                    "row": tf.train.Feature(float_list=tf.train.FloatList(value=[row])),
                    "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[key])),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return [str(path) for path in paths]


@pytest.fixture
def files(tmp_path):
    return write_rows(tmp_path, [(float(row), row % 7, row % 2) for row in range(50)])


def reader(files, **options):
    return ExampleReader(files, SPEC, **({"label": "y", "batch_size": 16} | options))


def rows_of(reader, epoch):
    return [list(features["row"].astype(int)) for features, _ in reader.arrays(epoch)]


MODES = pytest.mark.parametrize("cache_bytes", [2**20, 0], ids=["in memory", "from files"])


@MODES
def test_every_row_once_and_the_last_batch_is_kept(files, cache_bytes):
    for seed in (None, 1):
        batches = rows_of(reader(files, cache_bytes=cache_bytes, shuffle_seed=seed), 1)
        assert [len(batch) for batch in batches] == [16, 16, 16, 2]
        assert sorted(itertools.chain.from_iterable(batches)) == list(range(50))


@MODES
def test_rows_stay_together(files, cache_bytes):
    for features, labels in reader(files, cache_bytes=cache_bytes, shuffle_seed=1).arrays(2):
        np.testing.assert_array_equal(features["id"], features["row"].astype(int) % 7)
        np.testing.assert_array_equal(labels, features["row"].astype(int) % 2)


@MODES
def test_order_depends_on_seed_and_epoch_alone(files, cache_bytes):
    first = reader(files, cache_bytes=cache_bytes, shuffle_seed=1)
    orders = [rows_of(first, epoch) for epoch in (1, 2, 3)]
    assert orders[0] != orders[1] != orders[2]
    assert rows_of(reader(files, cache_bytes=cache_bytes, shuffle_seed=1), 3) == orders[2]
    assert rows_of(reader(files, cache_bytes=cache_bytes, shuffle_seed=2), 1) != orders[0]
    plain = reader(files, cache_bytes=cache_bytes)
    assert rows_of(plain, 1) == rows_of(plain, 2)


def test_the_bound_decides_what_is_kept_in_memory(files):
    size = 50 * (4 + 8 + 8)
    kept, streamed = reader(files, cache_bytes=size), reader(files, cache_bytes=size - 1)
    assert rows_of(kept, 0) != [] != rows_of(streamed, 0)
    assert (kept.rows, kept.steps) == (50, 4)
    assert (streamed.rows, streamed.steps) == (None, None)


@MODES
def test_both_frameworks_see_the_same_rows_in_the_same_order(workplace, cache_bytes):
    job = workplace.job("lightning", cache_bytes=cache_bytes)
    options = {"label": "y", "batch_size": 16, "shuffle_seed": job.training.seed, "cache_bytes": cache_bytes}
    keras_reader = ExampleReader(job.train_files, job.spec, **options)
    batches = ExamplesDataModule(job).train_dataloader()
    for epoch in (1, 2):
        batches.epoch = epoch
        compared = 0
        for (features, labels), (torch_features, torch_labels) in zip(keras_reader.batches(epoch), batches, strict=True):
            for name, column in features.items():
                np.testing.assert_array_equal(column.numpy(), torch_features[name].numpy())
            np.testing.assert_array_equal(labels.numpy(), torch_labels.numpy())
            compared += len(labels)
        assert compared == 50


@MODES
def test_torch_sees_the_memory_of_the_reader_without_a_warning(files, cache_bytes):
    source = reader(files, cache_bytes=cache_bytes)
    seen = []

    @dataclasses.dataclass
    class Recorder:
        reader: ExampleReader

        def arrays(self, epoch):
            for features, labels in self.reader.arrays(epoch):
                seen.append(features["row"])
                yield features, labels

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for index, (features, labels) in enumerate(TorchBatches(Recorder(source))):
            assert features["row"].data_ptr() == seen[index].__array_interface__["data"][0]
            assert (features["row"].dtype, features["id"].dtype, labels.dtype) == (torch.float32, torch.int64, torch.int64)
    assert len(seen) == 4


@MODES
def test_memory_outlives_its_batch(files, cache_bytes):
    batches = [features["row"] for features, _ in TorchBatches(reader(files, cache_bytes=cache_bytes))]
    assert sorted(torch.cat(batches).int().tolist()) == list(range(50))


@MODES
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ((1.0, 1, -1), ("label is -1 in 1 of", "['no', 'yes']")),
        ((1.0, 1, 2), ("label is 2",)),
        ((1.0, 7, 0), ("'id' is 7", "0 to 6")),
        ((1.0, -1, 0), ("'id' is -1", "0 to 6")),
        ((float("nan"), 1, 0), ("'row' holds 1 values", "not finite")),
    ],
)
def test_what_the_frameworks_would_treat_differently_is_refused(tmp_path, bad, words, cache_bytes):
    files = write_rows(tmp_path, [(0.0, 0, 0), bad])
    with pytest.raises(TrainingError) as caught:
        list(reader(files, cache_bytes=cache_bytes).arrays(1))
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_bad_row_far_into_a_split_that_is_read_from_files_is_refused(tmp_path):
    files = write_rows(tmp_path, [*((float(row), 0, 0) for row in range(5000)), (1.0, 9, 0)], shards=1)
    with pytest.raises(Exception, match="'id' is 9; allowed are 0 to 6"):
        list(reader(files, cache_bytes=10).arrays(1))


def test_no_rows_is_refused(tmp_path):
    with pytest.raises(TrainingError, match="has no rows"):
        list(reader(write_rows(tmp_path, []), cache_bytes=100).arrays(1))
