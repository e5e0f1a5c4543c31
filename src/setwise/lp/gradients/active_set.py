"""Active set of a solution, and linear solves with its rows: the Jacobian behind the implicit gradient.

Points and multipliers are attached to the graph by one exact Newton correction, see :mod:`setwise.lp.gradients`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from setwise.lp.operator import matvec, rmatvec
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution
from setwise.lp.solvers import tolerances as tol


def constraints(problem: LinearProgram, x: Tensor) -> Duals:
    """A x - b, A_eq x - b_eq, lower - x, x - upper, 0 where a side is infinite; differentiable in the problem."""

    def less(value: Tensor, side: Tensor) -> Tensor:
        finite = torch.isfinite(side)
        return torch.where(finite, value - torch.where(finite, side, 0.0), 0.0)

    return Duals(
        less(matvec(problem.A, x), problem.b),
        matvec(problem.A_eq, x) - problem.b_eq,
        -less(x, problem.lower),
        less(x, problem.upper),
    )


class ActiveSet(ABC):
    """The active rows of a solution and what solves with them; both attached points come from here."""

    def __init__(self, problem: LinearProgram, solution: Solution) -> None:
        self.problem, self.solution = problem, solution

    @staticmethod
    def of(problem: LinearProgram, solution: Solution) -> ActiveSet:
        """The active set of a solution, dense or by products as the matrices are."""
        with torch.no_grad():
            return (_Dense if problem.is_dense else _MatrixFree)(problem, solution)

    def attached_primal(self) -> Tensor:
        """X - K^+ (K x - h)."""
        residual = constraints(self.problem, self.solution.primal)
        return corrected(self.solution.primal, lambda: self.by_rows(residual))

    def attached_duals(self) -> Duals:
        """V - (K')^+ (K'v + c) on the active rows."""
        v, w, low, up = self.solution.dual
        stationarity = self.problem.c + rmatvec(self.problem.A, v) + rmatvec(self.problem.A_eq, w) - low + up
        change = self.by_columns(stationarity)
        return Duals(
            *(
                part - (step - step.detach()).to(part.dtype)
                for part, step in zip(self.solution.dual, change, strict=True)
            )
        )

    @abstractmethod
    def by_rows(self, residual: Duals) -> Tensor:
        """K^+ r for the residuals r of all constraints; inactive ones are passed over.  # shape: (*batch, n)."""

    @abstractmethod
    def by_columns(self, g: Tensor) -> Duals:
        """(K')^+ g, written into all constraints; 0 for inactive ones."""


class _Dense(ActiveSet):
    """Temporary."""

    def __init__(self, problem: LinearProgram, solution: Solution) -> None:
        super().__init__(problem, solution)
        batch, n = problem.batch_shape, problem.variables
        res = constraints(problem, solution.primal.detach())
        v, w, lo, up = solution.dual
        eye = torch.eye(n, dtype=torch.float64)
        A = problem.A.detach().double().expand(*batch, -1, n)
        E = problem.A_eq.detach().double().expand(*batch, -1, n)
        K = torch.cat([A, E, -eye.expand(*batch, n, n), eye.expand(*batch, n, n)], -2)
        slack = torch.cat([-res.inequality, 0 * res.equality.expand(*batch, -1), -res.lower, -res.upper], -1)
        mult = torch.cat([v, w.abs() + 1, lo, up], -1)
        on = mult > slack
        fin = torch.cat(
            [
                torch.isfinite(problem.b).expand(*batch, -1),
                torch.ones_like(w, dtype=torch.bool).expand(*batch, -1),
                torch.isfinite(problem.lower).expand(*batch, -1),
                torch.isfinite(problem.upper).expand(*batch, -1),
            ],
            -1,
        )
        on = on & fin
        Ka = K * on.unsqueeze(-1)
        self.R = torch.linalg.pinv(Ka, rtol=1e-10) * solution.optimal[..., None, None]
        self.sizes = [A.shape[-2], E.shape[-2], n, n]

    def by_rows(self, residual: Duals) -> Tensor:
        r = torch.cat([p.double().expand(*self.problem.batch_shape, -1) for p in residual], -1)
        return (self.R @ r.unsqueeze(-1)).squeeze(-1)

    def by_columns(self, g: Tensor) -> Duals:
        y = (self.R.mT @ g.double().unsqueeze(-1)).squeeze(-1)
        return Duals(*y.split(self.sizes, -1))


class _MatrixFree(ActiveSet):
    """Conjugate gradients on the normal equations of the active rows, for CSR matrices and operators."""

    def __init__(self, problem: LinearProgram, solution: Solution) -> None:
        super().__init__(problem, solution)
        self.A, self.A_eq = problem.A, problem.A_eq
        residual = constraints(problem, solution.primal)
        # The active constraints: multiplier larger than slack; equalities always.
        self.on = Duals(
            *(
                ((dual > -r) if name != "equality" else torch.ones_like(r, dtype=torch.bool)).to(r.dtype)
                for name, dual, r in zip(Duals._fields, solution.dual, residual, strict=True)
            )
        )

    def _rows(self, x: Tensor) -> Duals:
        return Duals(
            matvec(self.A, x) * self.on.inequality,
            matvec(self.A_eq, x),
            -x * self.on.lower,
            x * self.on.upper,
        )

    def _columns(self, r: Duals) -> Tensor:
        rows = rmatvec(self.A, r.inequality * self.on.inequality) + rmatvec(self.A_eq, r.equality)
        return rows - r.lower * self.on.lower + r.upper * self.on.upper

    def by_rows(self, residual: Duals) -> Tensor:
        return _solved(self._columns(residual), self)

    def by_columns(self, g: Tensor) -> Duals:
        return self._rows(_solved(g, self))

    def inverse(self, g: Tensor, steps: int = tol.CG_STEPS, tolerance: float = tol.CG_TOLERANCE) -> Tensor:
        """(K'K)^+ g for g in its range."""
        x = torch.zeros_like(g)
        r = g.clone()
        d = r.clone()
        rho = (r * r).sum(-1, keepdim=True)
        stop = tolerance**2 * rho
        for _ in range(steps):
            if bool((rho <= stop).all()):
                break
            q = self._columns(self._rows(d))
            a = rho / (d * q).sum(-1, keepdim=True).clamp(min=tol.TINY)
            x, r = x + a * d, r - a * q
            after = (r * r).sum(-1, keepdim=True)
            d, rho = r + after / rho.clamp(min=tol.TINY) * d, after
        return x


class _ConjugateGradients(torch.autograd.Function):
    """A constant symmetric linear map, its own adjoint."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, solver: _MatrixFree) -> Tensor:
        ctx.solver = solver
        return solver.inverse(g)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _solved(grad, ctx.solver), None


def _solved(g: Tensor, solver: _MatrixFree) -> Tensor:
    function: type[torch.autograd.Function] = _ConjugateGradients
    return cast("Tensor", function.apply(g, solver))


def corrected(point: Tensor, step: Callable[[], Tensor]) -> Tensor:
    """The point, with the graph of minus a step that is zero to rounding."""
    change = step().reshape(point.shape)
    return point - (change - change.detach()).to(point.dtype)


def pseudo_inverse(matrix: Tensor) -> Tensor:
    """Pseudo-inverse of symmetric positive semi-definite matrices.  # shape: (batch, n, n)."""
    inverse: Tensor = torch.linalg.pinv(matrix, hermitian=True, rtol=tol.ACTIVE_RANK)
    return inverse
