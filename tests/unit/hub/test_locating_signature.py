"""A value is found again after a transpose or a reshape, and not after its elements have changed places."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from onnxparity.locating.signature import COPIES, Signature, distance, ratio_of, scaled, signature, sizes_of
from onnxparity.protocols import Array

CLOSE = 1e-12


def read(value: Array) -> Signature:
    return Signature.of(signature(value), value.shape)


def apart(value: Array, other: Array) -> tuple[float, float]:
    found = distance(read(value), read(other))
    return found.content, found.order


def heads(seed: int = 0) -> Array:
    """(B, H, T, D)"""
    return np.random.default_rng(seed).standard_normal((2, 4, 5, 8))


@pytest.mark.parametrize(
    "moved",
    [
        heads().transpose(0, 2, 1, 3),
        heads().transpose(3, 0, 2, 1),
        heads().reshape(8, 5, 8),
        heads().reshape(2, 4, 1, 40),
        heads()[:, :, None],
    ],
    ids=["heads-and-positions", "all-axes", "merged-batch", "merged-last", "axis-of-one"],
)
def test_a_transpose_and_a_reshape_leave_a_value_known(moved: Array) -> None:
    assert max(apart(moved, heads())) < CLOSE


@pytest.mark.parametrize(
    "changed",
    [
        heads()[:, [1, 0, 2, 3]],
        np.roll(heads(), 1, axis=2),
        heads()[..., ::-1],
        heads()[:, [1, 0, 2, 3]].transpose(0, 2, 1, 3),
        heads().reshape(2, 5, 4, 8),
    ],
    ids=["swapped-heads", "rolled-positions", "reversed", "swapped-and-transposed", "reshaped-not-transposed"],
)
def test_elements_that_change_places_are_the_same_content_in_another_order(changed: Array) -> None:
    content, order = apart(changed, heads())
    assert content < CLOSE
    assert order > 1e-3


def test_a_square_that_was_transposed_is_another_value() -> None:
    square = np.random.default_rng(1).standard_normal((3, 6, 6))
    content, order = apart(square.transpose(0, 2, 1), square)
    assert content < CLOSE
    assert order > 1e-3


def test_two_neighbours_that_change_places_on_a_long_axis_are_seen() -> None:
    long = np.random.default_rng(2).standard_normal((3, 500))
    swapped = long.copy()
    swapped[:, [250, 251]] = long[:, [251, 250]]
    assert apart(swapped.T, long)[1] > 1e-4


def test_one_element_that_is_larger_by_a_percent_is_seen() -> None:
    weight = np.random.default_rng(3).standard_normal((128, 32))
    spoiled = weight.copy()
    spoiled[3, 5] *= 1.01
    assert apart(spoiled, weight)[1] > 1e-6


def test_masks_differ_where_their_infinities_stand() -> None:
    causal = np.where(np.tril(np.ones((6, 6), bool)), 0.0, -np.inf)
    ahead = np.where(np.tril(np.ones((6, 6), bool), 1), 0.0, -np.inf)
    assert max(apart(causal, causal)) == 0
    assert apart(ahead, causal)[0] == np.inf
    assert apart(causal[::-1], causal)[1] > 1e-3


def test_the_most_negative_number_in_a_mask_stands_for_infinity() -> None:
    causal = np.tril(np.ones((6, 6), bool))
    lowest = float(np.finfo(np.float32).min)
    assert max(apart(np.where(causal, 0.0, lowest), np.where(causal, 0.0, -np.inf))) == 0
    assert apart(np.where(causal, 0.0, -1e4), np.where(causal, 0.0, -np.inf))[0] == np.inf


def test_what_a_person_reads_leaves_out_what_is_not_finite() -> None:
    found = read(np.array([1.0, 3.0, -np.inf, np.nan]))
    assert found.lost == 2
    assert found.plain == (4.0, 10.0, 3.0, 1.0)


@pytest.mark.parametrize("value", [np.array([True, False, True]), np.arange(12).reshape(3, 4), np.float32(2.5)])
def test_booleans_integers_and_scalars_are_known_again(value: Array) -> None:
    assert max(apart(np.asarray(value), np.asarray(value, np.float64))) == 0


def test_complex_values_are_known_by_both_parts() -> None:
    value = heads() + 1j * heads(1)
    assert max(apart(value, np.stack([value.real, value.imag], axis=-1))) < CLOSE
    assert apart(value.conj(), value)[1] > 1e-3


def test_nothing_is_as_far_as_can_be_from_something() -> None:
    assert apart(np.zeros((2, 3)), np.ones((2, 3)))[0] == 1
    assert apart(np.ones((2, 3)), np.zeros((2, 3))) == (np.inf, np.inf)
    assert max(apart(np.zeros((2, 3)), np.zeros((3, 2)))) == 0


def test_a_multiple_is_known_with_its_factor() -> None:
    ours, theirs = read(-2.5 * heads()), read(heads())
    factor = ratio_of(ours, theirs)
    assert factor == pytest.approx(-2.5)
    assert factor is not None
    found = distance(ours, scaled(theirs, factor))
    assert max(found.content, found.order) < 1e-9
    found = distance(ours, scaled(theirs, 2.4))
    assert max(found.content, found.order) > 1e-3


def test_a_mask_is_no_multiple_of_anything() -> None:
    mask = read(np.array([0.0, -np.inf]))
    assert ratio_of(mask, mask) is None


def test_dims_are_the_same_for_every_transpose() -> None:
    assert sizes_of((2, 1, 5, 3)) == sizes_of((5, 3, 2)) == (2, 3, 5)
    assert sizes_of((10, 3)) != sizes_of((2, 5, 3))


def test_one_value_takes_a_bounded_number_of_copies() -> None:
    value = np.random.default_rng(4).standard_normal((64, 64, 64))
    value[0, 0, 0] = -np.inf
    signature(value)  # weights of the projections are kept from the first call on
    tracemalloc.start()
    try:
        kept = signature(value)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < COPIES * value.nbytes
    assert kept.nbytes < 5000
