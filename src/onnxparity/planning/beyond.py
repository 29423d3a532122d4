"""One size too many: where a table or a buffer ends, a clear error is right, and numbers that are not the model's are
the worst answer.

NumPy and ONNX refuse an index that lies outside (operator Gather, "it is an error"), while a slice is cut to what is
there and some kernels read what lies behind: both give numbers.
"""

from __future__ import annotations

from collections.abc import Callable

from onnxparity.errors import OnnxParityError, RunError, SubjectError
from onnxparity.numerics.compare import Comparison
from onnxparity.outcome import Status

__all__ = ["refuses_or_agrees"]


def refuses_or_agrees(
    tried: Callable[[], object], compared: Callable[[], Comparison], *, failure: Status
) -> Comparison:
    """Judges an artifact at a size beyond what its subject serves.

    Args:
        tried: runs what is judged.
        compared: holds it against its reference, which may itself refuse.
        failure: the status where what is judged gives values and its reference refuses.

    PASS where `tried` raises RunError or SubjectError; other errors are raised as they are.
    """
    try:
        tried()
    except (RunError, SubjectError) as error:
        return Comparison(Status.PASS, "refuses a length beyond the end, as it should", 0.0, evidence=_words(error))
    try:
        return compared()
    except (RunError, SubjectError) as error:
        what = "gives values beyond the end, where the model itself has none"
        return Comparison(failure, what, evidence=_words(error))


def _words(error: OnnxParityError) -> tuple[str, ...]:
    return tuple(line for line in (error.what, error.got) if line)
