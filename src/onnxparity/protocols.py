"""The seams: what an exporter, a runtime and a session must offer. Concrete classes live in the folders.

A runtime that nobody here wrote joins through the entry-point group `onnxparity.runtimes` (see `plugins`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

from onnxparity.artifact import Artifact
from onnxparity.case import Subject
from onnxparity.location import Node
from onnxparity.outcome import Question
from onnxparity.plan import ArtifactKey

__all__ = [
    "TF32",
    "Array",
    "Availability",
    "CoarseProducts",
    "ExactSession",
    "Exporter",
    "Feeds",
    "Outputs",
    "Placement",
    "Runtime",
    "Session",
    "TracingSession",
    "Visit",
]

Array = npt.NDArray[Any]  # Any: the element type is data (float16, float32, int64, bool), checked when compared
Feeds = Mapping[str, Array]
Outputs = dict[str, Array]
TF32 = 2.0**-11
"""Unit roundoff of what TF32 multiplies: ten bits behind the leading one; it is summed in float32."""
Visit = Callable[[Node, Sequence[Array]], None]
"""Takes a node and its results, those that are tensors, in the order of `Node.outputs`."""


@dataclass(frozen=True)
class Availability:
    """Whether a runtime can be used here, proven by running a known answer, and why not."""

    runtime: str
    available: bool
    reason: str
    """Empty where available; otherwise the loader's own words."""
    version: str | None
    remedy: str = ""
    """The command or step that would make it available; empty where available or unknown."""


@dataclass(frozen=True)
class Placement:
    """Where one node ran."""

    node: str
    operator: str
    provider: str


class Session(Protocol):
    """A loaded artifact, ready to run feeds."""

    def run(self, feeds: Feeds) -> Outputs:
        """Every output by name. Raises RunError; SubjectError for missing, unknown or misshapen feeds."""
        ...

    def placement(self) -> tuple[Placement, ...] | None:
        """Where each node runs; None where the runtime cannot tell."""
        ...


@runtime_checkable
class CoarseProducts(Session, Protocol):
    """A session that says that its hardware rounds the factors of float32 matrix products.

    Only what says so is judged so: the same numbers from a session without this word are out of budget.
    """

    product_roundoff: float | None
    """Unit roundoff of the factors, at most `TF32`; None where products are those of the dtype."""


@runtime_checkable
class ExactSession(Session, Protocol):
    """A session that evaluates in float64 and can say how large honest rounding is (Monte Carlo arithmetic)."""

    unit_roundoff: float
    """Of the artifact's own dtype: 2**-24 for float32, 2**-11 for float16."""

    def noise(self, feeds: Feeds, *, draws: int, seed: int, product_roundoff: float | None = None) -> Outputs:
        """Honest rounding per output vector: the largest movement over the draws relative to the vector's
        largest value; each output's shape less its last axis. product_roundoff: see `CoarseProducts`."""
        ...

    def fingerprints(self) -> frozenset[str]:
        """Content hashes of the floating constants, unchanged by a transpose or a reshape."""
        ...

    def constant_noise(self, feeds: Feeds, *, shared: frozenset[str], draws: int, seed: int) -> Outputs:
        """As `noise`, where only the constants whose fingerprint is not in `shared` move, by their own roundoff."""
        ...


@runtime_checkable
class TracingSession(Session, Protocol):
    """A session that can show every value on the way."""

    def trace(self, feeds: Feeds, visit: Visit) -> Outputs:
        """As `run`, and calls `visit` with each node and its results as they come, in the order of evaluation.

        Nothing is kept for the caller: memory stays at what the evaluation itself holds. Nodes inside subgraphs are
        visited at each turn. Raises as `run`.
        """
        ...


class Runtime(Protocol):
    """Something that runs feeds through an artifact."""

    @property
    def name(self) -> str:
        """Such as `ort-cpu`; part of cell ids."""
        ...

    @property
    def question(self) -> Question:
        """Which question its cells ask: `meaning` for float64 evaluation, `arithmetic` for all else."""
        ...

    def probe(self) -> Availability:
        """Runs a known answer. Never raises: what goes wrong is the reason."""
        ...

    def load(self, artifact: Artifact) -> Session:
        """Raises LoadError, or UnavailableError where the runtime would run elsewhere than its name says."""
        ...


class Exporter(Protocol):
    """Something that writes an artifact from a PyTorch module."""

    @property
    def name(self) -> str:
        """Such as `dynamo`; part of cell ids."""
        ...

    def export(
        self,
        module: Any,  # Any: torch.nn.Module, which the hub must not import
        example: Sequence[Any],  # Any: torch.Tensor, for the same reason
        subject: Subject,
        key: ArtifactKey,
        path: Path,
        *,
        dynamic_shapes: Any = None,  # Any: torch.export's own nested structure
        kwargs: Mapping[str, Any] | None = None,  # Any: torch.Tensor
    ) -> Artifact:
        """Writes `path`. Raises ExportError where no file, or not the asked one, came out."""
        ...
