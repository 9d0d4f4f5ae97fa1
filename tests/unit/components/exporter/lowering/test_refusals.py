"""What is refused at export, how it says so, and what stays untouched."""

import pytest
import tensorflow as tf
import torch
from torch import nn

from components.core.errors import ExportError
from components.exporter.lowering import lower

X = {"x": torch.randn(3, 4)}


class Calling(nn.Module):
    """A model of one function, with the layers it calls."""

    def __init__(self, function, **layers):
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, features):
        return self.function(self, features["x"])


class Distances(nn.Module):
    def forward(self, x):
        return torch.cdist(x, x)


def test_all_missing_operators_are_named_with_their_module_paths():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair = Distances()

        def forward(self, x):
            return self.pair(x) + torch.polygamma(1, x).sum()

    model = Calling(lambda self, x: self.block(x), block=Outer())

    with pytest.raises(ExportError, match=r"no lowering for 2 operator") as caught:
        lower(model, X)

    message = str(caught.value)
    assert "aten._cdist_forward.default at block.pair (Distances)" in message
    assert "aten.polygamma.default at block (Outer)" in message
    assert "replace them in forward" in message


@pytest.mark.parametrize(
    "function", [lambda self, x: torch.rand_like(x) + x, lambda self, x: nn.functional.dropout(x, 0.5)], ids=["random", "dropout"]
)
def test_randomness_is_refused(function):
    with pytest.raises(ExportError, match="no lowering"):
        lower(Calling(function), X)


def test_batch_norm_without_running_statistics_is_refused_by_its_path():
    model = Calling(lambda self, x: self.inner(x), inner=nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False)))

    with pytest.raises(ExportError, match=r"BatchNorm1d at inner\.0 keeps no running statistics.*track_running_stats=True"):
        lower(model, X)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda self, x: x[x > 0].sum(), r"torch\.export cannot capture|boolean mask"),
        (lambda self, x: x if x.sum() > 0 else -x, r"torch\.export cannot capture Calling"),
        (lambda self, x: x.reshape(3, 4) * 1, r"torch\.export cannot capture Calling"),
        (lambda self, x: (x, x), "must return one tensor"),
        (lambda self, x: [x + 1], "must return one tensor"),
        (lambda self, x: x.to(torch.complex64).abs(), "complex64"),
        (lambda self, x: nn.functional.max_pool2d(x[:, None, :, None], 1, return_indices=True)[1], "output 1 of this operator"),
        (lambda self, x: nn.functional.conv_transpose1d(x[:, :, None], self.weight, groups=2), r"aten|tandem"),
    ],
    ids=["mask", "control-flow", "fixed-rows", "tuple", "list", "complex", "pool-indexes", "grouped-transposed"],
)
def test_what_cannot_be_served_fails_at_export(function, message):
    model = Calling(function)
    model.weight = nn.Parameter(torch.randn(4, 1, 2))

    with pytest.raises(ExportError, match=message):
        lower(model, X)


def test_a_refused_argument_names_operator_and_module():
    layer = nn.ConvTranspose1d(4, 4, 2, groups=2)

    with pytest.raises(ExportError, match=r"groups has no lowering.*convolve_turned at up \(ConvTranspose1d\)"):
        lower(Calling(lambda self, x: self.up(x[:, :, None]), up=layer), X)


def test_a_buffer_that_forward_changes_is_refused():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, features):
            self.seen.add_(1)
            return features["x"] * self.seen

    with pytest.raises(ExportError, match=r"forward changes .*seen"):
        lower(Counting(), X)


def test_packed_sequences_are_refused():
    def pack(self, x):
        packed = nn.utils.rnn.pack_padded_sequence(x[:, :, None], torch.tensor([4, 4, 4]), batch_first=True)
        return self.layer(packed)[0].data

    with pytest.raises(ExportError, match=r"LSTM got PackedSequence|cannot capture"):
        lower(Calling(pack, layer=nn.LSTM(1, 2, batch_first=True)), X)


@pytest.mark.parametrize(
    ("examples", "sequence", "message"),
    [
        ({}, (), "empty"),
        ({"x": torch.tensor(1.0)}, (), "at least 1 dimension"),
        ({"x": torch.zeros(0, 4)}, (), "empty along dimension 0"),
        ({"x": torch.zeros(3, 4), "y": torch.zeros(2, 4)}, (), "different numbers of rows"),
        (X, ("z",), r"\['z'\].*allowed: \['x'\]"),
        ({"x": torch.zeros(3)}, ("x",), "at least 2 dimension"),
        ({"x": [1.0, 2.0]}, (), "must be a tensor"),
    ],
)
def test_examples_that_describe_no_batch_are_refused(examples, sequence, message):
    with pytest.raises(ExportError, match=message):
        lower(Calling(lambda self, x: x + 1), examples, dynamic_sequence=sequence)


def test_calls_check_the_features():
    lowered = lower(Calling(lambda self, x: x + 1), X)

    with pytest.raises(ExportError, match=r"features \['x'\] are missing"):
        lowered({"y": tf.zeros([1, 4])})
    with pytest.raises(ExportError, match=r"feature 'x' is float64"):
        lowered({"x": tf.zeros([1, 4], tf.float64)})
    with pytest.raises(ExportError, match=r"feature 'x' is float32 \(1, 5\)"):
        lowered({"x": tf.zeros([1, 5])})


def test_the_users_module_is_left_as_it_was_and_evaluation_mode_is_forced():
    model = Calling(
        lambda self, x: self.norm(self.drop(self.lstm(x[:, :, None])[0][:, -1])),
        lstm=nn.LSTM(1, 4, batch_first=True),
        norm=nn.BatchNorm1d(4),
        drop=nn.Dropout(0.9),
    )
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fast_path = torch.backends.mha.get_fastpath_enabled()

    lowered = lower(model, X)

    assert model.training
    assert all(layer.training for layer in model.modules())
    assert type(model.lstm) is nn.LSTM
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert torch.backends.mha.get_fastpath_enabled() == fast_path
    assert before.keys() == model.state_dict().keys()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    with torch.no_grad():
        expected = model.eval()(X)
    assert abs(lowered({"x": tf.constant(X["x"].numpy())}).numpy() - expected.numpy()).max() <= 1e-6


def test_one_row_and_one_step_as_examples_still_give_a_dynamic_model():
    model = Calling(lambda self, x: self.layer(x[:, :, None])[0].sum(1), layer=nn.GRU(1, 2, batch_first=True))

    lowered = lower(model, {"x": torch.randn(1, 1)}, dynamic_sequence=["x"])

    assert lowered.input_specs["x"].shape.as_list() == [None, None]
    assert lowered({"x": tf.zeros([5, 3])}).shape == (5, 2)


def test_input_specs_keep_the_order_and_dtypes_of_the_examples():
    class Two(nn.Module):
        def forward(self, anything):
            return anything["z"] * anything["a"].unsqueeze(1)

    lowered = lower(Two(), {"z": torch.zeros(2, 3, dtype=torch.float64), "a": torch.zeros(2, dtype=torch.int32), "unused": torch.zeros(2)})

    assert {name: (spec.shape.as_list(), spec.dtype) for name, spec in lowered.input_specs.items()} == {
        "z": ([None, 3], tf.float64),
        "a": ([None], tf.int32),
        "unused": ([None], tf.float32),
    }
    assert list(lowered.input_specs) == ["z", "a", "unused"]
