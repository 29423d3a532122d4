"""Faults of positions and norms, one entry each."""

from __future__ import annotations

from onnxparity.models import faults_blocks as blocks
from onnxparity.models import faults_composed as composed
from onnxparity.models import faults_norms as norms
from onnxparity.models import faults_positions as positions
from onnxparity.models import graph_faults as graph
from onnxparity.models.fault import READS, Mutant, changed_lines, instead, lines_with, setting
from onnxparity.models.positions import rotate, sinusoids
from onnxparity.outcome import Status
from onnxparity.selftesting.planting import SHOWN, Where

__all__ = ["NORMS", "POSITIONS"]

READ = (Where(operators=READS),)
PROJECTED = tuple(Where(module=f"attention.{name}") for name in ("query", "key", "value"))
ROTATED = lines_with(rotate, "base", "frequency")
FAILS = SHOWN | {Status.RUN_ERROR}
"""For a file that a runtime refuses at another size than the one it was made at."""

POSITIONS = (
    Mutant("rope-base", "rotary-attention", setting("", "base", 10100.0, also=ROTATED), "base 10100 for 10000"),
    Mutant(
        "rope-interleave",
        "rotary-attention",
        instead(positions.pairs_for_halves, also=changed_lines(rotate, positions.turned_by_pairs)),
        "pairs 2i, 2i+1 for i, i+D/2",
    ),
    Mutant(
        "rope-offset",
        "rotary-attention",
        instead(positions.query_one_ahead, also=changed_lines(rotate, positions.one_on)),
        "queries one further on",
    ),
    Mutant(
        "rope-direction",
        "rotary-attention",
        instead(positions.turned_the_other_way, also=changed_lines(rotate, positions.turned_back)),
        "turned by minus the angle",
    ),
    Mutant(
        "rope-on-values",
        "rotary-attention",
        instead(positions.turned_values, also=lines_with(rotate, "cat")),
        "values are turned too",
    ),
    Mutant(
        "sines-and-cosines",
        "sinusoidal-positions",
        instead(positions.cosines_first, also=changed_lines(sinusoids, positions.sinusoids_cosines_first)),
        "cosines for sines",
    ),
    Mutant(
        "sines-in-halves",
        "sinusoidal-positions",
        instead(positions.halves_for_pairs, also=changed_lines(sinusoids, positions.sinusoids_in_halves)),
        "all sines before all cosines",
    ),
    Mutant(
        "sine-frequencies",
        "sinusoidal-positions",
        instead(
            positions.linear_frequencies,
            also=(
                *changed_lines(sinusoids, positions.sinusoids_linear),
                *lines_with(positions.sinusoids_linear, "frequency"),
            ),
        ),
        "10000^(-i/E) for 10000^(-2i/E)",
    ),
    Mutant(
        "table-truncated",
        "learned-positions",
        instead(positions.table_truncated),
        "ends at 32",
        points=("b1-t63/normal",),
    ),
    Mutant(
        "table-truncated",
        "learned-positions",
        graph.cut_rows("table.weight", 16),
        "16 rows of 256",
        form="file",
        variant="file",
        shows=FAILS,
    ),
    Mutant("table-offset", "learned-positions", instead(positions.starts_at_one), "the first token reads row 1"),
    Mutant("alibi-slope", "alibi-attention", instead(positions.other_slopes, method="penalty"), "heads counted from 0"),
    Mutant(
        "alibi-sign", "alibi-attention", instead(positions.penalty_as_reward, method="penalty"), "distance is rewarded"
    ),
    Mutant(
        "relative-bias-sign",
        "relative-bias-attention",
        instead(positions.other_sign, method="buckets"),
        "before and after exchanged",
    ),
    Mutant(
        "relative-bias-side",
        "relative-bias-attention",
        instead(positions.one_direction_buckets, method="buckets"),
        "one side for both",
    ),
    Mutant("relative-bias-missing", "relative-bias-attention", instead(positions.bias_dropped, also=READ), "no biases"),
    Mutant(
        "scale-added", "relative-bias-attention", instead(positions.relative_scaled), "T5 does not divide by sqrt(D)"
    ),
    Mutant(
        "embedding-scale",
        "translation",
        instead(composed.embedding_unscaled, also=lines_with(composed.embedding_unscaled, "sinusoids")),
        "sqrt(E) left out",
    ),
    Mutant(
        "positions-of-padding",
        "text-classifier",
        instead(composed.positions_count_padding),
        "padding is counted",
        points=("b2-t17/mask-left",),
    ),
)
NORMS = (
    Mutant("epsilon", "layer-norm", setting("norm", "eps", 1e-06), "1e-6 for 1e-5"),
    Mutant("epsilon", "rms-norm", setting("norm", "eps", 1e-05), "1e-5 for 1e-6"),
    Mutant("epsilon", "encoder-block-post-norm", setting("attention_norm", "eps", 1e-12), "1e-12 for 1e-5"),
    Mutant("epsilon-place", "layer-norm", instead(norms.epsilon_outside), "outside the root", points=("b2-t17/tiny",)),
    Mutant(
        "epsilon-place", "rms-norm", instead(norms.rms_epsilon_outside), "outside the root", points=("b2-t17/tiny",)
    ),
    Mutant("variance-biased", "layer-norm", instead(norms.unbiased), "divided by E - 1"),
    Mutant(
        "variance-biased",
        "encoder-block-pre-norm",
        norms.block_norm("feed_forward_norm", centred=True),
        "divided by E - 1",
    ),
    Mutant("norm-kind", "layer-norm", instead(norms.mean_not_taken), "RMS for LayerNorm"),
    Mutant("norm-kind", "rms-norm", instead(norms.centred_rms), "LayerNorm for RMS"),
    Mutant(
        "norm-kind",
        "encoder-stack-post-norm",
        norms.block_norm("blocks.1.feed_forward_norm", centred=False),
        "RMS for LayerNorm in one layer",
    ),
    Mutant("norm-axis", "layer-norm", instead(norms.over_positions), "over positions too"),
    Mutant("norm-scale", "layer-norm", instead(norms.no_scale), "not scaled"),
    Mutant("norm-scale", "rms-norm", instead(norms.one_plus_scale), "1 + weight for weight"),
    Mutant("norm-shift", "layer-norm", instead(norms.no_shift), "not shifted"),
    Mutant("norm-order", "layer-norm", instead(norms.shifted_first), "shifted before it is scaled"),
    Mutant(
        "norm-place", "encoder-block-pre-norm", instead(blocks.norm_after, also=PROJECTED), "post-norm for pre-norm"
    ),
    Mutant("norm-place", "encoder-block-post-norm", instead(blocks.norm_before), "pre-norm for post-norm"),
    Mutant(
        "norm-place",
        "decoder-block-pre-norm",
        instead(blocks.cross_normed_late, also=(Where(module="cross.query"),)),
        "one norm behind its sub-layer",
    ),
    Mutant(
        "last-norm-missing",
        "encoder-stack-pre-norm",
        instead(blocks.last_norm_missing, also=(Where(module="blocks.3", operators=("Add",)),)),
        "the stream leaves as it is",
    ),
)
