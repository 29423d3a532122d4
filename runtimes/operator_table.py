"""Every operator that is evaluated, and how its result rounds. What is not listed here is refused.

Each was run on the third-party operator cases promoted to float64 and seen to stay in float64 (see the
tests). Adding an operator is one entry here, after its cases pass.
"""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["ROUNDING", "Rounding"]


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
        Abs And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Clip Concat ConcatFromSequence ConstantOfShape
        DepthToSpace Dropout Expand EyeLike Flatten Gather GatherElements GatherND GlobalMaxPool Identity Max MaxPool
        Min Neg Not OneHot Or Pad ReduceMax ReduceMin Relu Reshape
        ReverseSequence SequenceAt SequenceConstruct SequenceEmpty SequenceInsert SequenceLength Shape
        Size Slice SpaceToDepth Split SplitToSequence Squeeze TensorScatter Tile Transpose Trilu Unsqueeze Where Xor
        """,
    Rounding.RESULT: """
        Acos Acosh Add Asin Asinh Atan Atanh Cos Cosh DequantizeLinear Div Erf Exp HardSigmoid HardSwish LeakyRelu Log
        Mish Mul PRelu Pow Reciprocal ReduceProd Shrink Sin Sinh Softplus Softsign Sqrt Sub Tan Tanh ThresholdedRelu
        """,
    Rounding.SUMS: """
        AveragePool Conv ConvTranspose CumSum Einsum Gemm GlobalAveragePool MatMul Mean ReduceL1 ReduceMean ReduceSum
        Resize Sum
        """,
    Rounding.SIZED: """
        BatchNormalization Cast CastLike Celu Elu Gelu GroupNormalization InstanceNormalization LayerNormalization
        LogSoftmax LpNormalization RMSNormalization ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare
        RotaryEmbedding ScatterElements ScatterND Selu Sigmoid Softmax Swish
        """,
    Rounding.STEPS: "Attention",
    Rounding.DECIDES: """
        ArgMax ArgMin Ceil Equal Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Mod Round Sign TopK
        """,
    Rounding.COUNTS: "Compress NonZero Range Unique",
    Rounding.QUANTISES: """
        ConvInteger DynamicQuantizeLinear MatMulInteger QLinearConv QLinearMatMul QuantizeLinear
        """,
    Rounding.CONTROL: "If Loop Scan",
}

ROUNDING = {name: kind for kind, names in _BY_KIND.items() for name in names.split()}
"""By operator of the default domain."""
