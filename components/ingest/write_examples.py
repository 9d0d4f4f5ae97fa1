"""Writes the split files of an Examples artifact: whole or not at all."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from components.core.errors import EnvironmentFault
from components.core.files import sync_directory

FILE_NAME = "data_tfrecord-00000-of-00001.gz"
"""The name that TFX's own ExampleGen gives; readers take every file of a split's folder."""

COMPRESSION_LEVEL = 1
"""Level of gzip, 1 to 9."""


def split_file(folder: Path, split: str) -> Path:
    """Where the examples of `split` lie below an Examples artifact."""
    return folder / f"Split-{split}" / FILE_NAME


@contextlib.contextmanager
def open_splits(folder: Path, splits: Sequence[str]) -> Iterator[list[Any]]:
    """Opens a TFRecord writer a split; the files get their names only when the block ends without an error.

    They are written to hidden temporary names beside the targets, synced and renamed. After an error nothing is left.

    Yields:
        Writers in the order of `splits`; `write(serialized)` appends a record.

    Raises:
        EnvironmentFault: the file system refuses a write; free space or give another folder.
    """
    import tensorflow as tf

    targets = [split_file(folder, split) for split in splits]
    temporaries = [target.with_name(f".{target.name}.tmp") for target in targets]
    options = tf.io.TFRecordOptions(compression_type="GZIP", compression_level=COMPRESSION_LEVEL)
    for target in targets:
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(tf.io.TFRecordWriter(str(temporary), options)) for temporary in temporaries]
        for temporary, target in zip(temporaries, targets, strict=True):
            _publish(temporary, target)
    except BaseException as error:
        for path in (*temporaries, *targets):
            path.unlink(missing_ok=True)
        if isinstance(error, tf.errors.OpError | OSError):
            cause = error.message if isinstance(error, tf.errors.OpError) else error.strerror
            raise EnvironmentFault(
                f"{folder}: examples cannot be written ({cause}); free disk space, or give another base folder"
            ) from error
        raise


def _publish(temporary: Path, target: Path) -> None:
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(target)
    sync_directory(target.parent)
