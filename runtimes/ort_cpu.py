"""ONNX Runtime on the CPU, at each of its four optimisation levels: a fused graph must give what a plain one gives."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import numpy as np
import onnxruntime

from onnxparity.artifact import Artifact
from onnxparity.outcome import Question
from onnxparity.protocols import Availability
from onnxparity.runtimes.known_answer import FEEDS, WANT, matmul_model
from onnxparity.runtimes.ort import CPU, Level, OrtSession, open_session

__all__ = ["OrtCpu", "OrtCpuBasic", "OrtCpuDisabled", "OrtCpuExtended"]


class OrtCpu:
    """ONNX Runtime's CPU provider. Half-precision operators run in float32 between casts there."""

    question: Question = "arithmetic"

    def __init__(self, *, level: Level = "all", intra_op_threads: int = 1, inter_op_threads: int = 1) -> None:
        """threads: 1 for parity, where results must repeat bit for bit; 0 leaves the choice to ONNX Runtime."""
        self.name = "ort-cpu" if level == "all" else f"ort-cpu-{level}"
        self.level: Level = level
        self._threads = intra_op_threads, inter_op_threads

    def probe(self) -> Availability:
        """Runs a 2x2 product."""
        version = str(onnxruntime.__version__)
        try:
            session = onnxruntime.InferenceSession(matmul_model(), providers=[CPU], enable_fallback=0)
            (got,) = session.run(None, dict(FEEDS))
        except Exception as error:  # a probe never raises: what goes wrong is the reason
            return Availability(self.name, False, str(error).strip(), version)
        if not np.array_equal(got, WANT):
            return Availability(self.name, False, f"2x2 product gave {got.tolist()}, not {WANT.tolist()}", version)
        return Availability(self.name, True, "", version)

    def load(self, artifact: Artifact) -> OrtSession:
        """Raises LoadError where ONNX Runtime refuses the file."""
        return self.load_without(artifact, (), level=self.level)

    def load_without(
        self,
        artifact: Artifact,
        disabled: Collection[str],
        *,
        level: Level,
        verbose: bool = False,
        optimized_to: str = "",
    ) -> OrtSession:
        """As `load`, at a level and without the graph optimisers of these names (see `ort_optimizers`)."""
        intra, inter = self._threads
        session, options = open_session(
            artifact,
            runtime=self.name,
            providers=[CPU],
            level=level,
            intra_op_threads=intra,
            inter_op_threads=inter,
            disabled=disabled,
            verbose=verbose,
            optimized_to=optimized_to,
        )
        return OrtSession(session, runtime=self.name, options=options)


OrtCpuExtended = partial(OrtCpu, level="extended")
OrtCpuBasic = partial(OrtCpu, level="basic")
OrtCpuDisabled = partial(OrtCpu, level="disabled")
