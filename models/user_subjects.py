"""Subjects that a user brings: `package.module:factory`, imported from the working directory.

A factory takes no arguments and returns `(module, args)`, `(module, args, kwargs, dynamic_shapes)`, or a mapping with
the keys `module`, `args` and, where wanted, `kwargs` and `dynamic_shapes`, as `torch.export.export` takes them, and
`examples`, further arguments to judge the model on.
"""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from onnxparity.case import Subject
from onnxparity.errors import SubjectError
from onnxparity.models.user_dims import assign_dims
from onnxparity.models.user_examples import listed_examples
from onnxparity.models.user_outputs import learn_outputs
from onnxparity.models.user_signature import (
    Bound,
    Value,
    bind,
    example_feeds,
    input_constants,
    input_hints,
    input_spec,
    input_tensors,
    to_numpy,
)
from onnxparity.plan import slug
from onnxparity.protocols import Feeds

__all__ = ["Brought", "example_feeds", "load_factory"]

Shapes = Any  # Any: torch.export's own nested structure
KNOWN = ("module", "args", "kwargs", "dynamic_shapes", "examples")
SHAPE = "(module, args), (module, args, kwargs, dynamic_shapes), or a dict with the keys " + ", ".join(KNOWN)


@dataclass(frozen=True)
class Brought:
    """What a factory made, ready to export."""

    module: nn.Module
    """In eval mode, without gradients."""
    args: tuple[Value, ...]
    kwargs: Mapping[str, Value]
    dynamic_shapes: Shapes
    subject: Subject
    example: Feeds
    """The arguments' tensors by input name; the feeds of the regime `example`."""
    examples: Mapping[str, Feeds]
    """Further inputs that the factory lists, by regime: `example-1`, or `example-NAME` where it names them."""
    notes: tuple[str, ...] = ()
    """What was changed or guessed, in words for the report."""


def load_factory(spec: str, directory: Path) -> Brought:
    """Imports `package.module:factory` with `directory` on the path, calls it, and describes what it made.

    Raises SubjectError where there is no such factory, where it fails, or where the module does not take or run
    its own example.
    """
    with _on_path(directory):
        factory = _find(spec, directory)
        made = _guarded(f"{spec} failed", "mend the factory; it is called without arguments", factory)
        module, args, kwargs, shapes, notes = _unpack(spec, made)
        brought = _describe(spec, module, args, kwargs, shapes, notes)
        listed = made.get("examples") if isinstance(made, Mapping) else None
        return replace(brought, examples=listed_examples(spec, brought.subject, module, listed, kwargs))


@contextmanager
def _on_path(directory: Path) -> Iterator[None]:
    entry = str(directory.resolve())
    sys.path.insert(0, entry)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(entry)


def _guarded(what: str, remedy: str, call: Callable[..., Any], *args: Any) -> Any:  # Any: the user's own code
    """Runs code of the user's, and says in one line where it failed."""
    try:
        return call(*args)
    except (Exception, SystemExit) as error:
        raise SubjectError(what, got=_last_words(error), remedy=remedy) from error


def _last_words(error: BaseException) -> str:
    """The error and the last line of the user's own that led to it."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not _is_foreign(f.filename)]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _is_foreign(filename: str) -> bool:
    """Whether a line is Python's, an installed package's or this package's, and no line of the user's."""
    return "site-packages" in filename or filename.startswith("<") or Path(filename).parent == Path(__file__).parent


def _find(spec: str, directory: Path) -> Callable[[], Any]:  # Any: checked by _unpack
    name, colon, attribute = spec.partition(":")
    if not colon or not all(part.isidentifier() for part in (*name.split("."), *attribute.split("."))):
        raise SubjectError(
            f"{spec!r} does not name a factory",
            expected="package.module:factory",
            got=spec,
            remedy="name a module that can be imported from the working directory, a colon, and a function in it",
        )
    module = _import(name, directory)
    factory: Any = module  # Any: what the user's module holds
    for part in attribute.split("."):
        if not hasattr(factory, part):
            _no_factory(spec, part, [n for n in vars(factory) if callable(getattr(factory, n)) and n[0] != "_"])
        factory = getattr(factory, part)
    if not callable(factory):
        raise SubjectError(
            f"{spec} is not a factory", expected="a function", got=type(factory).__name__, remedy=f"return {SHAPE}"
        )
    found: Callable[[], Any] = factory  # Any: as above
    return found


def _no_factory(spec: str, wanted: str, there: list[str]) -> NoReturn:
    near = difflib.get_close_matches(wanted, there) or sorted(there)[:5]
    raise SubjectError(
        f"{spec} has no {wanted!r}",
        expected=f"one of {', '.join(near)}" if near else "a function of that name",
        got=wanted,
        remedy="check the name after the colon",
    )


def _import(name: str, directory: Path) -> ModuleType:
    top = name.partition(".")[0]
    here, loaded = PathFinder.find_spec(top, [str(directory.resolve())]), sys.modules.get(top)
    if here is not None and here.origin and loaded is not None and getattr(loaded, "__file__", None) != here.origin:
        raise SubjectError(
            f"module {top!r} is already imported from elsewhere",
            expected=here.origin,
            got=str(getattr(loaded, "__file__", None)),
            remedy="rename the one in the working directory",
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise SubjectError(
                f"there is no module {name!r}",
                expected=f"{name.replace('.', '/')}.py in {directory}, or an installed package",
                got=str(error),
                remedy="run from the folder that holds it, or install it",
            ) from error
        what, remedy = f"importing {name!r} failed", f"install {error.name!r}, which it imports"
        raise SubjectError(what, got=str(error), remedy=remedy) from error
    except (Exception, SystemExit) as error:
        what, got = f"importing {name!r} failed", _last_words(error)
        raise SubjectError(what, got=got, remedy="mend the module") from error


def _unpack(spec: str, made: Any) -> tuple[nn.Module, tuple[Value, ...], Mapping[str, Value], Shapes, list[str]]:
    """The parts of what a factory returned. Any: it is checked here."""
    notes = []
    if isinstance(made, Mapping):
        parts = dict(made)
        for key in [k for k in parts if k not in KNOWN]:
            if near := difflib.get_close_matches(str(key), KNOWN, n=1, cutoff=0.75):
                _wrong(spec, f"the key {key!r}", f"did you mean {near[0]!r}?")
            notes.append(f"the factory's key {key!r} is not used")
    elif isinstance(made, tuple) and len(made) in (2, 4):
        parts = dict(zip(KNOWN, made, strict=False))
    else:
        _wrong(spec, type(made).__name__ if not isinstance(made, tuple) else f"a tuple of {len(made)}")
    module, args, kwargs = parts.get("module"), parts.get("args", ()), parts.get("kwargs") or {}
    if not isinstance(module, nn.Module):
        _wrong(spec, f"{type(module).__name__} for the module")
    if isinstance(args, Tensor):
        args = (args,)
    if not isinstance(args, tuple | list):
        _wrong(spec, f"{type(args).__name__} for args")
    if not isinstance(kwargs, Mapping):
        _wrong(spec, f"{type(kwargs).__name__} for kwargs")
    return module, tuple(args), dict(kwargs), parts.get("dynamic_shapes"), notes


def _wrong(spec: str, got: str, hint: str = "change what the factory returns") -> NoReturn:
    raise SubjectError(f"{spec} returned something else than a subject", expected=SHAPE, got=got, remedy=hint)


def _describe(
    spec: str, module: nn.Module, args: tuple[Value, ...], kwargs: Mapping[str, Value], shapes: Shapes, notes: list[str]
) -> Brought:
    if any(part.training for part in module.modules()):
        module.eval()
        notes.append("the module was in training mode; exported in eval mode")
    module.requires_grad_(False)
    bound = _guarded(f"{spec}: the example does not fit forward", "change args and kwargs", bind, module, args, kwargs)
    tensors = input_tensors(bound)
    if not tensors:
        _wrong(spec, "an example without any tensor", "give forward's tensors in args or kwargs")
    shapes = _complete(spec, bound, shapes)
    dims, axes = _guarded(
        f"{spec}: dynamic_shapes does not fit the example",
        "use one plain torch.export.Dim for each size that varies",
        assign_dims,
        {name: tuple(tensor.shape) for name, tensor in tensors.items()},
        input_hints(bound, shapes),
    )
    what, remedy = f"{spec}: the module does not run on its example", "mend the module or its example"
    learned = _guarded(what, remedy, learn_outputs, module, bound, dims, axes)
    own = _own_dtype(module, tensors)
    inputs = tuple(input_spec(name, tensor, dims[name], own) for name, tensor in tensors.items())
    notes += [f"input {i.name!r} is taken as a mask, meaning: {i.mask_meaning}" for i in inputs if i.role == "mask"]
    notes += [
        f"argument {name!r} is no tensor and fixed at {value!r} in the file"
        for name, value in input_constants(bound).items()
    ]
    subject = Subject(
        name=slug(spec),
        kind="factory",
        origin=spec,
        source="the user",
        summary=f"{type(module).__name__} from {spec}",
        inputs=inputs,
        outputs=learned.outputs,
        axes=axes,
        dtypes=("float32", "float16", "bfloat16") if own is torch.float32 else (str(own).removeprefix("torch."),),
        parameters=sum(p.numel() for p in module.parameters()),
    )
    example = {name: to_numpy(tensor) for name, tensor in tensors.items()}
    # As the signature orders them, because torch.export numbers inputs as they come.
    return Brought(module, bound.args, bound.kwargs, shapes, subject, example, {}, (*notes, *learned.notes))


def _complete(spec: str, bound: Bound, shapes: Shapes) -> Shapes:
    """`dynamic_shapes` with every argument in it, as torch.export demands of a dict; absent ones are static."""
    if shapes is None:
        return None
    names = list(bound.arguments)
    if isinstance(shapes, Mapping) and set(shapes) <= set(names):
        return {name: shapes.get(name) for name in names}
    if isinstance(shapes, tuple | list) and len(shapes) == len(names):
        return shapes
    what = f"{spec}: dynamic_shapes does not fit the arguments"
    expected = f"a dict by argument name or one entry for each, in this order: {', '.join(names)}"
    got = ", ".join(map(str, shapes)) if isinstance(shapes, Mapping) else f"{type(shapes).__name__}: {shapes}"
    raise SubjectError(what, expected=expected, got=got, remedy="write None for an argument of fixed size")


def _own_dtype(module: nn.Module, tensors: Mapping[str, Tensor]) -> torch.dtype:
    """Of the first floating parameter, else of the first floating input; float32 where nothing floats."""
    every = (*module.parameters(), *tensors.values())
    return next((tensor.dtype for tensor in every if tensor.is_floating_point()), torch.float32)
