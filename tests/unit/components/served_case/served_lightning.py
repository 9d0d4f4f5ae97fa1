"""The same model as served_keras, as a LightningModule."""

import pytorch_lightning as pl
import torch


class Net(pl.LightningModule):
    """Embeds ids, concatenates everything, one hidden layer, logits."""

    def __init__(self, spec, hparams):
        super().__init__()
        self.spec = spec
        self.embed = torch.nn.ModuleList(torch.nn.Embedding(f.vocabulary_size, 3) for f in spec.ids)
        self.hidden = torch.nn.Linear(len(spec.floats) + 3 * len(spec.ids), hparams["width"])
        self.out = torch.nn.Linear(hparams["width"], len(spec.classes))

    def forward(self, features):
        parts = [features[f.name].unsqueeze(1) for f in self.spec.floats]
        parts += [embed(features[f.name]) for embed, f in zip(self.embed, self.spec.ids, strict=True)]
        return self.out(torch.relu(self.hidden(torch.cat(parts, dim=1))))


def build_model(spec, hparams):
    """A LightningModule from features to logits."""
    return Net(spec, hparams)
