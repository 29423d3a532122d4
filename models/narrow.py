"""In which of its dtypes a user's module runs at all: one that mixes in float32 tensors of its own cannot run in half,
in PyTorch as little as anywhere, and that says nothing of its export.
"""

from __future__ import annotations

import re

import torch

from onnxparity.models.subjects import Source

__all__ = ["refused_dtypes"]

ABOUT_DTYPES = re.compile(r"\bhalf\b|bfloat16|dtype|scalar type", re.IGNORECASE)
"""PyTorch's errors on mixed dtypes, numbers too large for one, and operators without a kernel name one of these."""


def refused_dtypes(source: Source) -> dict[str, str]:
    """Why the module does not run on its own example, by each dtype in which it does not.

    Only errors about dtypes count; whatever else goes wrong is for the cells of that dtype to show. The first dtype
    is the module's own, in which the example has run already.
    """
    found = {dtype: _refusal(source, dtype) for dtype in source.subject.dtypes[1:]}
    return {dtype: why for dtype, why in found.items() if why}


def _refusal(source: Source, dtype: str) -> str:
    """PyTorch's own words; empty where the module runs."""
    call, module = source.call(dtype), source.build().to(getattr(torch, dtype))
    try:
        with torch.no_grad():
            module(*call.args, **call.kwargs)
    except (RuntimeError, TypeError, ValueError) as error:  # NotImplementedError is a RuntimeError
        first = (str(error).splitlines() or [""])[0]
        return first if ABOUT_DTYPES.search(first) else ""
    except Exception:  # the user's own code: whatever it raises, its cells will show
        return ""
    return ""
