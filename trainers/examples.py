"""The one reader of transformed examples: both frameworks see the same rows in the same order."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from components.core.contracts import ModelSpec
from components.core.errors import TrainingError

_READ_ROWS = 4096
_SHUFFLE_ROWS = 65_536
Features = dict[str, NDArray[Any]]
Batch = tuple[Features, NDArray[np.int64]]


def limit_threads(threads: int) -> None:
    """Limits TensorFlow's threads an operation, if it has not started yet: afterwards it cannot be changed."""
    if tf.config.threading.get_intra_op_parallelism_threads() != threads:
        try:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
        except RuntimeError:  # it runs already, as in a test process
            return


class ExampleReader:
    """Batches of one split, from gzip TFRecord files of tf.Example.

    A split of at most `cache_bytes` (dense arrays) is parsed once and kept in memory; each epoch then is one exact permutation of its
    rows. A larger split is read from its files each epoch, the files and a window of 65,536 rows shuffled. Both orders depend on the
    seed and the epoch's number alone, so a training that goes on at epoch 7 sees what it would have seen. The last, smaller batch is kept.

    Attributes:
        rows: number of rows; None before the first `batches` and for a split that is not kept in memory.
    """

    def __init__(
        self,
        files: Sequence[str],
        spec: ModelSpec,
        *,
        label: str,
        batch_size: int,
        shuffle_seed: int | None = None,
        cache_bytes: int = 2**28,
    ) -> None:
        self._files = sorted(files)
        self._spec = spec
        self._label = label
        self._batch_size = batch_size
        self._seed = shuffle_seed
        self._cache_bytes = cache_bytes
        self._opened = False
        self._kept: Batch | None = None
        self._in_memory: tf.data.Dataset | None = None
        self.rows: int | None = None

    @property
    def steps(self) -> int | None:
        """Batches an epoch; None where `rows` is."""
        return None if self.rows is None else -(-self.rows // self._batch_size)

    def batches(self, epoch: int) -> tf.data.Dataset:
        """Batches of one epoch: `(features, labels)`, features name -> float32/int64[B, *shape], labels int64[B].

        Only one epoch may be read at a time.

        Args:
            epoch: counted from 1; decides the order when there is a `shuffle_seed`.

        Raises:
            TrainingError: the split has no rows, a label or id outside its range, or a number that is not finite.
        """
        if not self._opened:
            self._open()
        if self._kept is None:
            return self._from_files(epoch)
        if self._in_memory is None:
            self._in_memory = self._gathered(*self._kept)
        self._order.assign(self._permutation(epoch))
        return self._in_memory

    def arrays(self, epoch: int) -> Iterator[Batch]:
        """The same batches as NumPy arrays.

        Of a split in memory a batch is gathered here, without a way through TensorFlow's threads; of a split in files it is a read-only
        view of TensorFlow's memory, not a copy.
        """
        if not self._opened:
            self._open()
        if self._kept is None:
            yield from self._from_files(epoch).as_numpy_iterator()
            return
        features, labels = self._kept
        order = self._permutation(epoch)
        for start in range(0, order.size, self._batch_size):
            index = order[start : start + self._batch_size]
            yield {name: column[index] for name, column in features.items()}, labels[index]

    def _permutation(self, epoch: int) -> NDArray[np.int64]:
        rows = self.rows or 0
        return np.arange(rows) if self._seed is None else self._random(epoch).permutation(rows)

    def _random(self, epoch: int) -> np.random.Generator:
        return np.random.default_rng([self._seed or 0, epoch])

    def _open(self) -> None:
        """Reads the split up to the bound, checks what it reads, and keeps it where all of it fits."""
        parts: list[Batch] = []
        size = 0
        for features, labels in _parsed(tf.data.TFRecordDataset(self._files, "GZIP"), self._spec, self._label, rows=_READ_ROWS):
            size += sum(array.nbytes for array in features.values()) + labels.nbytes
            check_batch(features, labels, self._spec)
            if size > self._cache_bytes:
                break
            parts.append((features, labels))
        if size == 0:
            raise TrainingError(f"the split in {self._files[0]} has no rows; look at the ingest and its split weights")
        self._opened = True
        if size <= self._cache_bytes:
            self._kept = (
                {name: np.concatenate([features[name] for features, _ in parts]) for name in parts[0][0]},
                np.concatenate([labels for _, labels in parts]),
            )
            self.rows = int(self._kept[1].size)

    def _gathered(self, features: Features, labels: NDArray[np.int64]) -> tf.data.Dataset:
        """The split in memory as a data set that gathers each batch in the order of `_order`."""
        columns = {name: tf.constant(column) for name, column in features.items()}
        targets = tf.constant(labels)
        # A variable, because a new data set for each epoch would be traced anew: 50 ms an epoch.
        self._order = order = tf.Variable(np.arange(labels.size), trainable=False)

        def gather(start: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
            index = order[start : start + self._batch_size]
            return {name: tf.gather(column, index) for name, column in columns.items()}, tf.gather(targets, index)

        return _quiet(tf.data.Dataset.range(0, labels.size, self._batch_size).map(gather).prefetch(2))

    def _from_files(self, epoch: int) -> tf.data.Dataset:
        files = list(self._files)
        if self._seed is not None:
            random = self._random(epoch)
            files = [files[index] for index in random.permutation(len(files))]
            records = tf.data.TFRecordDataset(files, "GZIP").shuffle(_SHUFFLE_ROWS, seed=int(random.integers(1, 2**31)))
        else:
            records = tf.data.TFRecordDataset(files, "GZIP")
        batches = _parsed_tensors(records, self._spec, self._label, rows=self._batch_size)
        if epoch <= 1:
            batches = batches.map(self._checked)
        return _quiet(batches.prefetch(2))

    def _checked(self, features: dict[str, tf.Tensor], labels: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        names = sorted(features)

        def check(labels: NDArray[np.int64], *columns: NDArray[Any]) -> NDArray[np.int64]:
            check_batch(dict(zip(names, columns, strict=True)), labels, self._spec)
            return labels

        checked = tf.numpy_function(check, [labels, *(features[name] for name in names)], tf.int64)
        return features, tf.ensure_shape(checked, labels.shape)


def check_batch(features: Features, labels: NDArray[np.int64], spec: ModelSpec) -> None:
    """Refuses what one framework would take in silence and the other not.

    Raises:
        TrainingError: a label outside the classes, an id outside its vocabulary, a float that is not finite; names feature and value.
    """
    wrong = labels[(labels < 0) | (labels >= len(spec.classes))]
    if wrong.size:
        raise TrainingError(
            f"the label is {wrong[0]} in {wrong.size} of {labels.size} rows; allowed are the indices of {list(spec.classes)}: "
            "map every label in preprocessing_fn"
        )
    for feature in spec.floats:
        values = features[feature.name]
        if not np.isfinite(values).all():
            raise TrainingError(
                f"transformed feature {feature.name!r} holds {(~np.isfinite(values)).sum()} values that are not finite "
                f"in {labels.size} rows; fill missing values in preprocessing_fn before scaling"
            )
    for feature in spec.ids:
        values = features[feature.name]
        size = feature.vocabulary_size or 0
        outside = values[(values < 0) | (values >= size)]
        if outside.size:
            raise TrainingError(
                f"transformed id feature {feature.name!r} is {outside[0]}; allowed are 0 to {size - 1}: see preprocessing_fn"
            )


def _parsed_tensors(records: tf.data.Dataset, spec: ModelSpec, label: str, *, rows: int) -> tf.data.Dataset:
    """Batches first, then parses a batch at once: several times faster than row by row."""
    columns = {feature.name: tf.io.FixedLenFeature(feature.shape, tf.dtypes.as_dtype(feature.dtype)) for feature in spec.features}
    columns[label] = tf.io.FixedLenFeature((), tf.int64)

    def parse(batch: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        features = tf.io.parse_example(batch, columns)
        return features, features.pop(label)

    return records.batch(rows).map(parse)


def _parsed(records: tf.data.Dataset, spec: ModelSpec, label: str, *, rows: int) -> Iterator[Batch]:
    yield from _quiet(_parsed_tensors(records, spec, label, rows=rows).prefetch(2)).as_numpy_iterator()


def _quiet(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """One reading thread beside the training: the other core belongs to the other trainer."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.deterministic = True
    options.autotune.enabled = False
    return dataset.with_options(options)
