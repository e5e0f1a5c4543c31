"""Regret and its convex bound: against vertices by brute force, by finite differences, in use, and misused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise import InputError
from setwise.lp import HiGHS, LinearProgram, LPError, RegretLoss, regret, regret_loss, solve
from support.shortest_paths import grid, shortest_paths

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


def cheapest(rows: Tensor) -> Tensor:
    """The oracle of choosing one."""
    return torch.nn.functional.one_hot(rows.argmin(-1), rows.shape[-1])


def test_an_oracle_gives_what_the_program_gives_to_the_last_digit() -> None:
    program = grid()
    n = program.variables
    for seed in range(5):
        true, predicted = costs(8, n, seed=seed).abs(), costs(8, n, seed=100 + seed).requires_grad_()
        best = torch.as_tensor(shortest_paths(true)).double()
        found = []
        for over in (program, shortest_paths):
            for known in (None, best):
                loss = RegretLoss(over, reduction="none")(predicted, true, known)
                found.append((loss, *torch.autograd.grad(loss.sum(), predicted), regret(predicted, true, over)))
        for other in found[1:]:
            for mine, theirs in zip(found[0], other, strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-14, atol=1e-13)


def test_an_oracle_for_choosing_is_brute_force() -> None:
    points = vertices(5, 1)
    for seed in range(20):
        true, predicted = costs(2, 5, seed=seed)
        expected_regret, expected_loss = brute(predicted, true, points)
        assert regret(predicted, true, cheapest).item() == pytest.approx(expected_regret, abs=1e-12)
        assert regret_loss(predicted, true, cheapest).item() == pytest.approx(expected_loss, abs=1e-12)


def test_how_an_oracle_is_called() -> None:
    calls: list[tuple[torch.Size, torch.dtype]] = []

    def oracle(rows: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        assert not rows.requires_grad
        assert rows.is_contiguous()
        calls.append((rows.shape, rows.dtype))
        answer = cheapest(rows)
        rows.zero_()  # its own business
        return answer

    true, predicted = costs(2, 3, 4, seed=0), costs(2, 3, 4, seed=1).requires_grad_()
    kept = true.clone(), predicted.detach().clone()
    each = regret_loss(predicted, true, oracle, reduction="none")
    assert calls == [((6, 4), DOUBLE)] * 2  # the true costs, and the mirrored ones
    torch.testing.assert_close(each, regret_loss(predicted, true, choice(4), reduction="none"))
    assert torch.equal(true, kept[0])
    assert torch.equal(predicted, kept[1])
    calls.clear()
    best = cheapest(true).double()
    torch.testing.assert_close(regret_loss(predicted, true, oracle, best=best), each.mean())
    regret(predicted[0, 0], true[0, 0], oracle, best=best[0, 0])
    assert calls == [((6, 4), DOUBLE), ((1, 4), DOUBLE)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_oracle_sees_the_wider_dtype_and_float32_at_least(dtype: torch.dtype) -> None:
    seen: list[torch.dtype] = []

    def oracle(rows: Tensor) -> Tensor:
        seen.append(rows.dtype)
        return cheapest(rows)

    true, predicted = costs(5, 4, seed=0), costs(5, 4, seed=1).to(dtype).requires_grad_()
    loss = regret_loss(predicted, true.to(dtype), oracle)
    loss.backward()
    assert predicted.grad is not None
    assert (loss.dtype, predicted.grad.dtype, set(seen)) == (torch.float32, dtype, {torch.float32})
    seen.clear()
    assert regret_loss(predicted, true, oracle).dtype == torch.float32
    assert set(seen) == {DOUBLE}


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.bool, np.float32, np.int8, np.bool_])
def test_an_oracle_may_answer_in_any_real_dtype(kind: Any) -> None:
    true, predicted = costs(5, 4, seed=0), costs(5, 4, seed=1)

    def oracle(rows: Tensor) -> Tensor | NDArray[Any]:
        answer = cheapest(rows)
        return answer.to(kind) if isinstance(kind, torch.dtype) else answer.numpy().astype(kind)

    torch.testing.assert_close(regret_loss(predicted, true, oracle), regret_loss(predicted, true, choice(4)))


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda rows: cheapest(rows)[0], InputError, r"`oracle\(costs\)`.*\(3, 4\), but got \(4,\).*torch.stack"),
        (lambda rows: cheapest(rows)[:2], InputError, r"`oracle\(costs\)`.*\(3, 4\), but got \(2, 4\)"),
        (lambda rows: cheapest(rows).tolist(), TypeError, r"`oracle\(costs\)`.*\(3, 4\), but got list.*np.stack"),
        (lambda _: None, TypeError, r"`oracle\(costs\)`.*NoneType"),
        (lambda rows: cheapest(rows).to(torch.complex64), TypeError, r"`oracle\(costs\)`.*torch.complex64"),
        (lambda rows: cheapest(rows).numpy().astype(object), TypeError, r"`oracle\(costs\)`.*dtype object"),
        (lambda rows: rows / 0, InputError, r"`oracle\(costs\)` to be finite"),
        (
            lambda rows: cheapest(-rows),
            InputError,
            r"return minimizers.*costs less.*takes `-costs`",
        ),
    ],
)
def test_an_oracle_that_answers_wrongly_is_refused(
    answer: Callable[[Tensor], Any], error: type[Exception], message: str
) -> None:
    true, predicted = costs(3, 4, seed=0), costs(3, 4, seed=2)
    for face in (regret, regret_loss):
        with pytest.raises(error, match=message):
            face(predicted, true, answer)


def test_a_wrong_best_point_beside_a_right_oracle_is_named() -> None:
    true, predicted = costs(3, 4, seed=0), costs(3, 4, seed=1)
    with pytest.raises(InputError, match=r"the best point for `costs` costs less.*is not feasible"):
        regret_loss(predicted, true, cheapest, best=-10 * (2 * predicted - true))


def test_a_solver_that_stops_at_a_gap_is_taken() -> None:
    def second(rows: Tensor) -> Tensor:
        return torch.tensor([[0.0, 1.0]]).expand_as(rows)

    first = torch.tensor([1.0, 0.0])
    near, far = torch.tensor([1.0, 1.0001]), torch.tensor([1.0, 1.1])
    assert regret_loss(near, near, second, best=first).item() == pytest.approx(-1e-4, rel=0.01)
    with pytest.raises(InputError, match=r"on 1 of 1 cost vectors `2 \* predicted - costs`, by up to 0\.1"):
        regret_loss(far, far, second, best=first)


def test_what_an_oracle_raises_comes_out_with_the_costs_name() -> None:
    def broken(rows: Tensor) -> Tensor:
        raise KeyError(len(rows))

    true = costs(3, 4, seed=0)
    with pytest.raises(KeyError) as caught:
        regret_loss(true, true, broken)
    assert any("`costs`" in note for note in caught.value.__notes__)


def test_an_oracle_is_not_asked_for_a_batch_of_none() -> None:
    def never(_: Tensor) -> Tensor:
        raise AssertionError

    none = torch.empty(0, 4, requires_grad=True)
    loss = RegretLoss(never)(none, none.detach())
    loss.backward()
    assert loss.item() == 0
    assert regret(none, none, never).shape == (0,)


def test_misuse_with_an_oracle_is_refused_by_name() -> None:
    good = costs(2, 4, seed=0)
    for face in (regret, regret_loss):
        with pytest.raises(InputError, match=r"`costs`.*\(\*batch, 4\), as many entries as `predicted`.*\(2, 3\)"):
            face(good, good[:, :3], cheapest)
        with pytest.raises(InputError, match="`solver` to be None where `program` is an oracle"):
            face(good, good, cheapest, solver=HiGHS())
        with pytest.raises(InputError, match="`predicted`"):
            face(torch.tensor(1.0), good, cheapest)
    with pytest.raises(InputError, match="`solver`"):
        RegretLoss(cheapest, solver=HiGHS())
    with pytest.raises(TypeError, match=r"`program` to be a LinearProgram or an oracle.*int"):
        RegretLoss(3)  # type: ignore[arg-type]
    assert "cheapest" in repr(RegretLoss(cheapest))
