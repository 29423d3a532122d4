"""For every test: one thread per numeric library, set before any of them is imported.

Libraries that fight for the same few cores make the suite several times slower and measure nothing.
"""

from __future__ import annotations

import os

from hypothesis import settings

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
