"""Each row of shapes, parts, new tensors and sizes against torch."""

import math

import pytest
import torch

from components.exporter.lowering.ops_shape import ROWS

NAN = math.nan
CUBE = torch.arange(24.0).reshape(2, 3, 4)
LINE = torch.arange(7)
SCALAR = torch.tensor(2.5)
LAST = 2**63 - 1

CASES = [
    *[
        (f"aten.{name}.default", (CUBE, shape), {})
        for name in ("view", "_unsafe_view", "reshape")
        for shape in ([6, 4], [-1, 2], [24], [2, 3, 2, 2])
    ],
    ("aten.view.default", (SCALAR, [1, 1]), {}),
    ("aten.view.default", (CUBE[:, :1, 0], [2]), {}),
    *[("aten.permute.default", (CUBE, order), {}) for order in ([2, 0, 1], [-1, 0, -2], [0, 1, 2])],
    ("aten.permute.default", (SCALAR, []), {}),
    *[("aten.expand.default", (CUBE[:, :1], shape), {}) for shape in ([2, 5, 4], [3, -1, 5, -1], [2, 1, 4])],
    ("aten.expand.default", (SCALAR, [2, 2]), {}),
    *[("aten.squeeze.dim", (CUBE[:1, :, :1], dim), {}, {"dynamic": False}) for dim in (0, -1, 1)],
    *[("aten.squeeze.dims", (CUBE[:1, :, :1], dims), {}, {"dynamic": False}) for dims in ([0, 2], [0, 1], [-1])],
    ("aten.squeeze.dims", (SCALAR, [0]), {}),
    *[("aten.unsqueeze.default", (CUBE, dim), {}) for dim in (0, -1, 2)],
    *[("aten.cat.default", ([CUBE, CUBE + 1], dim), {}) for dim in (0, -1)],
    ("aten.cat.default", ([LINE, torch.tensor([0.5])],), {}),
    ("aten.cat.default", ([torch.tensor([]), CUBE], 1), {}, {"dynamic": False}),
    *[("aten.split_with_sizes.default", (CUBE, sizes, dim), {}) for sizes, dim in [([1, 3], -1), ([2, 1], 1), ([1, 1], 0)]],
    *[
        ("aten.slice.Tensor", (LINE, 0, start, end, step), {})
        for start, end, step in [(0, LAST, 1), (2, 5, 1), (-3, LAST, 1), (None, -2, 1), (-99, 99, 2), (5, 2, 1), (1, LAST, 3), (9, 12, 1)]
    ],
    ("aten.slice.Tensor", (CUBE, -2, 1, 3), {}),
    *[("aten.select.int", (CUBE, dim, place), {}) for dim, place in [(0, 1), (-1, -1), (1, -3), (1, 2)]],
    *[("aten.repeat.default", (CUBE, repeats), {}) for repeats in ([1, 2, 3], [2, 1, 1, 2], [1, 1, 1])],
    ("aten.repeat.default", (SCALAR, [3]), {}),
    *[("aten.flip.default", (CUBE, dims), {}) for dims in ([0], [-1, 1], [])],
    *[
        ("aten.constant_pad_nd.default", (CUBE, pad, value), {})
        for pad, value in [([1, 2], 0.5), ([0, 0, 1, 0], -math.inf), ([-1, 1, 0, -2], 3)]
    ],
    ("aten.constant_pad_nd.default", (CUBE, [0, 0]), {}),
    ("aten.constant_pad_nd.default", (LINE, [2, 0], 9), {}),
    *[("aten.unfold.default", (CUBE, dim, length, step), {}) for dim, length, step in [(-1, 2, 1), (1, 2, 1), (2, 2, 2), (0, 1, 1)]],
    *[("aten.diagonal.default", (CUBE, offset, d1, d2), {}) for offset, d1, d2 in [(0, 0, 1), (1, 1, 2), (-1, -2, -1)]],
    *[(f"aten.{name}.default", (CUBE,), {}) for name in ("clone", "alias", "detach", "lift_fresh_copy")],
    *[("aten.full.default", (shape, value), {}) for shape, value in [([2, 3], 1.5), ([2], 3), ([], True), ([0, 2], 1.0)]],
    ("aten.full.default", ([2], 1), {"dtype": torch.float64}),
    *[("aten.full_like.default", (value, 3), {}) for value in (CUBE, LINE, SCALAR)],
    ("aten.full_like.default", (CUBE, 3), {"dtype": torch.int32}),
    ("aten.scalar_tensor.default", (3,), {}),
    ("aten.scalar_tensor.default", (-math.inf,), {"dtype": torch.float64}),
    *[("aten.arange.start_step", (start, end, step), {}) for start, end, step in [(0, 7, 1), (5, -5, -3), (0.0, 1.0, 0.1), (3, 3, 1)]],
    *[("aten.arange.start_step", (0, 5), {"dtype": dtype}) for dtype in (torch.float32, torch.int32)],
    *[("aten.sym_size.int", (CUBE, dim), {}) for dim in (0, -1)],
    *[("operator.getitem", ([CUBE, LINE], place), {}) for place in (0, 1)],
    *[(f"operator.{name}", (7, 2), {}) for name in ("add", "sub", "mul", "floordiv", "mod", "truediv")],
    ("operator.neg", (7,), {}),
    *[(f"torch.sym_{name}", (7, 2), {}) for name in ("max", "min")],
    ("torch.sym_int", (7.9,), {}),
    ("torch.sym_float", (7,), {}),
]

SIZES = [(-7, 2), (7, -2), (7, 2)]


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case[0]}" for number, case in enumerate(CASES)])
def test_row_gives_what_torch_gives(case, check_row):
    check_row(*case)


@pytest.mark.parametrize(("first", "second"), SIZES)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "floordiv", "mod"])
def test_arithmetic_on_dynamic_sizes_is_that_of_python(name, first, second):
    import operator

    import tensorflow as tf

    result = tf.function(ROWS[f"operator.{name}"], autograph=False)(tf.constant(first, tf.int64), second)

    assert int(result) == getattr(operator, name)(first, second)
    assert result.dtype == tf.int64


@pytest.mark.parametrize(("name", "expected"), [("torch.sym_max", 7), ("torch.sym_min", 2)])
def test_extremes_of_dynamic_sizes(name, expected):
    import tensorflow as tf

    assert int(ROWS[name](tf.constant(7, tf.int64), 2)) == expected


def test_conversions_of_dynamic_sizes():
    import tensorflow as tf

    assert float(ROWS["operator.truediv"](tf.constant(7, tf.int64), 2)) == 3.5
    assert int(ROWS["torch.sym_int"](tf.constant(7.9, tf.float64))) == 7
    assert float(ROWS["torch.sym_float"](tf.constant(7, tf.int64))) == 7.0


def test_memory_left_empty_by_torch_holds_zeros():
    assert ROWS["aten.empty.memory_format"]([2, 3]).numpy().tolist() == [[0.0] * 3] * 2


def test_every_row_has_a_case():
    assert {case[0] for case in CASES} | {"aten.empty.memory_format"} == set(ROWS)
