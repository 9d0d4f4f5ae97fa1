"""Rows of products, convolutions, pools, normalisations, look-ups and recurrent layers against torch."""

import math

import pytest
import torch

from components.exporter.lowering import ops_convolution, ops_index, ops_linear, ops_normalize, ops_pool, ops_recurrent

NAN, INF = math.nan, math.inf
torch.manual_seed(3)
STATIC = {"dynamic": False, "atol": 1e-5}
CLOSE = {"atol": 1e-5}
FIRST = {"dynamic": False, "outputs": [0], "atol": 1e-5}


def _randn(*shape):
    return torch.randn(*shape)


IMAGE, LINE, VOLUME = _randn(2, 4, 9, 8), _randn(2, 4, 11), _randn(2, 4, 5, 6, 5)
HOLED = IMAGE.clone()
HOLED[0, 0, 2, 3], HOLED[1, 2, 0, 0], HOLED[1, 1, 4, 4], HOLED[0, 3] = NAN, INF, -INF, -INF

LINEAR = [
    ("aten.mm.default", (_randn(3, 4), _randn(4, 5)), {}, CLOSE),
    ("aten.bmm.default", (_randn(2, 3, 4), _randn(2, 4, 5)), {}, CLOSE),
    ("aten.addmm.default", (_randn(5), _randn(3, 4), _randn(4, 5)), {}, CLOSE),
    ("aten.addmm.default", (torch.full((3, 5), NAN), _randn(3, 4), _randn(4, 5)), {"beta": 0, "alpha": 2}, CLOSE),
    ("aten.addmm.default", (_randn(3, 5), _randn(3, 4), _randn(4, 5)), {"beta": 0.5, "alpha": -1}, CLOSE),
    ("aten.baddbmm.default", (_randn(2, 3, 5), _randn(2, 3, 4), _randn(2, 4, 5)), {"alpha": 0.5}, CLOSE),
    *[("aten.linear.default", (_randn(*shape, 4), _randn(5, 4), _randn(5)), {}, STATIC) for shape in ([], [3], [2, 3], [2, 1, 3])],
    ("aten.linear.default", (_randn(3, 4), _randn(5, 4)), {}, STATIC),
    ("aten.linear.default", (torch.tensor([[NAN, 1.0], [INF, 0.0], [2.0, 3.0]]), _randn(2, 2), _randn(2)), {}, STATIC),
    *[
        ("aten.matmul.default", (_randn(*left), _randn(*right)), {}, STATIC)
        for left, right in [
            ([4], [4]),
            ([3, 4], [4]),
            ([4], [4, 5]),
            ([3, 4], [4, 5]),
            ([2, 3, 4], [4, 5]),
            ([2, 3, 4], [4]),
            ([4], [2, 4, 5]),
            ([2, 3, 4], [2, 4, 5]),
            ([2, 1, 3, 4], [5, 4, 6]),
            ([3, 4], [2, 4, 5]),
        ]
    ],
    ("aten.dot.default", (_randn(6), _randn(6)), {}, CLOSE),
    ("aten.mv.default", (_randn(3, 4), _randn(4)), {}, CLOSE),
]


def _conv(x, weight, *, bias=True, stride=1, padding=0, dilation=1, transposed=False, extra=0, groups=1):
    rank = weight.dim() - 2
    outputs = weight.shape[1] if transposed else weight.shape[0]
    lists = [[value] * rank if isinstance(value, int) else value for value in (stride, padding, dilation, extra)]
    return (x, weight, _randn(outputs) if bias else None, *lists[:3], transposed, lists[3], groups)


CONVOLUTIONS = [
    _conv(IMAGE, _randn(6, 4, 3, 3)),
    _conv(IMAGE, _randn(6, 4, 3, 2), stride=[2, 1], padding=[1, 2], bias=False),
    _conv(IMAGE, _randn(6, 4, 3, 3), padding=2, dilation=2),
    _conv(IMAGE, _randn(6, 2, 3, 3), groups=2, stride=2),
    _conv(IMAGE, _randn(8, 1, 3, 3), groups=4, padding=1),
    _conv(IMAGE, _randn(4, 1, 3, 3), groups=4, stride=2),
    _conv(IMAGE, _randn(4, 1, 3, 3), groups=4, stride=[1, 2]),
    _conv(HOLED, _randn(6, 4, 1, 1)),
    _conv(LINE, _randn(3, 4, 3), padding=1),
    _conv(LINE, _randn(3, 4, 2), stride=2, dilation=3),
    _conv(LINE, _randn(4, 1, 3), groups=4, padding=2),
    _conv(VOLUME, _randn(3, 4, 2, 3, 2), stride=2, padding=1),
    _conv(IMAGE, _randn(4, 3, 3, 3), transposed=True),
    _conv(IMAGE, _randn(4, 3, 3, 2), transposed=True, stride=2, padding=1, extra=1),
    _conv(IMAGE, _randn(4, 3, 2, 2), transposed=True, stride=[3, 2], extra=[1, 0], bias=False),
    _conv(LINE, _randn(4, 3, 3), transposed=True, stride=2, padding=1, extra=1),
]


def _turned(arguments):
    weight = arguments[1]
    return (arguments[0], weight.permute(*range(2, weight.dim()), 1, 0).contiguous(), *arguments[2:])


CONVOLUTION = [
    *[("aten.convolution.default", arguments, {}, STATIC) for arguments in CONVOLUTIONS],
    *[("tandem.convolve_turned", _turned(arguments), {}, STATIC) for arguments in CONVOLUTIONS[:4]],
]

POOL = [
    *[
        ("aten.max_pool2d_with_indices.default", (image, *rest), {}, FIRST)
        for image in (IMAGE, HOLED)
        for rest in [
            ([2, 2],),
            ([3, 3], [2, 2], [1, 1]),
            ([3, 2], [1, 2], [1, 0], [2, 1]),
            ([3, 3], [2, 2], [1, 1], [1, 1], True),
            ([2, 2], [2, 2], 0, 1, True),
        ]
    ],
    ("aten.max_pool2d_with_indices.default", (torch.full((1, 1, 4, 4), -INF), [3, 3], [1, 1], [1, 1]), {}, FIRST),
    *[
        ("aten.avg_pool2d.default", (image, *rest), {}, STATIC)
        for image in (IMAGE, HOLED)
        for rest in [
            ([2, 2],),
            ([3, 3], [2, 2], [1, 1]),
            ([3, 3], [2, 2], [1, 1], False, False),
            ([3, 3], [2, 2], [1, 1], True, True),
            ([3, 2], [2, 2], [1, 0], True, False),
            ([3, 3], [3, 3], [0, 0], False, True, 4),
        ]
    ],
    *[
        ("aten._adaptive_avg_pool2d.default", (image, output), {}, STATIC)
        for image in (IMAGE, HOLED)
        for output in ([1, 1], [3, 2], [5, 8], [9, 3])
    ],
    *[("aten.adaptive_max_pool2d.default", (image, output), {}, FIRST) for image in (IMAGE, HOLED) for output in ([1, 1], [3, 2], [5, 8])],
    *[
        ("aten.upsample_nearest2d.vec", (IMAGE, *how), {}, STATIC)
        for how in [([18, 16], None), ([7, 13], None), (None, [2.0, 1.5]), (None, [0.5, 0.3])]
    ],
    *[("aten.upsample_nearest1d.vec", (LINE, *how), {}, STATIC) for how in [([22], None), ([5], None), (None, [1.7])]],
    *[
        ("aten.upsample_bilinear2d.vec", (IMAGE, size, corners, factors), {}, STATIC)
        for corners in (False, True)
        for size, factors in [([18, 16], None), ([7, 13], None), (None, [2.0, 1.5]), ([1, 1], None)]
    ],
    *[("aten.upsample_linear1d.vec", (LINE, [17], corners, None), {}, STATIC) for corners in (False, True)],
]

POSITIVE = torch.rand(4) + 0.1
NORMALIZE = [
    *[
        ("aten._native_batch_norm_legit_no_training.default", (x, _randn(4), _randn(4), _randn(4), POSITIVE, 0.1, 1e-5), {}, FIRST)
        for x in (IMAGE, LINE, HOLED, IMAGE[:, :, 0, 0])
    ],
    ("aten._native_batch_norm_legit_no_training.default", (IMAGE, None, None, _randn(4), POSITIVE, 0.1, 1e-3), {}, FIRST),
    *[
        ("aten._native_batch_norm_legit.no_stats", (x, *affine, True, 0.1, 1e-5), {}, FIRST)
        for x in (IMAGE, LINE)
        for affine in [(None, None), (_randn(4), _randn(4))]
    ],
    *[
        ("aten.native_layer_norm.default", (x, list(x.shape[-axes:]), weight, weight, 1e-5), {}, FIRST)
        for x, axes, weight in [(IMAGE, 1, _randn(8)), (HOLED, 1, _randn(8)), (IMAGE, 2, None), (LINE * 1e3 + 1e4, 1, _randn(11))]
    ],
    ("aten.native_layer_norm.default", (torch.full((2, 3), 5.0), [3], _randn(3), _randn(3), 1e-5), {}, FIRST),
    *[
        ("aten.native_group_norm.default", (IMAGE, weight, weight, 2, 4, 72, groups, 1e-5), {}, FIRST)
        for groups in (1, 2, 4)
        for weight in (None, _randn(4))
    ],
]

IDS = torch.tensor([[0, 4, 2], [1, 1, 3]])
WEIGHT = _randn(5, 3)
INDEX = [
    ("aten.embedding.default", (WEIGHT, IDS), {}),
    ("aten.embedding.default", (WEIGHT, IDS.to(torch.int32), 1), {}),
    *[("aten.index_select.default", (IMAGE, dim, torch.tensor([3, 0, 0])), {}) for dim in (1, -1)],
    ("aten.index_select.default", (torch.tensor(2.0), 0, torch.tensor([0])), {}),
    *[
        ("aten.gather.default", (WEIGHT, dim, index), {})
        for dim, index in [(0, torch.tensor([[4, 0, 1]])), (1, torch.tensor([[2, 2], [0, 1]])), (-1, torch.zeros(5, 7, dtype=torch.int64))]
    ],
    ("aten.gather.default", (torch.tensor(2.0), 0, torch.tensor([0, 0])), {}),
    *[
        ("aten.index.Tensor", (IMAGE, indices), {})
        for indices in [
            [torch.tensor([1, -1, 0])],
            [None, torch.tensor([[0, -4], [3, 1]])],
            [torch.tensor([0, 1]), torch.tensor([-1, 2])],
            [None, torch.tensor([[0], [1]]), torch.tensor([[5, -1, 0]])],
            [torch.tensor([0, 1]), None, torch.tensor([3, -2])],
            [None, None, None, torch.tensor([7])],
            [None, torch.tensor(2), None, torch.tensor([1, 2])],
        ]
    ],
    ("aten.scatter.value", (WEIGHT, 1, torch.tensor([[2], [0]]), 9.0), {}),
    ("aten.scatter.src", (WEIGHT, 0, torch.tensor([[4, 0, 1]]), _randn(2, 3)), {}),
    ("aten.scatter.src", (WEIGHT, 1, torch.tensor([[1, 0], [2, 1]]), _randn(2, 2)), {}),
    ("aten.scatter_add.default", (WEIGHT, 1, torch.tensor([[1, 1, 1], [2, 0, 2]]), _randn(5, 3)), {}),
    ("aten.scatter_add.default", (WEIGHT, 0, torch.tensor([[3, 3, 3], [3, 0, 2]]), _randn(2, 3)), {}),
    *[
        ("aten.slice_scatter.default", (IMAGE, IMAGE[:, :, low : (None if high is None else high)] * 2, 2, low, high), {})
        for low, high in [(0, 3), (2, 7), (-2, None), (0, 2**63 - 1)]
    ],
    *[("aten.select_scatter.default", (IMAGE, IMAGE[:, :, 0] * 2, 2, place), {}) for place in (0, 4, -1)],
]


def _recurrent(gates, *, hidden=5, steps=4):
    return _randn(steps, 3, 4), _randn(3, hidden), [_randn(4, gates * hidden), _randn(hidden, gates * hidden)], _randn(gates * hidden)


SEQUENCE, H, LSTM_WEIGHTS, LSTM_BIAS = _recurrent(4)
GRU, RNN = _recurrent(3), _recurrent(1)
RECURRENT = [
    *[
        ("tandem.lstm_layer.default", (SEQUENCE[:steps], H, _randn(3, 5), [*LSTM_WEIGHTS, LSTM_BIAS], reverse), {}, STATIC)
        for reverse in (False, True)
        for steps in (1, 4)
    ],
    (
        "tandem.lstm_layer.default",
        (SEQUENCE, H[:, :2], _randn(3, 5), [LSTM_WEIGHTS[0], _randn(2, 20), LSTM_BIAS, _randn(5, 2)], False),
        {},
        STATIC,
    ),
    *[("tandem.gru_layer.default", (*GRU[:3], [GRU[3], _randn(15)], reverse), {}, STATIC) for reverse in (False, True)],
    *[
        ("tandem.rnn_layer.default", (*RNN[:2], [*RNN[2], RNN[3]], kind, reverse), {}, STATIC)
        for kind in ("tanh", "relu")
        for reverse in (False, True)
    ],
]

GROUPS = {
    ops_linear: LINEAR,
    ops_convolution: CONVOLUTION,
    ops_pool: POOL,
    ops_normalize: NORMALIZE,
    ops_index: INDEX,
    ops_recurrent: RECURRENT,
}
CASES = [case for cases in GROUPS.values() for case in cases]


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case[0]}" for number, case in enumerate(CASES)])
def test_row_gives_what_torch_gives(case, check_row):
    check_row(*case)


@pytest.mark.parametrize("module", GROUPS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_every_row_has_a_case(module):
    assert {case[0] for case in GROUPS[module]} == set(module.ROWS)
