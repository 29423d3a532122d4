"""Faults of whole models and of decoding, one entry each."""

from __future__ import annotations

from onnxparity.models import faults_composed as composed
from onnxparity.models import faults_decoding as decoding
from onnxparity.models.autoregressive import CachedBlock, _angles
from onnxparity.models.fault import Mutant, instead, lines_with, tensor
from onnxparity.selftesting.planting import Where

__all__ = ["MODELS"]

UNTURNED = lines_with(decoding.cache_keeps_unturned, "split_heads")
"""What is kept is what should have been turned first: no node stands between it and the output."""
KEPT = lines_with(CachedBlock.forward, "split_heads", "_turn")
"""No node is wrong where two outputs are exchanged: what can be named is what makes them."""
ANGLES = lines_with(_angles, "position", "angles")

MODELS = (
    Mutant(
        "cache-off-by-one",
        "decoder-decode",
        decoding.in_every_block(decoding.cache_forgets_newest),
        "an index one too small",
    ),
    Mutant(
        "cache-order",
        "decoder-decode",
        decoding.in_every_block(decoding.cache_appended_in_front),
        "new tokens before the cache",
    ),
    Mutant(
        "cache-content",
        "decoder-prefill",
        decoding.in_every_block(decoding.cache_keeps_unturned, also=UNTURNED),
        "keys are kept unturned",
    ),
    Mutant(
        "cache-layer",
        "decoder-decode",
        instead(decoding.past_of_other_layer, "decoder", also=lines_with(CachedBlock.forward, "past")),
        "another layer's cache",
    ),
    Mutant(
        "cache-outputs", "decoder-prefill", instead(decoding.presents_exchanged, also=KEPT), "keys and values exchanged"
    ),
    Mutant(
        "position-offset",
        "decoder-decode",
        instead(decoding.one_position_late, "decoder", also=ANGLES),
        "one position late",
    ),
    Mutant(
        "position-restart",
        "decoder-decode",
        instead(decoding.positions_start_again, "decoder", also=ANGLES),
        "counted from 0 again",
    ),
    Mutant("cache-mask", "decoder-decode", instead(decoding.mask_without_cache, "decoder"), "as if the cache were new"),
    Mutant("pooling-mask", "text-classifier", instead(composed.mean_over_padding), "padding is averaged"),
    Mutant("pooling-token", "vision-transformer", instead(composed.last_token_read), "not the class token"),
    Mutant(
        "pooling-seed",
        "pooling-by-multihead-attention",
        tensor("seeds", lambda seeds: seeds.flip(1), where=(Where(module="block.query"), Where(operators=("Expand",)))),
        "two seeds exchanged",
    ),
    Mutant(
        "pooling-network",
        "pooling-by-multihead-attention",
        instead(composed.pooled_without_network, also=(Where(module="block.key"), Where(module="block.value"))),
        "left out",
    ),
    Mutant(
        "inducing-points",
        "induced-set-attention-block",
        instead(composed.points_not_induced, also=(Where(module="block.key"), Where(module="block.value"))),
        "have not read the set",
    ),
    Mutant("patch-order", "vision-transformer", instead(composed.patches_by_columns), "column by column"),
    Mutant("constant-folded", "text-classifier", instead(composed.count_folded), "the count of the example, 5"),
    Mutant("normaliser", "linear-attention", instead(composed.normaliser_dropped), "not divided by the sum"),
    Mutant(
        "feature-map",
        "linear-attention",
        instead(composed.features_relu, also=lines_with(composed.features_relu, "key")),
        "ReLU for elu + 1",
    ),
    Mutant(
        "running-sum",
        "causal-linear-attention",
        instead(composed.running_sum_excludes_itself),
        "without the position itself",
    ),
    Mutant("bandwidth", "kernel-regression", instead(composed.bandwidth_not_squared), "h for h squared"),
    Mutant("kernel-factor", "kernel-regression", instead(composed.half_left_out), "one half left out"),
    Mutant(
        "kernel-flipped",
        "convolution-by-attention",
        instead(composed.kernel_flipped, method="_scores"),
        "convolution for correlation",
    ),
    Mutant("border", "convolution-by-attention", instead(composed.pads_with_edges), "edges for zeros"),
)
