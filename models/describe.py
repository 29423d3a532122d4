"""The words that catalogue entries are written in: the shared axes and short forms of `case`'s dataclasses."""

from __future__ import annotations

from collections.abc import Mapping

from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec

__all__ = ["BATCH", "PAST", "SEQUENCE", "SOURCE", "additive_mask", "describe", "features", "keep_mask", "output"]

BATCH = Axis("batch", "b", "batch")
SEQUENCE = Axis("sequence", "t", "sequence")
SOURCE = Axis("source", "s", "source")
PAST = Axis("past", "p", "past", low=0)
"""Empty before the first step."""


def features(name: str, *dims: int | str) -> TensorSpec:
    """A floating input in the cell's own dtype."""
    return TensorSpec(name, dims)


def keep_mask(name: str, *dims: int | str) -> TensorSpec:
    """A boolean mask in which True keeps a position."""
    return TensorSpec(name, dims, dtype="bool", role="mask", mask_meaning="keep")


def additive_mask(name: str, *dims: int | str) -> TensorSpec:
    """A floating mask that is added to the scores."""
    return TensorSpec(name, dims, role="mask", mask_meaning="additive")


def output(*dims: int | str) -> OutputSpec:
    """The output named `output`."""
    return OutputSpec("output", dims)


def describe(
    name: str,
    summary: str,
    *,
    source: str,
    inputs: tuple[TensorSpec, ...],
    outputs: tuple[OutputSpec, ...],
    axes: tuple[Axis, ...] = (BATCH, SEQUENCE),
    properties: tuple[str, ...] = ("batch-invariance",),
    companions: Mapping[str, str] | None = None,
    reads: Mapping[str, str] | None = None,
    window: int | None = None,
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16"),
) -> Subject:
    """A catalogue subject; raises ValueError where `case.Subject` does."""
    return Subject(
        name=name,
        kind="catalogue",
        origin=name,
        source=source,
        summary=summary,
        inputs=inputs,
        outputs=outputs,
        axes=axes,
        dtypes=dtypes,
        properties=properties,
        companions=companions or {},
        reads=reads or {},
        window=window,
    )
