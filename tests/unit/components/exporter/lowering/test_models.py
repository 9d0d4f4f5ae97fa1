"""Whole models against torch: plain, under XLA, and saved and loaded where torch cannot be imported."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import torch
from torch import nn
from torch.nn import functional

from components.exporter.lowering import lower

TOLERANCE = 1e-5
BATCHES = (1, 2, 7, 32)


class Tabular(nn.Module):
    """An MLP over embedded ids and numbers with missing cells."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 4)
        self.layers = nn.Sequential(nn.Linear(7, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.5), nn.Linear(16, 2))
        self.register_buffer("means", torch.tensor([0.1, -0.2, 0.3]))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5)

    def forward(self, features):
        numbers = torch.stack([features["age"], features["income"], features["debt"]], dim=1)
        numbers = torch.where(torch.isnan(numbers), self.means, numbers)
        return torch.softmax(self.layers(torch.cat([self.embedding(features["job"]), numbers], dim=-1)), dim=-1)

    @staticmethod
    def batch(rows, steps=None):
        numbers = {name: torch.randn(rows) for name in ("age", "income", "debt")}
        numbers["income"][::3] = torch.nan
        return {**numbers, "job": torch.randint(0, 11, (rows,))}


class Sequences(nn.Module):
    """A recurrent layer with masked attention over its steps."""

    sequences = ("amounts", "codes")

    def __init__(self, layer):
        super().__init__()
        self.embedding = nn.Embedding(6, 3)
        self.recurrent = layer
        width = getattr(layer, "proj_size", 0) or layer.hidden_size
        width *= 2 if layer.bidirectional else 1
        self.score, self.head = nn.Linear(width, 1), nn.Linear(width, 2)

    def forward(self, features):
        steps = torch.cat([self.embedding(features["codes"]), features["amounts"]], dim=2)
        steps = steps if self.recurrent.batch_first else steps.transpose(0, 1)
        outputs, _ = self.recurrent(steps)
        outputs = outputs if self.recurrent.batch_first else outputs.transpose(0, 1)
        scores = self.score(outputs).squeeze(2).masked_fill(features["codes"] == 0, -1e9)
        return self.head(torch.bmm(torch.softmax(scores, dim=1).unsqueeze(1), outputs).squeeze(1))

    @staticmethod
    def batch(rows, steps=9):
        return {"amounts": torch.randn(rows, steps, 2), "codes": torch.randint(0, 6, (rows, steps))}


class LastState(Sequences):
    """Scores the last hidden and cell states from given initial ones."""

    def forward(self, features):
        steps = torch.cat([self.embedding(features["codes"]), features["amounts"]], dim=2)
        start = features["amounts"].mean(dim=1)[:, :1].expand(-1, 6).unsqueeze(0).contiguous()
        _, (hidden, cell) = self.recurrent(steps, (start, start * 2))
        return self.head(hidden[-1] + cell[-1])


class Images(nn.Module):
    """A residual block between pools."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 5, stride=2, padding=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.first = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=4), nn.BatchNorm2d(16))
        self.short = nn.Conv2d(8, 16, 1, stride=2)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4))
        for name, buffer in self.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_()
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 2.0)

    def forward(self, features):
        x = self.stem(features["image"])
        return functional.log_softmax(self.head(functional.relu(self.second(self.first(x)) + self.short(x))), dim=1)

    @staticmethod
    def batch(rows, steps=None):
        return {"image": torch.randn(rows, 3, 24, 24)}


class Encoder(nn.Module):
    """A Transformer encoder with positions and a padding mask."""

    sequences = ("tokens",)

    def __init__(self, norm_first=False, activation="relu"):
        super().__init__()
        self.embedding, self.position = nn.Embedding(20, 16), nn.Embedding(32, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first, activation=activation)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 3)

    def forward(self, features):
        tokens = features["tokens"]
        x = self.embedding(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        kept = tokens != 0
        x = self.encoder(x, src_key_padding_mask=~kept)
        weights = kept.unsqueeze(-1).to(x.dtype)
        return self.head((x * weights).sum(1) / weights.sum(1).clamp(min=1))

    @staticmethod
    def batch(rows, steps=9):
        tokens = torch.randint(0, 20, (rows, steps))
        tokens[:, 0] = 5
        return {"tokens": tokens}


MODELS = {
    "mlp": Tabular,
    "lstm": lambda: Sequences(nn.LSTM(5, 6, batch_first=True)),
    "lstm_two_layers_both_ways": lambda: Sequences(nn.LSTM(5, 6, num_layers=2, bidirectional=True, dropout=0.3)),
    "lstm_projected_without_bias": lambda: Sequences(nn.LSTM(5, 6, proj_size=4, bias=False, batch_first=True)),
    "lstm_initial_state": lambda: LastState(nn.LSTM(5, 6, batch_first=True)),
    "gru": lambda: Sequences(nn.GRU(5, 6, num_layers=2, batch_first=True, bidirectional=True)),
    "rnn": lambda: Sequences(nn.RNN(5, 6, nonlinearity="relu")),
    "resnet": Images,
    "transformer": Encoder,
    "transformer_norm_first_gelu": lambda: Encoder(norm_first=True, activation="gelu"),
}

LOADER = """
import importlib.abc, json, sys

class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "components"):
            raise ImportError(name + " is blocked")
        return None

sys.meta_path.insert(0, Blocked())
import numpy as np
import tensorflow as tf

folder = sys.argv[1]
for case in json.load(open(folder + "/cases.json")):
    served = tf.saved_model.load(folder + "/" + case["model"]).signatures["serving_default"]
    arrays = np.load(folder + "/" + case["arrays"])
    features = {name: tf.constant(arrays[name]) for name in arrays.files if name != "expected"}
    got = served(**features)["scores"].numpy()
    worst = float(np.abs(got - arrays["expected"]).max())
    assert got.shape == arrays["expected"].shape and worst <= case["tolerance"], (case, worst)
assert "torch" not in sys.modules
print("loaded")
"""


def _constants(features):
    return {name: tf.constant(tensor.numpy()) for name, tensor in features.items()}


@pytest.fixture(scope="module")
def lowered_models():
    torch.manual_seed(1)
    made = {}
    for name, build in MODELS.items():
        model = build().eval()
        made[name] = model, lower(model, model.batch(3), dynamic_sequence=getattr(model, "sequences", ()))
    return made


def _steps(model):
    return (1, 5, 17) if hasattr(model, "sequences") else (None,)


@pytest.mark.parametrize("jit", [False, True], ids=["plain", "XLA"])
@pytest.mark.parametrize("name", MODELS)
def test_model_scores_as_in_torch(name, jit, lowered_models):
    model, lowered = lowered_models[name]
    score = tf.function(lowered.__call__, input_signature=[lowered.input_specs], jit_compile=jit)

    # XLA compiles for each shape: every batch and every length once instead of every pair.
    shapes = zip(BATCHES, itertools.cycle(_steps(model))) if jit else itertools.product(BATCHES, _steps(model))
    for rows, steps in shapes:
        features = model.batch(rows, steps)
        with torch.no_grad():
            expected = model(features).numpy()
        got = score(_constants(features)).numpy()
        assert got.shape == expected.shape
        assert np.abs(got - expected).max() <= TOLERANCE, (rows, steps)


def test_saved_models_score_the_same_where_torch_cannot_be_imported(lowered_models, tmp_path):
    cases = []
    for name, (model, lowered) in lowered_models.items():

        def scores(lowered=lowered, **features):
            return {"scores": lowered(features)}

        exported = tf.Module()
        exported.lowered = lowered
        signature = tf.function(scores).get_concrete_function(**lowered.input_specs)
        tf.saved_model.save(exported, str(tmp_path / name), signatures={"serving_default": signature})
        for rows in (1, 7):
            for steps in _steps(model)[-2:]:
                features = model.batch(rows, steps)
                with torch.no_grad():
                    expected = model(features).numpy()
                arrays = f"{name}-{rows}-{steps}.npz"
                np.savez(tmp_path / arrays, expected=expected, **{key: value.numpy() for key, value in features.items()})
                cases.append({"model": name, "arrays": arrays, "tolerance": TOLERANCE})
    (tmp_path / "cases.json").write_text(json.dumps(cases))

    done = subprocess.run([sys.executable, "-c", LOADER, str(tmp_path)], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == "loaded"
    for name in lowered_models:
        _assert_plain_operators(tmp_path / name)


def _assert_plain_operators(folder):
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    nodes = [node for function in graph.library.function for node in function.node_def] + list(graph.node)
    operators = {node.op for node in nodes}
    assert not {op for op in operators if op.startswith(("Xla", "PyFunc", "EagerPyFunc"))}
    assert not any("_XlaMustCompile" in node.attr and node.attr["_XlaMustCompile"].b for node in nodes)
    assert len(operators) > 3


def test_tied_weights_are_one_variable():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, features):
            return self.head(self.embedding(features["ids"]))

    lowered = lower(Tied(), {"ids": torch.tensor([1, 2])})

    assert [variable.shape.as_list() for variable in lowered.variables] == [[9, 4]]
    assert lowered.trainable_variables == ()


def test_filters_are_turned_once_and_kept_in_the_order_tensorflow_convolves():
    model = nn.Conv2d(3, 6, 5)

    class Convolving(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = model

        def forward(self, features):
            return self.convolution(features["image"])

    lowered = lower(Convolving(), {"image": torch.zeros(2, 3, 8, 8)})

    stored = [variable.numpy() for variable in lowered.weights if variable.shape.rank == 4]
    np.testing.assert_array_equal(stored[0], model.weight.detach().numpy().transpose(2, 3, 1, 0))
    assert "aten.permute.default" not in lowered.overloads
