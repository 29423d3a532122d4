"""Where ONNX Runtime's CUDA provider would put each node, asked of its own partitioner without a GPU.

A library of blanks stands in for CUDA (see `cuda_shim`), in a child process only. The session is created and
optimised as it would be for a device, and never run: this says nothing about numbers, speed or memory, nor whether a
kernel that is registered works. Seen with onnxruntime-gpu 1.31.1, which is built for CUDA 13.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxparity.cache import CacheDir
from onnxparity.errors import LoadError, UsageError
from onnxparity.protocols import Placement
from onnxparity.runtimes.cuda_answer import CUDA
from onnxparity.runtimes.cuda_shim import NAMES, shim, unavailable

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

__all__ = ["BY_CHOICE", "DEFAULT_CAPABILITY", "NOT_SO", "NO_KERNEL", "DryRun", "ask", "operator", "walk"]

DEFAULT_CAPABILITY = "9.0"
LIMIT = 300.0
"""Seconds; a small model takes one, one of 12 layers two."""
NO_KERNEL = "no CUDA kernel for it with these types at this opset"
NOT_SO = "its CUDA kernel does not take these attributes or inputs"
BY_CHOICE = "ONNX Runtime prefers the host for it, where its inputs already are"
CAPABILITY = re.compile(r"(?P<major>\d{1,2})\.(?P<minor>\d)")
MISSING = re.compile(r"CUDA kernel not found in registries for Op type: \S+ node name: (?P<name>.*)$")
FORCED = re.compile(r"Force fallback to CPU execution for node: (?P<name>.*) because the CPU execution path")
UNSUPPORTED = re.compile(r"CUDA kernel not supported\. Fallback to CPU .*Op type: \S+ node name: (?P<name>.*)$")
PLACED = re.compile(r"VerifyEachNodeIsAssignedToAnEp\] +(?:All nodes|Node\(s\)) placed on \[(?P<provider>\w+)\]")
NODE = re.compile(r"VerifyEachNodeIsAssignedToAnEp\]   (?P<operator>\S+) \((?P<name>.*)\)$")
ALL = re.compile(r"All nodes placed on \[(?P<provider>\w+)\]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class DryRun:
    """What the partitioner said of one file."""

    file: Path
    """The file as it was asked about: every node has a name of its own."""
    optimized: Path
    """The graph as it would be run, copies between host and device included."""
    before: tuple[Placement, ...] | None
    """Each node of the file, nothing optimised; None where ONNX Runtime refuses it so."""
    after: tuple[Placement, ...]
    """Each node of the optimised graph."""
    reasons: Mapping[str, str]
    """Why a node is on the host, by its name, as far as ONNX Runtime tells."""


def ask(model: Path, folder: Path, *, capability: str = DEFAULT_CAPABILITY, cache: CacheDir | None = None) -> DryRun:
    """Asks about one file; `folder` keeps what comes of it.

    Raises:
        UsageError: the compute capability is none, or the file is no ONNX file.
        LoadError: ONNX Runtime refuses the file.
        UnavailableError: it cannot be asked here, with the reason and a remedy.
    """
    matched = CAPABILITY.fullmatch(capability)
    if matched is None:
        raise UsageError("no compute capability", expected="such as 9.0 or 8.6", got=capability)
    library = shim(folder, cache or CacheDir())
    file, weights = _named(model, folder)
    optimized = folder / "optimized.onnx"
    said, log = _child(library, folder, (file, weights, optimized), matched["major"] + matched["minor"])
    if said["error"] is not None:
        raise LoadError(f"ONNX Runtime refuses {model.name} on CUDA", got=str(said["error"]).splitlines()[0])
    if CUDA not in said["providers"]:
        raise unavailable(f"the CUDA provider did not register: {_last(log)}")
    before = said["before"]
    return DryRun(
        file=file,
        optimized=optimized,
        before=None if before is None else tuple(Placement(n, f"{d}:{o}" if d else o, p) for p, d, o, n in before),
        after=_placed(optimized, log),
        reasons=_reasons(log),
    )


def walk(graph: GraphProto, within: tuple[str, ...] = ()) -> Iterator[tuple[NodeProto, tuple[str, ...]]]:
    """Each node, those of subgraphs included, with the operators whose subgraphs it is in."""
    for node in graph.node:
        yield node, within
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield from walk(inner, (*within, node.op_type))


def operator(node: NodeProto) -> str:
    """Such as `MatMul`, or `com.microsoft:FusedMatMul`."""
    return f"{node.domain}:{node.op_type}" if node.domain else node.op_type


def _named(model: Path, folder: Path) -> tuple[Path, str]:
    """The file, or a copy whose nodes have names of their own, and then the folder where its weights lie.

    ONNX Runtime tells of nodes by name alone.
    """
    import onnx

    try:
        loaded: ModelProto = onnx.load(str(model), load_external_data=False)
    except Exception as error:  # protobuf's own errors carry no types; whatever it says is the reason
        raise UsageError(f"{model} cannot be read as an ONNX file", got=str(error)) from error
    taken = {node.name for node, _ in walk(loaded.graph)}
    seen: set[str] = set()
    changed = False
    for number, (node, _) in enumerate(walk(loaded.graph)):
        if not node.name or node.name in seen:
            changed, node.name = True, _free(f"{node.op_type}_{number}", taken)
        seen.add(node.name)
    if not changed:
        return model.absolute(), ""
    copy = folder / "named.onnx"
    copy.write_bytes(loaded.SerializeToString())
    return copy, str(model.absolute().parent)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _child(library: Path, folder: Path, arguments: tuple[object, ...], capability: str) -> tuple[dict[str, Any], str]:
    """What the child says, and its log. Any: JSON. Raises UnavailableError where it dies."""
    libraries = folder / "libraries"
    libraries.mkdir()
    for name in NAMES.split():
        (libraries / name).symlink_to(library.absolute())
    own = {"LD_PRELOAD": str(library.absolute()), "LD_LIBRARY_PATH": str(libraries)}
    added = {name: ":".join(filter(None, (value, os.environ.get(name)))) for name, value in own.items()}
    command = [sys.executable, "-P", "-m", "onnxparity.runtimes.cuda_dryrun_child", *map(str, arguments)]
    environment = os.environ | added | {"ONNXPARITY_COMPUTE_CAPABILITY": capability}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise unavailable(f"the partitioner gave no answer within {LIMIT:g} s") from None
    log = COLOURS.sub("", done.stderr)
    try:
        said: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1]) if done.returncode == 0 else {}
    except (IndexError, json.JSONDecodeError):
        said = {}
    if not said:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise unavailable(f"the child process died with {how}: {_last(log)}")
    return said, log


def _placed(optimized: Path, log: str) -> tuple[Placement, ...]:
    """Each node of the optimised graph with its provider. Raises UnavailableError where the log tells of others."""
    import onnx

    providers: dict[tuple[str, str], set[str]] = {}
    current, everywhere, told = "", "", 0
    for line in log.splitlines():
        if match := PLACED.search(line):
            current, everywhere = match["provider"], match["provider"] if ALL.search(line) else everywhere
        elif match := NODE.search(line):
            providers.setdefault((match["operator"], match["name"]), set()).add(current)
            told += 1
    nodes = [node for node, _ in walk(onnx.load(str(optimized), load_external_data=False).graph)]
    keys = [(node.op_type, node.name) for node in nodes]
    if not everywhere and (told != len(nodes) or set(keys) != set(providers)):
        raise unavailable(f"its log tells of {told} nodes, and the optimised graph has {len(nodes)}")
    # two nodes of one name on two providers: whichever is meant, none of them is known to be on the device
    return tuple(
        Placement(node.name, operator(node), everywhere or min(providers[key]))
        for node, key in zip(nodes, keys, strict=True)
    )


def _reasons(log: str) -> dict[str, str]:
    reasons: dict[str, str] = {}
    for line in log.splitlines():
        for pattern, why in ((MISSING, NO_KERNEL), (UNSUPPORTED, NOT_SO), (FORCED, BY_CHOICE)):
            if match := pattern.search(line):
                reasons[match["name"].strip()] = why
    return reasons


def _last(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
