"""Small subjects and verdicts that the hub's tests share; none of them is a catalogue entry."""

from __future__ import annotations

from onnxparity.case import Axis, MaskMeaning, OutputSpec, Subject, TensorSpec
from onnxparity.outcome import Expectation, Question, Status, Verdict
from onnxparity.plan import ArtifactKey, Cell

BATCH = Axis("batch", "b", "batch")
SEQUENCE = Axis("sequence", "t", "sequence")
SOURCE = Axis("source", "s", "source")
PAST = Axis("past", "p", "past")
KEY = ArtifactKey("subject", "dynamo", 23, "float32")
WIDTH = 3
EXPECTED = Expectation("*", Status.ARITHMETIC, "a reason", "https://example.org/1")


def subject(
    inputs: tuple[TensorSpec, ...] = (TensorSpec("x", ("batch", "sequence", WIDTH)),),
    outputs: tuple[OutputSpec, ...] = (OutputSpec("y", ("batch", "sequence", WIDTH)),),
    axes: tuple[Axis, ...] = (BATCH, SEQUENCE),
    *,
    name: str = "subject",
    properties: tuple[str, ...] = (),
    dtypes: tuple[str, ...] = ("float32", "float16"),
    roles: dict[str, str] | None = None,
) -> Subject:
    """A subject that takes x (B, T, 3) and gives y (B, T, 3), unless told otherwise."""
    return Subject(
        name=name,
        kind="catalogue",
        origin=name,
        source="a test",
        summary="",
        inputs=inputs,
        outputs=outputs,
        axes=axes,
        properties=properties,
        dtypes=dtypes,
        roles=roles or {},
    )


def mask(
    meaning: MaskMeaning, dtype: str = "float", dims: tuple[int | str, ...] = ("batch", "sequence"), name: str = "mask"
) -> TensorSpec:
    """A mask in one of its encodings."""
    return TensorSpec(name, dims, dtype, "mask", mask_meaning=meaning)


def masked(spec: TensorSpec, axes: tuple[Axis, ...] = (BATCH, SEQUENCE)) -> Subject:
    """A subject whose only input is this mask."""
    return subject((spec,), axes=axes)


def cell(name: str = "normal", key: ArtifactKey = KEY, runtime: str = "ort-cpu", shape: str = "b2-t17") -> Cell:
    """A cell of the subject."""
    return Cell(key, runtime, shape, name)


def verdict(status: Status, where: Cell | None = None, question: Question = "arithmetic") -> Verdict:
    """A verdict of any status, with what that status must carry."""
    expected = status in (Status.XFAIL, Status.XPASS)
    return Verdict(
        where or cell(),
        status,
        question,
        f"it is {status}",
        ratio=0.25 if status in (Status.PASS, Status.XPASS) else None,
        expectation=EXPECTED if expected else None,
        found={Status.XFAIL: Status.ARITHMETIC, Status.XPASS: Status.PASS}.get(status),
    )
