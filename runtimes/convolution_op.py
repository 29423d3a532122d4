"""Convolution in any number of dims by a view of the windows and one product per group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx.reference.op_run import OpRun

from onnxparity.protocols import Array

__all__ = ["Conv", "ConvTranspose", "convolved"]


class Conv(OpRun):
    """The evaluator's builds an index as large as all its windows."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        w: Array,
        b: Array | None = None,
        auto_pad: str = "NOTSET",
        dilations: Sequence[int] | None = None,
        group: int = 1,
        kernel_shape: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> tuple[Array]:
        return (convolved(x, w, b, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides),)


class ConvTranspose(OpRun):
    """The evaluator's adds one element at a time."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        w: Array,
        b: Array | None = None,
        auto_pad: str = "NOTSET",
        dilations: Sequence[int] | None = None,
        group: int = 1,
        kernel_shape: Sequence[int] | None = None,
        output_padding: Sequence[int] | None = None,
        output_shape: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> tuple[Array]:
        """A convolution of x with zeros put between its elements, by the kernel back to front.

        Shapes: x (N, C, *sizes), w (C, M/group, *kernel); gives (N, M, *out). Source: ONNX ConvTranspose-22.
        """
        n = x.ndim - 2
        strides, dilations, extra = (
            list(v or default) for v, default in ((strides, [1] * n), (dilations, [1] * n), (output_padding, [0] * n))
        )
        extent = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
        spread = _spread(x, strides)
        full = [size + e - 1 + o for size, e, o in zip(spread.shape[2:], extent, extra, strict=True)]
        before, after = _cropping(auto_pad, pads, output_shape, full, x.shape[2:], strides)
        first = [e - 1 - cut for e, cut in zip(extent, before, strict=True)]
        last = [e - 1 - cut + o for e, cut, o in zip(extent, after, extra, strict=True)]
        kernel = np.flip(w, axis=tuple(range(2, 2 + n)))
        kernel = np.concatenate(
            [part.swapaxes(0, 1) for part in np.split(kernel, group, 0)], 0
        )  # (M, C/group, *kernel)
        return (convolved(_bordered(spread, first, last), kernel, b, dilations=dilations, group=group),)


def _spread(x: Array, strides: Sequence[int]) -> Array:
    """x with stride - 1 zeros between its elements."""
    sizes = [stride * (size - 1) + 1 for size, stride in zip(x.shape[2:], strides, strict=True)]
    wide = np.zeros((*x.shape[:2], *sizes), x.dtype)
    places: tuple[slice, ...] = tuple(slice(None, None, stride) for stride in strides)
    wide[(slice(None), slice(None), *places)] = x
    return wide


def _bordered(x: Array, first: Sequence[int], last: Sequence[int]) -> Array:
    """x with so many zeros before and after each spatial axis; a negative number cuts off."""
    grown = np.pad(x, [(0, 0), (0, 0), *((max(0, a), max(0, z)) for a, z in zip(first, last, strict=True))])
    ends = zip(first, last, grown.shape[2:], strict=True)
    inside: tuple[slice, ...] = tuple(slice(max(0, -a), size - max(0, -z)) for a, z, size in ends)
    return grown[(slice(None), slice(None), *inside)]


def _cropping(
    auto_pad: str,
    pads: Sequence[int] | None,
    output_shape: Sequence[int] | None,
    full: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
) -> tuple[list[int], list[int]]:
    """What a transposed convolution cuts off before and after each spatial axis."""
    n = len(full)
    if output_shape is None and auto_pad in ("NOTSET", "VALID"):
        given = list(pads or [0] * 2 * n)
        return given[:n], given[n:]
    wanted = list(output_shape)[-n:] if output_shape else [size * s for size, s in zip(sizes, strides, strict=True)]
    total = [f - w for f, w in zip(full, wanted, strict=True)]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)


def convolved(
    x: Array,
    w: Array,
    b: Array | None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Array:
    """Shapes: x (N, C, *sizes), w (M, C/group, *kernel), b (M,); gives (N, M, *out) in the dtype of x.

    Source: ONNX operator Conv-22.
    """
    n = x.ndim - 2
    strides, dilations = list(strides or [1] * n), list(dilations or [1] * n)
    extent = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    before, after = _padding(auto_pad, pads, x.shape[2:], extent, strides)
    padded = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=tuple(range(2, 2 + n)))
    steps = (slice(None, None, s) for s in strides)
    taps = (slice(None, None, d) for d in dilations)
    windows = windows[(slice(None), slice(None), *steps, *taps)]  # (N, C, *out, *kernel)
    inner = [1, *range(2 + n, 2 + 2 * n)], [*range(1, 2 + n)]
    parts = [
        np.tensordot(ours, theirs, axes=inner)  # (N, *out, M/group)
        for ours, theirs in zip(np.split(windows, group, 1), np.split(w, group, 0), strict=True)
    ]
    y = np.moveaxis(np.concatenate(parts, -1), -1, 1).astype(x.dtype, copy=False)
    return y if b is None else y + b.reshape(-1, *[1] * n)


def _padding(
    auto_pad: str, pads: Sequence[int] | None, sizes: Sequence[int], extent: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """How much to pad before and after each spatial axis."""
    n = len(sizes)
    if auto_pad == "NOTSET":
        given = list(pads or [0] * 2 * n)
        return given[:n], given[n:]
    if auto_pad == "VALID":
        return [0] * n, [0] * n
    total = [max(0, (-(-d // s) - 1) * s + e - d) for d, s, e in zip(sizes, strides, extent, strict=True)]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)
