"""Properties that need no reference: what an attention model must keep on every runtime.

Each check runs the session on feeds that it changes in one way, and compares two outputs of the same
session. Both carry honest rounding, so the budget is that of two runs (`budget.allowance`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches

from onnxparity.case import Subject
from onnxparity.errors import SubjectError
from onnxparity.invariants import convolution, equalities, geometry, locality, order, scores
from onnxparity.invariants.setting import Run, Setting
from onnxparity.numerics.compare import Comparison
from onnxparity.outcome import Status

__all__ = ["COMPANIONED", "PROPERTIES", "UNIVERSAL", "Run", "Setting", "check", "claim", "near", "plannable"]

PROPERTIES: Mapping[str, Callable[[Setting], Comparison]] = {
    "causality": locality.causality,
    "window": locality.window,
    "batch-invariance": locality.batch_invariance,
    "padding-invariance": locality.padding_invariance,
    "left-padding-invariance": locality.left_padding_invariance,
    "masked-content": locality.masked_content,
    "permutation-equivariance": order.permutation_equivariance,
    "permutation-invariance": order.permutation_invariance,
    "position-sensitivity": order.position_sensitivity,
    "simplex": geometry.simplex,
    "convex-hull": geometry.convex_hull,
    "kernel-regression": geometry.kernel_regression,
    "shift-invariance": geometry.shift_invariance,
    "weights-not-enough": geometry.weights_not_enough,
    "unit-variance": scores.unit_variance,
    "saturation": scores.saturation,
    "convolution": convolution.convolution,
    "reparametrisation": equalities.reparametrisation,
    "associativity": equalities.associativity,
    "prefill-decode": equalities.prefill_decode,
    "determinism": equalities.determinism,
    "level-equality": equalities.level_equality,
}

UNIVERSAL = ("determinism", "level-equality")
"""Properties of a runtime rather than of a model: they hold for every file, and no subject needs to promise them."""

COMPANIONED: Mapping[str, str] = {
    "reparametrisation": "reparametrised",
    "associativity": "quadratic",
    "prefill-decode": "prefill",
}
"""Properties that are held against another subject of the same weights, and the role in which it is named."""


def check(name: str, setting: Setting) -> Comparison:
    """Checks one property.

    Raises SubjectError for an unknown name, a subject that lacks what it needs, and sizes that leave nothing to check.
    """
    if name not in PROPERTIES:
        raise SubjectError(f"unknown property {name!r}", expected=", ".join(sorted(PROPERTIES)), remedy=near(name))
    if not plannable(name, setting.subject, setting.sizes):
        raise SubjectError(f"{name} has nothing to check at these sizes", got=str(dict(setting.sizes)))
    found = PROPERTIES[name](setting)
    if found.status is not Status.PROPERTY:
        return found
    return replace(found, evidence=(f"{name}: {claim(name)}", *found.evidence))


def claim(name: str) -> str:
    """What a property says, in a sentence or two: the beginning of its docstring."""
    first, _, _ = (PROPERTIES[name].__doc__ or "").partition("\n\n")
    return " ".join(first.split())


def near(name: str) -> str | None:
    """A hint at properties of a similar name; None where there is none."""
    found = get_close_matches(name, PROPERTIES)
    return f"did you mean {' or '.join(found)}?" if found else None


def plannable(name: str, subject: Subject, sizes: Mapping[str, int]) -> bool:
    """Whether the sizes leave the property something to check: causality needs a later token.

    True where the subject cannot have the property at all, so that such a promise is seen to fail.
    """
    if name in ("padding-invariance", "left-padding-invariance"):
        return locality.room(subject, sizes) > 0
    symbol, least = _least(name, subject)
    return symbol is None or sizes[symbol] >= least


def _least(name: str, subject: Subject) -> tuple[str | None, int]:
    """The axis that must not be too short for a property, and its least size; None where any size will do."""
    roles = {
        "batch-invariance": ("batch", 2),
        "causality": ("sequence", 2),
        "prefill-decode": ("past", 1),  # a prompt of nothing cannot be run
        "permutation-equivariance": ("sequence", 2),
    }
    roles |= {"position-sensitivity": ("sequence", 3), "window": ("sequence", (subject.window or 0) + 1)}
    if name == "masked-content":
        symbol = locality.padded_symbol(subject)
        return (symbol if any(symbol == axis.symbol for axis in subject.axes) else None), 3
    if name == "permutation-invariance":
        return order.set_axis(subject), 2
    if name == "kernel-regression":
        read = [spec for spec in subject.inputs if spec.name in subject.reads.values()]
        return geometry.key_axis(tuple(read)), 2
    role, least = roles.get(name, (None, 0))
    axis = next((a for a in subject.axes if a.role == role), None)
    return (None if axis is None else axis.symbol), least
