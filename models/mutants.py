"""Planted faults: every kind of mistake between a formula and its file that a verdict must find.

A mutant is a catalogue subject with one change, in the module before its export or in the exported file. The lists
are by topic, one entry a fault; a change that is provably the same function must come out green.
"""

from __future__ import annotations

import copy
from dataclasses import replace

from torch import nn

from onnxparity.models import catalogue
from onnxparity.models.fault import Mutant
from onnxparity.models.mutants_attention import ATTENTION, MASKS
from onnxparity.models.mutants_equivalent import EQUIVALENT
from onnxparity.models.mutants_files import FILES
from onnxparity.models.mutants_models import MODELS
from onnxparity.models.mutants_networks import NETWORKS, WEIGHTS
from onnxparity.models.mutants_positions import NORMS, POSITIONS

__all__ = ["MUTANTS", "QUICK", "Mutant", "planted"]

QUICK = frozenset(
    {
        "scale-wrong.pure-self-attention",
        "softmax-axis.pure-self-attention",
        "head-order.multi-head-attention",
        "kv-repeat-for-interleave.grouped-query-attention",
        "projections-swapped.causal-attention",
        "mask-looks-ahead.causal-attention",
        "mask-inverted.encoder-block-padded",
        "window-wide.sliding-window-attention",
        "rope-base.rotary-attention",
        "sines-and-cosines.sinusoidal-positions",
        "epsilon.layer-norm",
        "variance-biased.layer-norm",
        "norm-kind.layer-norm",
        "norm-place.encoder-block-pre-norm",
        "activation.feed-forward-gelu.tanh",
        "gate-swapped.feed-forward-swiglu",
        "residual-missing.encoder-block-post-norm",
        "bias-missing.encoder-block-post-norm",
        "weight-transposed.multi-head-attention",
        "weight-element.encoder-block-post-norm",
        "weight-bit.causal-attention",
        "tied-weight-untied.tied-language-model",
        "cache-off-by-one.decoder-decode",
        "position-offset.decoder-decode",
        "pooling-mask.text-classifier",
        "constant-folded.text-classifier",
        "node-precision.pure-self-attention",
        "dropout-on.feed-forward-relu",
        "quantised-scale.feed-forward-relu",
        "softmax-shift.pure-self-attention",
        "heads-permuted.multi-head-attention",
        "rope-offset-alike.rotary-attention",
        "dropout-off.feed-forward-relu",
        "tied-weight-copied.tied-language-model",
    }
)
"""Names of those that stand for the rest where time is short."""

MUTANTS: tuple[Mutant, ...] = (
    *ATTENTION,
    *MASKS,
    *POSITIONS,
    *NORMS,
    *NETWORKS,
    *WEIGHTS,
    *MODELS,
    *FILES,
    *(replace(mutant, equivalent=True) for mutant in EQUIVALENT),
)


def planted(mutant: Mutant) -> nn.Module:
    """The subject's module with the fault in it, in float32 and eval mode. Raises ValueError for a fault of a file."""
    if mutant.form != "module":
        raise ValueError(f"{mutant.name} is planted in a file, not in a module")
    module = copy.deepcopy(catalogue.find(mutant.subject).build())
    mutant.plant(module)
    return module
