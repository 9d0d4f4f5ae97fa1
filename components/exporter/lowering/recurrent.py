"""The torch side of recurrent layers: one operator a layer and direction, opaque to torch.export.

torch.export unrolls nn.LSTM, nn.GRU and nn.RNN and so fixes the length of the sequence. Here the copy of the user's model
gets subclasses whose forward calls `tandem::lstm_layer`, `tandem::gru_layer` or `tandem::rnn_layer`; the walk turns each
call into one tf.while_loop. The operators also run in torch, step by step, so that constants fold and tests compare.

Weights arrive transposed ([I, G * H] and [H, G * H]); the transposition of a parameter is folded at export.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from components.core.errors import ExportError


def _fake_sequence(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape[0], x.shape[1], h.shape[1]), torch.empty_like(h)


@torch.library.custom_op("tandem::lstm_layer", mutates_args=())
def _lstm_layer(x: Tensor, h: Tensor, c: Tensor, weights: list[Tensor], reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    """x [T, N, I], h [N, P], c [N, H] to (outputs [T, N, P], last h, last c); gates in the order input, forget, cell, output.

    `weights` are input [I, 4H], hidden [P, 4H], bias [4H] and, where the hidden state is projected, projection [H, P].
    """
    outputs = []
    for step in x.flip(0) if reverse else x:
        i, f, g, o = (step @ weights[0] + h @ weights[1] + weights[2]).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        h = h @ weights[3] if len(weights) > 3 else h
        outputs.append(h)
    sequence = torch.stack(outputs)
    return (sequence.flip(0) if reverse else sequence), h.clone(), c.clone()


@_lstm_layer.register_fake
def _(x: Tensor, h: Tensor, c: Tensor, weights: list[Tensor], reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    del weights, reverse
    return (*_fake_sequence(x, h), torch.empty_like(c))


@torch.library.custom_op("tandem::gru_layer", mutates_args=())
def _gru_layer(x: Tensor, h: Tensor, weights: list[Tensor], biases: list[Tensor], reverse: bool) -> tuple[Tensor, Tensor]:
    """x [T, N, I], h [N, H] to (outputs [T, N, H], last h); gates in the order reset, update, new.

    `weights` are input [I, 3H] and hidden [H, 3H]; `biases` the same two, [3H] each (the new gate scales the hidden one).
    """
    outputs = []
    for step in x.flip(0) if reverse else x:
        r_in, z_in, n_in = (step @ weights[0] + biases[0]).chunk(3, 1)
        r_h, z_h, n_h = (h @ weights[1] + biases[1]).chunk(3, 1)
        z = torch.sigmoid(z_in + z_h)
        h = (1 - z) * torch.tanh(n_in + torch.sigmoid(r_in + r_h) * n_h) + z * h
        outputs.append(h)
    sequence = torch.stack(outputs)
    return (sequence.flip(0) if reverse else sequence), h.clone()


@_gru_layer.register_fake
def _(x: Tensor, h: Tensor, weights: list[Tensor], biases: list[Tensor], reverse: bool) -> tuple[Tensor, Tensor]:
    del weights, biases, reverse
    return _fake_sequence(x, h)


@torch.library.custom_op("tandem::rnn_layer", mutates_args=())
def _rnn_layer(x: Tensor, h: Tensor, weights: list[Tensor], nonlinearity: str, reverse: bool) -> tuple[Tensor, Tensor]:
    """x [T, N, I], h [N, H] to (outputs [T, N, H], last h); `nonlinearity` is "tanh" or "relu".

    `weights` are input [I, H], hidden [H, H] and bias [H].
    """
    activate = torch.tanh if nonlinearity == "tanh" else torch.relu
    outputs = []
    for step in x.flip(0) if reverse else x:
        h = activate(step @ weights[0] + h @ weights[1] + weights[2])
        outputs.append(h)
    sequence = torch.stack(outputs)
    return (sequence.flip(0) if reverse else sequence), h.clone()


@_rnn_layer.register_fake
def _(x: Tensor, h: Tensor, weights: list[Tensor], nonlinearity: str, reverse: bool) -> tuple[Tensor, Tensor]:
    del weights, nonlinearity, reverse
    return _fake_sequence(x, h)


def _layer_parameters(layer: nn.RNNBase, suffix: str) -> tuple[list[Tensor], list[Tensor]]:
    """Returns (transposed weights, biases) of one layer and direction; without biases they are zeros."""
    names = ["weight_ih", "weight_hh"] + (["weight_hr"] if getattr(layer, "proj_size", 0) else [])
    weights = [getattr(layer, f"{name}_{suffix}") for name in names]
    if layer.bias:
        return [weight.t() for weight in weights], [getattr(layer, f"{name}_{suffix}") for name in ("bias_ih", "bias_hh")]
    zeros = weights[0].new_zeros(weights[0].shape[0])
    return [weight.t() for weight in weights], [zeros, zeros]


def _initial(layer: nn.RNNBase, x: Tensor, width: int, given: Tensor | None) -> Tensor:
    """Returns the initial state [layers * directions, N, width]; zeros where none is given."""
    if given is not None:
        return given if given.dim() == 3 else given.unsqueeze(1)
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    return x.new_zeros(count, x.shape[1], width)


def _run(layer: nn.RNNBase, x: Any, states: list[Tensor | None], call: Callable[..., tuple[Tensor, ...]]) -> tuple[Tensor, list[Tensor]]:
    """Runs all layers and directions over `x` and returns (outputs, last states), in the layout of nn.RNNBase."""
    if not isinstance(x, Tensor):
        raise ExportError(f"{type(layer).__name__} got {type(x).__name__}; allowed: a padded tensor; drop pack_padded_sequence in forward")
    batched = x.dim() == 3
    x = x if batched else x.unsqueeze(1)
    x = x.transpose(0, 1) if batched and layer.batch_first else x
    widths = [getattr(layer, "proj_size", 0) or layer.hidden_size, layer.hidden_size]
    initial = [_initial(layer, x, width, state) for width, state in zip(widths, states, strict=False)]
    last: list[tuple[Tensor, ...]] = []
    directions = ("", "_reverse") if layer.bidirectional else ("",)
    for number in range(layer.num_layers):
        outputs = []
        for direction in directions:
            start = [state[len(last)] for state in initial]
            sequence, *ends = call(x, start, _layer_parameters(layer, f"l{number}{direction}"), bool(direction))
            outputs.append(sequence)
            last.append(tuple(ends))
        x = torch.cat(outputs, 2) if len(outputs) > 1 else outputs[0]
    stacked = [torch.stack(list(parts)) for parts in zip(*last, strict=True)]
    if not batched:
        return x.squeeze(1), [state.squeeze(1) for state in stacked]
    return (x.transpose(0, 1) if layer.batch_first else x), stacked


class ExportedLSTM(nn.LSTM):
    """nn.LSTM whose forward calls `tandem::lstm_layer`."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        """As nn.LSTM, for padded tensors: (outputs, (last h, last c))."""

        def _call(x: Tensor, start: list[Tensor], parameters: tuple[list[Tensor], list[Tensor]], reverse: bool) -> tuple[Tensor, ...]:
            weights, biases = parameters
            return _lstm_layer(x, start[0], start[1], [*weights[:2], biases[0] + biases[1], *weights[2:]], reverse)

        outputs, states = _run(self, input, [None, None] if hx is None else list(hx), _call)
        return outputs, (states[0], states[1])


class ExportedGRU(nn.GRU):
    """nn.GRU whose forward calls `tandem::gru_layer`."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        """As nn.GRU, for padded tensors: (outputs, last h)."""
        outputs, states = _run(self, input, [hx], lambda x, start, parameters, reverse: _gru_layer(x, start[0], *parameters, reverse))
        return outputs, states[0]


class ExportedRNN(nn.RNN):
    """nn.RNN whose forward calls `tandem::rnn_layer`."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        """As nn.RNN, for padded tensors: (outputs, last h)."""

        def _call(x: Tensor, start: list[Tensor], parameters: tuple[list[Tensor], list[Tensor]], reverse: bool) -> tuple[Tensor, ...]:
            weights, biases = parameters
            return _rnn_layer(x, start[0], [*weights, biases[0] + biases[1]], self.nonlinearity, reverse)

        outputs, states = _run(self, input, [hx], _call)
        return outputs, states[0]


REPLACEMENTS: dict[type[nn.RNNBase], type[nn.RNNBase]] = {nn.LSTM: ExportedLSTM, nn.GRU: ExportedGRU, nn.RNN: ExportedRNN}


def replace_recurrent_layers(module: nn.Module) -> None:
    """Gives every stock recurrent layer of `module` its exported class, in place: pass a copy.

    A subclass with a forward of its own is left alone, because its meaning is not known here.
    """
    for layer in module.modules():
        for stock, exported in REPLACEMENTS.items():
            if isinstance(layer, stock) and type(layer).forward is stock.forward:
                layer.__class__ = exported
