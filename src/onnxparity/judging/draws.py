"""How many Monte Carlo draws stand behind a budget: few where a cell is far within it, many before it fails.

The noise is the largest movement over the draws, so each further one can only widen the budget: what passes with few
passes with more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxparity.numerics.compare import Comparison
from onnxparity.outcome import Status
from onnxparity.protocols import Outputs

__all__ = ["CONFIRMING_DRAWS", "DRAWS", "FAR_WITHIN", "FIRST_DRAWS", "SERIES", "larger", "settled"]

FIRST_DRAWS = 1
"""Draws that settle a cell far within its budget."""
FAR_WITHIN = 0.25
"""Share of its budget below which a cell is settled by the first draws."""
DRAWS = 3
"""Draws behind the budget of every other cell."""
CONFIRMING_DRAWS = 12
"""Draws behind the budget of a cell that would fail: a few miss the tails of a noise that saturates."""
SERIES = {FIRST_DRAWS: 0, DRAWS: FIRST_DRAWS, CONFIRMING_DRAWS: DRAWS}
"""Each number of draws by the smaller one that it adds to."""


def settled(against: Callable[[int], Comparison]) -> Comparison:
    """The comparison with as many draws behind its budget as it takes. against: the comparison with so many."""
    found = against(FIRST_DRAWS)
    if found.status is Status.ARITHMETIC or (found.status is Status.PASS and not (found.ratio or 0.0) <= FAR_WITHIN):
        found = against(DRAWS)
    return against(CONFIRMING_DRAWS) if found.status is Status.ARITHMETIC else found


def larger(noise: Outputs, other: Outputs) -> Outputs:
    """The larger noise of each vector."""
    return {name: np.maximum(value, other.get(name, 0.0)) for name, value in noise.items()}
