"""Functions as users write them, through export and decomposition, with values where frameworks disagree."""

import math

import numpy as np
import pytest
import tensorflow as tf
import torch
from torch import nn
from torch.nn import functional

from components.exporter.lowering import lower
from components.exporter.lowering.table import ROWS

NAN, INF = math.nan, math.inf
ODD = torch.tensor(
    [[NAN, 1.0, -2.5, 0.0, 3.0, 3.0], [INF, -INF, 0.5, -0.5, 1.5, NAN], [2.0, 2.0, 2.0, 2.0, 2.0, 2.0], [-7.0, 7.0, -0.0, 9.5, 0.1, -3.0]]
)
PLAIN = torch.tensor([[0.2, 1.0, -2.5, 0.1, 3.0, 3.5], [0.7, -0.9, 0.5, -0.5, 1.5, 4.0], [2.0, 1.0, 2.5, -2.0, 0.3, 2.2]])
IMAGES = torch.linspace(-2, 3, 2 * 4 * 6 * 6).reshape(2, 4, 6, 6).sin()

ACTIVATIONS = [
    "relu6", "hardswish", "hardsigmoid", "hardtanh", "selu", "celu", "elu", "silu", "mish", "softplus", "logsigmoid", "softsign",
    "tanhshrink", "softshrink", "hardshrink", "leaky_relu", "gelu", "sigmoid", "tanh", "relu",
]  # fmt: skip

FUNCTIONS = {
    **{name: (ODD, getattr(functional, name)) for name in ACTIVATIONS},
    "negated_comparison": (ODD, lambda x: (~(x >= 0)).float() + 2 * torch.logical_not(x < 1)),
    "is_itself": (ODD, lambda x: (x == x).float() + 3 * (x != x)),
    "sign_and_clamp": (ODD, lambda x: torch.sign(x) + x.clamp(-1, 1)),
    "floor_division": (ODD, lambda x: torch.stack([x // 0.7, x % -0.7, torch.fmod(x, 0.7)])),
    "integer_division": (ODD.nan_to_num(0, 9, -9).long(), lambda x: torch.stack([x // 2, x % 3, x % -3])),
    "integer_to_float": (torch.arange(6).reshape(3, 2), lambda x: x / 4 + x.float().mean()),
    "integer_sums": (torch.full((3, 4), 2**30, dtype=torch.int32), lambda x: x.sum(1) + x.cumsum(1)[:, -1]),
    "sort_and_index": (ODD, lambda x: torch.cat([torch.sort(x, dim=1).values, torch.argmax(x, 1, keepdim=True).float()], 1)),
    "descending": (ODD, lambda x: torch.argsort(x, dim=1, descending=True, stable=True)),
    "top": (ODD, lambda x: torch.topk(x, 3, dim=1).values),
    "extremes": (ODD, lambda x: torch.stack([x.max(1).values, x.min(1).values, x.amax(1), x.median(1).values])),
    "nan_to_num": (ODD, lambda x: torch.nan_to_num(x, 0.5, 7.0, -7.0)),
    "log_sum_exp": (ODD, lambda x: torch.logsumexp(x, 1)),
    "log_add_exp": (ODD, lambda x: torch.logaddexp(x, x.flip(1))),
    "spread": (PLAIN, lambda x: torch.stack([x.std(1), x.var(1, unbiased=False), x.norm(dim=1), x.prod(1)])),
    "quantile": (PLAIN, lambda x: torch.quantile(x, 0.4, dim=1)),
    "cosine": (PLAIN, lambda x: functional.cosine_similarity(x, x.flip(1))),
    "normalize": (PLAIN, lambda x: functional.normalize(x, dim=1)),
    "roll_and_flip": (PLAIN, lambda x: x.roll(2, 1) + x.flip(1) + torch.tril(x.unsqueeze(1).expand(-1, 6, 6)).sum(2)),
    "glu": (PLAIN, lambda x: functional.glu(x, 1)),
    "einsum": (PLAIN, lambda x: torch.einsum("bi,bj->bij", x, x)),
    "windows": (PLAIN, lambda x: x.unfold(1, 3, 2).mean(2)),
    "one_hot": (PLAIN, lambda x: functional.one_hot(x.long().clamp(0, 3), 4)),
    "scatter": (PLAIN, lambda x: x.scatter(1, torch.zeros(x.shape[0], 1, dtype=torch.int64), 1.0)),
    "negative_indexes": (PLAIN, lambda x: x[:, [-1, 0]] + x[:, -2:] * x[:, -3].unsqueeze(1)),
    "chunks": (PLAIN, lambda x: torch.stack(x.chunk(2, 1)).transpose(0, 1).reshape(x.shape[0], -1)),
    "rows_in_columns": (PLAIN, lambda x: x.reshape(x.shape[0] * 2, x.shape[1] // 2).sum(1).view(-1, 2)),
    "size_in_arithmetic": (PLAIN, lambda x: x.sum(0, keepdim=True).expand(x.shape[0], -1) / x.shape[0] + torch.arange(x.shape[0])[:, None]),
    "rows_of_zeros": (PLAIN, lambda x: torch.cat([x.new_zeros(x.shape[0], 2), x, torch.ones(x.shape[0], 1)], 1)),
    "buckets": (ODD, lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 2.0]))),
    "is_in": (PLAIN, lambda x: torch.isin(x, torch.tensor([3.0, 2.0])).float()),
    "lerp": (PLAIN, lambda x: torch.lerp(x, x.flip(1), 0.3)),
    "masked": (ODD, lambda x: x.masked_fill(torch.isnan(x), -1.0).where(x < 5, torch.tensor(5.0))),
    "causal_attention": (
        PLAIN,
        lambda x: functional.scaled_dot_product_attention(x[:, :, None], x[:, :, None], x[:, :, None], is_causal=True),
    ),
    "instance_norm": (IMAGES, functional.instance_norm),
    "group_norm": (IMAGES, lambda x: functional.group_norm(x, 2)),
    "pixel_shuffle": (IMAGES, lambda x: functional.pixel_shuffle(x, 2)),
    "reflect": (IMAGES, lambda x: functional.pad(x, (1, 2, 2, 1), mode="reflect") + functional.pad(x, (1, 2, 2, 1), mode="replicate")),
    "circular": (IMAGES, lambda x: functional.pad(x, (1, 1, 1, 1), mode="circular")),
    "patches": (IMAGES, lambda x: functional.unfold(x, 3)),
    "resized": (IMAGES, lambda x: functional.interpolate(x, scale_factor=2) + functional.interpolate(x, size=(12, 12), mode="bilinear")),
    "pools": (
        IMAGES,
        lambda x: functional.max_pool2d(x, 3, 2, 1) + functional.avg_pool2d(x, 3, 2, 1) + functional.adaptive_max_pool2d(x, 3),
    ),
    "line_pools": (PLAIN, lambda x: functional.max_pool1d(x[:, None], 2) + functional.adaptive_avg_pool1d(x[:, None], 3)),
}


class OfOne(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, features):
        return self.function(features["x"])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_gives_what_torch_gives(name):
    values, function = FUNCTIONS[name]
    lowered = lower(OfOne(function), {"x": values})

    for rows, jits in [(values, (False, True)), (values[:1], (False, True)), (torch.cat([values, values]), (False,))]:
        expected = function(rows)
        for jit in jits:
            got = tf.function(lowered.__call__, jit_compile=jit)({"x": tf.constant(rows.numpy())}).numpy()
            assert str(expected.dtype).endswith(got.dtype.name)
            np.testing.assert_allclose(got, expected.numpy(), rtol=1e-5, atol=1e-5, err_msg=f"{name} jit={jit}")


def test_the_table_has_more_than_a_hundred_rows():
    assert len(ROWS) > 100
