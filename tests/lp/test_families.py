"""Programs as people write them, with an answer that is known: plain, without optimum, scaled, with large numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from setwise.lp import ExteriorNewton, HiGHS, Interior, Status, solve
from setwise.lp.solve import Solver
from support.families import FAMILIES, VARIANTS, draw, vary
from support.highs import highs_solve
from support.own_numbers import fault

_SEEDS = 6
_EXPECTED = {"infeasible": Status.INFEASIBLE, "unbounded": Status.UNBOUNDED}
_SOLVERS: dict[str, Solver | None] = {"default": None, "highs": HiGHS(), "exterior": ExteriorNewton()}


def examine(family: str, seed: int, solver: Solver | None, variants: tuple[str, ...]) -> tuple[list[str], Counter[str]]:
    """Faults of the answers for the variants of one program, and how many have no answer, by variant."""
    data = draw(family, seed)
    truth = highs_solve(data.program())
    assert truth.status == "optimal"
    faults, without = [], Counter[str]()
    for variant in variants:
        varied = vary(data, variant, truth.value, seed)
        solution = solve(varied.program(), solver, throw=False)
        wrong = fault(varied, solution, _EXPECTED.get(variant, Status.OPTIMAL), truth.value)
        if wrong:
            faults.append(f"{family} {seed} {variant}: {wrong}")
        without[variant] += solution.status is Status.ITERATION_LIMIT
    return faults, without


@pytest.mark.parametrize("family", FAMILIES)
def test_every_variant_is_answered_rightly(family: str) -> None:
    faults, without = examine(family, 0, None, tuple(VARIANTS))
    assert not faults
    assert not any(without.values())


@pytest.mark.parametrize("solver", ["highs", "exterior"])
@pytest.mark.parametrize("family", list(FAMILIES)[::3])
def test_no_solver_says_what_is_not_so(family: str, solver: str) -> None:
    faults, _ = examine(family, 1, _SOLVERS[solver], tuple(VARIANTS))
    assert not faults


@pytest.mark.parametrize("family", list(FAMILIES)[1::3])
def test_nor_does_our_own_without_highs(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    faults, without = examine(family, 2, Interior(), tuple(VARIANTS))
    assert not faults
    assert sum(without.values()) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("solver", _SOLVERS)
def test_twenty_families_six_draws_seven_variants(solver: str) -> None:
    faults: list[str] = []
    without: Counter[str] = Counter()
    for family in FAMILIES:
        for seed in range(_SEEDS):
            wrong, none = examine(family, seed, _SOLVERS[solver], tuple(VARIANTS))
            faults, without = faults + wrong, without + none
    assert not faults
    if solver != "exterior":  # a method of its own, without the others behind it
        moderate = sum(count for variant, count in without.items() if variant != "scaled_8")
        assert moderate <= 0.02 * len(FAMILIES) * _SEEDS * (len(VARIANTS) - 1)


@pytest.mark.slow
def test_two_thousand_draws_more() -> None:
    generator = np.random.default_rng(0)
    names = list(FAMILIES)
    faults: list[str] = []
    for _ in range(2000):
        family, seed = names[int(generator.integers(len(names)))], int(generator.integers(100, 1_000_000))
        variant = list(VARIANTS)[int(generator.integers(len(VARIANTS)))]
        faults += examine(family, seed, None, (variant,))[0]
    assert not faults
