"""Small NumPy models that keep a property, and others that break it in one place: what a session's `run` would be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.feeding.feeds import draw
from onnxparity.invariants import Setting, check
from onnxparity.numerics.compare import Comparison
from onnxparity.protocols import Array, Feeds, Outputs
from tests.unit.hub.subjects import BATCH, PAST, SEQUENCE, SOURCE, WIDTH, mask, subject

Run = Callable[[Feeds], Outputs]
FEATURES = TensorSpec("x", ("batch", "sequence", WIDTH))
VOCABULARY = 11
TABLE = np.random.default_rng(3).standard_normal((VOCABULARY, WIDTH))

CAUSAL = subject((FEATURES,), properties=("causality", "batch-invariance"))
WEIGHTS = subject(
    (FEATURES,),
    (OutputSpec("a", ("batch", "sequence", "sequence"), "weights"),),
    properties=("simplex", "causality"),
)
PADDED = subject((FEATURES, mask("keep", "bool")), properties=("padding-invariance",))
DECODE = subject(
    (
        TensorSpec("ids", ("batch", "sequence"), "int64", "tokens", 0, VOCABULARY - 1),
        TensorSpec("past", ("batch", "past", WIDTH), role="past"),
    ),
    (
        OutputSpec("y", ("batch", "sequence", WIDTH)),
        OutputSpec("present", ("batch", "past+sequence", WIDTH), "present"),
    ),
    (BATCH, SEQUENCE, PAST),
    properties=("prefill-decode",),
    roles={"present": "past"},
)


def zeros(outputs: Outputs) -> Outputs:
    """No noise at all, in the shape of the outputs' vectors."""
    return {name: np.zeros(np.atleast_1d(v).shape[:-1]) for name, v in outputs.items()}


def setting(
    chosen: Subject,
    sizes: dict[str, int],
    run: Run,
    *,
    dtype: str = "float32",
    floor: float | None = None,
    noise: Run | None = None,
    companions: dict[str, Run] | None = None,
) -> Setting:
    """The session `run` in a dtype; float64 outputs stay float64, as the float64 evaluation gives them."""

    def rounded(inner: Run) -> Run:
        def call(feeds: Feeds) -> Outputs:
            return {n: v.astype(dtype) if v.dtype.kind == "f" else v for n, v in inner(feeds).items()}

        return call

    return Setting(
        subject=chosen,
        sizes=sizes,
        dtype=dtype,
        feeds=draw(chosen, sizes, "normal", dtype),
        run=rounded(run),
        noise=noise or (lambda feeds: zeros(run(feeds))),
        floor={"float64": 2.0**-40, "float32": 2.0**-24, "float16": 2.0**-11}[dtype] if floor is None else floor,
        companions={role: rounded(other) for role, other in (companions or {}).items()},
    )


def look(name: str, chosen: Subject, sizes: dict[str, int], run: Run, *, dtype: str = "float32") -> Comparison:
    """Checks one property of a model."""
    return check(name, setting(chosen, sizes, run, dtype=dtype))


def wide(value: Array) -> Array:
    """In float64."""
    return np.asarray(value, np.float64)


def running_mean(feeds: Feeds) -> Outputs:
    """Each position sees itself and what is before it."""
    x = wide(feeds["x"])  # (B, T, D)
    return {"y": np.cumsum(x, axis=1) / np.arange(1, x.shape[1] + 1)[:, None]}


def peeking(leak: float, reach: int) -> Run:
    """As `running_mean`, but a little of a later position (`reach` steps on; -1 for the last one) gets in."""

    def run(feeds: Feeds) -> Outputs:
        x = wide(feeds["x"])
        later = x[:, -1:] if reach < 0 else np.concatenate([x[:, reach:], np.zeros_like(x[:, :reach])], axis=1)
        return {"y": running_mean(feeds)["y"] + leak * later}

    return run


def causal_weights(feeds: Feeds) -> Outputs:
    """A causal softmax of x·xᵀ."""
    x = wide(feeds["x"])
    scores = x @ x.transpose(0, 2, 1)  # (B, T, T)
    scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return {"a": exponentials / exponentials.sum(axis=-1, keepdims=True)}


def changed_weights(change: Callable[[Array], Array]) -> Run:
    """`causal_weights` with something done to them."""
    return lambda feeds: {"a": change(causal_weights(feeds)["a"])}


def masked_mean(leak: float = 0.0, *, positions: float = 0.0) -> Run:
    """x plus the mean of the kept x; `leak` of what is masked gets in, `positions` of each index is added."""

    def run(feeds: Feeds) -> Outputs:
        x, keep = wide(feeds["x"]), wide(feeds["mask"])[..., None]  # (B, T, D), (B, T, 1)
        mean = (x * keep).sum(axis=1, keepdims=True) / keep.sum(axis=1, keepdims=True)
        index = np.arange(x.shape[1])[:, None]
        return {"y": x + mean + leak * (x * (1 - keep)).sum(axis=1, keepdims=True) + positions * index}

    return run


def prefill(feeds: Feeds) -> Outputs:
    """Mean of the embeddings so far, and the embeddings as the cache."""
    cache = TABLE[feeds["ids"]]  # (B, T, D)
    return {"y": np.cumsum(cache, axis=1) / np.arange(1, cache.shape[1] + 1)[:, None], "present": cache}


def decode(past_of: Callable[[Array], Array] = lambda past: past) -> Run:
    """The same from a cache; `past_of` does to the cache what a fault would."""

    def run(feeds: Feeds) -> Outputs:
        past, new = past_of(wide(feeds["past"])), TABLE[feeds["ids"]]
        cache = np.concatenate([past, new], axis=1)
        means = np.cumsum(cache, axis=1) / np.arange(1, cache.shape[1] + 1)[:, None]
        return {"y": means[:, past.shape[1] :], "present": np.concatenate([wide(feeds["past"]), new], axis=1)}

    return run


GROWN = mask("keep", "int64", ("batch", "past+sequence"))
SHORT = Axis("sequence", "t", "sequence", high=19)
CROSS = subject(
    (FEATURES, TensorSpec("memory", ("batch", "source", WIDTH)), mask("keep", "bool", ("batch", 1, 1, "source"))),
    axes=(BATCH, SEQUENCE, SOURCE),
)


def softmax(scores: Array) -> Array:
    """Over the last axis."""
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))
