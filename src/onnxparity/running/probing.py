"""Which runtimes can be used here, each asked a known question in a worker process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from onnxparity import environment, plugins
from onnxparity.errors import OnnxParityError
from onnxparity.protocols import Availability
from onnxparity.running.worker import Worker

__all__ = ["probe_all"]

PROBE_LIMIT = 300.0


def probe_all(names: Sequence[str], worker: Worker | None = None) -> tuple[Availability, ...]:
    """Availability of each runtime, in the order of the names. One that ends its worker is not available.

    worker: left running, so that what it has imported serves the cells; by default one of its own.
    """
    found: dict[str, Availability] = {}
    left = [n for n in names if n not in plugins.TORCH_RUNTIMES]
    with Worker() if worker is None else nullcontext(worker) as asked:
        while left:
            try:
                for availability in asked.call("probe", tuple(left), limit=PROBE_LIMIT):
                    found[left.pop(0)] = availability
            except OnnxParityError as error:  # a driver that aborts, hangs or raises, or a plug-in that does
                name = left.pop(0)
                reason = f"{error.what}: {error.got}" if error.got else error.what
                found[name] = Availability(name, False, reason, None)
    torch = environment.versions()["torch"]
    for name in set(names) & set(plugins.TORCH_RUNTIMES):
        why, remedy = ("", "") if torch else ("torch is not installed", "pip install torch")
        found[name] = Availability(name, torch is not None, why, torch, remedy)
    return tuple(found[name] for name in names)
