"""Regret and its convex bound: against vertices by brute force, by finite differences, in use, and misused."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from setwise import InputError
from setwise.lp import HiGHS, LinearProgram, LPError, RegretLoss, regret, regret_loss, solve

DOUBLE = torch.float64


def choice(n: int, k: int = 1) -> LinearProgram:
    """Choose k of n."""
    return LinearProgram(
        torch.zeros(n, dtype=DOUBLE),
        A_eq=torch.ones(1, n, dtype=DOUBLE),
        b_eq=torch.tensor([float(k)]).double(),
        upper=1,
    )


def vertices(n: int, k: int) -> Tensor:
    """All of its vertices.  # shape: (vertices, n)."""
    rows = [[float(i in chosen) for i in range(n)] for chosen in itertools.combinations(range(n), k)]
    return torch.tensor(rows, dtype=DOUBLE)


def costs(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def brute(predicted: Tensor, true: Tensor, points: Tensor) -> tuple[float, float]:
    """Regret and loss from their definitions, over all vertices."""
    best = points[(points @ true).argmin()]
    chosen = points[(points @ predicted).argmin()]
    loss = (points @ (true - 2 * predicted)).max() + (2 * predicted - true) @ best
    return float(true @ (chosen - best)), float(loss)


def test_both_are_those_of_brute_force_and_one_bounds_the_other() -> None:
    program, points = choice(6, 2), vertices(6, 2)
    for seed in range(100):
        true, predicted = costs(2, 6, seed=seed)
        expected_regret, expected_loss = brute(predicted, true, points)
        found = regret(predicted, true, program).item()
        loss = regret_loss(predicted, true, program).item()
        assert found == pytest.approx(expected_regret, abs=1e-9)
        assert loss == pytest.approx(expected_loss, abs=1e-9)
        assert 0 <= found <= loss + 1e-9


def test_the_right_costs_cost_nothing_and_neither_do_multiples_of_half_or_more() -> None:
    true, program = costs(20, 5, seed=0), choice(5)
    assert regret_loss(true, true, program).abs().item() < 1e-12
    assert regret_loss(3 * true, true, program).abs().item() < 1e-12  # 2 p - c still has the best point of c
    assert regret(0.1 * true, true, program).abs().max().item() < 1e-12
    assert regret_loss(0.1 * true, true, program).item() > 0.1  # it wants the prediction to be sure


def test_the_gradient_is_that_of_finite_differences_and_twice_the_difference_of_points() -> None:
    program, true = choice(5, 2), costs(3, 5, seed=1)
    predicted = costs(3, 5, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda p: regret_loss(p, true, program), predicted)
    (gradient,) = torch.autograd.grad(regret_loss(predicted, true, program, reduction="sum"), predicted)
    best = solve(program.replace(c=true)).primal
    mirrored = solve(program.replace(c=(2 * predicted - true).detach())).primal
    torch.testing.assert_close(gradient, 2 * (best - mirrored))


def test_it_is_convex_in_the_prediction() -> None:
    program, true = choice(6, 3), costs(50, 6, seed=3)
    a, b = costs(50, 6, seed=4), costs(50, 6, seed=5)
    ends = torch.stack([regret_loss(p, true, program, reduction="none") for p in (a, b)])
    middle = regret_loss((a + b) / 2, true, program, reduction="none")
    assert bool((middle <= ends.mean(0) + 1e-9).all())


def test_descent_on_free_predictions_ends_the_regret() -> None:
    program, true = choice(8, 3), costs(10, 8, seed=6)
    predicted = costs(10, 8, seed=7).requires_grad_()
    assert regret(predicted, true, program).mean() > 1
    optimizer = torch.optim.SGD([predicted], lr=0.5)
    for _ in range(100):
        optimizer.zero_grad()
        regret_loss(predicted, true, program, reduction="sum").backward()
        optimizer.step()
    assert regret(predicted, true, program).max() < 1e-9


def test_known_best_points_batches_reductions_and_solvers() -> None:
    program = choice(4)
    true, predicted = costs(2, 3, 4, seed=8), costs(2, 3, 4, seed=9)
    each = regret_loss(predicted, true, program, reduction="none")
    assert each.shape == regret(predicted, true, program).shape == (2, 3)
    torch.testing.assert_close(each[1, 2], regret_loss(predicted[1, 2], true[1, 2], program))
    best = solve(program.replace(c=true)).primal
    torch.testing.assert_close(regret_loss(predicted, true, program, best=best), each.mean())
    torch.testing.assert_close(regret(predicted, true, program, best=best), regret(predicted, true, program))
    assert RegretLoss(program, reduction="sum")(predicted, true).item() == pytest.approx(each.sum().item())
    assert RegretLoss(program, solver=HiGHS())(predicted, true, best).item() == pytest.approx(each.mean().item())
    one = regret_loss(predicted, true[0, 0], program, reduction="none")  # one true cost for all
    torch.testing.assert_close(one[0, 0], each[0, 0])
    assert "variables=4" in repr(RegretLoss(program))


def test_the_programs_own_costs_and_offset_do_not_count() -> None:
    true, predicted = costs(2, 4, seed=10)
    plain = choice(4)
    other = LinearProgram(costs(4, seed=3), A_eq=plain.A_eq, b_eq=plain.b_eq, upper=1, offset=5.0)
    assert regret_loss(predicted, true, other) == regret_loss(predicted, true, plain)
    assert regret(predicted, true, other) == regret(predicted, true, plain)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_predictions_of_a_network_may_have_another_dtype(dtype: torch.dtype) -> None:
    true, program = costs(5, 4, seed=11), choice(4)
    predicted = costs(5, 4, seed=12).to(dtype).requires_grad_()
    loss = regret_loss(predicted, true, program)
    loss.backward()
    assert loss.dtype == torch.float32
    assert predicted.grad is not None
    assert predicted.grad.dtype == dtype
    torch.testing.assert_close(loss.item(), regret_loss(predicted.detach().double(), true, program).item())


def test_a_batch_of_none_is_0() -> None:
    none = torch.empty(0, 4, dtype=DOUBLE, requires_grad=True)
    loss = regret_loss(none, none.detach(), choice(4))
    loss.backward()
    assert loss.item() == 0
    assert regret(none, none, choice(4)).shape == (0,)


def test_an_unbounded_program_says_with_which_costs() -> None:
    program = LinearProgram(torch.zeros(2, dtype=DOUBLE))  # z >= 0 alone
    true = torch.ones(2, dtype=DOUBLE)
    with pytest.raises(LPError) as caught:
        regret_loss(0.1 * true, true, program)
    assert any("2 * predicted - costs" in note for note in caught.value.__notes__)
    with pytest.raises(LPError) as caught:
        regret(-true, true, program)
    assert any("`predicted`" in note for note in caught.value.__notes__)


def test_bad_arguments_are_refused_by_name() -> None:
    program, good = choice(4), costs(2, 4, seed=0)
    for face in (regret, regret_loss):
        with pytest.raises(InputError, match=r"`predicted`.*\(\*batch, 4\).*\(2, 3\)"):
            face(good[:, :3], good, program)
        with pytest.raises(InputError, match="`costs`"):
            face(good, good[:, :3], program)
        with pytest.raises(InputError, match=r"`costs`.*nan"):
            face(good, good * math.nan, program)
        with pytest.raises(TypeError, match="`predicted`"):
            face(good.long(), good, program)
        with pytest.raises(TypeError, match=r"`predicted`.*list"):
            face(good.tolist(), good, program)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"`program`.*Tensor"):
            face(good, good, good)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=r"broadcast.*`costs` \(3, 4\)"):
            face(good, costs(3, 4, seed=0), program)
        with pytest.raises(InputError, match="`best`"):
            face(good, good, program, best=good[:, :2])
    with pytest.raises(InputError, match="`reduction`"):
        RegretLoss(program, reduction="median")
    with pytest.raises(TypeError, match="`program`"):
        RegretLoss(good)  # type: ignore[arg-type]
