"""Rows a second of the torch feed of the Lightning trainer against the bare tf.data reader, on the same files.

The bare reader is the loop of TFRecordDataset, batch, parse_example and as_numpy_iterator, with tf.data's own threads. The feed is read in
the ways in which a training meets it: the first epoch of a split that fits into memory (opened, checked and read), a later epoch of it, and
an epoch of a split that does not fit and is read from its files, in their order and, against a bare reader that shuffles too, shuffled.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from figures import Figure, Place, alternate, bench_main, median_figure, ratio
from product import fresh_folder

from components.core.contracts import ModelSpec, TransformedFeature

ROWS = 200_000
FILES = 4
FLOATS = tuple(f"number_{index}" for index in range(8))
IDS = ("word_0", "word_1")
LABEL = "label"
VOCABULARY = 1000
BATCHES = (256, 4096)
LEAST_RATIO = 0.8
IN_MEMORY_BYTES = 2**28
BARE = ("bare tf.data", "bare tf.data, shuffled")
SHUFFLED_ROWS = 65_536
"""Window of the feed's own shuffle."""
Epoch = Callable[[], int]


def measure(place: Place) -> list[Figure]:
    """Rounds of bare reader and feed for each batch size; one round before is thrown away."""
    files = write_examples(place.folder / "torch-feed")
    figures: list[Figure] = []
    for batch_size in BATCHES:
        epochs = _epochs(files, batch_size)
        alternate({name: _timed(epoch) for name, epoch in epochs.items()}, 1)
        rates = alternate({name: _timed(epoch) for name, epoch in epochs.items()}, place.repeats)
        for name, samples in rates.items():
            figures.append(median_figure(f"{name}, batch {batch_size}", samples, "rows/s"))
        for name in list(rates)[len(BARE) :]:
            bare = BARE[name.endswith("shuffled")]
            value = ratio(rates[name], rates[bare])
            figures.append(Figure(f"{name}, against {bare}, batch {batch_size}", value, "x", LEAST_RATIO, "at least"))
    return figures


def _timed(epoch: Epoch) -> Callable[[int], float]:
    """Rows a second of one epoch."""

    def rate(_: int) -> float:
        began = time.perf_counter()
        rows = epoch()
        seconds = time.perf_counter() - began
        if rows != ROWS:
            raise ValueError(f"{rows} rows were read, {ROWS} were written")
        return rows / seconds

    return rate


def _epochs(files: list[str], batch_size: int) -> dict[str, Epoch]:
    """Name -> a function that reads one epoch and returns its rows."""
    return {
        BARE[0]: lambda: sum(len(labels) for _, labels in bare_reader(files, batch_size)),
        BARE[1]: lambda: sum(len(labels) for _, labels in bare_reader(files, batch_size, shuffled=True)),
        "feed, first epoch": _first_epoch(files, batch_size),
        "feed, later epoch in memory": _later_epoch(files, batch_size, cache_bytes=IN_MEMORY_BYTES, seed=0),
        "feed, epoch from files": _later_epoch(files, batch_size, cache_bytes=0, seed=None),
        "feed, epoch from files, shuffled": _later_epoch(files, batch_size, cache_bytes=0, seed=0),
    }


def bare_reader(files: list[str], batch_size: int, *, shuffled: bool = False) -> Iterator[tuple[dict[str, Any], Any]]:
    """Features and labels as NumPy arrays, as tf.data reads them with no options set."""
    import tensorflow as tf

    columns = {name: tf.io.FixedLenFeature((), tf.float32) for name in FLOATS}
    columns |= {name: tf.io.FixedLenFeature((), tf.int64) for name in (*IDS, LABEL)}
    records = tf.data.TFRecordDataset(files, "GZIP")
    if shuffled:
        records = records.shuffle(SHUFFLED_ROWS, seed=0)
    parsed = records.batch(batch_size).map(lambda batch: tf.io.parse_example(batch, columns))
    for features in parsed.as_numpy_iterator():
        labels = features.pop(LABEL)
        yield features, labels


def _batches(files: list[str], batch_size: int, *, cache_bytes: int, seed: int | None) -> Any:
    from trainers.examples import ExampleReader
    from trainers.lightning.data import TorchBatches

    features = [TransformedFeature(name=name, dtype="float32") for name in FLOATS]
    features += [TransformedFeature(name=name, dtype="int64", vocabulary_size=VOCABULARY) for name in IDS]
    spec = ModelSpec(features=tuple(features), classes=("no", "yes"))
    return TorchBatches(ExampleReader(files, spec, label=LABEL, batch_size=batch_size, shuffle_seed=seed, cache_bytes=cache_bytes))


def _first_epoch(files: list[str], batch_size: int) -> Epoch:
    def epoch() -> int:
        return sum(len(labels) for _, labels in _batches(files, batch_size, cache_bytes=IN_MEMORY_BYTES, seed=0))

    return epoch


def _later_epoch(files: list[str], batch_size: int, *, cache_bytes: int, seed: int | None) -> Epoch:
    """Epochs of one reader; the round that is thrown away is its first one."""
    batches = _batches(files, batch_size, cache_bytes=cache_bytes, seed=seed)

    def epoch() -> int:
        rows = sum(len(labels) for _, labels in batches)
        batches.epoch += 1
        return rows

    return epoch


def write_examples(folder: Path) -> list[str]:
    """Random rows as Transform writes them: gzip TFRecord of tf.Example, eight floats, two ids and a label."""
    import numpy as np
    import tensorflow as tf

    fresh_folder(folder)
    random = np.random.default_rng(0)
    paths = [str(folder / f"examples-{number}.gz") for number in range(FILES)]
    for path in paths:
        rows = ROWS // FILES
        floats = {name: random.normal(size=rows).astype(np.float32).tolist() for name in FLOATS}
        ids = {name: random.integers(0, VOCABULARY, rows).tolist() for name in IDS} | {LABEL: random.integers(0, 2, rows).tolist()}
        with tf.io.TFRecordWriter(path, "GZIP") as writer:
            for row in range(rows):
                feature = {name: tf.train.Feature(float_list=tf.train.FloatList(value=[values[row]])) for name, values in floats.items()}
                feature |= {name: tf.train.Feature(int64_list=tf.train.Int64List(value=[values[row]])) for name, values in ids.items()}
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return paths


if __name__ == "__main__":
    bench_main(measure)
