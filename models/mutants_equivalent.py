"""Changes that change nothing, one entry each, with the proof in its line."""

from __future__ import annotations

from onnxparity.models import clean
from onnxparity.models import faults_masks as masks
from onnxparity.models import faults_positions as positions
from onnxparity.models import faults_quantised as int8
from onnxparity.models import faults_weights as weights
from onnxparity.models import graph_faults as graph
from onnxparity.models.fault import Mutant, instead

__all__ = ["EQUIVALENT"]

EQUIVALENT = (
    Mutant("softmax-shift", "pure-self-attention", instead(clean.shifted_scores), "softmax(s + c 1) = softmax(s)"),
    Mutant(
        "scale-in-weights",
        "pure-self-attention",
        clean.scale_in_weights,
        "(x W) s = x (W s), up to the rounding of W s",
    ),
    Mutant("queries-doubled", "pure-self-attention", weights.projections_rotated, "(2 q)(k / 2) = q k, exactly"),
    Mutant(
        "heads-permuted",
        "multi-head-attention",
        weights.heads_permuted("attention.", 4),
        "the sum over heads has no order",
    ),
    Mutant(
        "key-bias-dropped", "multi-head-attention", weights.key_bias_dropped, "q b_k is one number for the whole row"
    ),
    Mutant(
        "value-bias-moved", "multi-head-attention", weights.value_bias_moved, "rows sum to 1, so b_v leaves as W_o b_v"
    ),
    Mutant("hidden-permuted", "feed-forward-swiglu", weights.hidden_permuted, "the sum over hidden units has no order"),
    Mutant(
        "rope-offset-alike", "rotary-attention", instead(positions.turns_both_one_on), "R(t+1)' R(s+1) = R(t)' R(s)"
    ),
    Mutant(
        "mask-as-lowest",
        "causal-attention",
        instead(masks.additive_lowest),
        "every row keeps its own key, and exp(lowest) = 0",
    ),
    Mutant("gelu-written-out", "feed-forward-gelu", instead(clean.erf_written_out), "its definition"),
    Mutant("silu-written-out", "feed-forward-swiglu", instead(clean.silu_written_out), "its definition"),
    Mutant("relu-as-maximum", "feed-forward-relu", instead(clean.relu_as_maximum), "its definition"),
    Mutant("rms-written-out", "rms-norm", instead(clean.rms_written_out), "its definition"),
    Mutant("norm-folded", "encoder-block-pre-norm", clean.norm_folded, "W (g z + b) + c = (W g) z + (W b + c)"),
    Mutant("dropout-off", "encoder-block-post-norm", clean.with_dropout, "the identity in evaluation"),
    Mutant(
        "dropout-off",
        "feed-forward-relu",
        graph.dropout("Relu", training=False),
        "the identity without training_mode",
        form="file",
    ),
    Mutant("tied-weight-copied", "tied-language-model", clean.untied, "equal values"),
    Mutant(
        "node-in-double",
        "pure-self-attention",
        graph.widened("Softmax"),
        "the same function, rounded less",
        form="file",
    ),
    Mutant(
        "quantised-as-is",
        "feed-forward-relu",
        int8.unchanged,
        "what the right quantiser wrote",
        form="file",
        prepare=int8.quantised(),
        known=(int8.FUSED,),
    ),
)
