"""What every rendering shares: order, wording of numbers, what is cut and how that is said. Decides no verdict."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from onnxparity.errors import UsageError
from onnxparity.gate import INCOMPLETE, NO_EVIDENCE
from onnxparity.outcome import GREEN, Status, Verdict
from onnxparity.plan import ArtifactKey
from onnxparity.record import ArtifactSummary, Latency, Report

__all__ = [
    "RATIO_MEANING",
    "Headline",
    "Tone",
    "by_status",
    "check",
    "exact",
    "expected",
    "failures",
    "fair_share",
    "form",
    "headline",
    "milliseconds",
    "number",
    "printable",
    "ratio",
    "suffix",
    "table_order",
    "tone",
    "withheld",
]

RATIO_MEANING = (
    "Meaning, arithmetic and property: how much of the allowed error the worst cell used. "
    "Up to 1 passes; – where nothing was measured."
)

Tone = Literal["bad", "unknown", "known", "good"]
ORDER: tuple[Tone, ...] = ("bad", "unknown", "known", "good")


@dataclass(frozen=True)
class Headline:
    """The conclusion, as the document states it."""

    tone: Tone
    words: str
    sentence: str


def check(report: Report) -> None:
    """Raises UsageError where the table would not show every artifact that has verdicts."""
    rows = [row.artifact.id for row in report.summary]
    found = {v.cell.artifact.id for v in report.verdicts}
    if sorted(rows) != sorted(found):
        raise UsageError(
            "a damaged onnxparity report: its summary and its verdicts name different artifacts",
            expected=f"one row of the summary for each of {len(found)} artifacts",
            got=f"{len(rows)} rows, different in {sorted(set(rows) ^ found)[:3]}",
            remedy="write the report again with `onnxparity verify --out DIR`",
        )


def tone(status: Status) -> Tone:
    """`bad` a fault, `unknown` no evidence, `known` an expected failure, `good` a pass."""
    if status is Status.PASS:
        return "good"
    if status is Status.XFAIL:
        return "known"
    return "unknown" if status in NO_EVIDENCE else "bad"


def headline(report: Report) -> Headline:
    """Green only where the document says so and nothing in it says otherwise."""
    claims = report.conforms and report.exit_code == 0
    against = [v for v in report.verdicts if v.status not in GREEN]
    if claims and report.verdicts and not against:
        return Headline("good", "Conforms", report.conclusion)
    if claims:
        sentence = f"The document says that it conforms and does not bear it out ({len(against)} cells are not green)"
        return Headline("bad", "Contradictory document", f"{sentence}: {report.conclusion}")
    if report.exit_code == INCOMPLETE:
        return Headline("unknown", "Evidence incomplete", report.conclusion)
    return Headline("bad", "Does not conform", report.conclusion)


def by_status(report: Report) -> list[tuple[Status, int]]:
    """The document's counts, what is not green first."""
    order = list(Status)
    counts = [(Status(name), count) for name, count in report.counts.items()]
    return sorted(counts, key=lambda item: (ORDER.index(tone(item[0])), order.index(item[0])))


def table_order(report: Report) -> list[ArtifactSummary]:
    """Red first, then what was not shown, then expected failures, then passes; else as in the document."""
    return sorted(report.summary, key=lambda row: ORDER.index(tone(row.status)))


def failures(report: Report) -> list[Verdict]:
    """Every cell that is not green: faults first, then missing evidence; else as in the document."""
    return sorted((v for v in report.verdicts if v.status not in GREEN), key=lambda v: ORDER.index(tone(v.status)))


def expected(report: Report) -> list[Verdict]:
    """Known failures that came true."""
    return [v for v in report.verdicts if v.status is Status.XFAIL]


def fair_share(verdicts: Sequence[Verdict], limit: int) -> tuple[list[Verdict], dict[ArtifactKey, int]]:
    """At most `limit` verdicts, the first of every artifact before the second of any, and how many each has left."""
    turn: Counter[ArtifactKey] = Counter()
    rounds: list[tuple[int, int]] = []
    for position, verdict in enumerate(verdicts):
        rounds.append((turn[verdict.cell.artifact], position))
        turn[verdict.cell.artifact] += 1
    chosen = {position for _, position in sorted(rounds)[:limit]}
    left = Counter(v.cell.artifact for n, v in enumerate(verdicts) if n not in chosen)
    return [v for n, v in enumerate(verdicts) if n in chosen], dict(left)


def ratio(value: float | None) -> str:
    """Three digits, never rounded across the limit: 1.0004 reads `>1` and 0.9996 reads `<1`."""
    if value is None:
        return "–"
    text = number(value)
    if value > 1 and text == "1":
        return ">1"
    return "<1" if value < 1 and text == "1" else text


def number(value: float | None) -> str:
    """Three significant digits; `–` where nothing was measured."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if 1000 <= abs(value) < 100_000:
        return f"{value:.0f}"
    text = f"{value:.3g}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else text


def exact(value: float) -> str:
    """Every digit that distinguishes it."""
    return repr(float(value)) if math.isfinite(value) else number(value)


def milliseconds(value: float | None) -> str:
    """Three significant digits without an exponent."""
    if value is None or not math.isfinite(value):
        return number(value)
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}" if value >= 0.001 else f"{value:.1g}"


def withheld(series: Latency) -> str:
    """Why a series shows no number: empty where it shows one. A time is only as good as the answer it took."""
    if not series.conforms:
        return series.note or "the same artifact and runtime do not conform"
    return "" if series.p50_ms is not None else series.note or "not measured"


def form(key: ArtifactKey) -> str:
    """How the artifact was made: `dynamo-23`, or `torch`."""
    return key.exporter if key.opset is None else f"{key.exporter}-{key.opset}"


def suffix(verdict: Verdict) -> str:
    """The part of a cell id behind its artifact: `ort-cpu/b2-t17/saturated`."""
    return f"{verdict.cell.runtime}/{verdict.cell.shape}/{verdict.cell.regime}"


def printable(text: str) -> str:
    """Without what a terminal, an XML parser or a bidirectional text could be misled by; keeps tabs and newlines."""
    return re.sub(r"[^\t\n -~]", _visible, text.replace("\r\n", "\n"))


def _visible(match: re.Match[str]) -> str:
    character = match.group()
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    return f"\\u{ord(character):04x}" if hidden else character
