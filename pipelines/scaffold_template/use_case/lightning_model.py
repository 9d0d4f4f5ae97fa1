"""The Lightning model: the same layers, sizes and initial distributions as the Keras model."""

import math
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn

from components.core.contracts import ModelSpec

Batch = tuple[dict[str, torch.Tensor], torch.Tensor]


class Classifier(pl.LightningModule):
    """Embeddings and numbers into a small multilayer perceptron."""

    def __init__(self, spec: ModelSpec, hparams: dict[str, Any]) -> None:
        super().__init__()
        self.float_names = [feature.name for feature in spec.floats]
        self.id_names = [feature.name for feature in spec.ids]
        width = hparams["embedding_dim"]
        self.embeddings = nn.ModuleList([nn.Embedding(feature.vocabulary_size or 0, width) for feature in spec.ids])
        columns = sum(math.prod(feature.shape) for feature in spec.floats)
        columns += sum(math.prod(feature.shape) * width for feature in spec.ids)
        sizes = [columns, *hparams["hidden_units"]]
        self.hidden = nn.ModuleList([nn.Linear(sizes[index], sizes[index + 1]) for index in range(len(sizes) - 1)])
        self.dropout = nn.Dropout(hparams["dropout"])
        self.logits = nn.Linear(sizes[-1], len(spec.classes))
        self.learning_rate = hparams.get("learning_rate", 1e-3)
        self._initialise()

    def _initialise(self) -> None:
        """Keras's defaults: Glorot uniform weights, zero biases, embeddings uniform in +-0.05."""
        for embedding in self.embeddings:
            nn.init.uniform_(embedding.weight, -0.05, 0.05)
        for layer in (*self.hidden, self.logits):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, features: dict[str, torch.Tensor]) -> torch.Tensor:
        """Name -> float32[N, *shape] or int64[N, *shape] to logits float32[N, C]."""
        columns = [features[name].flatten(1) if features[name].dim() > 1 else features[name].unsqueeze(1) for name in self.float_names]
        columns += [embedding(features[name]).flatten(1) for name, embedding in zip(self.id_names, self.embeddings, strict=True)]
        hidden = torch.cat(columns, dim=1)
        for layer in self.hidden:
            hidden = self.dropout(torch.relu(layer(hidden)))
        return self.logits(hidden)

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        """Mean cross-entropy of one batch, nats."""
        features, labels = batch
        return nn.functional.cross_entropy(self(features).float(), labels)

    def validation_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        """Logits float32[N, C]; the trainer takes all metrics from them."""
        return self(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam, as in the Keras trainer."""
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)


def build_model(spec: ModelSpec, hparams: dict[str, Any]) -> Classifier:
    """Builds the model.

    Args:
        spec: features (float32[N, *shape], int64[N, *shape] ids) and classes.
        hparams: `hidden_units` (units of each hidden layer), `embedding_dim` (width of each id's embedding), `dropout` (0 to 1),
            `learning_rate` (of Adam).

    Returns:
        a LightningModule from name -> tensor to logits float32[N, C].
    """
    return Classifier(spec, hparams)
