"""Penalty selection by Mangasarian's rule, burn-in, and cost perturbation that makes an optimum unique.

These matter for the smoothed and the unrolled gradient, which differentiate the minimizer y(penalty) itself; the
solvers reach the exact optimum at any penalty.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from setwise import _checks
from setwise.lp.presolve.equilibration import equilibrate
from setwise.lp.problem import LinearProgram
from setwise.lp.solvers.exterior_newton import minimize_penalty
from setwise.lp.standard_form import Point, StandardForm, largest


def choose_penalty(
    problem: LinearProgram, *, first: float = 1.0, factor: float = 0.1, tolerance: float = 1e-6, tries: int = 12
) -> float:
    """Mangasarian's rule: the largest penalty of a falling sequence at which the dual solution has settled.

    For every penalty below a finite threshold, relu(G y - h) / penalty is the dual solution of least norm. So the first
    penalty that gives the same multipliers as the one before it is small enough.

    Args:
        problem: The programs; one penalty serves the whole batch.
        first: Where the sequence starts.
        factor: By how much it falls from one to the next.
        tolerance: Relative difference of the multipliers that counts as the same.
        tries: Length of the sequence.

    Returns:
        The penalty; the last of the sequence if the multipliers never settle (as without a feasible point).

    Examples:
        >>> c, A, b = torch.tensor([-1.0, -2.0]), torch.tensor([[1.0, 1.0], [1.0, 3.0]]), torch.tensor([4.0, 6.0])
        >>> round(choose_penalty(LinearProgram(c, A, b)), 6)
        0.1
    """
    _checks.in_range("first", first, 0.0, open_low=True)
    _checks.in_range("factor", factor, 0.0, 1.0, open_low=True, open_high=True)
    _checks.in_range("tolerance", tolerance, 0.0, open_low=True)
    _checks.is_count("tries", tries, 2)
    with torch.no_grad():
        form, _ = equilibrate(StandardForm.of(problem, tensors=True))
        point = form.zero()
        penalty, before = first, None
        for _ in range(tries):
            y = minimize_penalty(form, point, penalty)
            multipliers = torch.cat([((form.G(y) - form.h) * form.mask).relu(), form.Ex(y) - form.e], -1) / penalty
            if before is not None:
                change = largest(multipliers - before) / (1 + largest(multipliers))
                if bool((change <= tolerance).all()):
                    return penalty
            point, before, penalty = Point(y, point.z, point.y), multipliers, penalty * factor
    return penalty / factor


def perturb_cost(problem: LinearProgram, *, scale: float = 1e-6, seed: int = 0) -> LinearProgram:
    """The same program with a small random change of the cost, which makes the optimum unique with probability 1.

    Args:
        problem: The programs; the new cost keeps the graph of the old one.
        scale: Size of the change relative to the largest cost of each element.
        seed: Of the change.

    Examples:
        >>> problem = LinearProgram(torch.ones(3))
        >>> changed = perturb_cost(problem, scale=0.1)
        >>> bool((changed.c != problem.c).all()), bool(((changed.c - problem.c).abs() <= 0.1).all())
        (True, True)
    """
    _checks.in_range("scale", scale, 0.0, open_low=True)
    c = problem.c
    # Drawn on the CPU, so that every device gets the same program.
    noise = 2 * torch.rand(c.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1
    size = c.detach().abs().amax(-1, keepdim=True).clamp(min=torch.finfo(c.dtype).tiny)
    changed = c + scale * size * noise.to(device=c.device, dtype=c.dtype)
    return problem.replace(c=changed)


@dataclass
class BurnIn:
    """The papers' burn-in: a penalty that grows a little with every training step until the active rows settle.

    While it lasts, the gradient is unrolled or smoothed at the current penalty; afterwards it is implicit. Ask
    :attr:`gradient` before each solve and tell :meth:`step` the share of active rows that changed since the last one.

    Args:
        penalty: The first penalty.
        growth: Factor of each step.
        largest: Where it stops growing.
        settled: Share of changed rows below which a step counts as calm.
        patience: Calm steps in a row that end the burn-in.

    Examples:
        >>> burn_in = BurnIn(penalty=1e-3, growth=1.1, patience=2)
        >>> burn_in.step(0.3), burn_in.step(0.0), burn_in.step(0.0)
        ('smoothed', 'smoothed', 'implicit')
    """

    penalty: float = 1e-3
    growth: float = 1.01
    largest: float = 0.1
    settled: float = 0.01
    patience: int = 10
    calm: int = 0

    def __post_init__(self) -> None:
        _checks.in_range("penalty", self.penalty, 0.0, open_low=True)
        _checks.in_range("growth", self.growth, 1.0)
        _checks.in_range("settled", self.settled, 0.0, 1.0)
        _checks.is_count("patience", self.patience)

    @property
    def gradient(self) -> str:
        """The kind of gradient for the next solve."""
        return "implicit" if self.calm >= self.patience else "smoothed"

    def step(self, changed: float) -> str:
        """After a training step: the share of active rows that changed; gives the kind of gradient for the next."""
        _checks.in_range("changed", changed, 0.0, 1.0)
        if self.gradient == "smoothed":
            self.calm = self.calm + 1 if changed <= self.settled else 0
            self.penalty = min(self.penalty * self.growth, self.largest)
        return self.gradient
