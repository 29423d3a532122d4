"""Faults of attention and of its masks, one entry each."""

from __future__ import annotations

from onnxparity.models import faults_attention as attention
from onnxparity.models import faults_composed as composed
from onnxparity.models import faults_masks as masks
from onnxparity.models import faults_weights as weights
from onnxparity.models.fault import READS, Mutant, instead, lines_with, setting
from onnxparity.selftesting.planting import Where

__all__ = ["ATTENTION", "MASKS"]

READ = (Where(operators=READS),)
SCORED = (*READ, Where(operators=("MatMul",), module="attention"))

ATTENTION = (
    Mutant("scale-wrong", "pure-self-attention", setting("", "head_dim", 48), "sqrt(E) for sqrt(D)"),
    Mutant("scale-wrong", "soft-capped-attention", setting("", "scale", 0.36), "1/sqrt(D) rounded up"),
    Mutant(
        "scale-wrong", "set-attention-block", setting("block", "scale", 8 ** (-0.5), also=READ), "sqrt(D) for sqrt(E)"
    ),
    Mutant("scale-missing", "pure-self-attention", instead(attention.unscaled, also=READ), "not divided by sqrt(D)"),
    Mutant("scale-missing", "fused-self-attention", instead(attention.fused_unscaled), "not divided by sqrt(D)"),
    Mutant(
        "scale-twice",
        "pure-self-attention",
        instead(attention.scale_twice, also=lines_with(attention.scale_twice, "scores")),
        "divided by sqrt(D) twice",
    ),
    Mutant("scale-misplaced", "pure-self-attention", instead(attention.scale_after_softmax), "behind the softmax"),
    Mutant("softmax-axis", "pure-self-attention", instead(attention.over_queries), "over queries"),
    Mutant("softmax-axis", "soft-capped-attention", instead(attention.over_heads), "over heads"),
    Mutant("softmax-axis", "kernel-regression", instead(composed.over_columns), "over queries"),
    Mutant("soft-cap-missing", "soft-capped-attention", instead(attention.no_cap), "scores are not bounded"),
    Mutant("soft-cap-value", "soft-capped-attention", setting("", "cap", 5.05), "a bound of 5.05 for 5"),
    Mutant(
        "soft-cap-place", "soft-capped-attention", instead(attention.cap_after_mask), "masked scores are bounded too"
    ),
    Mutant(
        "head-order", "multi-head-attention", weights.first_heads_exchanged("attention.query", 4), "query heads 0 and 1"
    ),
    Mutant(
        "head-order",
        "encoder-stack-post-norm",
        weights.first_heads_exchanged("blocks.2.attention.value", 4),
        "value heads of the last layer",
    ),
    Mutant(
        "head-split",
        "multi-head-attention",
        instead(attention.head_dims_first, "attention"),
        "D groups of H for H heads of D",
    ),
    Mutant("head-merge", "cross-attention", instead(attention.heads_merged_wrongly), "heads and components exchanged"),
    Mutant(
        "kv-repeat-for-interleave",
        "grouped-query-attention",
        instead(attention.repeats_for_interleaves),
        "heads read the other group",
    ),
    Mutant(
        "kv-groups", "grouped-query-attention", instead(attention.values_of_other_group), "values of the other group"
    ),
    Mutant(
        "projections-swapped",
        "causal-attention",
        weights.exchanged("attention.query", "attention.key", also=SCORED),
        "W_q and W_k",
    ),
    Mutant("projections-swapped", "linear-attention", weights.exchanged("key", "value"), "W_k and W_v"),
    Mutant("projections-swapped", "fused-self-attention", instead(attention.keys_for_values), "W_k used for W_v"),
    Mutant(
        "source-and-target", "decoder-block", instead(attention.cross_reads_itself), "the target reads itself twice"
    ),
    Mutant("source-and-target", "translation", instead(composed.source_and_target_tables), "each other's embeddings"),
    Mutant("sublayer-order", "decoder-block", instead(attention.cross_before_self), "cross-attention comes first"),
    Mutant("values-misaligned", "cross-attention", instead(attention.sources_reversed), "values back to front"),
    Mutant(
        "batch-mixed",
        "multi-head-attention",
        instead(attention.first_sample_only, also=(Where(module="attention.key"), Where(module="attention.value"))),
        "all samples read the first",
    ),
    Mutant(
        "output-order", "pure-self-attention", instead(attention.swapped_outputs), "weights of the heads in reverse"
    ),
)
MASKS = (
    Mutant("mask-looks-ahead", "causal-attention", instead(masks.looks_ahead), "each position sees the next"),
    Mutant("mask-looks-ahead", "decoder-block", instead(masks.decoder_looks_ahead), "each position sees the next"),
    Mutant("mask-misses-itself", "causal-attention", instead(masks.misses_itself), "a position does not see itself"),
    Mutant("mask-transposed", "causal-attention", instead(masks.looks_back), "the future instead of the past"),
    Mutant("mask-dropped", "causal-attention", instead(masks.sees_everything, also=READ), "no mask"),
    Mutant("mask-dropped", "multi-head-attention-padded", instead(masks.ignores_padding, also=READ), "padding is read"),
    Mutant("mask-dropped", "encoder-block-padded", instead(masks.block_ignores_padding, also=READ), "padding is read"),
    Mutant("mask-added", "decoder-block", instead(masks.cross_attention_is_causal), "the source is masked as a past"),
    Mutant("mask-inverted", "encoder-block-padded", instead(masks.inverted), "True drops"),
    Mutant("mask-inverted", "multi-head-attention-padded", instead(masks.padded_inverted), "True drops"),
    Mutant("mask-axis", "encoder-block-padded", instead(masks.masks_queries), "queries are dropped, not keys"),
    Mutant("mask-of-first-sample", "encoder-block-padded", instead(masks.keeps_first_only), "one mask for the batch"),
    Mutant("padding-side", "encoder-block-padded", instead(masks.other_side), "right padding for left"),
    Mutant(
        "mask-encoding", "encoder-block-padded", instead(masks.small_number), "-10 for -inf", points=("b2-t17/outlier",)
    ),
    Mutant(
        "mask-encoding",
        "multi-head-attention-padded",
        instead(masks.padding_as_small_number),
        "-1e4 for -inf",
        points=("b2-t17/mask-empty",),
        opsets=(23,),  # at 18 the right file is known to read a row that is masked entirely wrongly too
    ),
    Mutant(
        "mask-encoding", "causal-attention", instead(masks.additive_small), "-1e4 for -inf", points=("b2-t17/outlier",)
    ),
    Mutant("window-wide", "sliding-window-attention", instead(masks.window_wide), "one position too many"),
    Mutant("window-narrow", "sliding-window-attention", instead(masks.window_narrow), "one position too few"),
)
