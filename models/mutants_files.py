"""Faults planted in the exported file, one entry each."""

from __future__ import annotations

import numpy as np

from onnxparity.models import faults_quantised as int8
from onnxparity.models import graph_faults as graph
from onnxparity.models.fault import Mutant
from onnxparity.outcome import Status
from onnxparity.selftesting.planting import SHOWN

__all__ = ["FILES"]

FAILS = SHOWN | {Status.RUN_ERROR}
"""For a file that a runtime refuses at another size than the one it was made at."""
LINTED = SHOWN | {Status.LINT_ERROR}
"""For what can be seen in a file without running it."""

FILES = (
    Mutant("node-precision", "pure-self-attention", graph.in_half("Softmax"), "the softmax in half", form="file"),
    Mutant(
        "node-precision", "encoder-block-pre-norm", graph.in_half("LayerNormalization"), "one norm in half", form="file"
    ),
    Mutant(
        "node-precision",
        "encoder-stack-post-norm",
        graph.in_half("MatMul", module="blocks.2.feed_forward.down"),
        "one product in half",
        form="file",
    ),
    Mutant(
        "node-precision",
        "causal-attention",
        graph.in_half("Attention"),
        "the attention in half",
        form="file",
        opsets=(23,),
    ),
    Mutant("position-precision", "rotary-attention", graph.in_half("Cos"), "angles rounded to half", form="file"),
    Mutant(
        "dropout-on",
        "feed-forward-relu",
        graph.dropout("Relu", training=True),
        "draws at each run",
        form="file",
        shows=LINTED,
    ),
    Mutant(
        "shape-folded",
        "causal-attention",
        graph.folded("Range", np.arange(5)),
        "positions of the example",
        form="file",
        shows=FAILS,
    ),
    Mutant(
        "operator-exchanged", "feed-forward-swiglu", graph.operator("Mul", "Add", place=1), "Add for Mul", form="file"
    ),
    Mutant("operand-order", "alibi-attention", graph.exchanged_inputs("Sub"), "j - i for i - j", form="file"),
    Mutant("operand-order", "rotary-attention", graph.exchanged_inputs("Sub"), "b sin - a cos", form="file"),
    Mutant(
        "attribute", "pure-self-attention", graph.attribute("Softmax", "axis", 1), "softmax over heads", form="file"
    ),
    Mutant(
        "attribute",
        "encoder-stack-pre-norm",
        graph.attribute("LayerNormalization", "epsilon", 1e-06, place=8),
        "another epsilon in the last norm",
        form="file",
    ),
    Mutant(
        "attribute",
        "multi-head-attention",
        graph.attribute("Attention", "is_causal", 1),
        "causal",
        form="file",
        opsets=(23,),
        variant="causal",
    ),
    Mutant(
        "attribute",
        "multi-head-attention",
        graph.attribute("Attention", "scale", 0.36),
        "another scale",
        form="file",
        opsets=(23,),
        variant="scale",
    ),
    Mutant(
        "attribute",
        "multi-head-attention",
        graph.attribute("Attention", "softcap", 50.0),
        "scores bounded at 50",
        form="file",
        opsets=(23,),
        variant="softcap",
    ),
    Mutant("activation-missing", "feed-forward-relu", graph.left_out("Relu"), "no ReLU", form="file"),
    Mutant(
        "transpose-missing",
        "multi-head-attention",
        graph.attribute("Transpose", "perm", [0, 1, 2, 3], place=-1),
        "heads are merged as they lie",
        form="file",
    ),
    Mutant(
        "weight-transposed",
        "causal-attention",
        graph.initializer("MatMul", np.transpose),
        "a square W_q in the file",
        form="file",
        variant="file",
    ),
    Mutant(
        "weight-precision",
        "encoder-block-post-norm",
        graph.initializer("MatMul", graph.in_bfloat16, module="feed_forward.up"),
        "stored in bfloat16",
        form="file",
    ),
    Mutant(
        "tied-weight-untied",
        "tied-language-model",
        graph.initializer("MatMul", graph.one_column, place=-1),
        "one output column 1 % off its embedding",
        form="file",
        variant="file",
    ),
    Mutant(
        "quantised-scale",
        "feed-forward-relu",
        int8.dequantised("scale", int8.first_larger),
        "one column's scale 1 % off",
        form="file",
        prepare=int8.quantised(),
        known=(int8.FUSED,),
    ),
    Mutant(
        "quantised-scale",
        "multi-head-attention",
        int8.dequantised("scale", int8.of_128),
        "scales for 128 steps, not 127",
        form="file",
        prepare=int8.quantised(),
        known=(int8.FUSED,),
    ),
    Mutant(
        "quantised-zero",
        "feed-forward-gelu",
        int8.dequantised("zero", int8.first_one_on),
        "one column's zero point one off",
        form="file",
        prepare=int8.quantised(),
        known=(int8.FUSED,),
    ),
    Mutant(
        "quantised-axis",
        "causal-attention",
        graph.attribute("DequantizeLinear", "axis", 0),
        "scales of columns on rows",
        form="file",
        prepare=int8.quantised(),
        known=(int8.FUSED,),
    ),
)
