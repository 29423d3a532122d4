"""The operator cases that ship with the onnx package: files with the inputs and the outputs that their authors expect.

They are somebody else's truth: what an operator gives was written down by the people who specify it, case by case.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from onnxparity.artifact import Artifact
from onnxparity.cache import CacheDir
from onnxparity.case import OutputSpec, Subject, TensorSpec
from onnxparity.errors import SubjectError, UsageError
from onnxparity.export.artifact import read_artifact
from onnxparity.export.given import EXPORTER
from onnxparity.export.graph import nodes, operator
from onnxparity.numerics.floats import DIGITS
from onnxparity.plan import ArtifactKey
from onnxparity.protocols import Array, Feeds, Outputs

__all__ = ["OperatorCase", "matching", "written"]

KIND = "operator-cases"
PREFIX = "test_"
RANDOM = ("Bernoulli", "Multinomial", "Random")
"""How the operators begin that draw random numbers, on which no two generators agree."""


@dataclass(frozen=True)
class OperatorCase:
    """One case as its authors wrote it."""

    name: str
    """Without its `test_`, such as `attention_4d_gqa`."""
    model: ModelProto
    values: tuple[tuple[tuple[Any, ...], tuple[Any, ...]], ...]
    """Inputs and outputs of each data set. Any: arrays, numbers, TensorProtos, or lists where it is a sequence."""

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of its graph, each once, in order."""
        return tuple(dict.fromkeys(operator(node) for node in nodes(self.model)))

    @property
    def unusable(self) -> str:
        """Why no runtime could be held against it; empty where one can."""
        graph = self.model.graph
        if any(v.type.WhichOneof("value") != "tensor_type" for v in (*graph.input, *graph.output)):
            return "a sequence or an optional goes in or comes out, and only tensors are compared"
        if any(v.type.tensor_type.elem_type == TensorProto.STRING for v in (*graph.input, *graph.output)):
            return "text goes in or comes out, and only numbers are compared"
        if not any(not opset.domain for opset in self.model.opset_import):
            return f"its operators are of domain {self.model.opset_import[0].domain}"
        if any(name.startswith(RANDOM) for name in self.operators):
            return "it draws random numbers"
        if any(_trains(node, self.feeds["set-0"]) for node in graph.node):
            return "it trains, and what is deployed was exported in eval mode"
        if any(array.size == 0 for outputs in self.expected.values() for array in outputs.values()):
            return "an output is empty, so there is nothing to compare"
        if any(_infinite(array) for outputs in self.expected.values() for array in outputs.values()):
            return "an output is infinite throughout, so there is nothing to compare"
        return ""

    @property
    def feeds(self) -> dict[str, Feeds]:
        """What goes in, by data set."""
        names = [value.name for value in self.model.graph.input]
        return {_set(place): _named(names, inputs) for place, (inputs, _) in enumerate(self.values)}

    @property
    def expected(self) -> dict[str, Outputs]:
        """What comes out by its authors, by data set, in the dtypes that they store."""
        names = [value.name for value in self.model.graph.output]
        return {_set(place): _named(names, outputs) for place, (_, outputs) in enumerate(self.values)}


def matching(glob: str) -> list[OperatorCase]:
    """The cases that a glob over their names stands for; where it fits none, underscores do not count.

    Raises SubjectError with near matches where it fits none even so.
    """
    cases = _all()
    found = [case for name, case in cases.items() if fnmatchcase(name, glob)]
    if not found:
        found = [case for name, case in cases.items() if fnmatchcase(_plain(name), _plain(glob))]
    if not found:
        near = get_close_matches(glob, cases) or list(cases)[:3]
        raise SubjectError(
            f"no operator case of onnx {version('onnx')} is called {glob!r}",
            expected=f"a name or a glob over {len(cases)} cases",
            remedy=f"such as {', '.join(near)}; see `onnxparity list 'onnx-node:*'`",
        )
    return found


def written(case: OperatorCase, name: str, origin: str) -> tuple[Subject, Artifact]:
    """The case as a file in the cache and as a subject with no free dims; `origin` is what finds it again.

    Raises UsageError where the cache folder cannot be written.
    """
    data = case.model.SerializeToString(deterministic=True)
    opset = next(int(o.version) for o in case.model.opset_import if not o.domain)
    folder, key = CacheDir(), f"{case.name}-{version('onnx').replace('.', '-')}"
    path = folder.get(KIND, key, ".onnx")
    if path is None or path.read_bytes() != data:
        path = folder.put(KIND, key, ".onnx", data)
    if path is None:
        remedy = "name another folder with ONNXPARITY_CACHE"
        raise UsageError("an operator case cannot be written to a file", got=folder.problem, remedy=remedy)
    feeds, expected = case.feeds, case.expected
    artifact = read_artifact(
        path,
        ArtifactKey(name, EXPORTER, opset, _dtype((*feeds.values(), *expected.values()))),
        opset_asked=opset,
        seconds=None,
        cached=False,
    )
    subject = Subject(
        name=name,
        kind="onnx",
        origin=origin,
        source=f"onnx {version('onnx')}, {PREFIX}{case.name}",
        summary=f"{', '.join(case.operators)} at opset {opset}",
        inputs=tuple(TensorSpec(n, v.shape, v.dtype.name, "other") for n, v in next(iter(feeds.values())).items()),
        outputs=tuple(OutputSpec(n, v.shape) for n, v in next(iter(expected.values())).items()),
        dtypes=(artifact.key.dtype,),
    )
    return subject, artifact


@cache
def _all() -> Mapping[str, OperatorCase]:
    """Every case by its name."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):  # overflows are part of what some cases show
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        found = load_model_tests(kind="node")
    return dict(map(_read, found))


def _read(case: Any) -> tuple[str, OperatorCase]:  # Any: onnx's TestCase, whose field types are not what it holds
    name = case.name.removeprefix(PREFIX)
    return name, OperatorCase(name, case.model, tuple((tuple(i), tuple(o)) for i, o in case.data_sets))


def _named(names: list[str], values: tuple[Any, ...]) -> dict[str, Array]:  # Any: see OperatorCase.values
    return {name: _array(value) for name, value in zip(names, values, strict=True)}


def _array(value: Any) -> Array:  # Any: see OperatorCase.values
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _trains(node: NodeProto, fed: Feeds) -> bool:
    if node.op_type == "BatchNormalization":
        return any(a.name == "training_mode" and a.i for a in node.attribute)
    return node.op_type == "Dropout" and len(node.input) > 2 and bool(fed.get(node.input[2], False))


def _infinite(array: Array) -> bool:
    return array.dtype.name in DIGITS and not np.isfinite(array).any()


def _dtype(sets: tuple[Mapping[str, Array], ...]) -> str:
    """The floating dtype of what is fed, else of what comes out, else float32."""
    return next(_floats(sets), "float32")


def _floats(sets: tuple[Mapping[str, Array], ...]) -> Iterator[str]:
    return (array.dtype.name for arrays in sets for array in arrays.values() if array.dtype.name in DIGITS)


def _set(place: int) -> str:
    return f"set-{place}"


def _plain(text: str) -> str:
    return re.sub(r"_", "", text.lower())
