"""A LightningModule of few weights; `fault` among the hyperparameters makes it fail in a known way."""

import pytorch_lightning as pl
import torch
from torch import nn


class Tiny(pl.LightningModule):
    def __init__(self, spec, hparams):
        super().__init__()
        self.save_hyperparameters()
        self.spec, self.settings = spec, hparams
        self.embeddings = nn.ModuleDict({feature.name: nn.Embedding(feature.vocabulary_size, 1) for feature in spec.ids})
        self.factor = nn.Parameter(torch.ones(()), requires_grad=False)
        self.hidden = nn.Linear(len(spec.features), hparams["units"])
        self.dropout = nn.Dropout(hparams["dropout"])
        self.logits = nn.Linear(hparams["units"], len(spec.classes))

    def forward(self, features):
        if self.settings.get("fault") == "raise":
            raise ValueError("the tiny model is broken")
        columns = [features[feature.name].unsqueeze(1) for feature in self.spec.floats]
        columns += [self.embeddings[feature.name](features[feature.name]) for feature in self.spec.ids]
        nan = self.settings.get("fault") == "nan" and self.training
        factor = self.factor * float("nan") if nan else self.factor
        return self.logits(self.dropout(torch.relu(self.hidden(torch.cat(columns, dim=1) * factor))))

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self(batch[0]).float(), batch[1])

    def validation_step(self, batch, batch_idx):
        logits = self(batch[0])
        return logits.mean() if self.settings.get("fault") == "validation" else logits

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.settings["learning_rate"])


def build_model(spec, hparams):
    return Tiny(spec, hparams)
