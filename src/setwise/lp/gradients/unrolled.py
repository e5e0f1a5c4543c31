"""Unrolled Newton: differentiation through recorded steps on the exterior penalty, step function hard or logistic."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple, Self, cast

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.operator import kind, matvec, rmatvec
from setwise.lp.problem import FIELDS, LinearProgram
from setwise.lp.solution import Solution
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.exterior_newton import exact_step, minimize_penalty
from setwise.lp.standard_form import Point, StandardForm


@dataclass(frozen=True)
class UnrolledGradient:
    """Derivative through Newton's steps on Mangasarian's function, recorded one by one.

    By default the steps are taken until they converge. Newton's method forgets where it came from, so the steps on the
    way to the minimizer are not recorded, only those that end there.

    Args:
        penalty: Of the function; None for 1e-3, or less where the multipliers still change with it (Mangasarian's
            rule): only then is the derivative that of the optimum.
        steps: None to go on until converged, with a warning where that takes too long. A number records just so many
            steps from 0, converged or not, as the papers do.
        ridge: Added to the Hessian's diagonal at the minimizer; away from it, as much as the gradient's size.
        kappa: None for the step function itself, whose derivative is 0 almost everywhere; a number for a logistic of
            that slope in its place, which tends to the step as kappa grows.
        step_size: A constant, or None for the exact line search.
    """

    penalty: float | None = None
    steps: int | None = None
    ridge: float = 1e-10
    kappa: float | None = None
    step_size: float | None = None

    def __post_init__(self) -> None:
        for name in ("penalty", "kappa"):
            if getattr(self, name) is not None:
                _checks.in_range(name, getattr(self, name), 0.0, open_low=True)
        if self.steps is not None:
            _checks.is_count("steps", self.steps)
        _checks.in_range("ridge", self.ridge, 0.0)

    def minimizer(self, problem: LinearProgram, start: Tensor | None = None) -> Tensor:
        """The last iterate with its graph, by way of ``start`` or of 0.  # shape: (*batch, n)."""
        if not _checks.values_are_readable() and None in (self.penalty, self.steps):
            raise _checks.InputError(
                "Expected `gradient` to be UnrolledGradient(penalty, steps=...) with both numbers under torch.func and "
                "torch.compile, where the steps may not depend on values; or use gradient='smoothed', whose derivative "
                "is the same."
            )
        batch, n = problem.batch_shape, problem.variables
        zero = torch.zeros(*batch, n, dtype=torch.float64, device=problem.device)
        y = zero if start is None else start.detach().to(torch.float64).expand_as(zero)
        penalty = self.penalty
        if penalty is None or self.steps is None:
            with torch.no_grad():
                form = StandardForm.of(problem, tensors=True)
                point = Point(y.reshape(-1, n), torch.zeros_like(form.h), torch.zeros_like(form.e))
                penalty = penalty or _settled_penalty(form, point)
                if self.steps is None:
                    y = minimize_penalty(form, point, penalty, max_steps=tol.UNROLLED_STEPS).reshape(zero.shape)
        newton = _Recorded.of(problem, penalty, self)
        for _ in range(tol.UNROLLED_STEPS if self.steps is None else self.steps):
            before, y = y, newton.step(y)
            if self.steps is None and bool(_has_settled(y, before)):
                return y
        if self.steps is None:
            warnings.warn(
                f"The unrolled gradient did not converge in {tol.UNROLLED_STEPS} steps: its derivative is not that of "
                f"the minimizer. Scale the program's rows and columns to a like size, or use gradient='implicit'.",
                RuntimeWarning,
                stacklevel=2,
            )
        return y

    def primal(self, problem: LinearProgram, solution: Solution) -> Tensor:
        """The point with the derivative of the last recorded iterate."""
        y = self.minimizer(problem, None if self.steps is not None else solution.primal)
        return solution.primal + (y - y.detach()).to(solution.primal.dtype)


class _Recorded(NamedTuple):
    """Newton's steps on Mangasarian's function, with their graph."""

    c: Tensor  # shape: (*batch, n)
    rows: Tensor  # shape: (*batch, k, n)
    sides: Tensor  # shape: (*batch, k)
    mask: Tensor  # shape: (*batch, k)
    E: Tensor  # shape: (*batch, p, n)
    e: Tensor  # shape: (*batch, p)
    penalty: float
    settings: UnrolledGradient

    @classmethod
    def of(cls, problem: LinearProgram, penalty: float, settings: UnrolledGradient) -> Self:
        if not problem.is_dense:
            kinds = f"{kind(problem.A)} and {kind(problem.A_eq)}"
            raise TypeError(f"Expected `A` and `A_eq` to be dense for the unrolled gradient, but got {kinds}.")
        full = problem.expand()
        c, A, b, E, e, lower, upper = (cast("Tensor", getattr(full, name)).to(torch.float64) for name in FIELDS[:-1])
        eye = torch.eye(problem.variables, dtype=c.dtype, device=c.device).expand(*c.shape, -1)
        rows, sides = torch.cat([A, -eye, eye], -2), torch.cat([b, -lower, upper], -1)
        finite = torch.isfinite(sides)
        return cls(c, rows, torch.where(finite, sides, 0.0), finite.to(c.dtype), E, e, penalty, settings)

    def step(self, y: Tensor) -> Tensor:
        """The next iterate.  # shape: (*batch, n)."""
        settings, c = self.settings, self.c
        t = (matvec(self.rows, y) - self.sides) * self.mask
        hard = settings.kappa is None
        weight = (t > 0).to(c.dtype) if hard else torch.sigmoid(settings.kappa * t) * self.mask  # type: ignore[operator]
        r = matvec(self.E, y) - self.e
        gradient = self.penalty * c + rmatvec(self.rows, weight * t) + rmatvec(self.E, r)
        # Far from the minimizer few rows are active and the Hessian is singular: the ridge falls with the gradient.
        far = tol.UNROLLED_FAR_RIDGE * gradient.detach().abs().amax(-1)[..., None, None].clamp(max=1.0)
        eye = torch.eye(c.shape[-1], dtype=c.dtype, device=c.device)
        hessian = (self.rows.mT * weight.unsqueeze(-2)) @ self.rows + self.E.mT @ self.E + (settings.ridge + far) * eye
        d: Tensor = -torch.linalg.solve(hessian, gradient)
        q = matvec(self.rows, d) * self.mask
        return y + self._length(t, q, matvec(self.E, d), r, (c * d).sum(-1)).unsqueeze(-1) * d

    def _length(self, t: Tensor, q: Tensor, q_eq: Tensor, r: Tensor, slope: Tensor) -> Tensor:
        """The step's length, a constant.  # shape: (*batch,)."""
        if self.settings.step_size is not None:
            return torch.full_like(slope, self.settings.step_size).detach()
        with torch.no_grad():
            linear = self.penalty * slope + (r * q_eq).sum(-1)
            curvature = (q_eq * q_eq).sum(-1)
            flat_t, flat_q = t.reshape(-1, t.shape[-1]), q.reshape(-1, q.shape[-1])
            length = exact_step(flat_t, flat_q, linear.reshape(-1), curvature.reshape(-1), 1.0).reshape(slope.shape)
            # At the minimizer there is no length to find, and the full step carries the derivative.
            return torch.where(torch.isfinite(length) & (length > 0), length, 1.0)


def _settled_penalty(form: StandardForm, point: Point) -> float:
    """The largest of 1e-3, 1e-4, ... at which the active rows are those of the next one too."""
    before = None
    for penalty in tol.UNROLLED_PENALTIES:
        active = (form.G(minimize_penalty(form, point, penalty)) - form.h) * form.mask > 0
        if before is not None and torch.equal(active, before):
            return 10 * penalty
        before = active
    return tol.UNROLLED_PENALTIES[-1]


def _has_settled(y: Tensor, before: Tensor) -> Tensor:
    """Convergence test: a step changed nothing, to rounding."""
    change, size = (y.detach() - before.detach()).abs(), before.detach().abs()
    return (change.amax(-1) <= tol.UNROLLED_SETTLED * (1 + size.amax(-1))).all()
