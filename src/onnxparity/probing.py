"""Which runtimes can be used here, each asked a known question in a worker process."""

from __future__ import annotations

from collections.abc import Sequence

from onnxparity import environment, plugins
from onnxparity.protocols import Availability
from onnxparity.worker import Worker

__all__ = ["probe_all"]

PROBE_LIMIT = 300.0


def probe_all(names: Sequence[str]) -> tuple[Availability, ...]:
    """Availability of each runtime, in the order of the names."""
    found: dict[str, Availability] = {}
    with Worker() as worker:
        native = tuple(n for n in names if n not in plugins.TORCH_RUNTIMES)
        for availability in worker.call("probe", native, limit=PROBE_LIMIT):
            found[availability.runtime] = availability
    torch = environment.versions()["torch"]
    for name in set(names) & set(plugins.TORCH_RUNTIMES):
        why, remedy = ("", "") if torch else ("torch is not installed", "pip install torch")
        found[name] = Availability(name, torch is not None, why, torch, remedy)
    return tuple(found[name] for name in names)
