"""Each pointwise row against torch: NaN, infinities, signed zeros, halves, negative and mixed operands."""

import math

import pytest
import torch

from components.exporter.lowering.ops_pointwise import ROWS

NAN, INF = math.nan, math.inf
SPECIAL = torch.tensor([NAN, INF, -INF, -0.0, 0.0, 0.25, 0.5, -0.5, 0.99, -1.0, 1.0, 1.5, -1.5, 2.5, -2.5, 3.0, -7.0, 20.0, -40.0])
COLUMN, ROW = SPECIAL[:, None], SPECIAL[None, :]
MODERATE = torch.tensor([NAN, -0.0, 0.0, 0.25, 0.5, -0.5, -0.99, 1.0, -1.5, 2.5, -3.0, 6.0])
WHOLE = torch.tensor([-7, -2, -1, 0, 1, 2, 7], dtype=torch.int64)
NONZERO = torch.tensor([-3, -1, 1, 2, 5], dtype=torch.int64)
SMALL = WHOLE.to(torch.int32)
FLAGS = torch.tensor([True, False, True, False, True, True, False])
DOUBLE = SPECIAL.to(torch.float64)

UNARY_SPECIAL = [
    "abs", "neg", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal", "asin", "acos", "atan",
    "sinh", "cosh", "asinh", "acosh", "atanh", "tanh", "sigmoid", "erf", "ceil", "floor", "round", "trunc", "sign", "relu", "gelu",
    "elu", "leaky_relu", "hardtanh", "isnan", "isinf", "logical_not", "sin", "cos", "tan",
]  # fmt: skip
ON_INTEGERS = ["abs", "neg", "exp", "sqrt", "sigmoid", "tanh", "reciprocal", "ceil", "floor", "round", "trunc", "sign", "isnan", "isinf"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
PAIRS = ["add", "sub", "mul", "div", "fmod", "remainder"]

CASES = [
    *[(f"aten.{name}.default", (SPECIAL,), {}) for name in UNARY_SPECIAL],
    *[(f"aten.{name}.default", (WHOLE,), {}) for name in ON_INTEGERS],
    *[(f"aten.{name}.default", (DOUBLE,), {}) for name in ("exp", "gelu", "relu", "sign", "erf")],
    *[(f"aten.{name}.{kind}", (COLUMN, ROW if kind == "Tensor" else 0.5), {}) for name in COMPARISONS for kind in ("Tensor", "Scalar")],
    *[(f"aten.{name}.Scalar", (WHOLE, 0.5), {}) for name in COMPARISONS],
    *[(f"aten.{name}.Tensor", (FLAGS, WHOLE), {}) for name in COMPARISONS],
    *[(f"aten.{name}.Tensor", (FLAGS, FLAGS.flip(0)), {}) for name in COMPARISONS],
    *[(f"aten.{name}.Tensor", (COLUMN, ROW), {}) for name in PAIRS],
    *[(f"aten.{name}.Tensor", (WHOLE[:, None], NONZERO[None, :]), {}) for name in PAIRS],
    *[(f"aten.{name}.Tensor", (WHOLE[:, None], torch.tensor([0.5, -1.5])), {}) for name in PAIRS],
    *[(f"aten.{name}.Tensor", (SMALL, torch.tensor(3, dtype=torch.int64)), {}) for name in PAIRS],
    *[(f"aten.{name}.Scalar", (SPECIAL, -1.5), {}) for name in PAIRS],
    *[(f"aten.{name}.Scalar", (WHOLE, 2), {}) for name in PAIRS],
    *[(f"aten.{name}.Scalar", (SMALL, 2.5), {}) for name in PAIRS],
    *[(f"aten.{name}.Tensor", (FLAGS, FLAGS.flip(0)), {}) for name in ("add", "mul")],
    *[(f"aten.{name}.Tensor", (SPECIAL, DOUBLE), {"alpha": 3}) for name in ("add", "sub")],
    *[(f"aten.{name}.Scalar", (WHOLE, 2, 3), {}) for name in ("add", "sub")],
    *[("aten.div.Tensor_mode", (COLUMN, ROW), {"rounding_mode": mode}) for mode in ("floor", "trunc", None)],
    *[("aten.div.Tensor_mode", (WHOLE[:, None], NONZERO[None, :]), {"rounding_mode": mode}) for mode in ("floor", "trunc", None)],
    *[("aten.div.Scalar_mode", (SPECIAL, 0.1), {"rounding_mode": mode}) for mode in ("floor", "trunc")],
    ("aten.div.Tensor_mode", (torch.tensor([6.0, 0.3, -0.3, 1.0]), torch.tensor([0.1, 0.1, 0.1, 0.0])), {"rounding_mode": "floor"}),
    *[("aten.pow.Tensor_Scalar", (SPECIAL, exponent), {}) for exponent in (0, 0.5, -0.5, 1, 2, 3, -1, 2.5, -2)],
    *[("aten.pow.Tensor_Scalar", (WHOLE, exponent), {}) for exponent in (0, 2, 3, 2.0, 0.5)],
    ("aten.pow.Tensor_Tensor", (MODERATE[:, None], MODERATE[None, :]), {}),
    ("aten.pow.Tensor_Tensor", (WHOLE, WHOLE.abs()), {}),
    *[("aten.pow.Scalar", (base, MODERATE), {}) for base in (2, 0.5, -2.0)],
    *[(f"aten.{name}.default", (COLUMN, ROW), {}) for name in ("maximum", "minimum", "fmax", "fmin", "atan2", "hypot")],
    *[(f"aten.{name}.default", (WHOLE, SMALL.flip(0)), {}) for name in ("maximum", "minimum", "fmax", "fmin", "atan2")],
    *[(f"aten.{name}.default", (FLAGS, FLAGS.flip(0)), {}) for name in ("maximum", "minimum")],
    *[("aten.clamp.default", (SPECIAL, low, high), {}) for low, high in [(-1, 1.5), (None, 2), (0.5, None), (2.0, -2.0), (NAN, 1.0)]],
    *[("aten.clamp.default", (WHOLE, low, high), {}) for low, high in [(-1, 2), (0.5, None), (None, 3)]],
    ("aten.clamp.Tensor", (SPECIAL[:5], SPECIAL[:, None], SPECIAL[None, 2:7]), {}),
    ("aten.clamp.Tensor", (SPECIAL, None, torch.tensor(1.0)), {}),
    *[(f"aten.logical_{name}.default", (COLUMN, ROW), {}) for name in ("and", "or", "xor")],
    *[(f"aten.logical_{name}.default", (FLAGS, WHOLE), {}) for name in ("and", "or", "xor")],
    ("aten.bitwise_not.default", (FLAGS,), {}),
    ("aten.bitwise_not.default", (WHOLE,), {}),
    *[(f"aten.bitwise_{name}.Tensor", (FLAGS, FLAGS.flip(0)), {}) for name in ("and", "or", "xor")],
    *[(f"aten.bitwise_{name}.Tensor", (WHOLE, SMALL), {}) for name in ("and", "or", "xor")],
    *[(f"aten.bitwise_{name}.Scalar", (SMALL, 3), {}) for name in ("and", "or", "xor")],
    *[(f"aten.bitwise_{name}.Scalar", (FLAGS, True), {}) for name in ("and", "or", "xor")],
    ("aten.where.self", (SPECIAL > 0, SPECIAL, SPECIAL * 2), {}),
    ("aten.where.self", (FLAGS, WHOLE, torch.tensor(-INF)), {}),
    ("aten.gelu.default", (SPECIAL,), {"approximate": "tanh"}),
    ("aten.elu.default", (SPECIAL, 1.6732632, 1.0507009, 0.5), {}),
    ("aten.leaky_relu.default", (SPECIAL, 0.3), {}),
    ("aten.hardtanh.default", (SPECIAL, 0.0, 6.0), {}),
    *[("aten.round.decimals", (torch.tensor([1.234, -1.235, 0.5, 25.0, NAN, INF]),), {"decimals": d}) for d in (2, 0, -1)],
    ("aten.copy.default", (torch.zeros(2, 3), torch.tensor([1, 2, 3])), {}),
    *[("aten._to_copy.default", (MODERATE,), {"dtype": dtype}) for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.bool)],
    *[("aten._to_copy.default", (MODERATE[1:],), {"dtype": dtype}) for dtype in (torch.int64, torch.int32)],
    *[("aten._to_copy.default", (WHOLE,), {"dtype": dtype}) for dtype in (torch.float32, torch.int8, torch.bool, None)],
    *[("aten._to_copy.default", (FLAGS,), {"dtype": dtype}) for dtype in (torch.float32, torch.int64)],
    ("aten.sign.default", (FLAGS,), {}),
    ("aten.abs.default", (torch.tensor([3, 200], dtype=torch.uint8),), {}),
    ("aten.sign.default", (torch.tensor([0, 200], dtype=torch.uint8),), {}),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case[0]}" for number, case in enumerate(CASES)])
def test_row_gives_what_torch_gives(case, check_row):
    check_row(*case)


def test_every_pointwise_row_has_a_case():
    assert {case[0] for case in CASES} == set(ROWS)
