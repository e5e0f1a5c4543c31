"""Sketches: Newton's Hessian from fewer rows or fewer directions, and the papers' reduced programs.

A sketch stands in for the matrix of the inequalities in one of two ways.

*In the direction only* (``ExteriorNewton(linear_solver=sketch)``). The Hessian A'DA is replaced by (SDA)'(SDA), S with
k rows, D the active rows; gradient, line search, equalities and bounds are those of the whole program. So more steps
are taken, but the optimum stays the fixed point, and the solution is exact: the iterative Hessian sketch of Pilanci and
Wainwright (2016), with directions made conjugate to one another, which lets one S serve for all steps.

*In the program itself* (:func:`reduce_program`). The program is replaced by a smaller one, which is then solved. Its
solution is approximate, in a direction that is known: sums of rows are a relaxation (its value is too low, its point
may break the rows that were merged), a subspace is a restriction (its value is too high, its point is feasible).

- :class:`RowSampling`: k of the rows, uniformly.
- :class:`CountSketch`: every row is added, with a random sign, to one of k.
- ``SufficientReduction``: fewer directions in place of fewer rows, chosen from data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp import operator
from setwise.lp.problem import LinearProgram, check_program
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.matrix_free import Products
from setwise.lp.solvers.newton_systems import Prepared, Solve, Stateless, bounds_diagonal, by_cholesky, by_rows
from setwise.lp.solvers.sufficient_reduction import SufficientReduction
from setwise.lp.standard_form import StandardForm

__all__ = ["CountSketch", "RowSampling", "Sketch", "SufficientReduction", "lift", "reduce_program"]


@runtime_checkable
class Sketch(Protocol):
    """A system of Newton's system that can also reduce the program itself."""

    def prepare(self, problem: LinearProgram, column: Tensor) -> Prepared:
        """As :class:`~setwise.lp.solvers.newton_systems.NewtonSystem` says."""

    def reduced(self, problem: LinearProgram) -> LinearProgram:
        """The smaller program."""

    def lift(self, problem: LinearProgram, point: Tensor) -> Tensor:
        """A point of the smaller program as one of the whole.  # shape: (*batch, n)."""


def reduce_program(problem: LinearProgram, sketch: Sketch) -> LinearProgram:
    """The papers' plain reduced problem: an approximation, for comparison and for a first guess.

    Args:
        problem: The programs; what they require grad for keeps its graph.
        sketch: How they are reduced. A sketch of rows merges or leaves out rows of A (those with b = inf are left out)
            and keeps equalities and bounds: a relaxation. :class:`SufficientReduction` keeps every row and leaves fewer
            variables: a restriction; :func:`lift` takes its solution back.

    Returns:
        The reduced programs, with A written out.

    Examples:
        >>> c, A = -torch.ones(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
        >>> program = LinearProgram(c, A, torch.tensor([1.0, 3.0], dtype=torch.float64), upper=2.0)
        >>> from setwise.lp import solve
        >>> solve(program).value.item(), solve(reduce_program(program, CountSketch(1))).value.item()
        (-3.0, -4.0)
    """
    _check(problem, sketch)
    return sketch.reduced(problem)


def lift(problem: LinearProgram, sketch: Sketch, point: Tensor) -> Tensor:
    """A point of the reduced program as a point of the whole one, feasible or not.

    Args:
        problem: The whole program.
        sketch: What reduced it.
        point: A point of the reduced program.  # shape: (*batch, variables left)
    """
    _check(problem, sketch)
    _checks.is_floating("point", point)
    return sketch.lift(problem, point)


def _check(problem: LinearProgram, sketch: Sketch) -> None:
    check_program("problem", problem)
    if not isinstance(sketch, Sketch):
        raise TypeError(f"Expected `sketch` to be a sketch such as CountSketch(100), but got {sketch!r}.")


@dataclass(frozen=True)
class _RowSketch(Stateless, ABC):
    """Base of the two sketches of rows.

    Args:
        size: Rows that are left.
        seed: Of the random numbers; equal seeds give equal steps.
    """

    size: int
    seed: int = 0
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _checks.is_count("size", self.size)
        _checks.is_count("seed", self.seed, 0)

    def bind(self, form: StandardForm, ridge: float) -> Solve:
        """One order of the rows for all steps and all elements of the batch, so that elements do not disturb others."""
        count, m, p, n = form.sizes
        E = form.E
        if isinstance(E, Products):
            E = E.combined(torch.eye(p, dtype=torch.float64, device=form.c.device).expand(count, p, p))
        squares = form.A.squares(torch.ones_like(form.c)) if isinstance(form.A, Products) else (form.A**2).sum(-1)

        def solve(active: Tensor, right: Tensor) -> Tensor:
            rows = active[:, :m]
            place, weight = self._draw(rows)
            K = torch.cat([_merged(form.A, place, weight, min(self.size, m)), E], 1)
            diagonal = ridge + bounds_diagonal(form, active) + self._missing(rows, squares, n)
            # Woodbury's identity where the sketch has fewer rows than the program has variables.
            if K.shape[1] < right.shape[1]:
                return by_rows(K, diagonal, right)
            return by_cholesky(K.mT @ K, diagonal, right)

        return solve

    def _missing(self, rows: Tensor, squares: Tensor, n: int) -> Tensor:
        """Damping of the directions that the sketch cannot see: the mean curvature.

        A sketch of fewer rows than the active ones have rank leaves a null space, where a step would be boundless. With
        more rows, less is needed.  # shape: (batch, 1)
        """
        count = rows.sum(-1, keepdim=True)
        rank = count.clamp(min=1, max=n)
        mean = (rows * squares).sum(-1, keepdim=True) / rank
        return torch.where(count > self.size, tol.SKETCH_DAMPING * mean * (rank / self.size).clamp(max=1.0) ** 2, 0.0)

    def reduced(self, problem: LinearProgram) -> LinearProgram:
        """Sums of rows, for rows that count in every element of the batch; the weights are not negative."""
        # A sum with a row that is switched off would say something about that row.
        used = torch.isfinite(problem.b.detach()).reshape(-1, problem.inequalities).all(0)
        place, weight = self._draw(used.unsqueeze(0))
        size = min(self.size, max(int(used.sum()), 1))
        S = problem.c.new_zeros(size, problem.inequalities)
        S[place[0, used].clamp(max=size - 1), used.nonzero().squeeze(-1)] = weight[0, used].abs().to(S.dtype)
        b = (torch.where(used, problem.b, 0.0).unsqueeze(-2) @ S.mT).squeeze(-2)
        return problem.replace(A=operator.rows(S, problem.A), b=b)

    def lift(self, problem: LinearProgram, point: Tensor) -> Tensor:  # noqa: ARG002
        """The point itself: a sketch of rows leaves the variables alone."""
        return point

    @abstractmethod
    def _draw(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """To which of the k rows each row goes, and times what; 0 for rows that are not active.

        Returns:
            Place and weight, both of shape (batch, m).
        """

    def _rank(self, rows: Tensor) -> Tensor:
        """The active rows numbered in random order, the others after them.  # shape: (batch, m)."""
        generator = torch.Generator().manual_seed(self.seed)
        key = torch.rand(rows.shape[1], generator=generator, dtype=torch.float64).to(rows.device)
        return torch.where(rows, key, 2.0).argsort(dim=-1).argsort(dim=-1)


@dataclass(frozen=True)
class RowSampling(_RowSketch):
    """Keep ``size`` of the rows, chosen uniformly; in a direction, of the active ones, scaled to the sum of all.

    Where no more than ``size`` rows are active, nothing is lost and the step is Newton's own.

    Args:
        size: Rows that are kept.
        seed: Of the choice.

    Examples:
        >>> A = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> reduce_program(LinearProgram(-torch.ones(2), A, torch.ones(3)), RowSampling(2)).A.shape
        torch.Size([2, 2])
    """

    def _draw(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        rank = self._rank(rows)
        count = rows.sum(-1, keepdim=True)
        scale = (count / self.size).clamp(min=1.0).sqrt().to(torch.float64)
        kept = rows & (rank < self.size)
        return rank.clamp(max=self.size - 1), kept * scale


@dataclass(frozen=True)
class CountSketch(_RowSketch):
    """Add every row, with a random sign, to one of ``size`` rows.

    The rows are dealt out in random order, so every sum has as many terms as any other, to one. Where no more than
    ``size`` rows are active, nothing is lost and the step is Newton's own. In :func:`reduce_program` there are no
    signs: inequalities can be added, not subtracted.

    Args:
        size: Sums that are left.
        seed: Of the order and the signs.

    Examples:
        >>> A = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
        >>> reduce_program(LinearProgram(-torch.ones(2), A, torch.ones(3)), CountSketch(1)).A
        tensor([[2., 2.]])
    """

    def _draw(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        rank = self._rank(rows)
        # Signs independent of the order, which is drawn from the seed itself.
        generator = torch.Generator().manual_seed(self.seed + 1)
        signs = 2.0 * torch.randint(2, rows.shape[1:], generator=generator).to(rows.device) - 1
        return rank % self.size, rows * signs.to(torch.float64)


def _merged(A: Tensor | Products, place: Tensor, weight: Tensor, size: int) -> Tensor:
    """S A for the S that sends each row to its place.  # shape: (batch, k, n)."""
    if isinstance(A, Products):
        S = torch.zeros(place.shape[0], size, place.shape[1], dtype=weight.dtype, device=weight.device)
        return A.combined(S.scatter_(1, place.unsqueeze(1), weight.unsqueeze(1)))
    result = A.new_zeros(A.shape[0], size, A.shape[2])
    terms = A * weight.unsqueeze(-1)
    return result.scatter_add_(1, place.unsqueeze(-1).expand_as(terms), terms)
