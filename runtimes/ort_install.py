"""What is installed of ONNX Runtime: which packages, which build, and the newest opset it really runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from itertools import count

import numpy as np
import onnxruntime

from onnxparity.protocols import Array
from onnxparity.runtimes.known_answer import FEEDS, identity_model
from onnxparity.runtimes.ort import CPU, ERRORS

__all__ = ["InstalledBuilds", "installed_builds", "newest_ir_version", "newest_opset", "versions"]

OLDEST_OPSET, OLDEST_IR = 17, 8
"""Where the search starts: any ONNX Runtime this package admits runs these."""
CEILING = 200
"""Where a search that never fails gives up, so that a runtime that accepts anything cannot hang it."""


@dataclass(frozen=True)
class InstalledBuilds:
    """The packages that each bring the import package `onnxruntime`."""

    packages: Mapping[str, str]
    """Version by package name, such as {'onnxruntime-gpu': '1.31.1'}."""

    @property
    def conflict(self) -> bool:
        """More than one: whichever came last has overwritten files of the others, and both are broken."""
        return len(self.packages) > 1

    @property
    def remedy(self) -> str:
        """Empty where there is no conflict."""
        if not self.conflict:
            return ""
        keep = "onnxruntime-gpu" if "onnxruntime-gpu" in self.packages else min(self.packages)
        return f"pip uninstall -y {' '.join(sorted(self.packages))}, then pip install --force-reinstall {keep}"


def installed_builds() -> InstalledBuilds:
    """Every installed distribution that puts a folder `onnxruntime` into site-packages."""
    found: dict[str, str] = {}
    for one in distributions():
        name = str(one.metadata["Name"] or "").lower().replace("_", "-")
        brings = any(f.parts[:2] == ("onnxruntime", "__init__.py") for f in one.files or ())
        if brings or name in ("onnxruntime", "onnxruntime-gpu"):
            found[name] = one.version
    return InstalledBuilds(dict(sorted(found.items())))


def newest_opset() -> int | None:
    """The newest opset of the default domain that this build runs, found by running one file after another."""
    return _newest(OLDEST_OPSET, lambda opset: identity_model(opset=opset, ir_version=OLDEST_IR))


def newest_ir_version() -> int | None:
    """The newest IR version that this build reads, found the same way."""
    return _newest(OLDEST_IR, lambda ir: identity_model(opset=OLDEST_OPSET, ir_version=ir))


def versions() -> dict[str, object]:
    """For the record of an environment: version, package, build, CUDA of the build, providers, newest opset and IR."""
    return {
        "version": str(onnxruntime.__version__),
        "packages": dict(installed_builds().packages),
        "package": str(getattr(onnxruntime, "package_name", "onnxruntime")),
        "build": str(onnxruntime.get_build_info()),
        "cuda": str(getattr(onnxruntime, "cuda_version", "") or "") or None,
        "providers": [str(p) for p in onnxruntime.get_available_providers()],
        "newest_opset": newest_opset(),
        "newest_ir_version": newest_ir_version(),
    }


def _newest(start: int, model: Callable[[int], bytes]) -> int | None:
    for version in count(start):
        if version > CEILING or not _runs(model(version)):
            return version - 1 if version > start else None
    raise AssertionError("count never ends")


def _runs(model: bytes) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model, options, providers=[CPU], enable_fallback=0)
        got: Array
        (got,) = session.run(None, {"a": FEEDS["a"]})
    except ERRORS:
        return False
    return np.array_equal(got, FEEDS["a"])
