"""The transformed examples as a Lightning DataModule: torch sees the reader's memory, nothing is copied."""

from collections.abc import Iterator
from typing import Any

import pytorch_lightning as pl
import torch

from trainers.examples import ExampleReader
from trainers.job import TrainingJob

Batch = tuple[dict[str, torch.Tensor], torch.Tensor]


class TorchBatches:
    """One split as torch batches; each iteration is one epoch.

    Attributes:
        reader: the reader behind it.
        epoch: number of the next epoch, counted from 1; it decides the order.
    """

    def __init__(self, reader: ExampleReader) -> None:
        self.reader = reader
        self.epoch = 1

    def __iter__(self) -> Iterator[Batch]:
        """Batches of epoch `epoch`: name -> float32/int64[B, *shape], and labels int64[B]. They must not be written to."""
        for features, labels in self.reader.arrays(self.epoch):
            # DLPack shares read-only memory; torch.from_numpy would warn about it.
            yield {name: torch.from_dlpack(array) for name, array in features.items()}, torch.from_dlpack(labels)

    def __len__(self) -> int:
        """Batches an epoch.

        Raises:
            TypeError: not known, as the split is read from files; Lightning then counts as it goes.
        """
        steps = self.reader.steps
        if steps is None:
            raise TypeError("the number of batches is not known")
        return steps


class ExamplesDataModule(pl.LightningDataModule):
    """Train and eval split of a job.

    Attributes:
        train, held_out: the two splits.
    """

    def __init__(self, job: TrainingJob) -> None:
        super().__init__()
        options: dict[str, Any] = {"label": job.config.label, "cache_bytes": job.config.cache_bytes}
        train = ExampleReader(job.train_files, job.spec, batch_size=job.training.batch_size, shuffle_seed=job.training.seed, **options)
        self.train = TorchBatches(train)
        self.held_out = TorchBatches(ExampleReader(job.eval_files, job.spec, batch_size=job.eval_batch_size, **options))

    def train_dataloader(self) -> TorchBatches:
        """The train split, in another order each epoch."""
        return self.train

    def val_dataloader(self) -> TorchBatches:
        """The eval split, always in the same order."""
        return self.held_out
