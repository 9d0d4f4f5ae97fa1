"""Each reducing or ordering row against torch: NaN, infinities, ties, integer accumulation."""

import math

import pytest
import torch

from components.exporter.lowering.ops_reduce import ROWS

NAN, INF = math.nan, math.inf
TABLE = torch.tensor(
    [
        [1.0, 3.0, 3.0, -2.0, 0.0],
        [NAN, 2.0, -1.0, NAN, 5.0],
        [-INF, -INF, -INF, -INF, -INF],
        [INF, 1.0, INF, -0.0, 0.0],
        [-INF, NAN, INF, 0.0, -0.0],
        [2.0, 2.0, 2.0, 2.0, 2.0],
    ]
)
FINITE = torch.tensor([[1.0, 3.0, -3.0, 2.5], [0.5, 0.5, 100.0, -7.0], [0.0, -0.0, 1e-3, 4.0]])
WHOLE = torch.tensor([[3, -3, 2**30, 2**30, 3], [0, 5, -5, 7, 7]], dtype=torch.int32)
LONG = torch.tensor([[2**40, 5, -(2**40), 5], [1, 2, 3, 2**40 + 1]])
FLAGS = torch.tensor([[True, False], [False, False], [True, True]])
CUBE = torch.arange(24.0).reshape(2, 3, 4) - 11.5
EDGES = torch.tensor([-1.0, 0.0, 0.0, 2.0])

CASES = [
    *[(f"aten.{name}.default", (TABLE,), {}) for name in ("sum", "prod", "mean", "max", "min", "amax", "amin", "argmax", "argmin", "any")],
    *[(f"aten.{name}.default", (WHOLE,), {}) for name in ("sum", "prod", "max", "min", "amax", "amin", "argmax", "argmin", "any")],
    *[(f"aten.{name}.default", (FLAGS,), {}) for name in ("sum", "prod", "max", "min", "amax", "any")],
    *[(f"aten.{name}.default", (torch.tensor(3.5),), {}) for name in ("sum", "mean", "argmax", "max", "any")],
    *[("aten.sum.dim_IntList", (CUBE, dim, keep), {}) for dim, keep in [([0, 2], False), ([-1], True), (None, False), ([], True)]],
    *[("aten.sum.dim_IntList", (value, [1]), {}) for value in (TABLE, WHOLE, FLAGS)],
    ("aten.sum.dim_IntList", (WHOLE, [0]), {"dtype": torch.float64}),
    *[("aten.mean.dim", (value, [1], True), {}) for value in (TABLE, FINITE)],
    ("aten.mean.dim", (WHOLE, [0]), {"dtype": torch.float32}),
    *[("aten.prod.dim_int", (value, 1), {}) for value in (TABLE, FINITE, WHOLE[:, :2], FLAGS)],
    *[(f"aten.{name}.default", (TABLE, dim, keep), {}) for name in ("amax", "amin") for dim, keep in [([1], False), ([0, 1], True)]],
    *[(f"aten.{name}.dim", (value, 1), {}) for name in ("max", "min") for value in (TABLE, WHOLE, FLAGS[:1], LONG)],
    *[(f"aten.{name}.dim", (TABLE, -2, True), {}) for name in ("max", "min")],
    *[(f"aten.{name}.default", (TABLE, 1, keep), {}) for name in ("argmax", "argmin") for keep in (False, True)],
    *[(f"aten.{name}.default", (TABLE, None, True), {}) for name in ("argmax", "argmin")],
    *[(f"aten.{name}.default", (LONG, 0), {}) for name in ("argmax", "argmin")],
    *[("aten.any.dim", (value, 1, keep), {}) for value in (TABLE, FLAGS, WHOLE) for keep in (False, True)],
    *[("aten.any.dims", (CUBE > 10, dims), {}) for dims in ([0, 2], [1], None)],
    *[("aten.var.correction", (value, [1]), {"correction": c}) for value in (TABLE, FINITE) for c in (None, 0, 1, 2)],
    ("aten.var.correction", (FINITE, None), {"correction": 1, "keepdim": True}),
    ("aten.var.correction", (FINITE[:, :1], [1]), {"correction": 1}),
    ("aten.var_mean.correction", (CUBE, [0, 2]), {"correction": 1, "keepdim": True}),
    *[("aten.linalg_vector_norm.default", (TABLE, order, [1], True), {}) for order in (0, 1, 2, INF, -INF)],
    *[("aten.linalg_vector_norm.default", (FINITE, order, [1]), {}) for order in (0.5, 3, 2.5)],
    ("aten.linalg_vector_norm.default", (FINITE, 2), {"dtype": torch.float64}),
    *[(f"aten.{name}.default", (value, 1), {}) for name in ("cumsum", "cumprod") for value in (TABLE, WHOLE[:, :2], FLAGS, FINITE)],
    *[(f"aten.{name}.default", (CUBE, -2), {"dtype": torch.float64}) for name in ("cumsum", "cumprod")],
    *[(f"aten.{name}.default", (torch.tensor(2.0), 0), {}) for name in ("cumsum", "cumprod", "sort")],
    *[
        ("aten.sort.stable", (value,), {"stable": True, "dim": dim, "descending": descending})
        for value in (TABLE, WHOLE, LONG, TABLE.to(torch.float64), CUBE)
        for dim in (-1, 0)
        for descending in (False, True)
    ],
    ("aten.sort.default", (TABLE, 1), {}),
    ("aten.sort.default", (TABLE, 0, True), {}),
    *[
        ("aten.topk.default", (value, 2, dim, largest), {}, {"outputs": [0]})
        for value in (TABLE, WHOLE, LONG)
        for dim in (-1, 0)
        for largest in (True, False)
    ],
    ("aten.topk.default", (CUBE, 3, 2), {}),
    *[("aten.median.dim", (value, 1, keep), {}, {"outputs": [0]}) for value in (TABLE, FINITE, WHOLE) for keep in (False, True)],
    ("aten.median.dim", (FINITE[:1], 1), {}),
    ("aten.median.dim", (torch.tensor(1.0), 0), {}),
    *[
        ("aten.bucketize.Tensor", (value, EDGES), {"right": right, "out_int32": right})
        for value in (TABLE, FINITE, WHOLE)
        for right in (False, True)
    ],
    *[(f"aten.{name}.default", (TABLE, dim, False), {}) for name in ("_softmax", "_log_softmax") for dim in (-1, 0)],
    *[(f"aten.{name}.default", (CUBE * 20, 1, False), {}) for name in ("_softmax", "_log_softmax")],
    *[(f"aten.{name}.default", (torch.tensor(2.0), 0, False), {}) for name in ("_softmax", "_log_softmax")],
]


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case[0]}" for number, case in enumerate(CASES)])
def test_row_gives_what_torch_gives(case, check_row):
    check_row(*case)


def test_every_reducing_row_has_a_case():
    assert {case[0] for case in CASES} == set(ROWS)
