"""What is asked of a given file before it is run, as lint asks it of an exported one: that nothing in it trains or
draws numbers, and that no size is fixed which its reference leaves open."""

from __future__ import annotations

from collections.abc import Mapping

from onnxparity.artifact import Artifact
from onnxparity.case import Subject, parse_shape, size_of
from onnxparity.errors import LintError
from onnxparity.plan import Cell

__all__ = ["TRAINING", "refuse_unfit"]

FILE = "file"
"""The exporter in the key of a file that was given."""
TRAINING = frozenset({"Bernoulli", "BatchNormalization", "Dropout", "Multinomial"}) | {
    f"Random{kind}{like}" for kind in ("Normal", "Uniform") for like in ("", "Like")
}
"""Operators that may change their outputs from run to run."""
RULES = ("training-node", "random-operator")


def refuse_unfit(artifact: Artifact, subject: Subject, cell: Cell, renamed: Mapping[str, str]) -> None:
    """Raises LintError where a given file could not be what its reference is, whatever it computes.

    renamed: names of the file's inputs by the reference's, where they differ.
    """
    if artifact.key.exporter != FILE:
        return
    if TRAINING & set(artifact.op_census):
        _refuse_training(artifact, subject)
    _refuse_fixed(artifact, subject, cell, renamed)


def _refuse_training(artifact: Artifact, subject: Subject) -> None:
    from onnxparity.export.lint import lint

    for finding in lint(artifact, subject):
        if finding.severity == "error" and finding.rule in RULES:
            raise LintError(f"{finding.rule}: {finding.message}", got=finding.evidence, remedy=finding.remedy)


def _refuse_fixed(artifact: Artifact, subject: Subject, cell: Cell, renamed: Mapping[str, str]) -> None:
    sizes = parse_shape(subject, cell.shape)
    declared = {value.name: value.dims for value in artifact.inputs}
    for spec in subject.inputs:
        dims = declared.get(renamed.get(spec.name, spec.name), ())
        for place, (asked, fixed) in enumerate(zip(spec.dims, dims, strict=False)):  # another rank is told when run
            if isinstance(asked, str) and isinstance(fixed, int) and size_of(asked, sizes) != fixed:
                raise LintError(
                    f"asked-dynamic-axis-is-constant: input {spec.name!r}: axis {asked!r} (dim {place}) is asked to be "
                    f"dynamic and is the constant {fixed}",
                    expected=f"a file that takes {size_of(asked, sizes)} there, as its reference does",
                    got=f"dims {list(dims)} in the file",
                    remedy="export with an example of size 2 or more there, or ask only for shapes with that size",
                )
