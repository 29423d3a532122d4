"""Gathering and scattering, whole arrays at a time."""

from __future__ import annotations

import numpy as np
from onnx.reference.op_run import OpRun

from onnxparity.protocols import Array

__all__ = ["ConstantOfShape", "Expand", "GatherElements", "GatherND", "ScatterElements", "ScatterND"]


class GatherElements(OpRun):
    """The evaluator's refuses fewer indices than data, which every BERT export has."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        axis %= data.ndim
        others = tuple(slice(None) if k == axis else slice(0, n) for k, n in enumerate(indices.shape))
        return (np.take_along_axis(data[others], indices.astype(np.int64), axis),)


class GatherND(OpRun):
    """The evaluator's takes one element at a time."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, batch_dims: int = 0) -> tuple[Array]:
        batch = np.indices(indices.shape[:-1], sparse=True)[:batch_dims]
        return (data[(*batch, *np.moveaxis(indices, -1, 0))],)


class ScatterElements(OpRun):
    """The evaluator's writes one element at a time."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, updates: Array, axis: int = 0, reduction: str = "none") -> tuple[Array]:
        places: list[Array] = list(np.indices(indices.shape, sparse=True))
        places[axis % data.ndim] = np.where(indices < 0, indices + data.shape[axis], indices)
        return (_scattered(data, tuple(places), updates, reduction),)


class ScatterND(OpRun):
    """The evaluator's writes one slice at a time."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, updates: Array, reduction: str = "none") -> tuple[Array]:
        return (_scattered(data, tuple(np.moveaxis(indices, -1, 0)), updates, reduction),)


def _scattered(data: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """Where an index repeats without a reduction, ONNX leaves the winner open; here the last one wins."""
    result = data.copy()
    combine = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}.get(reduction)
    if combine is None:
        result[places] = updates
    else:
        combine.at(result, places, updates)
    return result


class Expand(OpRun):
    """The evaluator's multiplies by ones."""

    op_domain = ""

    def _run(self, data: Array, shape: Array) -> tuple[Array]:
        return (np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(map(int, shape)))),)


class ConstantOfShape(OpRun):
    """The evaluator's ignores the value it is called with, which has to move like any other constant."""

    op_domain = ""

    def _run(self, shape: Array, value: Array | None = None) -> tuple[Array]:
        return (np.full(tuple(map(int, shape)), np.float32(0) if value is None else value.reshape(())),)
