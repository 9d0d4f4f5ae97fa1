"""Rows of pooling and resizing over [N, C, ...].

A max-pool's padding never wins: it is minus infinity, not the lowest finite number. Sizes of height and width must be
static where a row says so; a batch may always be dynamic.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from components.core.errors import ExportError
from components.exporter.lowering.ops_convolution import channels_first, channels_last
from components.exporter.lowering.ops_pointwise import is_nan
from components.exporter.lowering.promotion import cast


def _pair(values: int | Sequence[int]) -> list[int]:
    listed = [values] if isinstance(values, int) else list(values)
    return listed * 2 if len(listed) == 1 else listed


def _static(x: tf.Tensor, axis: int, what: str) -> int:
    length = x.shape[axis]
    if length is None:
        raise ExportError(f"{what} needs a static size in dimension {axis}; export without a dynamic sequence there")
    return int(length)


def _overhang(x: tf.Tensor, axis: int, *, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Returns how many positions behind the padded end the last window of ceil_mode needs."""
    length = _static(x, axis, "ceil_mode") + 2 * padding
    extent = dilation * (kernel - 1) + 1
    windows = -(-(length - extent) // stride) + 1
    if (windows - 1) * stride >= length - padding:  # the last window may not start in the right padding
        windows -= 1
    return max(0, (windows - 1) * stride + extent - length)


def _max_pool(
    x: tf.Tensor, kernel: Sequence[int], stride: Sequence[int] = (), padding: int | Sequence[int] = 0, *settings: Any
) -> tuple[tf.Tensor, None]:
    """Largest element of each window; a NaN in the window wins. `settings` are (dilation, ceil_mode); indexes are not computed."""
    kernel, padding = _pair(kernel), _pair(padding)
    stride = _pair(stride) if len(stride) else kernel
    dilation = _pair(settings[0]) if settings else [1, 1]
    ceil_mode = bool(settings[1]) if len(settings) > 1 else False
    behind = [0, 0]
    if ceil_mode:
        behind = [
            _overhang(x, axis - 2, kernel=kernel[axis], stride=stride[axis], padding=padding[axis], dilation=dilation[axis])
            for axis in (0, 1)
        ]
    last = channels_last(x)
    widths = [(0, 0), *[(padding[axis], padding[axis] + behind[axis]) for axis in (0, 1)], (0, 0)]
    lowest = tf.constant(-math.inf if x.dtype.is_floating else x.dtype.min, x.dtype)
    padded = tf.pad(last, widths, constant_values=lowest) if any(sum(pair) for pair in widths) else last
    return channels_first(_nan_aware_windows(padded, kernel, stride=stride, dilation=dilation)), None


def _nan_aware_windows(x: tf.Tensor, kernel: list[int], *, stride: list[int], dilation: list[int]) -> tf.Tensor:
    """Max over windows of [N, H, W, C].

    TensorFlow's kernels skip NaN and start from the lowest finite number, so a second pool over 2 for NaN, 0 for -inf and
    1 for every other number says which windows they answer wrongly.
    """

    def pool(values: tf.Tensor) -> tf.Tensor:
        if dilation == [1, 1]:
            return tf.nn.max_pool2d(values, kernel, stride, "VALID")
        dense = tf.nn.pool(values, kernel, "MAX", padding="VALID", dilations=dilation)
        return dense[:, :: stride[0], :: stride[1]]

    if not x.dtype.is_floating:
        return cast(pool(tf.cast(x, tf.float64 if x.dtype == tf.int64 else tf.float32)), x.dtype)
    missing, lowest = is_nan(x), tf.constant(-math.inf, x.dtype)
    kind = pool(tf.where(missing, tf.constant(2, x.dtype), tf.cast(x > lowest, x.dtype)))
    number = tf.where(kind == 0, lowest, pool(tf.where(missing, lowest, x)))
    return tf.where(kind == 2, tf.constant(math.nan, x.dtype), number)


def _divisors(length: int, windows: int, *, kernel: int, stride: int, padding: int, count_pad: bool) -> np.ndarray[Any, Any]:
    """Returns how many positions each window of one dimension averages over, shape [windows]."""
    starts = np.arange(windows) * stride - padding
    ends = np.minimum(starts + kernel, length + padding)
    if count_pad:
        return ends - starts
    return np.minimum(ends, length) - np.maximum(starts, 0)


def _avg_pool(
    x: tf.Tensor, kernel: Sequence[int], stride: Sequence[int] = (), padding: int | Sequence[int] = 0, *settings: Any
) -> tf.Tensor:
    """Mean of each window; `settings` are (ceil_mode, count_include_pad, divisor_override).

    Raises:
        ExportError: ceil_mode or padding that is not counted over a dynamic size: export with a static one.
    """
    kernel, padding = _pair(kernel), _pair(padding)
    stride = _pair(stride) if len(stride) else kernel
    defaults: list[Any] = [False, True, None]
    ceil_mode, count_pad, divisor = [*settings, *defaults[len(settings) :]]
    last = channels_last(x)
    plain = not ceil_mode and divisor is None and (count_pad or not any(padding))
    behind = [0, 0]
    if ceil_mode:
        behind = [_overhang(x, axis - 2, kernel=kernel[axis], stride=stride[axis], padding=padding[axis], dilation=1) for axis in (0, 1)]
    widths = [(0, 0), *[(padding[axis], padding[axis] + behind[axis]) for axis in (0, 1)], (0, 0)]
    padded = tf.pad(last, widths) if any(sum(pair) for pair in widths) else last
    means = tf.nn.avg_pool2d(padded, kernel, stride, "VALID")
    if plain:
        return channels_first(means)
    area = float(kernel[0] * kernel[1])
    if divisor is not None:
        return channels_first(means * (area / divisor))
    counts = [
        _divisors(
            _static(x, axis - 2, "an average that leaves padding out"),
            int(means.shape[axis + 1]),
            kernel=kernel[axis],
            stride=stride[axis],
            padding=padding[axis],
            count_pad=count_pad,
        )
        for axis in (0, 1)
    ]
    factor = area / np.outer(counts[0], counts[1])
    return channels_first(means * tf.constant(factor[None, :, :, None], x.dtype))


def _bins(length: int, wanted: int) -> list[tuple[int, int]]:
    """Returns the windows of adaptive pooling: from floor(i * L / n) to ceil((i + 1) * L / n)."""
    return [(i * length // wanted, -(-(i + 1) * length // wanted)) for i in range(wanted)]


def _adaptive(x: tf.Tensor, output: Sequence[int], reduce: Callable[..., tf.Tensor]) -> tf.Tensor:
    """Reduces the last len(output) dimensions to `output` bins each; they are rectangles, so one dimension after the other."""
    for place, wanted in enumerate(output):
        axis = x.shape.rank - len(output) + place
        if wanted == 1:
            x = reduce(x, axis, keepdims=True)
            continue
        windows = _bins(_static(x, axis, "adaptive pooling to more than one bin"), wanted)
        before = (slice(None),) * axis
        x = tf.concat([reduce(x[(*before, slice(low, high))], axis, keepdims=True) for low, high in windows], axis)
    return x


def adaptive_avg_pool(x: tf.Tensor, output: Sequence[int]) -> tf.Tensor:
    """Mean over as many bins a dimension as `output` says."""
    return _adaptive(x, output, tf.reduce_mean)


def _nan_aware_max(x: tf.Tensor, axis: int, keepdims: bool) -> tf.Tensor:
    found = tf.reduce_any(is_nan(x), axis, keepdims=keepdims)
    return tf.where(found, tf.constant(math.nan, x.dtype), tf.reduce_max(x, axis, keepdims=keepdims))


def adaptive_max_pool(x: tf.Tensor, output: Sequence[int]) -> tuple[tf.Tensor, None]:
    """Largest element of each bin, NaN first; indexes are not computed."""
    return _adaptive(x, output, _nan_aware_max), None


def _target(x: tf.Tensor, output: Sequence[Any] | None, factors: Sequence[float] | None, axis: int) -> tuple[int, int, np.float32]:
    """Returns (input length, output length, step from one output to the next in input positions) of a resized dimension."""
    length = _static(x, axis + 2, "resizing")
    if factors is not None:
        return length, math.floor(length * factors[axis]), np.float32(1.0 / factors[axis])
    assert output is not None  # noqa: S101 (the schema of the overload: one of both is given)
    return length, int(output[axis]), np.float32(length) / np.float32(output[axis])


def _upsample_nearest(x: tf.Tensor, output: Sequence[Any] | None, factors: Sequence[float] | None) -> tf.Tensor:
    """Repeats the nearest position below: source = floor(target * step), computed in float32 as torch does."""
    for axis in range(x.shape.rank - 2):
        length, wanted, step = _target(x, output, factors, axis)
        places = np.minimum(np.floor(np.arange(wanted, dtype=np.float32) * step).astype(np.int64), length - 1)
        x = tf.gather(x, places, axis=axis + 2)
    return x


def _upsample_linear(x: tf.Tensor, output: Sequence[Any] | None, align_corners: bool, factors: Sequence[float] | None) -> tf.Tensor:
    """(Bi)linear resize, one dimension after the other; weights in float32 as torch computes them."""
    for axis in range(x.shape.rank - 2):
        length, wanted, step = _target(x, output, factors, axis)
        targets = np.arange(wanted, dtype=np.float32)
        if align_corners:
            step = np.float32((length - 1) / (wanted - 1)) if wanted > 1 else np.float32(0)
            places = targets * step
        else:
            places = np.maximum((targets + np.float32(0.5)) * step - np.float32(0.5), np.float32(0))
        low = np.minimum(places.astype(np.int64), length - 1)
        high = np.minimum(low + 1, length - 1)
        share = np.clip(places - low, 0, 1).reshape([-1] + [1] * (x.shape.rank - axis - 3))
        x = tf.gather(x, low, axis=axis + 2) * tf.constant(1 - share, x.dtype) + tf.gather(x, high, axis=axis + 2) * tf.constant(
            share, x.dtype
        )
    return x


ROWS: dict[str, Callable[..., Any]] = {
    "aten.max_pool2d_with_indices.default": _max_pool,
    "aten.avg_pool2d.default": _avg_pool,
    "aten._adaptive_avg_pool2d.default": adaptive_avg_pool,
    "aten.adaptive_max_pool2d.default": adaptive_max_pool,
    "aten.upsample_nearest1d.vec": _upsample_nearest,
    "aten.upsample_nearest2d.vec": _upsample_nearest,
    "aten.upsample_linear1d.vec": _upsample_linear,
    "aten.upsample_bilinear2d.vec": _upsample_linear,
}
