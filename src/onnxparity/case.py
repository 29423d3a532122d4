"""What a subject is, as plain data: its inputs with symbolic dims, the axes they share, what it promises.

Nothing here knows PyTorch or ONNX, so the same description serves a catalogue block, a user's
`package.module:factory` and an `.onnx` file from anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "FLOATING",
    "Axis",
    "AxisRole",
    "MaskMeaning",
    "OutputRole",
    "OutputSpec",
    "Role",
    "Subject",
    "TensorSpec",
    "parse_shape",
    "parts_of",
    "shape_id",
    "size_of",
]

AxisRole = Literal["batch", "sequence", "source", "past", "other"]
Role = Literal["features", "tokens", "mask", "positions", "past", "other"]
OutputRole = Literal["features", "weights", "scores", "logits", "present", "other"]
MaskMeaning = Literal["keep", "drop", "additive"]

FLOATING = "float"
"""The dtype of an input that takes the cell's own dtype (float32, float16 or bfloat16)."""


@dataclass(frozen=True)
class Axis:
    """One symbolic dim, shared by every input that names it."""

    symbol: str
    """The name in `TensorSpec.dims` and in the ONNX file, such as `batch`."""
    letter: str
    """Its letter in a shape id: the `b` of `b2-t17`."""
    role: AxisRole
    low: int = 1
    """Smallest size the subject promises to serve."""
    high: int | None = None
    """Largest size it promises to serve; None where there is no bound."""

    def __post_init__(self) -> None:
        if len(self.letter) != 1 or not self.letter.isalpha():
            raise ValueError(f"axis {self.symbol!r} needs a single letter for shape ids, got {self.letter!r}")
        if self.low < 0 or (self.high is not None and self.high < self.low):
            raise ValueError(f"axis {self.symbol!r} needs 0 <= low <= high, got {self.low} and {self.high}")


@dataclass(frozen=True)
class TensorSpec:
    """One input: its name, dtype, dims and what its values mean."""

    name: str
    dims: tuple[int | str, ...]
    """A number for a fixed dim, an axis symbol for a dynamic one, or a sum such as `past+sequence`."""
    dtype: str = FLOATING
    """`float` (the cell's own dtype), or a NumPy dtype name such as `int64`, `bool`, `float32`."""
    role: Role = "features"
    """`positions` count the tokens: they go on from the past, and are never drawn at random."""
    low: int = 0
    """Smallest value of an integer input."""
    high: int = 1
    """Largest value of an integer input, included."""
    mask_meaning: MaskMeaning | None = None
    """For masks: True/1 keeps a position, True drops it, or the values are added to the scores."""

    def __post_init__(self) -> None:
        if (self.role == "mask") != (self.mask_meaning is not None):
            raise ValueError(f"input {self.name!r}: role 'mask' and mask_meaning go together")
        if self.low > self.high:
            raise ValueError(f"input {self.name!r}: low {self.low} is above high {self.high}")


@dataclass(frozen=True)
class OutputSpec:
    """One output: its name, its dims and what its values mean."""

    name: str
    dims: tuple[int | str | None, ...]
    """A number, an axis symbol, a sum of symbols such as `past+sequence`, or None where nothing is known."""
    role: OutputRole = "features"
    """`weights` are attention weights (rows on the simplex), `scores` what the softmax takes, `logits` are compared
    by their softmax too, `present` is a KV cache."""


@dataclass(frozen=True)
class Subject:
    """What is verified: where it comes from, what it takes, what it promises."""

    name: str
    """Typeable and stable, such as `causal-attention`."""
    kind: Literal["catalogue", "factory", "onnx"]
    origin: str
    """How to find it again: the catalogue name, `package.module:factory`, or the file's path."""
    source: str
    """Where its formula comes from: seed and part, paper, or the user."""
    summary: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[OutputSpec, ...]
    axes: tuple[Axis, ...] = ()
    properties: tuple[str, ...] = ()
    """Names of the properties it promises (see `invariants`)."""
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")
    """Those it can be had in, its own first."""
    parameters: int | None = None
    """Number of trainable values; None until it has been built."""
    companions: Mapping[str, str] = field(default_factory=dict)
    """Other subjects with the same weights that a property needs, by role: {'prefill': 'decoder-prefill'}."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """What becomes what from one decoding step to the next, output name to input name:
    {'present_key': 'past_key'}."""
    reads: Mapping[str, str] = field(default_factory=dict)
    """Which outputs are weighted means of an input's rows, output name to input name: {'output': 'value'}."""
    window: int | None = None
    """How many of the last positions, its own included, an output may depend on; None where there is no such end."""

    def __post_init__(self) -> None:
        for kind, names in (
            ("input", [i.name for i in self.inputs]),
            ("output", [o.name for o in self.outputs]),
            ("axis", [a.symbol for a in self.axes]),
        ):
            if len(set(names)) != len(names):
                raise ValueError(f"subject {self.name!r} names an {kind} twice: {names}")
        if self.window is not None and self.window < 1:
            raise ValueError(f"subject {self.name!r} needs a window of at least 1, got {self.window}")
        known = {a.symbol for a in self.axes}
        for spec in self.inputs:
            unknown = [d for d in spec.dims if isinstance(d, str) and not set(parts_of(d)) <= known]
            if unknown:
                raise ValueError(
                    f"subject {self.name!r}: input {spec.name!r} uses dims {unknown} that no axis declares"
                )

    def axis(self, role: AxisRole) -> Axis | None:
        """The first axis with this role, or None."""
        return next((a for a in self.axes if a.role == role), None)

    def input(self, role: Role) -> TensorSpec | None:
        """The first input with this role, or None."""
        return next((i for i in self.inputs if i.role == role), None)


def parts_of(dim: int | str | None) -> tuple[str, ...]:
    """The axis symbols that a dim is the sum of; numbers in it are left out: `past+sequence`, `past+1`."""
    return tuple(part for part in dim.split("+") if not part.isdigit()) if isinstance(dim, str) else ()


def size_of(dim: int | str, sizes: Mapping[str, int]) -> int:
    """The size of a dim. Raises KeyError for an axis without one."""
    if isinstance(dim, int):
        return dim
    return sum(int(part) if part.isdigit() else sizes[part] for part in dim.split("+"))


def shape_id(subject: Subject, sizes: Mapping[str, int]) -> str:
    """`b2-t17` for {'batch': 2, 'sequence': 17}; `fixed` where nothing is dynamic."""
    return "-".join(f"{a.letter}{sizes[a.symbol]}" for a in subject.axes) or "fixed"


def parse_shape(subject: Subject, text: str) -> dict[str, int]:
    """The sizes behind a shape id. Raises ValueError where the id does not fit the subject's axes."""
    parts = [] if text == "fixed" else text.split("-")
    digits = all(p[1:].isascii() and p[1:].isdigit() for p in parts)
    if [p[:1] for p in parts] != [a.letter for a in subject.axes] or not digits:
        wanted = "-".join(f"{a.letter}N" for a in subject.axes) or "fixed"
        raise ValueError(f"shape {text!r} does not fit {subject.name}: write {wanted}")
    return {a.symbol: int(p[1:]) for a, p in zip(subject.axes, parts, strict=True)}
