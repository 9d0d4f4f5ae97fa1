"""Rows of recurrent layers: a tf.while_loop over a sequence of any length.

The input's share of the gates is one matrix product over all steps before the loop; only the hidden state's share is
computed inside. Gate order and formulas: torch.nn.LSTM, GRU and RNN documentation.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from components.exporter.lowering.ops_shape import view
from components.exporter.lowering.promotion import sizes

States = tuple[tf.Tensor, ...]
Step = Callable[[tf.Tensor, States], States]


def _project(x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """[T, N, I] @ [I, G] + [G] as one flat matrix product."""
    flat = tf.nn.bias_add(tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), weight), bias)
    return view(flat, [*sizes(x)[:2], weight.shape[1]])


def _scan(gates: tf.Tensor, states: States, step: Step, *, reverse: bool) -> States:
    """Runs `step` over gates [T, N, G]; returns (outputs [T, N, H], *last states). The first state is the output."""
    length = tf.shape(gates)[0]
    shape = tf.TensorShape(states[0].shape)
    # Every state keeps its own static width while the batch may be dynamic.
    gathered = tf.TensorArray(gates.dtype, size=length, element_shape=shape)
    inputs = tf.TensorArray(gates.dtype, size=length, element_shape=gates.shape[1:]).unstack(gates)

    def body(count: tf.Tensor, outputs: tf.TensorArray, *current: tf.Tensor) -> tuple[Any, ...]:
        place = length - 1 - count if reverse else count
        following = step(inputs.read(place), current)
        for before, after in zip(current, following, strict=True):
            after.set_shape(before.shape)
        return (count + 1, outputs.write(place, following[0]), *following)

    result = tf.while_loop(
        lambda count, *_: count < length,
        body,
        (tf.constant(0), gathered, *states),
        maximum_iterations=length,
    )
    outputs = result[1].stack()
    outputs.set_shape([gates.shape[0], *shape])
    return (outputs, *result[2:])


def _lstm_layer(x: tf.Tensor, h: tf.Tensor, c: tf.Tensor, weights: Sequence[tf.Tensor], reverse: bool) -> States:
    """`tandem::lstm_layer`."""

    def step(gates: tf.Tensor, states: States) -> States:
        hidden, cell = states
        i, f, g, o = tf.split(gates + tf.matmul(hidden, weights[1]), 4, axis=1)
        cell = tf.sigmoid(f) * cell + tf.sigmoid(i) * tf.tanh(g)
        hidden = tf.sigmoid(o) * tf.tanh(cell)
        return (tf.matmul(hidden, weights[3]) if len(weights) > 3 else hidden), cell

    return _scan(_project(x, weights[0], weights[2]), (h, c), step, reverse=reverse)


def _gru_layer(x: tf.Tensor, h: tf.Tensor, weights: Sequence[tf.Tensor], biases: Sequence[tf.Tensor], reverse: bool) -> States:
    """`tandem::gru_layer`."""

    def step(gates: tf.Tensor, states: States) -> States:
        (hidden,) = states
        r_in, z_in, n_in = tf.split(gates, 3, axis=1)
        r_h, z_h, n_h = tf.split(tf.nn.bias_add(tf.matmul(hidden, weights[1]), biases[1]), 3, axis=1)
        z = tf.sigmoid(z_in + z_h)
        return ((1.0 - z) * tf.tanh(n_in + tf.sigmoid(r_in + r_h) * n_h) + z * hidden,)

    return _scan(_project(x, weights[0], biases[0]), (h,), step, reverse=reverse)


def _rnn_layer(x: tf.Tensor, h: tf.Tensor, weights: Sequence[tf.Tensor], nonlinearity: str, reverse: bool) -> States:
    """`tandem::rnn_layer`."""
    activate = tf.tanh if nonlinearity == "tanh" else tf.nn.relu

    def step(gates: tf.Tensor, states: States) -> States:
        return (activate(gates + tf.matmul(states[0], weights[1])),)

    return _scan(_project(x, weights[0], weights[2]), (h,), step, reverse=reverse)


ROWS: dict[str, Callable[..., Any]] = {
    "tandem.lstm_layer.default": _lstm_layer,
    "tandem.gru_layer.default": _gru_layer,
    "tandem.rnn_layer.default": _rnn_layer,
}
