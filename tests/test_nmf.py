"""Separable factorization: anchors recovered, two ways to solve one program, and heat maps that train."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import setwise.nmf.cuts
from setwise._checks import InputError
from setwise.lp.problem import LinearProgram
from setwise.lp.settings import HiGHS
from setwise.lp.solution import Solution, Status
from setwise.nmf import heat_maps, nmf_program, separable_nmf


def separable(c: int, rank: int, f: int, seed: int, *, noise: float = 0.0) -> tuple[Tensor, list[int]]:
    """Rows of sum 1 that are mixtures of some of them, each off by ``noise`` in the 1-norm; and which these are.

    No mixture has more than 0.9 of one anchor: within the noise such a row would do as well as the anchor itself.
    """
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    W, F = uniform(rank, f) ** 3, -uniform(c, rank).log()
    anchors = torch.randperm(c, generator=generator)[:rank].sort().values
    F = F / F.sum(1, keepdim=True)
    F = torch.where(F.amax(1, keepdim=True) > 0.9, 1 / rank, F)
    F[anchors] = torch.eye(rank, dtype=torch.float64)
    V = F @ (W / W.sum(1, keepdim=True))
    if noise:
        error = torch.randn(c, f, generator=generator, dtype=torch.float64)
        V = (V + noise * error / error.abs().sum(1, keepdim=True)).clamp(min=0)
        V = V / V.sum(1, keepdim=True)
    return V, anchors.tolist()


@pytest.mark.parametrize("seed", range(50))
def test_the_anchors_of_separable_data_are_recovered(seed: int) -> None:
    c, rank = 8 + seed % 17, 2 + seed % 4
    V, anchors = separable(c, rank, 12 + seed, seed)
    found = separable_nmf(V, rank)
    assert found.anchors.tolist() == anchors
    assert found.status is Status.OPTIMAL
    assert torch.equal(found.W, V[found.anchors])
    assert (found.F >= 0).all()
    torch.testing.assert_close(found.F @ found.W, V, atol=1e-9, rtol=0)
    torch.testing.assert_close(found.F, found.C[:, found.anchors], atol=1e-7, rtol=0)
    assert found.residual < 1e-8


@pytest.mark.parametrize(("c", "rank"), [(8, 2), (16, 3), (32, 4), (64, 6), (128, 8)])
def test_the_anchors_are_recovered_under_noise(c: int, rank: int) -> None:
    V, anchors = separable(c, rank, 49, c, noise=0.01)
    found = separable_nmf(V, rank, noise=0.01)
    assert found.anchors.tolist() == anchors
    assert_solves(found.C, V, rank, 0.01)
    assert found.residual < 0.04


def assert_solves(C: Tensor, V: Tensor, rank: int, noise: float) -> None:
    assert (C >= 0).all()
    assert C.trace().item() == pytest.approx(rank, abs=1e-8)
    assert (C - C.diagonal()).max() <= 1e-8
    assert C.diagonal().max() <= 1 + 1e-8
    assert (C @ V - V).abs().sum(1).max() <= 2 * noise + 1e-7


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_by_rows_and_at_once_are_the_same_program(seed: int, noise: float) -> None:
    V, _ = separable(12, 3, 10, seed, noise=noise)
    p = torch.rand(12, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows = separable_nmf(V, 3, noise=noise, weights=p)
    whole = separable_nmf(V, 3, noise=noise, weights=p, method="whole")
    assert (p @ rows.C.diagonal()).item() == pytest.approx((p @ whole.C.diagonal()).item(), abs=1e-7)
    assert_solves(rows.C, V, 3, noise)
    assert_solves(whole.C, V, 3, noise)
    assert torch.equal(rows.anchors, whole.anchors)


def test_the_program_is_a_kronecker_product() -> None:
    V, _ = separable(4, 2, 3, 0, noise=0.05)
    program = nmf_program(V, 2, noise=0.05)
    array, eye = V.numpy(), np.eye(4)
    dense = program.dense()
    assert isinstance(program.A, Tensor)
    assert program.A.layout == torch.sparse_csr
    assert isinstance(dense.A, Tensor)
    assert isinstance(dense.A_eq, Tensor)
    fits = np.hstack([np.kron(eye, array.T), -np.eye(12), np.eye(12)])
    trace = np.concatenate([eye.flatten(), np.zeros(24)])
    np.testing.assert_allclose(dense.A_eq.numpy(), np.vstack([fits, trace]))
    np.testing.assert_allclose(program.b_eq.numpy(), np.append(array.flatten(), 2))
    C, error = np.random.default_rng(0).random((4, 4)), np.random.default_rng(1).random((2, 4, 3))
    left = dense.A.numpy() @ np.concatenate([C.flatten(), error.flatten()])
    expected = [C[i, j] - C[j, j] for i in range(4) for j in range(4) if i != j]
    np.testing.assert_allclose(left, np.concatenate([expected, error.sum(axis=(0, 2))]))
    np.testing.assert_allclose(program.b.numpy(), [0.0] * 12 + [0.1] * 4)
    assert (program.upper[:16].reshape(4, 4).diagonal() == 1).all()
    assert len(program.c.nonzero()) == 4


def test_without_noise_the_equalities_are_as_many_as_the_rank() -> None:
    V, _ = separable(10, 3, 400, 0)
    program = nmf_program(V, 3)
    assert program.equalities == 10 * 3 + 1
    assert program.variables == 100


def test_scales_of_rows_do_not_matter_and_dead_channels_are_left_out() -> None:
    V, anchors = separable(9, 3, 20, 3)
    scales = torch.logspace(-3, 3, 9, dtype=torch.float64)
    rows = torch.tensor([0, 1, 2, 4, 5, 6, 8, 9, 10])
    whole = torch.zeros(11, 20, dtype=torch.float64)
    whole[rows] = V * scales.unsqueeze(1)
    found = separable_nmf(whole, 3)
    assert found.dropped.tolist() == [3, 7]
    assert found.anchors.tolist() == rows[anchors].tolist()
    torch.testing.assert_close(found.F @ found.W, whole, atol=1e-9, rtol=1e-9)
    assert not found.F[[3, 7]].any()
    assert not found.C[[3, 7]].any()
    assert not found.C[:, [3, 7]].any()


def test_among_equal_anchors_the_weights_decide() -> None:
    V, anchors = separable(8, 2, 10, 1)
    twice = torch.cat([V, V[anchors]])
    p = torch.arange(10, dtype=torch.float64)
    assert separable_nmf(twice, 2, weights=p).anchors.tolist() == anchors
    assert separable_nmf(twice, 2, weights=-p).anchors.tolist() == [8, 9]


def test_single_precision() -> None:
    V, anchors = separable(16, 3, 30, 5)
    found = separable_nmf(V.float(), 3)
    assert found.anchors.tolist() == anchors
    assert found.F.dtype == found.W.dtype == found.C.dtype == torch.float32
    torch.testing.assert_close(found.F @ found.W, V.float(), atol=1e-5, rtol=0)
    assert separable_nmf(V.float(), 3, method="whole").anchors.tolist() == anchors


@pytest.mark.parametrize("rank", [1, 3])
def test_the_least_noise_is_the_least(rank: int) -> None:
    V = torch.rand(8, 10, generator=torch.Generator().manual_seed(rank), dtype=torch.float64)
    V = V / V.sum(1, keepdim=True)
    found = separable_nmf(V, rank, noise=None)
    assert 0.01 < found.noise < 0.5
    assert_solves(found.C, V, rank, found.noise)
    with pytest.raises(InputError, match="separable of rank"):
        separable_nmf(V, rank, noise=0.999 * found.noise)
    assert separable_nmf(V, rank, noise=1.001 * found.noise).status is Status.OPTIMAL


def test_the_least_noise_of_separable_data_is_none() -> None:
    V, anchors = separable(10, 3, 20, 2)
    found = separable_nmf(V, 3, noise=None)
    assert found.noise < 1e-7
    assert found.anchors.tolist() == anchors


def test_the_ends_of_the_range_of_ranks() -> None:
    V = torch.rand(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    everything = separable_nmf(V, 4)
    assert everything.anchors.tolist() == [0, 1, 2, 3]
    torch.testing.assert_close(everything.F, torch.eye(4, dtype=torch.float64))
    one = separable_nmf(V[:1], 1)
    assert one.anchors.tolist() == [0]
    torch.testing.assert_close(one.F, torch.ones(1, 1, dtype=torch.float64))
    multiples = torch.tensor([[1.0], [2.0], [5.0]]) * V[:1]
    torch.testing.assert_close(separable_nmf(multiples, 1).F @ multiples[:1], multiples)


def test_where_the_rounds_end_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    V, _ = separable(20, 4, 30, 0, noise=0.02)
    assert separable_nmf(V, 4, noise=0.02).rounds > 2
    monkeypatch.setattr(setwise.nmf.cuts, "_ROUNDS", 1)
    found = separable_nmf(V, 4, noise=0.02)
    assert found.status is Status.ITERATION_LIMIT
    assert len(found.anchors) == 4


class Counting:
    """A solver that counts the programs it was given."""

    def __init__(self) -> None:
        self.programs = 0

    def run(
        self, problem: LinearProgram, *, max_steps: int | None, tolerance: float, start: Solution | None
    ) -> Solution:
        self.programs += 1
        return HiGHS("simplex").run(problem, max_steps=max_steps, tolerance=tolerance, start=start)


def test_the_solver_is_used() -> None:
    V, anchors = separable(8, 2, 10, 0)
    solver = Counting()
    assert separable_nmf(V, 2, solver=solver).anchors.tolist() == anchors
    assert solver.programs >= 2
    before = solver.programs
    heat_maps(V.reshape(8, 2, 5), 2, solver=solver)
    assert solver.programs > before


GOOD = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"V": -GOOD}, "`V` to be non-negative"),
        ({"V": GOOD * math.nan}, "`V` to be finite"),
        ({"V": GOOD + math.inf}, "`V` to be finite"),
        ({"V": GOOD[0]}, "`V` of shape"),
        ({"V": GOOD[:0]}, "`V` of shape"),
        ({"rank": 0}, "`rank`"),
        ({"rank": 4}, "`rank` to be at most 3"),
        ({"V": GOOD * torch.tensor([[1.0], [0.0], [0.0]])}, "`rank` to be at most 1"),
        ({"noise": -0.1}, "`noise`"),
        ({"noise": 1.1}, "`noise`"),
        ({"rank": 1}, "separable of rank 1"),
        ({"weights": torch.ones(3)}, "`weights` to hold distinct"),
        ({"weights": torch.ones(2)}, "`weights` of shape"),
        ({"weights": torch.tensor([1.0, 2.0, math.nan])}, "`weights` to be finite"),
        ({"method": "svd"}, "`method`"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], named: str) -> None:
    good: dict[str, Any] = {"V": GOOD, "rank": 2}
    assert separable_nmf(**good).anchors.tolist() == [0, 2]
    with pytest.raises(InputError, match=named):
        separable_nmf(**(good | change))


@pytest.mark.parametrize("V", [GOOD.int(), GOOD.half(), GOOD.numpy(), [[1.0]]])
def test_other_types_are_refused(V: Any) -> None:
    with pytest.raises(TypeError, match="`V`"):
        separable_nmf(V, 1)


def test_the_program_refuses_zero_rows() -> None:
    with pytest.raises(InputError, match="zero rows"):
        nmf_program(torch.zeros(2, 2), 1)


def blobs(seed: int = 0) -> Tensor:
    """Activations of 4 channels on 2 x 3 places, two of them mixtures."""
    V, _ = separable(4, 2, 6, seed, noise=0.02)
    return (V * torch.tensor([[1.0], [2.0], [0.5], [3.0]])).reshape(4, 2, 3)


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
def test_maps_and_coefficients_rebuild_the_channels(rank: int, refit: bool) -> None:
    activations = blobs()
    found = heat_maps(activations, rank, refit=refit)
    V = activations.flatten(1) / activations.flatten(1).sum(1, keepdim=True)
    assert found.maps.shape == (rank, 2, 3)
    assert found.coefficients.shape == (4, rank)
    assert (found.maps >= 0).all()
    torch.testing.assert_close(found.maps.sum((1, 2)), torch.ones(rank, dtype=torch.float64))
    assert torch.equal(found.anchors, separable_nmf(V, rank, noise=None).anchors)
    W = V[found.anchors]
    assert refit == (not torch.allclose(found.maps.flatten(1), W))
    expected = np.linalg.lstsq(W.numpy().T, V.numpy().T, rcond=None)[0].T
    np.testing.assert_allclose(found.coefficients.numpy(), expected, atol=1e-9)
    if refit:
        again = np.maximum(np.linalg.lstsq(expected, V.numpy(), rcond=None)[0], 0)
        np.testing.assert_allclose(found.maps.flatten(1).numpy(), again / again.sum(1, keepdims=True), atol=1e-9)


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("rank", [1, 2])
def test_the_gradient_of_the_maps(rank: int, refit: bool) -> None:
    activations = torch.rand(3, 2, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()

    def maps(x: Tensor) -> tuple[Tensor, Tensor]:
        found = heat_maps(x, rank, refit=refit, noise=None if rank == 1 else 0.4)
        return found.maps, found.coefficients

    assert torch.autograd.gradcheck(maps, (activations,))


def test_dead_channels_have_no_part() -> None:
    activations = torch.cat([torch.zeros(1, 2, 3), blobs().float()]).requires_grad_()
    found = heat_maps(activations, 2)
    assert not found.coefficients[0].any()
    assert 0 not in found.anchors
    found.maps.square().sum().backward()
    assert activations.grad is not None
    assert activations.grad.isfinite().all()


def test_half_precision_activations() -> None:
    assert heat_maps(blobs().half(), 2).maps.dtype == torch.float32


def test_weights_and_noise_reach_the_program() -> None:
    twice = torch.cat([blobs(), blobs()])
    p = torch.arange(8, dtype=torch.float64)
    first, second = heat_maps(twice, 2, weights=p, noise=0.05), heat_maps(twice, 2, weights=-p, noise=0.05)
    assert first.anchors.max() < 4 <= second.anchors.min()
    with pytest.raises(InputError, match="separable"):
        heat_maps(torch.rand(6, 3, 3, generator=torch.Generator().manual_seed(0)), 1, noise=0.0)


@pytest.mark.parametrize("activations", [torch.ones(3, 4), torch.ones(1, 3, 4, 4), torch.ones(0, 2, 2)])
def test_other_shapes_are_refused(activations: Tensor) -> None:
    with pytest.raises(InputError, match="`activations`"):
        heat_maps(activations)


@pytest.mark.parametrize("refit", [False, True])
def test_a_loss_on_the_heat_map_trains(refit: bool) -> None:
    """The map is asked to stay inside a mask, as a loss for an interpretable model would."""
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Softplus())
    image, outside = torch.rand(1, 1, 5, 5), torch.ones(5, 5)
    outside[1:4, 1:4] = 0
    optimizer = torch.optim.Adam(layer.parameters(), 0.1)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = (heat_maps(layer(image)[0], 1, refit=refit).maps * outside).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.97 * losses[0]
