"""Perturbed optimizers: closed forms, finite differences under common noise, programs beside oracles, state, misuse."""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from setwise import InputError
from setwise.lp import (
    FenchelYoungLoss,
    HiGHS,
    Interior,
    LinearProgram,
    LPError,
    Solution,
    fenchel_young_loss,
    perturbed_point,
    regret,
    solve,
)
from support.shortest_paths import grid, shortest_paths

DOUBLE = torch.float64


def noise(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=noise(seed), dtype=DOUBLE)


def choice(n: int) -> LinearProgram:
    """Choose one of n."""
    ones = torch.ones(1, n, dtype=DOUBLE)
    return LinearProgram(torch.zeros(n, dtype=DOUBLE), A_eq=ones, b_eq=ones[:, 0])


def cheapest(rows: Tensor) -> Tensor:
    """The same as an oracle."""
    return torch.nn.functional.one_hot(rows.argmin(-1), rows.shape[-1])


def normal(p: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
    """Density and distribution function of (p_2 - p_1) / (sigma sqrt 2), which decides between two."""
    t = (p[1] - p[0]) / (sigma * 2**0.5)
    return torch.exp(-(t**2) / 2) / (2 * math.pi) ** 0.5, torch.special.ndtr(t)


@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_choosing_one_of_two_is_the_closed_form(sigma: float) -> None:
    p = torch.tensor([0.4, 1.0], dtype=DOUBLE, requires_grad=True)
    best = torch.tensor([0.0, 1.0], dtype=DOUBLE)
    density, first = normal(p.detach(), sigma)
    smallest = p[0] * first + p[1] * (1 - first) - sigma * 2**0.5 * density  # E min, Clark's formula
    loss = fenchel_young_loss(p, best, cheapest, sigma=sigma, samples=200_000, generator=noise())
    assert loss.item() == pytest.approx((p @ best - smallest).item(), abs=0.01 * sigma)
    (gradient,) = torch.autograd.grad(loss, p)
    torch.testing.assert_close(gradient, best - torch.stack([first, 1 - first]), atol=0.005, rtol=0)
    point = perturbed_point(p, cheapest, sigma=sigma, samples=200_000, generator=noise())
    (slope,) = torch.autograd.grad(point[0], p)
    expected = density / (sigma * 2**0.5)
    torch.testing.assert_close(slope, torch.stack([-expected, expected]), atol=0.01 / sigma, rtol=0)


def test_the_gradient_is_that_of_finite_differences_under_common_noise() -> None:
    program, best = grid(), torch.as_tensor(shortest_paths(draw(3, 24, seed=0))).double()
    p = draw(3, 24, seed=1).requires_grad_()
    for over in (program, shortest_paths):
        assert torch.autograd.gradcheck(
            lambda q, over=over: fenchel_young_loss(q, best, over, sigma=0.5, samples=4, generator=noise(2)), p
        )


def test_a_program_and_an_oracle_give_the_same_to_the_last_digit() -> None:
    best, p = torch.as_tensor(shortest_paths(draw(5, 24, seed=0))).double(), draw(5, 24, seed=1).requires_grad_()
    found = []
    for over in (grid(), shortest_paths):
        loss = fenchel_young_loss(p, best, over, samples=7, generator=noise(), reduction="none")
        point = perturbed_point(p, over, samples=7, generator=noise())
        gradients = [torch.autograd.grad((value * value).sum(), p)[0] for value in (loss, point)]
        found.append((loss, point, *gradients))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-14, atol=1e-13)


def test_the_gradient_is_the_decision_less_the_mean_minimizer() -> None:
    best, p = cheapest(draw(6, 4, seed=0)).double(), draw(6, 4, seed=1).requires_grad_()
    loss = fenchel_young_loss(p, best, cheapest, reduction="sum", generator=noise())
    (gradient,) = torch.autograd.grad(loss, p)
    point = perturbed_point(p, cheapest, generator=noise()).detach()
    torch.testing.assert_close(gradient, best - point)
    torch.testing.assert_close(point.sum(-1), torch.ones(6, dtype=DOUBLE))


def test_the_derivative_of_the_mean_minimizer_is_the_covariance_with_the_noise() -> None:
    p, samples, sigma = draw(4, seed=0), 9, 0.7
    found = torch.autograd.functional.jacobian(
        lambda q: perturbed_point(q, cheapest, sigma=sigma, samples=samples, generator=noise(3)), p
    )
    z = torch.randn(samples, 4, generator=noise(3), dtype=DOUBLE)
    points = cheapest(p + sigma * z).double()
    expected = (points - points.mean(0)).T @ z / ((samples - 1) * sigma)
    torch.testing.assert_close(found, expected)


def test_it_is_never_negative_and_falls_to_0_as_the_prediction_becomes_sure() -> None:
    best = cheapest(draw(200, 5, seed=0)).double()
    loss = fenchel_young_loss(draw(200, 5, seed=1), best, cheapest, samples=1, reduction="none", generator=noise())
    assert bool((loss >= 0).all())
    sure = [fenchel_young_loss(-scale * best, best, cheapest, generator=noise()).item() for scale in (0.0, 2.0, 20.0)]
    assert sure[0] > sure[1] > sure[2] == 0


def test_the_minimum_is_where_the_smoothed_minimizer_is_the_target() -> None:
    target, p = torch.tensor([0.5, 0.3, 0.2], dtype=DOUBLE), torch.zeros(3, dtype=DOUBLE, requires_grad=True)
    loss = FenchelYoungLoss(choice(3), samples=500).eval()
    optimizer = torch.optim.SGD([p], lr=1.0)
    for _ in range(60):
        optimizer.zero_grad()
        loss(p, target).backward()
        optimizer.step()
    assert loss(p, target).item() > 0.5  # a mean of decisions keeps its constant
    torch.testing.assert_close(
        perturbed_point(p, cheapest, samples=500, generator=noise()).detach(), target, atol=0.01, rtol=0
    )
    fresh = perturbed_point(p, cheapest, samples=100_000, generator=noise(1))
    torch.testing.assert_close(fresh.detach(), target, atol=0.05, rtol=0)


def test_descent_on_free_predictions_ends_the_regret() -> None:
    true, program = draw(10, 8, seed=6), choice(8)
    best, p = solve(program.replace(c=true)).primal, draw(10, 8, seed=7).requires_grad_()
    assert regret(p, true, program).mean() > 1
    loss, optimizer = FenchelYoungLoss(program, reduction="sum"), torch.optim.SGD([p], lr=0.5)
    for _ in range(50):
        optimizer.zero_grad()
        loss(p, best).backward()
        optimizer.step()
    assert regret(p, true, program).max() < 1e-9


def test_all_samples_of_all_examples_are_one_call() -> None:
    shapes: list[torch.Size] = []

    def oracle(rows: Tensor) -> Tensor:
        shapes.append(rows.shape)
        return cheapest(rows)

    p = draw(2, 3, 4, seed=0)
    fenchel_young_loss(p, cheapest(p).double(), oracle, samples=5)
    perturbed_point(p, oracle, samples=5)
    assert shapes == [(30, 4), (30, 4)]


def test_reductions_broadcasting_and_programs_of_a_batch() -> None:
    p, best = draw(2, 3, 4, seed=0), cheapest(draw(2, 3, 4, seed=1)).double()
    each = fenchel_young_loss(p, best, cheapest, reduction="none", generator=noise())
    assert each.shape == (2, 3)
    for reduction, expected in (("mean", each.mean()), ("sum", each.sum())):
        torch.testing.assert_close(
            fenchel_young_loss(p, best, cheapest, reduction=reduction, generator=noise()), expected
        )
    one = fenchel_young_loss(p, best[0, 0], cheapest, reduction="none", generator=noise())
    torch.testing.assert_close(one[0, 0], each[0, 0])
    upper = torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]], dtype=DOUBLE)
    plain = choice(4)
    programs = LinearProgram(plain.c, A_eq=plain.A_eq, b_eq=plain.b_eq, upper=upper)
    last = torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=DOUBLE)
    assert fenchel_young_loss(p[0, 0], last, programs, reduction="none").shape == (2,)
    points = perturbed_point(p[0, 0], programs, samples=20, generator=noise())
    assert points.shape == (2, 4)
    assert points[0, 1] == points[1, 0] == 0


def test_the_programs_own_costs_and_offset_do_not_count() -> None:
    p, plain = draw(3, 4, seed=0), choice(4)
    other = LinearProgram(draw(3, 4, seed=3), A_eq=plain.A_eq, b_eq=plain.b_eq, offset=5.0)
    best = cheapest(p).double()
    found = [fenchel_young_loss(p, best, program, generator=noise()) for program in (plain, other)]
    assert found[0] == found[1]


def test_every_setting_matters() -> None:
    p, best = draw(3, 4, seed=0), cheapest(draw(3, 4, seed=1)).double()
    settings: list[dict[str, Any]] = [{}, {"sigma": 2.0}, {"samples": 11}, {"reduction": "sum"}, {"seed": 1}]
    found = [FenchelYoungLoss(cheapest, **setting)(p, best).item() for setting in settings]
    assert len(set(found)) == len(found)
    assert fenchel_young_loss(p, best, cheapest, generator=noise()).item() == found[0]
    points = [
        perturbed_point(p, cheapest, generator=noise(), **setting)
        for setting in ({}, {"sigma": 3.0}, {"samples": 11}, {"sigma": 2.9, "samples": 11})
    ]
    assert not any(torch.equal(a, b) for k, a in enumerate(points) for b in points[:k])
    calls = []

    class Spy:
        def run(
            self, problem: LinearProgram, *, max_steps: int | None, tolerance: float, start: Solution | None
        ) -> Solution:
            calls.append(problem.batch_shape)
            return Interior().run(problem, max_steps=max_steps, tolerance=tolerance, start=start)

    spied = FenchelYoungLoss(choice(4), solver=Spy())(p, best)
    perturbed_point(p, choice(4), solver=Spy())
    assert calls == [(10, 3), (10, 3)]
    assert spied.item() == pytest.approx(found[0])


def test_the_noise_is_the_same_again_and_torchs_own_by_default() -> None:
    p, best = draw(3, 4, seed=0), cheapest(draw(3, 4, seed=1)).double()
    first, second = FenchelYoungLoss(cheapest, seed=5), FenchelYoungLoss(cheapest, seed=5)
    values = [[loss(p, best).item() for _ in range(3)] for loss in (first, second)]
    assert values[0] == values[1]
    assert len(set(values[0])) == 3
    torch.manual_seed(7)
    mine = fenchel_young_loss(p, best, cheapest)
    torch.manual_seed(7)
    assert fenchel_young_loss(p, best, cheapest) == mine
    assert fenchel_young_loss(p, best, cheapest) != mine
    single = fenchel_young_loss(p.float(), best.float(), cheapest, generator=noise())
    assert single.item() == pytest.approx(fenchel_young_loss(p, best, cheapest, generator=noise()).item(), rel=1e-5)


def test_state_resumes_and_evaluation_leaves_it_alone() -> None:
    p, best = draw(3, 4, seed=0), cheapest(draw(3, 4, seed=1)).double()
    loss = FenchelYoungLoss(cheapest)
    first = loss(p, best).item()
    file = io.BytesIO()
    torch.save(loss.state_dict(), file)
    file.seek(0)
    copies = copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))  # noqa: S301 (our own)
    loss.eval()
    assert loss(p, best).item() == loss(p, best).item() == first  # the noise of the first call
    loss.train()
    following = loss(p, best).item()
    assert following != first
    resumed = FenchelYoungLoss(cheapest, seed=9)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for other in (resumed, *copies):
        assert other(p, best).item() == following


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("over", [choice(4), cheapest], ids=["program", "oracle"])
def test_predictions_of_a_network_may_have_another_dtype(over: Any, dtype: torch.dtype) -> None:
    p, best = draw(5, 4, seed=0).to(dtype).requires_grad_(), cheapest(draw(5, 4, seed=1)).double()
    loss = fenchel_young_loss(p, best, over, generator=noise())
    loss.backward()
    assert p.grad is not None
    assert (loss.dtype, p.grad.dtype) == (torch.float32, dtype)
    exact = fenchel_young_loss(p.detach().double(), best, over, generator=noise())
    assert loss.item() == pytest.approx(exact.item(), rel=1e-6)
    point = perturbed_point(p, over, generator=noise())
    assert point.dtype == torch.float32
    torch.testing.assert_close(point.double().detach(), perturbed_point(p.double(), over, generator=noise()).detach())


@pytest.mark.parametrize("over", [choice(4), cheapest], ids=["program", "oracle"])
def test_a_batch_of_none_is_0(over: Any) -> None:
    none = torch.empty(0, 4, dtype=DOUBLE, requires_grad=True)
    loss = FenchelYoungLoss(over)(none, none.detach())
    loss.backward()
    assert loss.item() == 0
    assert none.grad is not None
    assert perturbed_point(none, over).shape == (0, 4)


def test_an_unbounded_program_says_with_which_costs() -> None:
    with pytest.raises(LPError) as caught:
        fenchel_young_loss(torch.zeros(2), torch.zeros(2), LinearProgram(torch.zeros(2)))
    assert any("predicted + sigma * noise" in note for note in caught.value.__notes__)


def test_decisions_that_are_not_feasible_and_oracles_that_do_not_minimize_are_refused() -> None:
    p, best = draw(5, 4, seed=0), cheapest(draw(5, 4, seed=1)).double()
    with pytest.raises(InputError, match="`best` to be feasible for `program`, but it costs less than the optimum"):
        fenchel_young_loss(p, -best, choice(4))
    with pytest.raises(InputError, match=r"`oracle\(costs\)` to return minimizers, but `best` costs less.*`-costs`"):
        fenchel_young_loss(p, best, lambda rows: cheapest(-rows))
    with pytest.raises(InputError, match=r"`oracle\(costs\)` to return minimizers, but the mean of its answers"):
        perturbed_point(p, lambda rows: cheapest(-rows))


def test_bad_arguments_are_refused_by_name() -> None:
    good = draw(2, 4, seed=0)
    best = cheapest(good).double()
    faces: list[Callable[..., Any]] = [
        lambda **options: fenchel_young_loss(good, best, cheapest, **options),
        lambda **options: perturbed_point(good, cheapest, **options),
    ]
    for face in faces:
        for sigma in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(InputError, match="`sigma`"):
                face(sigma=sigma)
        with pytest.raises(InputError, match="`samples`"):
            face(samples=0)
        with pytest.raises(TypeError, match="`samples`"):
            face(samples=2.5)
        with pytest.raises(TypeError, match=r"`generator`.*int"):
            face(generator=3)
        with pytest.raises(InputError, match="`solver`"):
            face(solver=HiGHS())
    with pytest.raises(InputError, match="`samples` to be at least 2"):
        perturbed_point(good, cheapest, samples=1)
    with pytest.raises(InputError, match="`reduction`"):
        fenchel_young_loss(good, best, cheapest, reduction="median")
    with pytest.raises(InputError, match=r"`best`.*\(2, 3\)"):
        fenchel_young_loss(good, best[:, :3], cheapest)
    with pytest.raises(TypeError, match=r"`best`.*int64"):
        fenchel_young_loss(good, best.long(), cheapest)
    with pytest.raises(InputError, match=r"`predicted`.*nan"):
        perturbed_point(good * math.nan, cheapest)
    for options in ({"sigma": 0.0}, {"samples": 0}, {"reduction": "all"}, {"seed": -1}, {"solver": HiGHS()}):
        with pytest.raises(InputError, match=f"`{next(iter(options))}`"):
            FenchelYoungLoss(cheapest, **options)
    with pytest.raises(TypeError, match="`program` to be a LinearProgram or an oracle"):
        FenchelYoungLoss(good)  # type: ignore[arg-type]


def test_the_settings_are_shown() -> None:
    shown = repr(FenchelYoungLoss(choice(4), sigma=0.5, samples=3, seed=8))
    assert all(part in shown for part in ("variables=4", "sigma=0.5", "samples=3", "'mean'", "seed=8", "solver=None"))
