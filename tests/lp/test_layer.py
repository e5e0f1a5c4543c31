"""LPLayer: the point of `solve`, its gradients, its settings, and what a warm start keeps."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise._checks import InputError
from setwise.lp import Interior, LinearProgram, LPError, Solution, Status, solve
from setwise.lp.layer import LPLayer


@dataclass
class Spy:
    """A solver that notes how it was called and leaves the work to another."""

    calls: list[dict[str, Any]] = field(default_factory=list)

    def run(
        self, problem: LinearProgram, *, max_steps: int | None, tolerance: float, start: Solution | None
    ) -> Solution:
        self.calls.append({"max_steps": max_steps, "tolerance": tolerance, "start": start})
        return Interior().run(problem, max_steps=max_steps, tolerance=tolerance, start=start)


def program(*batch: int, n: int = 3, m: int = 6, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """A feasible, bounded program with one optimum."""
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(*batch, m, n, generator=generator, dtype=torch.float64)
    point, slack, dual, price = (torch.rand(*batch, k, generator=generator).double() for k in (n, m, m, n))
    b = (A @ point.unsqueeze(-1)).squeeze(-1) + 0.1 + slack
    return price - (A.mT @ dual.unsqueeze(-1)).squeeze(-1), A, b


@pytest.mark.parametrize("batch", [(), (4,), (2, 3)])
def test_gives_the_point_of_solve(batch: tuple[int, ...]) -> None:
    c, A, b = program(*batch)
    layer = LPLayer()
    z = layer(c, A, b)
    assert z.shape == (*batch, 3)
    torch.testing.assert_close(z, solve(LinearProgram(c, A, b)).primal)
    assert layer.solution is not None
    assert layer.solution.primal is z
    assert bool(layer.solution.optimal.all())


def test_gradients_are_finite_differences() -> None:
    inputs = [x.requires_grad_() for x in program(2, n=2, m=3, seed=3)]
    assert torch.autograd.gradcheck(LPLayer(), inputs, eps=1e-7, atol=1e-6, fast_mode=True)
    single = [x.detach()[0].requires_grad_() for x in inputs]
    assert torch.autograd.gradcheck(LPLayer(), single, eps=1e-7, atol=1e-6)


def test_equalities_and_bounds_are_passed_on_and_differentiated() -> None:
    c = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    A_eq, b_eq = torch.ones(1, 3, dtype=torch.float64), torch.tensor([2.0], dtype=torch.float64)
    lower = torch.tensor([-1.0, 0.0, 0.25], dtype=torch.float64)
    upper = torch.tensor([1.0, math.inf, math.inf], dtype=torch.float64)
    fields = [x.requires_grad_() for x in (b_eq, lower, upper)]
    z = LPLayer()(c, A_eq=A_eq, b_eq=b_eq, lower=lower, upper=upper)
    torch.testing.assert_close(z, torch.tensor([1.0, 0.75, 0.25]).double())  # the cheapest up to its bound, then next
    z[1].backward()
    gradients = [x.grad for x in fields]
    torch.testing.assert_close(gradients, [torch.tensor(x).double() for x in ([1.0], [0, 0, -1.0], [-1.0, 0, 0])])


def test_learns_a_right_hand_side_inside_a_network() -> None:
    torch.manual_seed(0)
    c, A = -1 - torch.rand(3).double(), torch.rand(6, 3).double() + torch.eye(6, 3).double()
    network = torch.nn.Linear(2, 6, dtype=torch.float64)
    layer = LPLayer(warm_start=True)
    x, target = torch.randn(8, 2, dtype=torch.float64), torch.full((3,), 0.3, dtype=torch.float64)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    losses = []
    for _ in range(20):
        z = layer(c, A, torch.nn.functional.softplus(network(x)))  # resources > 0, so always feasible and bounded
        loss = (z - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_settings_reach_the_solver() -> None:
    spy = Spy()
    LPLayer(spy, tolerance=1e-7, max_steps=77)(*program())
    assert spy.calls == [{"max_steps": 77, "tolerance": 1e-7, "start": None}]


def test_gradient_is_a_setting() -> None:
    c, A, b = (x.requires_grad_() for x in program(seed=1))
    assert LPLayer()(c, A, b).requires_grad
    layer = LPLayer(gradient="value")
    assert not layer(c, A, b).requires_grad
    assert layer.solution is not None
    layer.solution.value.backward()
    torch.testing.assert_close(c.grad, layer.solution.primal)


def test_warm_start_passes_the_last_solution_where_shapes_agree() -> None:
    spy = Spy()
    layer = LPLayer(spy, warm_start=True, throw=False)  # only the start matters here
    layer(*program(2))
    first = layer.solution
    layer(*program(2, seed=1))
    layer(*program(3))  # another batch
    layer(*program(3, m=7))  # more rows
    layer(*program(3, m=7, n=4))  # more variables
    layer(*(x.float() for x in program(3, m=7, n=4)))
    equality = {"A_eq": torch.ones(1, 4), "b_eq": torch.ones(1)}
    layer(*(x.float() for x in program(3, m=7, n=4)), **equality)
    starts = [call["start"] for call in spy.calls]
    assert starts[1] is first
    assert [start is None for start in starts] == [True, False, True, True, True, True, True]
    assert first is not None


def test_cold_layers_never_start_from_the_last_solution() -> None:
    spy = Spy()
    layer = LPLayer(spy)
    layer(*program())
    layer(*program())
    assert [call["start"] for call in spy.calls] == [None, None]


def test_warm_and_cold_agree_over_a_drifting_program() -> None:
    warm, cold = LPLayer(warm_start=True), LPLayer()
    c, A, b = program(4, n=8, m=20, seed=2)
    for step in range(5):
        moved = b + 0.01 * step
        torch.testing.assert_close(warm(c, A, moved), cold(c, A, moved), rtol=0, atol=1e-8)


def test_programs_without_an_optimum_raise_or_report() -> None:
    c = torch.tensor([[1.0], [1.0], [-1.0]], dtype=torch.float64)
    A, b = torch.tensor([[1.0]]).double(), torch.tensor([[1.0], [-1.0], [1.0]], dtype=torch.float64)
    layer = LPLayer()
    layer(c[:1], A, b[:1])
    with pytest.raises(LPError, match="Element 1"):
        layer(c, A, b)
    assert layer.solution is None  # not that of an earlier call
    quiet = LPLayer(throw=False)
    z = quiet(c, A, b)
    assert quiet.solution is not None
    assert np.asarray(quiet.solution.status).tolist() == [Status.OPTIMAL, Status.INFEASIBLE, Status.OPTIMAL]
    torch.testing.assert_close(z[[0, 2]], torch.tensor([[0.0], [1.0]]).double())


def test_copies_start_afresh() -> None:
    c, A, b = (x.requires_grad_() for x in program())
    layer = LPLayer(tolerance=1e-8, warm_start=True)
    z = layer(c, A, b)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):  # noqa: S301 (our own bytes)
        assert again.solution is None
        assert again.tolerance == 1e-8
        torch.testing.assert_close(again(c, A, b), z)
    assert layer.solution is not None
    assert layer.state_dict() == {}


def test_shows_its_settings() -> None:
    text = repr(LPLayer(gradient="smoothed", max_steps=9, warm_start=True))
    assert "gradient='smoothed'" in text
    assert "max_steps=9" in text
    assert "warm_start=True" in text


@pytest.mark.parametrize(
    ("settings", "error"),
    [({"tolerance": 0.0}, InputError), ({"max_steps": 0}, InputError), ({"tolerance": "small"}, TypeError)],
)
def test_refuses_settings_that_make_no_sense(settings: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=f"`{next(iter(settings))}`"):
        LPLayer(**settings)
