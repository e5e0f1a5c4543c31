"""The pair sum where it takes several blocks, and the node it puts into the graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from setwise.kernels import Term, pair_loss
from setwise.kernels.attach import attach_numpy
from setwise.kernels.sorting import BLOCK


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("size", [100, 3000, 2 * BLOCK + 11])
def test_numpy_and_torch_agree_with_ties(size: int, closed: bool, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(size)
    score = (torch.randint(-40, 40, (size,), generator=generator) / 8).to(dtype).requires_grad_()
    positive = torch.rand(size, generator=generator) < 0.2
    terms = (Term(0.5, 1.25, 1, closed=closed),)
    value, total = pair_loss(score, positive, None, terms, mean=True)
    (slope,) = torch.autograd.grad(value, score)
    rows = score.detach().requires_grad_().unsqueeze(0)  # a batch goes through torch
    expected, expected_total = pair_loss(rows, positive.unsqueeze(0), None, terms, mean=True)
    (expected_slope,) = torch.autograd.grad(expected, rows)
    assert total == float(expected_total)
    assert value.item() == pytest.approx(expected.item(), rel=1e-6 if dtype == torch.float32 else 1e-12)
    torch.testing.assert_close(slope, expected_slope[0])


def test_attached_numbers_are_exact_in_every_mode() -> None:
    input = torch.tensor([1e8, 1.0, -1e8], requires_grad=True)
    gradient = np.array([1.0, 2.0, 1.0], np.float32)
    for context in (torch.enable_grad(), torch.autocast("cpu", torch.bfloat16), torch.no_grad()):
        with context:
            value = attach_numpy(input, 0.3, gradient)
        assert value.item() == pytest.approx(0.3, rel=1e-7)
        assert value.dtype == torch.float32
        assert value.requires_grad == (not isinstance(context, torch.no_grad))
    loss = attach_numpy(input, 0.3, gradient)
    (slope,) = torch.autograd.grad(3 * loss, input)
    assert slope.tolist() == [3.0, 6.0, 3.0]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(input.detach(), torch.tensor([1.0, 10.0, 100.0]))
        primal, tangent = forward_ad.unpack_dual(attach_numpy(dual, 0.3, gradient))
    assert primal.item() == pytest.approx(0.3, rel=1e-7)
    assert tangent is not None
    assert tangent.item() == 121.0


def test_attached_numbers_have_a_second_derivative_where_one_is_given() -> None:
    input = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    asked = []

    def derivative(again: torch.Tensor) -> torch.Tensor:
        asked.append(again)
        return 3 * again**2

    value = attach_numpy(input, -7.0, np.array([3.0, 12.0]), derivative)
    (plain,) = torch.autograd.grad(value, input, retain_graph=True)
    assert plain.tolist() == [3.0, 12.0]
    assert not asked  # an ordinary backward pass needs no second evaluation
    (slope,) = torch.autograd.grad(2 * value, input, create_graph=True)
    assert slope.tolist() == [6.0, 24.0]
    (curvature,) = torch.autograd.grad(slope.sum(), input)
    assert curvature.tolist() == [12.0, -24.0]
    assert attach_numpy(input.detach(), -7.0, np.array([3.0, 12.0]), derivative).grad_fn is None
