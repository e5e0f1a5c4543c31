"""Dual ascent: it reaches the exact optimum, projects when it should, and says what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from setwise.lagrangian import DualAscent, SMeasure, exact_value
from setwise.lagrangian.dual_ascent.primal_dual import PrimalDual

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))]


def linear_scores(seed: int, n: int = 5000) -> tuple[Tensor, Tensor]:
    """Scores of a linear model on points that it does not separate."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(n, 10, generator=generator)
    direction = torch.randn(10, generator=generator)
    groups = (points @ direction + torch.randn(n, generator=generator) > 0.8).long()
    return 2 * (points @ direction) / direction.norm() + 0.5, groups


def variables(term: SMeasure) -> PrimalDual:
    assert isinstance(term.primal_dual, PrimalDual)
    return term.primal_dual


def ascended(variant: str, seed: int, passes: int, **options: Any) -> SMeasure:
    scores, groups = linear_scores(seed)
    term = SMeasure(len(scores), variant=variant)
    ascent = DualAscent(term, **options)
    term(scores, groups, torch.arange(len(scores)))
    for _ in range(passes):
        ascent.epoch_end()
    return term


@pytest.mark.parametrize("variant", ["partial", "full"])
@pytest.mark.parametrize("seed", SEEDS)
def test_reaches_the_optimum_on_fixed_scores(variant: str, seed: int) -> None:
    """Augmented, constant steps 0.1 and 1, the last iterate: within 1 % of V*, residuals below 1e-2."""
    gap = ascended(variant, seed, 300, inner=1).gap()
    assert gap.gap < 0.01 * gap.optimum
    assert gap.residual < 1e-2


@pytest.mark.parametrize("seed", SEEDS)
def test_exact_variant_needs_no_ascent(seed: int) -> None:
    scores, groups = linear_scores(seed)
    term = SMeasure(len(scores))
    value = float(term(scores.double(), groups, torch.arange(len(scores))))
    assert value == pytest.approx(term.optimum(), abs=1e-6)
    assert term.gap().gap < 1e-6


@pytest.mark.parametrize("variant", ["partial_touched", "full"])
def test_mini_batches_come_near(variant: str) -> None:
    scores, groups = linear_scores(0, 1000)
    term = SMeasure(1000, variant=variant)
    term.set_groups(groups)
    ascent = DualAscent(term)
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        for index in torch.randperm(1000, generator=generator).split(200):
            term(scores[index], groups[index], index)
            ascent.step()
        ascent.epoch_end()
    gap = term.gap()
    assert gap.gap < 0.01 * gap.optimum
    assert gap.residual < 2e-2


@pytest.mark.parametrize(
    ("variant", "schedule", "projections"),
    [
        ("partial", None, 2),
        ("partial_step", None, 10),
        ("partial_touched", None, 2),
        ("partial", 2, 6),
        ("full", None, 0),
    ],
)
def test_counts_full_projections(variant: str, schedule: int | None, projections: int) -> None:
    scores, groups = linear_scores(0, 64)
    term = SMeasure(64, variant=variant)
    ascent = DualAscent(term, schedule=schedule)
    for _ in range(2):
        for index in torch.arange(64).split(16):
            term(scores[index], groups[index], index)
            ascent.step()
        ascent.epoch_end()
    assert ascent.projections == projections


def test_one_tau_a_step() -> None:
    scores, groups = linear_scores(0, 64)
    term = SMeasure(64, variant="partial_one")
    ascent = DualAscent(term)
    index = torch.arange(16)
    term(scores[index], groups[index], index)
    found = variables(term)
    found.total_dual.values.fill_(-1.0)
    before = found.tau.clone()
    ascent.step()
    assert int((found.tau != before).sum()) == 1


def test_auto_takes_the_cheaper() -> None:
    scores, groups = linear_scores(0, 4096)
    term = SMeasure(4096, variant="partial")
    term(scores, groups, torch.arange(4096))
    ascent = DualAscent(term, schedule="auto")
    assert ascent.resolved_schedule(4) == "touched"
    assert ascent.resolved_schedule(2048) == "epoch"


def test_decay_and_growth_slow_the_multipliers_down() -> None:
    settings: dict[str, dict[str, Any]] = {"plain": {}, "decay": {"decay": "inverse"}, "growth": {"growth": 3.0}}
    found = {
        name: float(variables(ascended("partial", 0, 12, inner=1, **options)).total_dual().abs())
        for name, options in settings.items()
    }
    assert found["plain"] > found["decay"] > 0
    assert found["plain"] > found["growth"] > 0


def test_multipliers_wait_for_tau() -> None:
    assert float(variables(ascended("partial", 0, 5)).total_dual().abs()) == 0.0  # no step, so no tau has moved


def test_steps_of_the_multipliers_apart() -> None:
    found = variables(ascended("full", 0, 3, inner=1, dual_step=(0.5, 0.0, 0.5)))
    assert float(found.total_dual().abs()) == 0.0
    assert float(found.score_duals().abs().sum()) > 0


def test_exact_refreshes_at_the_end_of_an_epoch() -> None:
    scores, groups = linear_scores(0, 64)
    term = SMeasure(64)
    ascent = DualAscent(term)
    term(scores, groups, torch.arange(64))
    term.variable.fill_(7.0)
    ascent.step()
    assert float(term.variable) == 7.0
    ascent.epoch_end()
    assert float(term.variable) < 7.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"primal_step": -1.0}, "`primal_step`"),
        ({"dual_step": (1.0, 2.0)}, "one number or three"),
        ({"dual_step": -1.0}, "`dual_step`"),
        ({"schedule": "never"}, "`schedule` to be one of"),
        ({"schedule": 0}, "`schedule`"),
        ({"dual_every": 0}, "`dual_every`"),
        ({"decay": "fast"}, "`decay`"),
        ({"growth": 0.5}, "`growth`"),
        ({"inner": -1}, "`inner`"),
    ],
)
def test_refuses_settings(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        DualAscent(SMeasure(4, variant="partial"), **options)


def test_refuses_misuse() -> None:
    with pytest.raises(TypeError, match="`term` to be an SMeasure"):
        DualAscent(torch.nn.Linear(1, 1))  # type: ignore[arg-type]
    ascent = DualAscent(SMeasure(4, variant="partial"))
    with pytest.raises(ValueError, match="called, in training mode, before each"):
        ascent.step()
    with pytest.raises(ValueError, match="lacks"):
        ascent.load_state_dict({"epoch": 1})


@pytest.mark.slow
def test_multipliers_are_weights_of_an_equivalent_risk() -> None:
    """On a convex model the minimizer of the weighted risk is that of the measure itself.

    With (c/2) |w|^2 beside it, the risk sum_i -w_i q_i + sum_j w_j q_j of linear scores q = X w has its minimum at
    X' (+-weights) / c. Weights are unique where phi has no kink, hence the squared surrogate.
    """
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(60, 3, generator=generator, dtype=torch.float64)
    points[:, 2] = 1
    groups = (points[:, 0] + 0.5 * points[:, 1] + 0.6 * torch.randn(60, generator=generator) > 0.2).long()
    total, ridge, index = float(groups.sum()), 0.05, torch.arange(60)

    def objective(w: Any) -> float:
        at = torch.as_tensor(w, dtype=torch.float64)
        value = float(exact_value(points @ at, groups, total=total, surrogate="squared"))
        return min(value, 1e6) + ridge / 2 * float((at**2).sum())

    term = SMeasure(60, variant="partial", surrogate="squared").double()
    ascent = DualAscent(term, dual_step=0.3)
    w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.05)
    for _ in range(1200):
        loss = term(points @ w, groups, index) + ridge / 2 * (w**2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ascent.step()
        ascent.epoch_end()
    found = w.detach().numpy()
    settings = {"xatol": 1e-8, "fatol": 1e-11, "maxiter": 4000, "maxfev": 4000}
    best = minimize(objective, found, method="Nelder-Mead", options=settings)
    assert objective(found) < best.fun + 1e-3
    signs = 2.0 * groups - 1
    weighted = ((signs * term.example_weights()) @ points / ridge).numpy()
    np.testing.assert_allclose(weighted, best.x, rtol=0.02, atol=0.02)
