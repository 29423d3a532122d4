"""What other tools say of a file: each is called as itself, on the same inputs, with the tolerance it comes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property, partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir
import onnxruntime
import torch
from torch import nn

from onnxparity.protocols import Array

__all__ = ["PEERS", "Case", "Says"]

TORCH_ABSOLUTE, TORCH_RELATIVE = 5e-3, 1e-1
"""`torch.onnx.export(verify=True)` calls an output inaccurate from these differences on (torch 2.13,
torch/onnx/_internal/exporter/_core.py, step 6)."""
OPTIMUM_DEFAULT, OPTIMUM_BERT = 1e-5, 1e-4
"""`ATOL_FOR_VALIDATION` of optimum-onnx: its default, and that of BERT and its kind. It calls numpy.allclose with
that `atol` and NumPy's own `rtol` on the outputs at optimisation level basic (optimum-onnx,
optimum/exporters/onnx/convert.py, `_run_validation`)."""


@dataclass(frozen=True, eq=False)
class Case:
    """A file, and the right one it is held against."""

    candidate: Path
    reference: Path
    module: nn.Module
    """The right module, in the file's dtype."""
    feeds: Mapping[str, Array]
    """What the export was traced with, by input name."""
    exported: list[torch.export.ExportedProgram] = field(default_factory=list)

    @cached_property
    def right(self) -> list[Array]:
        """The module's own outputs, in order."""
        with torch.no_grad():
            value = self.module(*(torch.from_numpy(array) for array in self.feeds.values()))
        return [t.numpy() for t in (value if isinstance(value, tuple) else (value,))]


Says = Callable[[Case], bool]
"""Whether a tool accepts the file. What it raises is a refusal."""


def polygraphy(case: Case) -> bool:
    """`polygraphy run`: both files under ONNX Runtime, compared as it compares when nobody sets a tolerance."""
    from polygraphy.backend.onnxrt import OnnxrtRunner, SessionFromOnnx
    from polygraphy.comparator import Comparator
    from polygraphy.logger import G_LOGGER

    G_LOGGER.module_severity = G_LOGGER.CRITICAL
    runners = [OnnxrtRunner(SessionFromOnnx(str(path))) for path in (case.reference, case.candidate)]
    results = Comparator.run(runners, data_loader=[dict(case.feeds)])
    return bool(Comparator.compare_accuracy(results))


def torch_verify(case: Case) -> bool:
    """What `torch.onnx.export(verify=True)` does with its own file, done with this one."""
    from torch.onnx.verification import verify_onnx_program

    inputs = tuple(torch.from_numpy(array) for array in case.feeds.values())
    if not case.exported:
        with torch.no_grad():
            case.exported.append(torch.export.export(case.module, inputs, strict=False))
    program = torch.onnx.ONNXProgram(onnx_ir.load(case.candidate), case.exported[0])
    with redirect_stdout(StringIO()):
        found = verify_onnx_program(program, inputs)
    return bool(found) and all(
        each.max_abs_diff < TORCH_ABSOLUTE and each.max_rel_diff < TORCH_RELATIVE for each in found
    )


def allclose(case: Case, *, atol: float) -> bool:
    """numpy.allclose on the outputs of ONNX Runtime and of the module, as optimum-onnx calls it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(str(case.candidate), options, providers=["CPUExecutionProvider"])
    got: list[Any] = session.run(None, dict(case.feeds))  # Any: onnxruntime carries no types
    same = [g.shape == w.shape and np.allclose(w, g, atol=atol) for g, w in zip(got, case.right, strict=True)]
    return bool(same) and all(same)


PEERS: Mapping[str, Says] = {
    "`polygraphy run`, its default tolerance": polygraphy,
    "`torch.onnx.export(verify=True)`": torch_verify,
    f"`numpy.allclose`, atol {OPTIMUM_BERT:g} (optimum-onnx, BERT)": partial(allclose, atol=OPTIMUM_BERT),
    f"`numpy.allclose`, atol {OPTIMUM_DEFAULT:g} (optimum-onnx, default)": partial(allclose, atol=OPTIMUM_DEFAULT),
}
"""Every other tool by the name it has in the table."""
