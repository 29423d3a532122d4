"""Faults of blocks, networks and weights, one entry each."""

from __future__ import annotations

from onnxparity.models import faults_blocks as blocks
from onnxparity.models import faults_weights as weights
from onnxparity.models.blocks import EncoderBlockPostNorm
from onnxparity.models.fault import Mutant, instead, lines_with, tensor
from onnxparity.models.feedforward import FeedForwardReLU
from onnxparity.selftesting.planting import Where

__all__ = ["NETWORKS", "WEIGHTS"]

NETWORKS = (
    Mutant("activation", "feed-forward-gelu", instead(blocks.tanh_gelu), "GELU by tanh", variant="tanh"),
    Mutant("activation", "feed-forward-gelu", instead(blocks.sigmoid_gelu), "GELU by sigmoid", variant="sigmoid"),
    Mutant("activation", "feed-forward-gelu", instead(blocks.relu_for_gelu), "ReLU for GELU", variant="relu"),
    Mutant("activation", "feed-forward-gelu", instead(blocks.silu_for_gelu), "SiLU for GELU", variant="silu"),
    Mutant("activation", "feed-forward-relu", instead(blocks.gelu_for_relu), "GELU for ReLU"),
    Mutant("activation", "feed-forward-relu", instead(blocks.leaky), "slope 0.001 for 0", variant="leaky"),
    Mutant(
        "activation",
        "encoder-stack-pre-norm",
        instead(blocks.tanh_gelu, "blocks.3.feed_forward"),
        "GELU by tanh in the last of 4 layers",
    ),
    Mutant("gate-activation", "feed-forward-swiglu", instead(blocks.gelu_gate), "GELU for SiLU"),
    Mutant(
        "gate-swapped", "feed-forward-swiglu", instead(blocks.gates_exchanged), "the activation is on the other branch"
    ),
    Mutant(
        "residual-missing",
        "encoder-block-post-norm",
        instead(blocks.attention_residual_missing, also=(Where(module="attention_norm"),)),
        "the attention's input is not added",
    ),
    Mutant(
        "residual-missing",
        "encoder-block-pre-norm",
        instead(blocks.feed_forward_residual_missing, also=(Where(module="feed_forward.down"),)),
        "the network's input is not added",
    ),
    Mutant(
        "residual-missing",
        "decoder-block-pre-norm",
        instead(blocks.cross_residual_missing, also=(Where(module="feed_forward_norm"),)),
        "the target is not added",
    ),
    Mutant("residual-twice", "encoder-block-post-norm", instead(blocks.residual_twice), "the input is added twice"),
    Mutant("residual-place", "encoder-block-pre-norm", instead(blocks.residual_from_norm), "the normed input is added"),
    Mutant(
        "bias-missing",
        "encoder-block-post-norm",
        weights.dropped("attention.out.bias", also=lines_with(EncoderBlockPostNorm.forward, "attention")),
        "the output projection's",
    ),
    Mutant(
        "bias-missing",
        "feed-forward-relu",
        weights.dropped("up.bias", also=lines_with(FeedForwardReLU.forward, "relu")),
        "the first layer's",
    ),
    Mutant("bias-twice", "feed-forward-relu", instead(blocks.down_bias_twice), "the last layer's"),
    Mutant("bias-twice", "feed-forward-gelu", instead(blocks.bias_twice), "the first layer's"),
    Mutant("bias-place", "key-value-memory", instead(blocks.memory_bias_after), "behind the ReLU"),
    Mutant("layer-order", "encoder-stack-post-norm", blocks.layers_exchanged, "the first two layers exchanged"),
    Mutant("layer-repeated", "encoder-stack-pre-norm", blocks.layer_repeated, "layer 1 has layer 0's weights"),
)
WEIGHTS = (
    Mutant(
        "weight-transposed",
        "multi-head-attention",
        tensor("attention.query.weight", weights.transposed),
        "a square W_q",
    ),
    Mutant(
        "weight-transposed", "decoder-stack", tensor("blocks.2.cross.out.weight", weights.transposed), "a square W_o"
    ),
    Mutant(
        "weight-element",
        "encoder-block-post-norm",
        tensor("feed_forward.up.weight", weights.element((3, 5))),
        "one element 1 % off",
    ),
    Mutant(
        "weight-element",
        "deep-encoder-stack-saturated",
        tensor("blocks.11.feed_forward.down.weight", weights.element((3, 5))),
        "one element 1 % off in the last of 12 layers",
    ),
    Mutant(
        "weight-element",
        "autoregressive-decoder",
        tensor("decoder.blocks.1.key.weight", weights.element((0, 9))),
        "one element 1 % off",
    ),
    Mutant(
        "weight-bit",
        "causal-attention",
        tensor("attention.value.weight", weights.bit((2, 7), 12)),
        "mantissa bit 12 of one element",
    ),
    Mutant(
        "weight-bit",
        "feed-forward-swiglu",
        tensor("down.weight", weights.bit((4, 4), 31)),
        "the sign of one element",
        variant="sign",
    ),
    Mutant(
        "weight-bit",
        "vision-transformer",
        tensor("patches.weight", weights.bit((1, 2, 3, 0), 23)),
        "an exponent bit of one element",
    ),
    Mutant(
        "weight-rounded",
        "multi-head-attention",
        tensor("attention.out.weight", weights.in_half),
        "stored in half precision",
    ),
    Mutant(
        "weight-scaled",
        "decoder-block",
        tensor("cross.value.weight", weights.scaled(1.0001)),
        "every element 1e-4 larger",
    ),
    Mutant(
        "weight-of-next-row",
        "autoregressive-decoder",
        tensor("decoder.embedding.weight", weights.next_row),
        "each token reads the one before",
    ),
    Mutant(
        "norm-weight-element",
        "encoder-stack-pre-norm",
        tensor("norm.bias", weights.element((31,), 1.05)),
        "one shift 5 % off",
    ),
    Mutant("tied-weight-untied", "tied-language-model", weights.untied, "one output row 1 % off its embedding"),
)
