"""The two models of credit_risk have the same capacity and compute the same from the same weights."""

import numpy as np
import pytest
import torch

from components.core.contracts import ModelSpec, TransformedFeature
from pipelines.credit_risk import keras_model, lightning_model

SPEC = ModelSpec(
    features=(
        TransformedFeature(name="Home", dtype="int64", vocabulary_size=8),
        TransformedFeature(name="Income", dtype="float32"),
        TransformedFeature(name="Job", dtype="int64", vocabulary_size=6),
        TransformedFeature(name="history", dtype="float32", shape=(3,)),
        TransformedFeature(name="words", dtype="int64", shape=(2,), vocabulary_size=5),
    ),
    classes=("good", "bad"),
)
HPARAMS = {"hidden_units": (32, 16), "embedding_dim": 4, "dropout": 0.1, "learning_rate": 0.002}


def batch(rows):
    random = np.random.default_rng(0)
    return {
        "Home": random.integers(0, 8, rows),
        "Income": random.normal(size=rows).astype(np.float32),
        "Job": random.integers(0, 6, rows),
        "history": random.normal(size=(rows, 3)).astype(np.float32),
        "words": random.integers(0, 5, (rows, 2)),
    }


def to_torch(features):
    return {name: torch.from_numpy(column) for name, column in features.items()}


def test_parameter_counts_are_equal():
    keras_count = keras_model.build_model(SPEC, HPARAMS).count_params()
    torch_count = sum(parameter.numel() for parameter in lightning_model.build_model(SPEC, HPARAMS).parameters())
    # embeddings (8 + 6 + 5) x 4; 4 numbers and 4 ids x 4 columns in: (20 + 1) x 32, (32 + 1) x 16, (16 + 1) x 2
    assert keras_count == torch_count == 19 * 4 + 21 * 32 + 33 * 16 + 17 * 2


def test_the_same_weights_give_the_same_logits():
    keras_net, torch_net = keras_model.build_model(SPEC, HPARAMS), lightning_model.build_model(SPEC, HPARAMS).eval()
    with torch.no_grad():
        for index, name in enumerate(["Home", "Job", "words"]):
            torch_net.embeddings[index].weight.copy_(torch.tensor(keras_net.get_layer(f"embedding_{name}").get_weights()[0]))
        for index, layer in enumerate([*torch_net.hidden, torch_net.logits]):
            kernel, bias = keras_net.get_layer(f"hidden_{index}" if index < 2 else "logits").get_weights()
            layer.weight.copy_(torch.tensor(kernel.T))
            layer.bias.copy_(torch.tensor(bias))
        features = batch(7)
        np.testing.assert_allclose(keras_net(features), torch_net(to_torch(features)), atol=1e-5)


@pytest.mark.parametrize("rows", [1, 5])
def test_logits_have_one_column_a_class(rows):
    assert keras_model.build_model(SPEC, HPARAMS)(batch(rows)).shape == (rows, 2)
    assert lightning_model.build_model(SPEC, HPARAMS)(to_torch(batch(rows))).shape == (rows, 2)


def test_initial_weights_have_the_same_distributions():
    keras_net, torch_net = keras_model.build_model(SPEC, HPARAMS), lightning_model.build_model(SPEC, HPARAMS)
    glorot = np.sqrt(6 / (20 + 32))
    for weight in (np.asarray(keras_net.get_layer("hidden_0").kernel), torch_net.hidden[0].weight.detach().numpy()):
        assert np.abs(weight).max() <= glorot
        # 640 draws: the standard deviation of a uniform distribution within 10 %
        assert weight.std() == pytest.approx(glorot / np.sqrt(3), rel=0.1)
    for weight in (np.asarray(keras_net.get_layer("embedding_Home").embeddings), torch_net.embeddings[0].weight.detach().numpy()):
        assert 0.03 < np.abs(weight).max() <= 0.05
    assert not np.asarray(keras_net.get_layer("logits").bias).any()
    assert not torch_net.logits.bias.detach().any()


def test_native_lightning_model_is_built_without_a_learning_rate():
    hparams = {key: value for key, value in HPARAMS.items() if key != "learning_rate"}
    assert lightning_model.build_model(SPEC, hparams)(to_torch(batch(2))).shape == (2, 2)
