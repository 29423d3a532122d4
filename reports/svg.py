"""Matplotlib drawings as elements of a page: named, deterministic, in the page's own colours.

Colours are CSS variables of the page (`--ink`, `--line`, `--bad`, `--s1` …), so that one drawing serves the
light and the dark page.
"""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

__all__ = ["COLOUR", "SERIES", "STYLE", "embed"]

SERIES = ("--s1", "--s2", "--s3", "--s4", "--s5", "--s6")
COLOUR = {
    name: f"#0{n:x}fe0{n:x}" for n, name in enumerate(("--ink", "--muted", "--line", "--bad", "--known", *SERIES), 1)
}
"""Matplotlib wants real colours; these stand for the variables and are replaced in the SVG."""
STYLE: dict[Any, Any] = {  # Any: the names and values are matplotlib's own
    "svg.fonttype": "none",
    "svg.hashsalt": "onnxparity",
    "font.family": ["sans-serif"],
    "font.size": 11,
    "text.color": COLOUR["--ink"],
    "axes.edgecolor": COLOUR["--line"],
    "axes.labelcolor": COLOUR["--muted"],
    "xtick.color": COLOUR["--line"],
    "ytick.color": COLOUR["--line"],
    "xtick.labelcolor": COLOUR["--muted"],
    "ytick.labelcolor": COLOUR["--muted"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "path.simplify": False,
}
"""Settings under which a figure for `embed` is drawn (`matplotlib.rc_context`)."""
NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def embed(figure: Figure, *, name: str, title: str, note: str) -> str:
    """The drawing as an `<svg>` element with a title and a description, without references outwards.

    Args:
        figure: drawn under `STYLE`, in no other colours than those of `COLOUR`.
        name: unique on the page; ids inside the drawing start with it.
        title: what is drawn, plain text.
        note: how to read it, plain text.
    """
    FigureCanvasSVG(figure)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata=NO_METADATA)
    opening, _, body = buffer.getvalue().partition("<svg")[2].partition(">")
    box = re.search(r'viewBox="[^"]*"', opening)
    body = re.sub(r"<!--.*?-->|<style.*?</style>|<defs>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r"font-family: [^;\"]*", "font-family: inherit", body)
    body = re.sub(r'(?<= )(?:d|x|y|transform)="[^"]*"', _two_decimals, body)
    for variable, colour in COLOUR.items():
        body = body.replace(colour, f"var({variable})")
    head = f'<svg {box.group() if box else ""} role="img" aria-label="{escape(f"{title}. {note}")}">'
    return f"{head}<title>{escape(title)}</title><desc>{escape(note)}</desc>{_own_ids(body.strip(), name)}"


def _two_decimals(match: re.Match[str]) -> str:
    return re.sub(r"(\.\d\d)\d+", r"\1", match.group())


def _own_ids(body: str, name: str) -> str:
    """Ids that are referred to get the drawing's name, all others go: a page holds several drawings."""
    prefix = re.sub(r"[^a-z0-9]+", "-", name.lower())
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', body))
    body = re.sub(r' id="([^"]+)"', lambda m: f' id="{prefix}-{m[1]}"' if m[1] in used else "", body)
    return re.sub(r'(url\(|href=")#', rf"\1#{prefix}-", body.replace("xlink:href", "href"))
