"""Every catalogue module exports with dynamic axes, stays symbolic, and serves sizes it was not traced with."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from onnxparity.case import Subject
from onnxparity.feeding import feeds
from onnxparity.models.catalogue import find
from tests.unit.models.feeding import DRAWN, LIMIT, arguments, distance, run, shapes


def exported(module: nn.Module, subject: Subject) -> ExportedProgram:
    """The program with one `Dim` an axis, traced at the sizes exports are traced at."""
    dims = {a.symbol: Dim(a.symbol, min=a.low, max=a.high) for a in subject.axes}
    dynamic = tuple({k: dims[d] for k, d in enumerate(i.dims) if isinstance(d, str)} for i in subject.inputs)
    example = arguments(subject, feeds.example(subject, "float64"))
    return torch.export.export(module, example, dynamic_shapes=dynamic)


def fixed_dims(program: ExportedProgram, subject: Subject) -> list[str]:
    """Dims that were asked to be dynamic and are a number in the program."""
    shaped = {n.name: n.meta["val"].shape for n in program.graph.nodes if n.op == "placeholder"}
    return [
        f"{spec.name}.{axis}"
        for spec, name in zip(subject.inputs, program.graph_signature.user_inputs, strict=True)
        for axis, dim in enumerate(spec.dims)
        if isinstance(dim, str) and not isinstance(shaped[str(name)][axis], torch.SymInt)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_exported_program_serves_other_sizes(name: str) -> None:
    subject = find(name).subject
    module = find(name).build().double()
    program = exported(module, subject)
    assert fixed_dims(program, subject) == []
    for sizes in shapes(subject):
        fed = feeds.draw(subject, sizes, "normal", "float64")
        want = [np.asarray(w.numpy()) for w in run(module, subject, fed)]
        assert distance(run(program.module(), subject, fed), want) <= LIMIT, sizes


def test_program_that_froze_an_axis_is_caught() -> None:
    class Frozen(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    subject = find("layer-norm").subject
    example = arguments(subject, feeds.example(subject, "float64"))
    program = torch.export.export(Frozen(), example, dynamic_shapes=({0: Dim("batch")},))
    assert fixed_dims(program, subject) == ["x.1"]
