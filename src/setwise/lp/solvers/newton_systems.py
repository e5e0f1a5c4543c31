"""Linear solvers of Newton's system (G'DG + E'E + ridge I) d = r, D the active rows.

A system is a settings object; prepared for a problem, its ``bind(form, ridge)`` gives a function of the active rows and
the right-hand side. All of these give the same d:

- :class:`Dense`: the n x n matrix, batched Cholesky.
- :class:`Active`: with B the diagonal part (ridge and active bounds) and K the other active rows above E, Woodbury's
  d = B^-1 (r - K'(I + K B^-1 K')^-1 K B^-1 r), a system of as many rows as K has.
- :class:`Sparse`: the sparse product and SuperLU, element by element on the CPU. Rows with so many entries that they
  would fill the product stay rows, in the bordered system [[B + K'K, F'], [F, -I]].
- :class:`ConjugateGradients`: products only, preconditioned by the diagonal, on any device.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, TypeAlias, cast, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.operator import is_csr, kind
from setwise.lp.problem import LinearProgram
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.matrix_free import Products
from setwise.lp.standard_form import StandardForm, dot, largest

Solve: TypeAlias = Callable[[Tensor, Tensor], Tensor]  # active rows (batch, k) and right (batch, n) to d (batch, n)


class Prepared(Protocol):
    """A system at work on a batch of programs."""

    exact: ClassVar[bool]  # whether a step that keeps the active rows has reached the minimizer

    def bind(self, form: StandardForm, ridge: float) -> Solve:
        """The solve function for the systems of the (scaled) programs."""

    def select(self, index: Tensor) -> Prepared:
        """The prepared solver of some elements of the batch."""


@runtime_checkable
class NewtonSystem(Protocol):
    """Settings of a way to solve Newton's system."""

    def prepare(self, problem: LinearProgram, column: Tensor) -> Prepared:
        """The system for a problem whose variables are scaled, x = z / column.  # shape: (batch, n)."""


class Stateless:
    """Base of linear solvers that prepare nothing for a problem."""

    exact: ClassVar[bool] = True

    def prepare(self, problem: LinearProgram, column: Tensor) -> Self:  # noqa: ARG002
        """Itself."""
        return self

    def select(self, index: Tensor) -> Self:  # noqa: ARG002
        """Itself."""
        return self


@dataclass(frozen=True)
class Dense(Stateless):
    """The n x n matrix, batched Cholesky with refinement."""

    def bind(self, form: StandardForm, ridge: float) -> Solve:
        """With E'E formed once."""
        coupling = form.E.mT @ form.E if form.E.shape[1] else None

        def solve(active: Tensor, right: Tensor) -> Tensor:
            hessian = form.normal(active.to(right.dtype))
            if coupling is not None:
                hessian = hessian + coupling
            return by_cholesky(hessian, ridge, right)

        return solve


@dataclass(frozen=True)
class Active(Stateless):
    """Woodbury's system over the active rows; right when they are fewer than the variables."""

    def bind(self, form: StandardForm, ridge: float) -> Solve:
        """Rows are gathered anew for every step."""

        def solve(active: Tensor, right: Tensor) -> Tensor:
            rows = active[:, : form.A.shape[1]]
            count = int(rows.sum(-1).max()) if rows.numel() else 0
            chosen = rows.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :count]
            kept = rows.gather(-1, chosen).unsqueeze(-1)
            K = torch.where(kept, form.A.gather(1, chosen.unsqueeze(-1).expand(-1, -1, right.shape[1])), 0.0)
            return by_rows(torch.cat([K, form.E], 1), ridge + bounds_diagonal(form, active), right)

        return solve


@dataclass(frozen=True)
class Sparse(Stateless):
    """Sparse product and sparse factorization by scipy (extra ``lp``), element by element on the CPU."""

    def bind(self, form: StandardForm, ridge: float) -> Solve:
        """Rows that would fill the product are set aside once."""
        sparse = _checks.extra("scipy.sparse", "lp")
        elements = [_SparseElement(sparse, A, E) for A, E in zip(_csr(form.A), _csr(form.E), strict=True)]
        m = form.A.shape[1]

        def solve(active: Tensor, right: Tensor) -> Tensor:
            diagonal = (ridge + bounds_diagonal(form, active)).numpy()
            rows, sides = active[:, :m].numpy(), right.numpy()
            solved = [
                element.solve(rows[k], diagonal[k], sides[k]) if sides[k].any() else sides[k]
                for k, element in enumerate(elements)
            ]
            return torch.from_numpy(np.stack(solved)) if solved else right

        return solve


class _SparseElement:
    """The matrices of one program of the batch."""

    def __init__(self, sparse: Any, A: Any, E: Any) -> None:
        self.sparse, self.A = sparse, A
        limit = tol.FULL_ROW * np.sqrt(A.shape[1])
        # K'K of a row with r entries has r^2 of them.
        self.full = np.diff(A.indptr) > limit  # shape: (m,)
        full = np.diff(E.indptr) > limit
        self.E_full = E[full]
        self.coupling = E[~full].T @ E[~full]

    def solve(self, rows: Any, diagonal: Any, right: Any) -> Any:
        """One system, refined by its own residual.  # shape: (n,)."""
        from scipy.sparse.linalg import splu

        n = len(right)
        K = self.A[rows & ~self.full]
        F = self.sparse.vstack([self.A[rows & self.full], self.E_full])
        matrix = K.T @ K + self.coupling
        matrix = matrix + self.sparse.diags_array(diagonal + tol.CHOLESKY_RIDGE * matrix.diagonal().max(initial=0.0))
        if F.shape[0]:
            matrix = self.sparse.block_array([[matrix, F.T], [F, -self.sparse.eye_array(F.shape[0])]])
        matrix = matrix.tocsc()
        # The matrix is symmetric and quasi-definite, so that no pivoting for stability is needed.
        factor = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        side = np.concatenate([right, np.zeros(F.shape[0])])
        d = factor.solve(side)
        return (d + factor.solve(side - matrix @ d))[:n]


@dataclass(frozen=True)
class ConjugateGradients(Stateless):
    """Conjugate gradients with a diagonal preconditioner; only products with the matrices, any device.

    Args:
        accuracy: Relative residual at which a system counts as solved, once the active rows have settled.
        loose: The same while they still change.
        max_steps: Most products with G'DG for one system.
    """

    accuracy: float = 1e-6
    loose: float = 1e-2
    max_steps: int = 2000
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("accuracy", "loose"):
            _checks.in_range(name, getattr(self, name), 0.0, 1.0, open_low=True, open_high=True)
        _checks.is_count("max_steps", self.max_steps)

    def bind(self, form: StandardForm, ridge: float) -> Solve:
        """With the equalities' part of the diagonal formed once."""
        squares = _column_squares(form.A)
        coupling = _column_squares(form.E)(torch.ones_like(form.e))
        m = form.A.shape[1]
        last = torch.zeros_like(form.h, dtype=torch.bool)

        def solve(active: Tensor, right: Tensor) -> Tensor:
            nonlocal last
            # While the active rows change, the system changes too, and an accurate solution is wasted.
            settled, last = (active == last).all(-1), active
            accuracy = torch.where(settled, self.accuracy, self.loose)
            on = active.to(right.dtype)
            diagonal = squares(on[:, :m]) + coupling + bounds_diagonal(form, active) + ridge

            def product(v: Tensor) -> Tensor:
                total: Tensor = form.Gt(on * form.G(v)) + form.Ety(form.Ex(v)) + ridge * v
                return total

            return self._solve(product, diagonal, right, accuracy)

        return solve

    def _solve(self, product: Callable[[Tensor], Tensor], diagonal: Tensor, right: Tensor, accuracy: Tensor) -> Tensor:
        x, r = torch.zeros_like(right), right
        s = r / diagonal
        d, rho = s, dot(r, s)
        stop = accuracy**2 * dot(r, r)
        for _ in range(self.max_steps):
            running = dot(r, r) > stop
            if not bool(running.any()):
                break
            q = product(d)
            a = torch.where(running, rho / dot(d, q).clamp(min=tol.TINY), 0.0).unsqueeze(-1)
            x, r = x + a * d, r - a * q
            s = r / diagonal
            after = dot(r, s)
            d, rho = s + (after / rho.clamp(min=tol.TINY)).unsqueeze(-1) * d, after
        return x


LINEAR_SOLVERS: dict[str, Callable[[], NewtonSystem]] = {
    "dense": Dense,
    "active": Active,
    "sparse": Sparse,
    "cg": ConjugateGradients,
}


def choose_system(system: str | NewtonSystem, problem: LinearProgram) -> NewtonSystem:
    """The system that a name stands for; ``"auto"`` looks at the kind and the size of the matrices.

    Matrices that are dense, or small enough to be written out: ``"active"`` where all rows together are fewer than half
    of the variables, else ``"dense"``. Larger ones: ``"sparse"`` for tensors on the CPU where scipy is installed, else
    ``"cg"``.
    """
    if not isinstance(system, str):
        return system
    if system != "auto":
        return LINEAR_SOLVERS[system]()
    rows, n = problem.inequalities + problem.equalities, problem.variables
    entries = problem.batch_shape.numel() * max(rows, n) * n
    if problem.is_dense or entries <= tol.WRITTEN_OUT:
        return Active() if 2 * rows < n else Dense()
    if problem.has_entries and problem.device.type == "cpu" and importlib.util.find_spec("scipy") is not None:
        return Sparse()
    return ConjugateGradients()


def check_system(system: NewtonSystem, problem: LinearProgram) -> None:
    """Refuse a system that cannot work on these matrices."""
    if isinstance(system, Sparse):
        for name in ("A", "A_eq"):
            matrix = getattr(problem, name)
            if not isinstance(matrix, Tensor):
                raise TypeError(
                    f'Expected `{name}` to be a tensor for linear_solver="sparse", but got {kind(matrix)}; '
                    'use linear_solver="cg".'
                )
        if problem.device.type != "cpu":
            raise _checks.InputError(
                f'Expected a program on the CPU for linear_solver="sparse", but got {problem.device}; '
                'use linear_solver="cg".'
            )


def factored(matrix: Tensor, ridge: float | Tensor = 0.0) -> Tensor:
    """The Cholesky factor of matrix + ridge I, and a little for rounding; the matrix is overwritten by that sum."""
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    diagonal += ridge + tol.CHOLESKY_RIDGE * largest(diagonal).unsqueeze(-1)
    lower: Tensor = torch.linalg.cholesky_ex(matrix).L
    return lower


def by_cholesky(hessian: Tensor, ridge: float | Tensor, right: Tensor) -> Tensor:
    """(hessian + ridge I)^-1 right; the hessian is overwritten.  # shape: (batch, n)."""
    lower = factored(hessian, ridge)
    side = right.unsqueeze(-1)
    d = torch.cholesky_solve(side, lower)
    return (d + torch.cholesky_solve(side - hessian @ d, lower)).squeeze(-1)


def by_rows(K: Tensor, diagonal: Tensor, right: Tensor) -> Tensor:
    """(K'K + diag)^-1 right by Woodbury's identity; refined, since a small diagonal cancels.  # shape: (batch, n)."""
    spread = K / diagonal.unsqueeze(1)
    lower = factored(spread @ K.mT, 1.0)

    def apply(v: Tensor) -> Tensor:
        inner = torch.cholesky_solve(spread @ v, lower)
        return v / diagonal.unsqueeze(-1) - spread.mT @ inner

    side = right.unsqueeze(-1)
    d = apply(side)
    for _ in range(tol.WOODBURY_REFINEMENTS):
        d = d + apply(side - diagonal.unsqueeze(-1) * d - K.mT @ (K @ d))
    return d.squeeze(-1)


def bounds_diagonal(form: StandardForm, active: Tensor) -> Tensor:
    """Diagonal part of the Hessian: active bounds.  # shape: (batch, n)."""
    _, lower, upper = form.split(active)
    total = torch.zeros_like(form.c)
    for part in (lower, upper):
        if part is not None:
            total = total + part
    return total


def _column_squares(matrix: Tensor | Products) -> Callable[[Tensor], Tensor]:
    """The function that gives the diagonal of A' diag(weight) A."""
    if isinstance(matrix, Products):
        return matrix.squares_back
    squared = matrix**2
    return lambda weight: (weight.unsqueeze(1) @ squared).squeeze(1)


def _csr(matrix: Tensor | Products) -> list[Any]:
    """One scipy matrix for each element; an operator was refused before."""
    sparse = _checks.extra("scipy.sparse", "lp")
    if isinstance(matrix, Tensor):
        return [sparse.csr_array(one) for one in matrix.numpy()]
    given = cast("Tensor", matrix.matrix)
    if is_csr(given):
        parts = (part.numpy() for part in (given.values(), given.col_indices(), given.crow_indices()))
        plain = [sparse.csr_array(tuple(parts), shape=tuple(given.shape))] * matrix.shape[0]
    else:
        whole = given.expand(*matrix.batch, -1, -1).reshape(matrix.batch.numel(), *given.shape[-2:])
        plain = [sparse.csr_array(one) for one in (whole if matrix.places is None else whole[matrix.places]).numpy()]
    scales = zip(plain, matrix.row.numpy(), matrix.column.numpy(), strict=True)
    return [sparse.csr_array(sparse.diags_array(row) @ one @ sparse.diags_array(column)) for one, row, column in scales]
