"""A location that names nothing and says why."""

from __future__ import annotations

from onnxparity.locating.requests import LocateRequest
from onnxparity.location import Location

__all__ = ["unknown"]


def unknown(request: LocateRequest, why: str) -> Location:
    """Origin `unknown`, no node, and the reason as the message."""
    verdict = request.verdict
    return Location(
        cell=verdict.cell,
        status=verdict.status,
        message=why,
        origin="unknown",
        node=None,
        region=0,
        nodes=sum(request.examine.artifact.op_census.values()),
        smallest_shape=verdict.cell.shape,
        explains=(verdict.cell.id,),
    )
