"""Faults of weights: one element, one bit, a transpose, an exchange, a rounding; and changes that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from onnxparity.models import clean
from onnxparity.selftesting.planting import Where

__all__ = [
    "bit",
    "dropped",
    "element",
    "exchanged",
    "first_heads_exchanged",
    "heads_permuted",
    "hidden_permuted",
    "in_half",
    "key_bias_dropped",
    "next_row",
    "projections_rotated",
    "scaled",
    "transposed",
    "untied",
    "value_bias_moved",
]

Change = Callable[[Tensor], Tensor]
Spoil = Callable[[nn.Module], Sequence[Where]]


def element(place: tuple[int, ...], factor: float = 1.01) -> Change:
    """One element times `factor`."""

    def change(weight: Tensor) -> Tensor:
        weight[place] *= factor
        return weight

    return change


def bit(place: tuple[int, ...], number: int) -> Change:
    """One bit of one float32: 31 is the sign, 30 to 23 the exponent, 22 to 0 the mantissa."""

    def change(weight: Tensor) -> Tensor:
        word = weight.view(torch.int32)
        word[place] ^= torch.tensor(-(2**31) if number == 31 else 1 << number, dtype=torch.int32)
        return weight

    return change


def scaled(factor: float) -> Change:
    """Every element times `factor`."""
    return lambda weight: weight * factor


def transposed(weight: Tensor) -> Tensor:
    """A square matrix the other way round."""
    return weight.T.clone()


def in_half(weight: Tensor) -> Tensor:
    """Rounded to half precision and back."""
    return weight.half().float()


def next_row(weight: Tensor) -> Tensor:
    """Each row in the place of the next."""
    return weight.roll(1, 0)


def dropped(name: str, *, also: Sequence[Where] = ()) -> Spoil:
    """A bias that is left out; `also` is what consumes the sum."""

    def plant(module: nn.Module) -> Sequence[Where]:
        path, _, own = name.rpartition(".")
        module.get_submodule(path).register_parameter(own, None)
        return (Where(module=path), *also)

    return plant


def exchanged(first: str, second: str, *, also: Sequence[Where] = ()) -> Spoil:
    """Two modules of one shape with each other's weights; `also` is the first consumer that can tell them apart."""

    def plant(module: nn.Module) -> Sequence[Where]:
        one, other = module.get_submodule(first), module.get_submodule(second)
        mine = {name: value.clone() for name, value in one.state_dict().items()}
        one.load_state_dict(other.state_dict())
        other.load_state_dict(mine)
        return (Where(module=first), Where(module=second), *also)

    return plant


def first_heads_exchanged(name: str, heads: int) -> Spoil:
    """The first two heads of a projection change places, and no other projection's do."""

    def plant(module: nn.Module) -> Sequence[Where]:
        linear = module.get_submodule(name)
        for parameter in linear.parameters():
            size = parameter.shape[0] // heads
            rows = torch.arange(parameter.shape[0])
            rows[: 2 * size] = rows[: 2 * size].roll(size)
            with torch.no_grad():
                parameter.copy_(parameter[rows].clone())
        return (Where(module=name),)

    return plant


def heads_permuted(prefix: str, heads: int) -> Spoil:
    """The heads change places in every projection, and in the columns that read them."""

    def plant(module: nn.Module) -> Sequence[Where]:
        for name in ("query", "key", "value"):
            first_heads_exchanged(prefix + name, heads)(module)
        out = module.get_parameter(f"{prefix}out.weight")
        size = out.shape[1] // heads
        with torch.no_grad():
            out[:, : 2 * size] = out[:, : 2 * size].roll(size, 1)
        return ()

    return plant


def hidden_permuted(module: nn.Module) -> Sequence[Where]:
    """The hidden units of a gated network change places in all three of its matrices."""
    with torch.no_grad():
        for name, axis in (("gate", 0), ("up", 0), ("down", 1)):
            weight = module.get_parameter(f"{name}.weight")
            weight.copy_(weight.flip(axis))
    return ()


def projections_rotated(module: nn.Module) -> Sequence[Where]:
    """Queries doubled and keys halved: powers of two, so that no score changes by a bit."""
    with torch.no_grad():
        module.get_parameter("W_q.weight").mul_(2.0)
        module.get_parameter("W_k.weight").mul_(0.5)
    return ()


def key_bias_dropped(module: nn.Module) -> Sequence[Where]:
    """q . b_k is the same for every key, and a softmax does not see what is added to a whole row."""
    module.get_submodule("attention.key").register_parameter("bias", None)
    return ()


def value_bias_moved(module: nn.Module) -> Sequence[Where]:
    """Weights of a row sum to 1, so a bias of the values passes through as one vector, W_o b_v."""
    out = module.get_submodule("attention.out")
    value = module.get_submodule("attention.value")
    assert isinstance(out, nn.Linear) and isinstance(value, nn.Linear)
    moved = out.bias.double() + out.weight.double() @ value.bias.double()
    with torch.no_grad():
        out.bias.copy_(moved.float())
    value.register_parameter("bias", None)
    return ()


def untied(module: nn.Module) -> Sequence[Where]:
    """The output weights are a copy of the embeddings that training has moved on without."""
    where = clean.untied(module)
    with torch.no_grad():
        module.get_parameter("untied")[7] *= 1.01
    return where
