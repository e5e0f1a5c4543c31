"""Weights scaled by powers of two: the same bits from NumPy, from torch and compiled."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise.kernels.scaling import unit_numpy, unit_torch

EDGES = [5e-324, 2.0**-1050, 2.0**-1022, 1e-300, 0.5, 1.0, 1.5, 2.0, 3.0, 1e300, 2.0**1023, 1.7976931348623157e308]


def columns() -> Tensor:
    """One column for each edge of float64, for zeros alone, and for values that no measure takes."""
    generator = torch.Generator().manual_seed(0)
    largest = torch.tensor([*EDGES, 0.0, float("inf"), float("nan"), *range(7)], dtype=torch.float64)
    weight = torch.rand(23, len(largest), generator=generator, dtype=torch.float64) * largest
    weight[0] = largest
    return weight


@pytest.mark.parametrize("largest", [0.0, *EDGES])
def test_numpy_and_torch_divide_by_the_same_power_of_two(largest: float) -> None:
    weight = np.array([0.0, 0.25 * largest, largest])
    expected, exponent = unit_numpy(weight)
    unit, scale = unit_torch(torch.from_numpy(weight))
    assert scale.item() == 2.0**exponent
    assert np.array_equal(unit.numpy(), expected)


def test_what_is_not_finite_is_left_as_it_is() -> None:
    for largest in (float("inf"), float("nan")):
        unit, scale = unit_torch(torch.tensor([1.0, largest]))
        assert scale.item() == 1.0
        torch.testing.assert_close(unit, torch.tensor([1.0, largest], dtype=torch.float64), equal_nan=True)


def test_inductor_gives_the_same_bits() -> None:
    # Many columns: whole vectors of every instruction set, not the scalar loop of the rest.
    torch.compiler.reset()
    scaled = torch.compile(partial(unit_torch, dims=(-2,)), fullgraph=True, dynamic=True)
    for found, expected in zip(scaled(columns()), unit_torch(columns(), (-2,)), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
