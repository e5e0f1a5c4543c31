from __future__ import annotations

import pytest
import torch

from setwise import InputError
from setwise.lp import LinearProgram, solve
from setwise.lp.penalty import BurnIn, choose_penalty, perturb_cost
from support.programs import dense, many_optima


def test_below_the_chosen_penalty_the_multipliers_stay_the_same() -> None:
    problem = dense(0, 3)
    penalty = choose_penalty(problem)
    assert 0 < penalty <= 0.1
    assert choose_penalty(problem, first=penalty) <= penalty * 0.1 + 1e-15
    assert choose_penalty(problem, tries=2) == pytest.approx(0.1)


def test_a_perturbed_cost_has_one_optimum_near_the_old_value() -> None:
    problem = many_optima(0, 4)
    changed = perturb_cost(problem, scale=1e-5, seed=3)
    first, second = solve(changed), solve(changed)
    torch.testing.assert_close(first.primal, second.primal)
    torch.testing.assert_close(first.value, solve(problem).value, rtol=1e-3, atol=1e-3)
    assert not torch.equal(perturb_cost(problem, seed=1).c, perturb_cost(problem, seed=2).c)


def test_the_perturbed_cost_keeps_the_graph() -> None:
    c = torch.ones(3, dtype=torch.float64, requires_grad=True)
    solve(perturb_cost(LinearProgram(-c, upper=2.0))).value.backward()
    torch.testing.assert_close(c.grad, torch.full((3,), -2.0, dtype=torch.float64))


def test_burn_in_ends_after_calm_steps_in_a_row() -> None:
    burn_in = BurnIn(penalty=1e-3, growth=2.0, largest=5e-3, settled=0.1, patience=2)
    kinds = [burn_in.step(changed) for changed in (0.5, 0.05, 0.5, 0.05, 0.05, 0.9)]
    assert kinds == ["smoothed"] * 4 + ["implicit"] * 2
    assert burn_in.penalty == 5e-3


def test_refusals() -> None:
    problem = dense(0, 1)
    for options, name in (
        ({"first": 0.0}, "first"),
        ({"factor": 1.0}, "factor"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"tries": 1}, "tries"),
    ):
        with pytest.raises(InputError, match=f"`{name}`"):
            choose_penalty(problem, **options)
    with pytest.raises(InputError, match="`scale`"):
        perturb_cost(problem, scale=0.0)
    with pytest.raises(InputError, match="`changed`"):
        BurnIn().step(2.0)
    with pytest.raises(InputError, match="`growth`"):
        BurnIn(growth=0.5)
