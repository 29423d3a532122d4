"""Every catalogue module runs in each precision, and what it computes follows the input's dtype."""

from __future__ import annotations

import pytest
import torch

from onnxparity.feeding import feeds
from onnxparity.models.catalogue import find
from tests.unit.models.feeding import DRAWN, run, shapes

DTYPES = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DRAWN)
def test_outputs_take_the_dtype_of_the_inputs_and_are_finite(name: str, dtype: str) -> None:
    entry = find(name)
    module = entry.build().to(DTYPES[dtype])
    for sizes in shapes(entry.subject):
        for got in run(module, entry.subject, feeds.draw(entry.subject, sizes, "normal", dtype)):
            assert got.dtype in (DTYPES[dtype], torch.int64, torch.bool)
            assert torch.isfinite(got).all()


@pytest.mark.parametrize("name", DRAWN)
def test_half_stays_near_float64(name: str) -> None:
    entry = find(name)
    fed = feeds.draw(entry.subject, shapes(entry.subject)[1], "normal", "float16")
    wide = {key: value.astype("float64") if value.dtype.kind == "f" else value for key, value in fed.items()}
    half = run(entry.build().half(), entry.subject, fed)
    # The same weights on both sides: rounded to half, then widened.
    exact = run(entry.build().half().double(), entry.subject, wide)
    for got, want in zip(half, exact, strict=True):
        scale = want.double().abs().amax().clamp(min=1.0)
        assert ((got.double() - want).abs().amax() / scale).item() < 0.02
