"""What the tests of the lowering share: a row compared with the torch operator it stands for.

A case is a tuple (overload, args, kwargs[, options]) with torch tensors. Options: "outputs" (which of several outputs have one
defined value), "dynamic" (False where a size must be static), "atol".
"""

import operator
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import pytest
import tensorflow as tf
import torch

from components.exporter.lowering.promotion import tf_dtype
from components.exporter.lowering.simplify import convolve_turned
from components.exporter.lowering.table import ROWS


@pytest.fixture(autouse=True)
def one_seed():
    torch.manual_seed(0)


def _reference(name):
    if name.startswith("operator."):
        return getattr(operator, name.removeprefix("operator."))
    if name == "tandem.convolve_turned":
        return convolve_turned
    found = torch if name.startswith("torch.") else torch.ops
    for part in name.removeprefix("torch.").split("."):
        found = getattr(found, part)
    return found


def _replace_tensors(value, tensors):
    """Returns the argument with each tensor replaced by the next of `tensors` and torch's dtypes by TensorFlow's."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, torch.dtype):
        return tf_dtype(value)
    if isinstance(value, list | tuple):
        return type(value)(_replace_tensors(part, tensors) for part in value)
    if isinstance(value, dict):
        return {key: _replace_tensors(part, tensors) for key, part in value.items()}
    return value


def _tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    return [tensor for part in parts for tensor in _tensors_in(part)]


def _flat(value):
    return list(value) if isinstance(value, list | tuple) else [value]


def _compare(label, got, expected, atol):
    expected = expected if isinstance(expected, torch.Tensor) else torch.tensor(expected)
    got = tf.convert_to_tensor(got)
    assert got.dtype == tf_dtype(expected.dtype), f"{label}: dtype {got.dtype} for {expected.dtype}"
    assert tuple(got.shape) == tuple(expected.shape), f"{label}: shape {got.shape} for {tuple(expected.shape)}"
    if expected.dtype.is_floating_point:
        got, expected = tf.cast(got, tf.float64), expected.double()
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=2e-6, atol=atol, err_msg=label)


@pytest.fixture
def check_row():
    """Calls a row plain, with dynamic sizes and under XLA, and compares each with torch."""

    def check(name, args, kwargs, options=None):
        options = options or {}
        expected = _flat(_reference(name)(*args, **kwargs))
        values = [tf.constant(tensor.numpy()) for tensor in _tensors_in((args, kwargs))]

        def call(*tensors):
            new_args, new_kwargs = _replace_tensors((args, kwargs), iter(tensors))
            outputs = _flat(ROWS[name](*new_args, **new_kwargs))
            return [
                tf.constant(output, tf.int64) if isinstance(output, int) else tf.convert_to_tensor(output)
                for output in outputs
                if output is not None
            ]

        modes = {"plain": tf.function(call, autograph=False), "XLA": tf.function(call, autograph=False, jit_compile=True)}
        if options.get("dynamic", True) and values:
            specs = [tf.TensorSpec([None] * value.shape.rank, value.dtype) for value in values]
            modes["dynamic"] = tf.function(call, input_signature=specs, autograph=False)
        for mode, function in modes.items():
            got = function(*values)
            for place in options.get("outputs", range(len(got))):
                _compare(f"{name} {mode} output {place}", got[place], expected[place], options.get("atol", 1e-6))

    return check
