"""Rows for operators that work element by element.

Every function takes the arguments of the ATen overload it stands for, in TensorFlow terms (tensors, Python numbers,
`tf.DType`). NaN, ties and negative operands give what torch gives; `tests/unit/components/exporter/lowering` holds the proof.
"""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from components.core.errors import ExportError
from components.exporter.lowering.promotion import as_floating, cast, result_type, together

Unary = Callable[[tf.Tensor], tf.Tensor]


def _floating(function: Unary) -> Unary:
    """Wraps a function that torch defines on floating numbers so that integers become float32 first."""
    return lambda x: function(as_floating(x))


def _kept_for_integers(function: Unary) -> Unary:
    """Wraps a rounding function: torch returns integers unchanged."""
    return lambda x: function(x) if x.dtype.is_floating else x


def is_nan(x: tf.Tensor) -> tf.Tensor:
    """Returns where `x` is NaN; all false for integers."""
    return tf.math.is_nan(x) if x.dtype.is_floating else tf.zeros_like(x, tf.bool)


def negate(condition: tf.Tensor) -> tf.Tensor:
    """not condition.

    Not tf.logical_not: TensorFlow's graph optimiser turns "not (a >= b)" into "a < b", which differs where one is NaN.
    """
    return tf.where(condition, False, True)


def add(x: Any, other: Any, *, alpha: Any = 1) -> tf.Tensor:
    """x + alpha * other; on booleans "or"."""
    if result_type(x, other) == tf.bool:
        return tf.logical_or(*together(x, other))
    x, other = together(x, other)
    return tf.add(x, other if alpha == 1 else other * cast(alpha, x.dtype))


def subtract(x: Any, other: Any, *, alpha: Any = 1) -> tf.Tensor:
    """x - alpha * other."""
    x, other = together(x, other)
    return tf.subtract(x, other if alpha == 1 else other * cast(alpha, x.dtype))


def multiply(x: Any, other: Any) -> tf.Tensor:
    """x * other; on booleans "and"."""
    if result_type(x, other) == tf.bool:
        return tf.logical_and(*together(x, other))
    return tf.multiply(*together(x, other))


def _floor_divide(x: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Floored division of floats as Python and torch define it: from fmod, so that floor(a/b) cannot round up."""
    rest = tf.truncatemod(x, other)
    ratio = (x - rest) / other
    one = tf.ones([], x.dtype)
    ratio = tf.where((rest != 0) & ((other < 0) != (rest < 0)), ratio - one, ratio)
    floored = tf.floor(ratio)
    floored = tf.where(ratio - floored > 0.5, floored + one, floored)
    return tf.where(other == 0, x / other, tf.where(ratio == 0, tf.zeros_like(ratio), floored))


def divide(x: Any, other: Any, *, rounding_mode: str | None = None) -> tf.Tensor:
    """x / other; `rounding_mode` None (integers become float32), "floor" or "trunc" (integers stay)."""
    x, other = together(x, other)
    if rounding_mode is None:
        return as_floating(x) / as_floating(other)
    if not x.dtype.is_floating:
        return tf.math.floordiv(x, other) if rounding_mode == "floor" else tf.truncatediv(x, other)
    if rounding_mode == "floor":
        return _floor_divide(x, other)
    return truncate(x / other)


def truncate(x: tf.Tensor) -> tf.Tensor:
    """Rounds towards zero."""
    return tf.where(x < 0, tf.math.ceil(x), tf.math.floor(x))


def fmod(x: Any, other: Any) -> tf.Tensor:
    """Remainder with the sign of `x` (C's fmod)."""
    return tf.truncatemod(*together(x, other))


def remainder(x: Any, other: Any) -> tf.Tensor:
    """Remainder with the sign of `other` (Python's %)."""
    x, other = together(x, other)
    if not x.dtype.is_floating:
        return tf.math.floormod(x, other)
    rest = tf.truncatemod(x, other)
    return tf.where((rest != 0) & ((other < 0) != (rest < 0)), rest + other, rest)


def power(x: Any, exponent: Any) -> tf.Tensor:
    """x ** exponent; a few constant exponents are computed as torch computes them, by roots and products."""
    dtype = result_type(x, exponent)
    if isinstance(exponent, int | float) and dtype.is_floating:
        x = cast(x, dtype)
        direct: dict[float, Unary] = {0.5: tf.sqrt, -0.5: tf.math.rsqrt, 2.0: tf.square, 3.0: lambda v: v * v * v, -1.0: reciprocal}
        if float(exponent) in direct:
            return direct[float(exponent)](x)
    return tf.pow(cast(x, dtype), cast(exponent, dtype))


def reciprocal(x: tf.Tensor) -> tf.Tensor:
    """1 / x."""
    return tf.ones([], x.dtype) / x


def maximum(x: Any, other: Any) -> tf.Tensor:
    """The larger of both; NaN where either is NaN."""
    x, other = together(x, other)
    if x.dtype == tf.bool:
        return tf.logical_or(x, other)
    return tf.where((x >= other) | is_nan(x), x, other)


def minimum(x: Any, other: Any) -> tf.Tensor:
    """The smaller of both; NaN where either is NaN."""
    x, other = together(x, other)
    if x.dtype == tf.bool:
        return tf.logical_and(x, other)
    return tf.where((x <= other) | is_nan(x), x, other)


def fmax(x: Any, other: Any) -> tf.Tensor:
    """The larger of both; a NaN loses against a number."""
    x, other = together(x, other)
    return tf.where((x >= other) | is_nan(other), x, other)


def fmin(x: Any, other: Any) -> tf.Tensor:
    """The smaller of both; a NaN loses against a number."""
    x, other = together(x, other)
    return tf.where((x <= other) | is_nan(other), x, other)


def _clamp(x: tf.Tensor, low: Any = None, high: Any = None) -> tf.Tensor:
    """Limits `x` to [low, high]; NaN stays NaN and low > high gives high, as in torch."""
    dtype = result_type(*[operand for operand in (x, low, high) if operand is not None])
    x = cast(x, dtype)
    x = x if low is None else maximum(x, cast(low, dtype))
    return x if high is None else minimum(x, cast(high, dtype))


def sign(x: tf.Tensor) -> tf.Tensor:
    """-1, 0 or 1; torch gives 0 for NaN."""
    if x.dtype == tf.bool:
        return x
    return tf.cast(x > 0, x.dtype) - tf.cast(x < 0, x.dtype) if x.dtype != tf.uint8 else tf.cast(x > 0, x.dtype)


def relu(x: tf.Tensor) -> tf.Tensor:
    """max(x, 0); NaN stays NaN."""
    return tf.nn.relu(x)


def error_function(x: tf.Tensor) -> tf.Tensor:
    """erf(x), exactly -1 or 1 beyond |x| = 6, where TensorFlow's double kernel gives NaN at infinity and XLA's falls short of 1."""
    return tf.where(tf.abs(x) > 6.0, tf.sign(x), tf.math.erf(x))


def gelu(x: tf.Tensor, *, approximate: str = "none") -> tf.Tensor:
    """Gaussian error linear unit: exact by erf, or "tanh". Source: Hendrycks and Gimpel, arXiv:1606.08415, section 2."""
    if approximate == "tanh":
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1.0 + tf.tanh(inner))
    return x * 0.5 * (1.0 + error_function(x * math.sqrt(0.5)))


def _elu(x: tf.Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> tf.Tensor:
    """scale * x where positive, else scale * alpha * (exp(input_scale * x) - 1)."""
    return tf.where(x > 0, x * scale, tf.math.expm1(x * input_scale) * (alpha * scale))


def leaky_relu(x: tf.Tensor, negative_slope: float = 0.01) -> tf.Tensor:
    """x where positive, else negative_slope * x."""
    return tf.where(x > 0, x, x * negative_slope)


def _hardtanh(x: tf.Tensor, low: float = -1.0, high: float = 1.0) -> tf.Tensor:
    """clamp with the bounds of nn.Hardtanh."""
    return _clamp(x, low, high)


def round_to(x: tf.Tensor, *, decimals: int) -> tf.Tensor:
    """Rounds half to even at `decimals` places, by scaling as torch does."""
    factor = cast(10.0 ** abs(decimals), x.dtype)
    return tf.round(x * factor) / factor if decimals >= 0 else tf.round(x / factor) * factor


def _where(condition: tf.Tensor, x: Any, other: Any) -> tf.Tensor:
    """Chooses by `condition`, in the promoted dtype of both branches."""
    x, other = together(x, other)
    return tf.where(cast(condition, tf.bool), x, other)


def _compared(function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Callable[[Any, Any], tf.Tensor]:
    def compare(x: Any, other: Any) -> tf.Tensor:
        x, other = together(x, other)
        if x.dtype == tf.bool:
            x, other = tf.cast(x, tf.int32), tf.cast(other, tf.int32)
        return function(x, other)

    return compare


def _logical(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """Wraps a logical function: every operand is read as "not zero"."""
    return lambda *operands: function(*(cast(operand, tf.bool) for operand in operands))


def _bitwise(on_bool: Callable[..., tf.Tensor], on_integer: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    def combine(*operands: Any) -> tf.Tensor:
        cast_operands = together(*operands)
        return (on_bool if cast_operands[0].dtype == tf.bool else on_integer)(*cast_operands)

    return combine


def _on_floats(function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> Callable[[Any, Any], tf.Tensor]:
    return lambda x, other: function(*(as_floating(operand) for operand in together(x, other)))


def _copy_into(x: tf.Tensor, source: tf.Tensor, non_blocking: bool = False) -> tf.Tensor:
    """`source` in the shape and dtype of `x`."""
    del non_blocking
    return tf.broadcast_to(cast(source, x.dtype), tf.shape(x))


def to_copy(x: tf.Tensor, *, dtype: tf.DType | None = None) -> tf.Tensor:
    """Casts; a float that an integer cannot hold is undefined in both frameworks."""
    return x if dtype is None else cast(x, dtype)


def absolute(x: tf.Tensor) -> tf.Tensor:
    """|x|; unsigned and boolean tensors are unchanged."""
    return x if x.dtype in (tf.bool, tf.uint8) else tf.abs(x)


def is_infinite(x: tf.Tensor) -> tf.Tensor:
    """Returns where `x` is an infinity; all false for integers."""
    return tf.math.is_inf(x) if x.dtype.is_floating else tf.zeros_like(x, tf.bool)


def hypotenuse(x: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """sqrt(x^2 + other^2) without overflow; infinite where either is infinite, even beside NaN."""
    x, other = tf.abs(x), tf.abs(other)
    large, small = maximum(x, other), minimum(x, other)
    ratio = tf.where(large == 0, tf.zeros_like(small), small / large)
    result = large * tf.sqrt(1.0 + ratio * ratio)
    return tf.where(tf.math.is_inf(x) | tf.math.is_inf(other), tf.constant(math.inf, x.dtype), result)


def negative(x: tf.Tensor) -> tf.Tensor:
    """-x.

    Raises:
        ExportError: For booleans, as torch does: use `~x`.
    """
    if x.dtype == tf.bool:
        raise ExportError("negation of a boolean tensor is not defined; use ~x")
    return tf.negative(x)


ROWS: dict[str, Callable[..., Any]] = {
    "aten.abs.default": absolute,
    "aten.neg.default": negative,
    "aten.exp.default": _floating(tf.exp),
    "aten.exp2.default": _floating(lambda x: tf.pow(tf.constant(2, x.dtype), x)),
    "aten.expm1.default": _floating(tf.math.expm1),
    "aten.log.default": _floating(tf.math.log),
    "aten.log1p.default": _floating(tf.math.log1p),
    "aten.log2.default": _floating(lambda x: tf.math.log(x) * (1.0 / math.log(2.0))),
    "aten.log10.default": _floating(lambda x: tf.math.log(x) * (1.0 / math.log(10.0))),
    "aten.sqrt.default": _floating(tf.sqrt),
    "aten.rsqrt.default": _floating(tf.math.rsqrt),
    "aten.reciprocal.default": _floating(reciprocal),
    "aten.sin.default": _floating(tf.sin),
    "aten.cos.default": _floating(tf.cos),
    "aten.tan.default": _floating(tf.tan),
    "aten.asin.default": _floating(tf.asin),
    "aten.acos.default": _floating(tf.acos),
    "aten.atan.default": _floating(tf.atan),
    "aten.sinh.default": _floating(tf.sinh),
    "aten.cosh.default": _floating(tf.cosh),
    "aten.asinh.default": _floating(tf.asinh),
    "aten.acosh.default": _floating(tf.acosh),
    "aten.atanh.default": _floating(tf.atanh),
    "aten.tanh.default": _floating(tf.tanh),
    "aten.sigmoid.default": _floating(tf.sigmoid),
    "aten.erf.default": _floating(error_function),
    "aten.ceil.default": _kept_for_integers(tf.math.ceil),
    "aten.floor.default": _kept_for_integers(tf.math.floor),
    "aten.round.default": _kept_for_integers(tf.round),
    "aten.round.decimals": round_to,
    "aten.trunc.default": _kept_for_integers(truncate),
    "aten.sign.default": sign,
    "aten.relu.default": relu,
    "aten.gelu.default": gelu,
    "aten.elu.default": _elu,
    "aten.leaky_relu.default": leaky_relu,
    "aten.hardtanh.default": _hardtanh,
    "aten.isnan.default": is_nan,
    "aten.isinf.default": is_infinite,
    "aten.logical_not.default": _logical(negate),
    "aten.logical_and.default": _logical(tf.logical_and),
    "aten.logical_or.default": _logical(tf.logical_or),
    "aten.logical_xor.default": _logical(tf.math.logical_xor),
    "aten.bitwise_not.default": _bitwise(negate, tf.bitwise.invert),
    "aten.bitwise_and.Tensor": _bitwise(tf.logical_and, tf.bitwise.bitwise_and),
    "aten.bitwise_and.Scalar": _bitwise(tf.logical_and, tf.bitwise.bitwise_and),
    "aten.bitwise_or.Tensor": _bitwise(tf.logical_or, tf.bitwise.bitwise_or),
    "aten.bitwise_or.Scalar": _bitwise(tf.logical_or, tf.bitwise.bitwise_or),
    "aten.bitwise_xor.Tensor": _bitwise(tf.math.logical_xor, tf.bitwise.bitwise_xor),
    "aten.bitwise_xor.Scalar": _bitwise(tf.math.logical_xor, tf.bitwise.bitwise_xor),
    "aten.add.Tensor": add,
    "aten.add.Scalar": lambda x, other, alpha=1: add(x, other, alpha=alpha),
    "aten.sub.Tensor": subtract,
    "aten.sub.Scalar": lambda x, other, alpha=1: subtract(x, other, alpha=alpha),
    "aten.mul.Tensor": multiply,
    "aten.mul.Scalar": multiply,
    "aten.div.Tensor": divide,
    "aten.div.Scalar": divide,
    "aten.div.Tensor_mode": divide,
    "aten.div.Scalar_mode": divide,
    "aten.fmod.Tensor": fmod,
    "aten.fmod.Scalar": fmod,
    "aten.remainder.Tensor": remainder,
    "aten.remainder.Scalar": remainder,
    "aten.pow.Tensor_Tensor": power,
    "aten.pow.Tensor_Scalar": power,
    "aten.pow.Scalar": power,
    "aten.maximum.default": maximum,
    "aten.minimum.default": minimum,
    "aten.fmax.default": fmax,
    "aten.fmin.default": fmin,
    "aten.atan2.default": _on_floats(tf.atan2),
    "aten.hypot.default": hypotenuse,
    "aten.clamp.default": _clamp,
    "aten.clamp.Tensor": _clamp,
    "aten.eq.Tensor": _compared(tf.equal),
    "aten.eq.Scalar": _compared(tf.equal),
    "aten.ne.Tensor": _compared(tf.not_equal),
    "aten.ne.Scalar": _compared(tf.not_equal),
    "aten.lt.Tensor": _compared(tf.less),
    "aten.lt.Scalar": _compared(tf.less),
    "aten.le.Tensor": _compared(tf.less_equal),
    "aten.le.Scalar": _compared(tf.less_equal),
    "aten.gt.Tensor": _compared(tf.greater),
    "aten.gt.Scalar": _compared(tf.greater),
    "aten.ge.Tensor": _compared(tf.greater_equal),
    "aten.ge.Scalar": _compared(tf.greater_equal),
    "aten.where.self": _where,
    "aten.copy.default": _copy_into,
    "aten._to_copy.default": to_copy,
}
