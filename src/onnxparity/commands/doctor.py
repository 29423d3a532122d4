"""`onnxparity doctor`: what this machine can run, and why not the rest."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence

from onnxparity import environment, gate, plugins
from onnxparity.protocols import Availability
from onnxparity.running.probing import probe_all

__all__ = ["doctor"]


def doctor(options: argparse.Namespace) -> int:
    """Prints the findings; exits 1 where an installation is broken, else 0."""
    from onnxparity.runtimes.ort_install import installed_builds

    builds = installed_builds()
    runtimes = probe_all(plugins.names())
    machine = environment.describe()
    if options.json:
        document = {
            "environment": machine,
            "runtimes": [dataclasses.asdict(a) for a in runtimes],
            "conflict": builds.remedy if builds.conflict else None,
        }
        print(json.dumps(document, indent=1))
    else:
        _print(machine, runtimes)
        if builds.conflict:
            print(f"\nonnxruntime is installed more than once over itself: {builds.remedy}", file=sys.stdout)
    return gate.DOES_NOT if builds.conflict else gate.CONFORMS


def _print(machine: dict[str, object], runtimes: Sequence[Availability]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False)
    console.print(f"{machine['processor'] or machine['machine']}, {machine['cores']} cores, {machine['platform']}")
    packages = machine["packages"]
    if isinstance(packages, dict):
        console.print(", ".join(f"{name} {found}" for name, found in packages.items() if found))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("runtime", no_wrap=True)
    table.add_column("here?", no_wrap=True)
    table.add_column("why not, and what would mend it")
    for a in runtimes:
        why = "" if a.available else a.reason + (f"\n→ {a.remedy}" if a.remedy else "")
        table.add_row(a.runtime, Text("yes", "green") if a.available else Text("no", "yellow"), Text(why))
    console.print(table)
