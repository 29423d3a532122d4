"""Further real inputs that a factory lists: `examples`, arguments as `args` are, in a list or by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from onnxparity.case import Subject
from onnxparity.errors import SubjectError
from onnxparity.feeding.given_inputs import InputSet, take
from onnxparity.models.user_signature import Value, example_feeds
from onnxparity.plan import slug
from onnxparity.protocols import Feeds

__all__ = ["listed_examples"]

PREFIX = "example-"
SHAPE = "a list of argument tuples, or a dict of them by name"


def listed_examples(
    spec: str,
    subject: Subject,
    module: nn.Module,
    listed: Any,  # Any: what the user's factory returned, checked here
    kwargs: Mapping[str, Value],
) -> dict[str, Feeds]:
    """Feeds by regime, `example-1` and so on, or `example-NAME` where the factory names them.

    Each is the arguments of one call, a tuple or, for one argument, a tensor; `kwargs` are the factory's own for all.

    Raises SubjectError for another structure or two of one name, UsageError for arguments that the subject's
    description does not take (see `given_inputs.take`).
    """
    if listed is None:
        return {}
    if not isinstance(listed, Mapping | list | tuple):
        raise _wrong(spec, type(listed).__name__)
    named = listed if isinstance(listed, Mapping) else {str(n): args for n, args in enumerate(listed, 1)}
    found: dict[str, Feeds] = {}
    for name, args in named.items():
        regime = PREFIX + slug(str(name))
        if regime in found:
            raise _wrong(spec, f"two examples called {regime}")
        source = f"{spec}: example {name}"
        feeds = _bound(spec, source, module, args, kwargs)
        found[regime], _ = take(InputSet(regime, source, feeds), subject)
    return found


def _bound(spec: str, source: str, module: nn.Module, args: Any, kwargs: Mapping[str, Value]) -> Feeds:  # Any: as above
    if isinstance(args, Tensor):
        args = (args,)
    if not isinstance(args, Sequence):
        raise _wrong(spec, f"{type(args).__name__} for example arguments")
    try:
        return example_feeds(module, args, kwargs)
    except TypeError as error:
        expected, remedy = "the arguments of forward, in order", "give each example as args is given"
        raise SubjectError(
            f"{source} does not fit forward", expected=expected, got=str(error), remedy=remedy
        ) from error


def _wrong(spec: str, got: str) -> SubjectError:
    return SubjectError(f"{spec}: examples are no list of inputs", expected=SHAPE, got=got, remedy=f"return {SHAPE}")
