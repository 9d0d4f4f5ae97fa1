"""Rows of convolutions.

Torch keeps channels first, TensorFlow's CPU kernels want them last, so activations are transposed around each convolution.
Weights are turned once, at export: the capture step inserts a permutation of every weight, which is folded
into the stored variable where the weight is a parameter.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from components.core.errors import ExportError
from components.exporter.lowering.promotion import size


def channels_last(x: tf.Tensor) -> tf.Tensor:
    """[N, C, ...] to [N, ..., C]."""
    rank = x.shape.rank
    return tf.transpose(x, [0, *range(2, rank), 1])


def channels_first(x: tf.Tensor) -> tf.Tensor:
    """[N, ..., C] to [N, C, ...]."""
    rank = x.shape.rank
    return tf.transpose(x, [0, rank - 1, *range(1, rank - 1)])


def _grouped(x: tf.Tensor, filters: tf.Tensor, groups: int, convolve: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Convolves each group of channels apart and joins the results."""
    if groups == 1:
        return convolve(x, filters)
    parts = zip(tf.split(x, groups, axis=-1), tf.split(filters, groups, axis=-1), strict=True)
    return tf.concat([convolve(part, kernel) for part, kernel in parts], axis=-1)


def _depthwise(x: tf.Tensor, filters: tf.Tensor, stride: Sequence[int], dilation: Sequence[int]) -> tf.Tensor:
    """One filter set a channel; `filters` [kh, kw, 1, C * M] become [kh, kw, C, M]."""
    channels = x.shape[-1]
    height, width, _, out = filters.shape
    filters = tf.reshape(filters, [height, width, channels, out // channels])
    return tf.nn.depthwise_conv2d(x, filters, [1, *stride, 1], "VALID", dilations=list(dilation))


def _padded(x: tf.Tensor, padding: Sequence[int]) -> tf.Tensor:
    """Pads the middle dimensions of [N, ..., C] with zeros on both sides."""
    if not any(padding):
        return x
    return tf.pad(x, [(0, 0), *[(width, width) for width in padding], (0, 0)])


def _forward(x: tf.Tensor, filters: tf.Tensor, *, stride: list[int], padding: list[int], dilation: list[int], groups: int) -> tf.Tensor:
    x = _padded(x, padding)
    plane = len(stride) == 2
    even_stride = len(set(stride)) == 1 and (stride[0] == 1 or set(dilation) == {1})
    if plane and groups > 1 and groups == x.shape[-1] and even_stride:
        return _depthwise(x, filters, stride, dilation)
    convolve = tf.nn.conv2d if plane else tf.nn.conv3d
    ends = [1, *stride, 1]
    return _grouped(x, filters, groups, lambda part, kernel: convolve(part, kernel, ends, "VALID", dilations=[1, *dilation, 1]))


def _transposed(
    x: tf.Tensor, filters: tf.Tensor, *, stride: list[int], padding: list[int], dilation: list[int], output_padding: list[int]
) -> tf.Tensor:
    """The gradient of a convolution in place of its forward: grown by the stride, then cut by the padding.

    `filters` are [kh, kw, O, I]. Sizes follow torch.nn.ConvTranspose2d: (in - 1) * stride - 2 * padding + dilation * (k - 1)
    + output_padding + 1.
    """
    if set(dilation) != {1}:
        raise ExportError(f"a transposed convolution with dilation {dilation} has no lowering; allowed: 1; use a dilated convolution")
    kernel = [int(filters.shape[axis]) for axis in range(len(stride))]
    spatial = [
        (size(x, axis + 1) - 1) * step + extent + extra
        for axis, (step, extent, extra) in enumerate(zip(stride, kernel, output_padding, strict=True))
    ]
    shape = tf.stack([tf.cast(part, tf.int32) for part in (size(x, 0), *spatial, filters.shape[-2])])
    grow = tf.nn.conv2d_transpose if len(stride) == 2 else tf.nn.conv3d_transpose
    # The extra rows of output_padding get no contribution in a VALID gradient as long as they are fewer than the stride.
    grown = grow(x, filters, shape, [1, *stride, 1], "VALID")
    cut = tuple(slice(width, -width if width else None) for width in padding)
    return grown[(slice(None), *cut, slice(None))]


def _convolution(x: tf.Tensor, filters: tf.Tensor, bias: tf.Tensor | None, *settings: Any) -> tf.Tensor:
    """Convolution of [N, C, L], [N, C, H, W] or [N, C, D, H, W] with filters whose channels come last.

    `filters` are [k..., I / groups, O], or [k..., O, I] where transposed; `settings` are torch's
    (stride, padding, dilation, transposed, output_padding, groups).

    Raises:
        ExportError: A transposed convolution with groups or dilation: use an upsampling followed by a convolution.
    """
    stride, padding, dilation, transposed, output_padding, groups = settings
    rank = filters.shape.rank - 2
    stride, padding, dilation, output_padding = (
        list(values) * (rank // len(values)) for values in (stride, padding, dilation, output_padding)
    )
    line = rank == 1
    if line:
        x, filters = tf.expand_dims(x, 2), tf.expand_dims(filters, 0)
        stride, padding, dilation, output_padding = [stride[0], *stride], [0, *padding], [dilation[0], *dilation], [0, *output_padding]
    last = channels_last(x)
    if transposed:
        if groups != 1:
            raise ExportError(f"a transposed convolution with {groups} groups has no lowering; allowed: 1; split the channels in forward")
        if line:
            stride = [1, *stride[1:]]
        result = _transposed(last, filters, stride=stride, padding=padding, dilation=dilation, output_padding=output_padding)
    else:
        result = _forward(last, filters, stride=stride, padding=padding, dilation=dilation, groups=groups)
    result = channels_first(result if bias is None else tf.nn.bias_add(result, bias))
    return tf.squeeze(result, 2) if line else result


def filter_order(rank: int) -> list[int]:
    """Returns the permutation from torch's filters [O, I, k...] to [k..., I, O].

    A transposed convolution keeps [I, O, k...], which the same order turns to [k..., O, I]: what TensorFlow's gradient wants.
    """
    return [*range(2, rank), 1, 0]


def _convolve_plain(x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor | None, *settings: Any) -> tf.Tensor:
    """`convolution` over filters in torch's own order."""
    return _convolution(x, tf.transpose(weight, filter_order(weight.shape.rank)), bias, *settings)


ROWS: dict[str, Callable[..., Any]] = {
    "aten.convolution.default": _convolve_plain,
    "tandem.convolve_turned": _convolution,
}
