"""Layer normalisation and RMS normalisation over the features of each position."""

from __future__ import annotations

from torch import Tensor, nn

from onnxparity.models import oracles_blocks as oracles
from onnxparity.models.describe import describe, features, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry

__all__ = ["ENTRIES", "LayerNorm", "RMSNorm"]


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) * weight + bias (seed 003, part 2.7; Ba et al. 2016): x (B, T, E) -> same."""

    def __init__(self, *, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        _check(width, eps)
        self.norm = nn.LayerNorm(width, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x)
        return out


class RMSNorm(nn.Module):
    """x / sqrt(mean of squares + eps) * weight (Zhang and Sennrich 2019): (B, T, E) -> (B, T, E).

    eps is always given: PyTorch's default is the input dtype's own epsilon, another function in each precision.
    """

    def __init__(self, *, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        _check(width, eps)
        self.norm = nn.RMSNorm(width, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x)
        return out


def _check(width: int, eps: float) -> None:
    if width < 1 or not eps > 0:
        raise ValueError(f"width must be at least 1 and eps above 0, got {width} and {eps}")


EMBED = 32
_X, _OUTPUT = features("x", "batch", "sequence", EMBED), output("batch", "sequence", EMBED)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "layer-norm",
            "layer normalisation",
            source="seed 003, part 2.7; Ba et al. 2016",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            properties=(
                "batch-invariance",
                "permutation-equivariance",
            ),
        ),
        build=lambda: seeded(lambda: LayerNorm(width=EMBED), seed=401),
        oracle=oracles.layer_norm_subject,
    ),
    Entry(
        subject=describe(
            "rms-norm",
            "root-mean-square normalisation, as in Llama",
            source="Zhang and Sennrich 2019",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            properties=(
                "batch-invariance",
                "permutation-equivariance",
            ),
        ),
        build=lambda: seeded(lambda: RMSNorm(width=EMBED), seed=402),
        oracle=oracles.rms_norm_subject,
    ),
)
