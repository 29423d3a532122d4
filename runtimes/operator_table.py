"""Every operator that is evaluated, and how its result rounds. What is not listed here is refused.

Each was run on the third-party operator cases promoted to float64 and seen to stay in float64 (see the
tests). Adding an operator is one entry here, after its cases pass.
"""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["DOMAINS", "ROUNDING", "Rounding", "is_known"]


class Rounding(Enum):
    """What one evaluation in floating point adds to an operator's exact result."""

    NONE = auto()
    """Carries or selects values."""
    RESULT = auto()
    """Up to one unit roundoff of the result."""
    SUMS = auto()
    """Sums products or values: up to one unit roundoff of each partial sum."""
    SIZED = auto()
    """Several roundings in one operator, sized by a formula of its own (see `rounding_sizes`)."""
    STEPS = auto()
    """Several roundings that amplify one another, so each step is rounded for itself."""
    DECIDES = auto()
    """Turns values into structure or steps, where the smallest movement changes everything."""
    COUNTS = auto()
    """Decides the shape of what follows."""
    QUANTISES = auto()
    """Rounds to integers that stand for values."""
    CONTROL = auto()
    """Runs a subgraph."""


_BY_KIND = {
    Rounding.NONE: """
        Abs And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CenterCropPad Clip Concat ConcatFromSequence
        ConstantOfShape
        DepthToSpace Dropout Expand EyeLike Flatten Gather GatherElements GatherND GlobalMaxPool Identity Max MaxPool
        MaxUnpool Min Neg Not OneHot OptionalHasElement Or Pad ReduceMax ReduceMin Relu Reshape
        ReverseSequence Scatter SequenceAt SequenceConstruct SequenceEmpty SequenceInsert SequenceLength Shape
        Size Slice SpaceToDepth Split SplitToSequence Squeeze TensorScatter Tile Transpose Trilu Unsqueeze Where Xor
        """,
    Rounding.RESULT: """
        Acos Acosh Add Asin Asinh Atan Atanh Cos Cosh CumProd DequantizeLinear Div Erf Exp HardSigmoid HardSwish LRN
        LeakyRelu Log LpPool Mish Mul PRelu Pow Reciprocal ReduceProd Shrink Sin Sinh Softplus Softsign Sqrt Sub Tan
        Tanh ThresholdedRelu
        """,
    Rounding.SUMS: """
        AveragePool Col2Im Conv ConvTranspose CumSum Einsum Gemm GlobalAveragePool MatMul Mean ReduceL1 ReduceMean
        ReduceSum Sum
        """,
    Rounding.SIZED: """
        AffineGrid BatchNormalization BlackmanWindow Cast CastLike CausalConvWithState Celu DFT DeformConv Det Elu GRU
        Gelu GridSample GroupNormalization HammingWindow HannWindow InstanceNormalization LSTM LayerNormalization
        LogSoftmax LpNormalization MeanVarianceNormalization NegativeLogLikelihoodLoss RMSNormalization RNN ReduceL2
        ReduceLogSum ReduceLogSumExp ReduceSumSquare Resize RoiAlign RotaryEmbedding STFT ScatterElements ScatterND Selu
        Sigmoid Softmax SoftmaxCrossEntropyLoss SwiGLU Swish
        """,
    Rounding.STEPS: "Attention FlexAttention LinearAttention",
    Rounding.DECIDES: """
        ArgMax ArgMin Ceil Equal Floor Greater GreaterOrEqual Hardmax IsInf IsNaN Less LessOrEqual Mod Round Sign TopK
        """,
    Rounding.COUNTS: "Compress NonMaxSuppression NonZero Range Unique",
    Rounding.QUANTISES: """
        ConvInteger DynamicQuantizeLinear MatMulInteger QLinearConv QLinearMatMul QuantizeLinear
        """,
    Rounding.CONTROL: "If Loop Scan",
}

ROUNDING = {name: kind for kind, names in _BY_KIND.items() for name in names.split()}
"""By operator."""
DOMAINS = {"FlexAttention": "ai.onnx.preview"}
"""The domains of operators that are not of the default one."""


def is_known(operator: str) -> bool:
    """Whether an operator is evaluated: `MatMul`, or `ai.onnx.preview::FlexAttention` outside the default domain."""
    domain, _, name = operator.rpartition("::")
    return name == "Constant" or (name in ROUNDING and domain == DOMAINS.get(name, ""))
