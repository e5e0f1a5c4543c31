"""Matrix-free standard form: programs whose matrices are known by their products.

CSR matrices are multiplied as they are, with a transposed copy beside them; operators by their own ``matvec`` and
``rmatvec``. Scaling multiplies from both sides around the product and never touches the matrix. What scaling and
preconditioning need, the sums of squares over rows and columns, are exact for tensors; for an operator they are
estimated: for random signs r, the mean of (A diag(w)^1/2 r)^2 is (A * A) w.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, cast

import torch
from torch import Tensor

from setwise.lp.operator import Matrix, batch_of, is_csr, matvec, rmatvec
from setwise.lp.problem import LinearProgram
from setwise.lp.solvers import tolerances as tol
from setwise.lp.standard_form import StandardForm


@dataclass(frozen=True)
class Products:
    """The matrices diag(row) A diag(column) of a batch, known by what they do to vectors.

    Attributes:
        matrix: A.
        transposed: A' where A is CSR: torch multiplies by a transposed view many times slower.
        batch: Shape of the whole batch, which an operator of many matrices wants to see.
        dtype: What the matrix multiplies: float64, or the problem's dtype for an operator that cannot be moved.
        places: Which elements of the batch are meant; None for all.
        row: Scale of the rows.  # shape: (count, m)
        column: Scale of the columns.  # shape: (count, n)
    """

    matrix: Matrix
    transposed: Tensor | None
    batch: torch.Size
    dtype: torch.dtype
    places: Tensor | None
    row: Tensor
    column: Tensor

    @classmethod
    def of(cls, matrix: Matrix, problem: LinearProgram) -> Self:
        """A matrix of a problem, not scaled yet."""
        dtype = torch.float64
        if isinstance(matrix, Tensor):
            matrix = matrix.detach().to(dtype)
        elif hasattr(matrix, "to"):
            matrix = matrix.to(device=problem.device, dtype=dtype)
        else:
            dtype = problem.dtype
        transposed = matrix.t().to_sparse_csr() if isinstance(matrix, Tensor) and is_csr(matrix) else None
        count = problem.batch_shape.numel()
        one = torch.ones(1, 1, dtype=torch.float64, device=problem.device)
        row, column = (one.expand(count, size) for size in matrix.shape[-2:])
        return cls(matrix, transposed, problem.batch_shape, dtype, None, row, column)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Elements, rows, columns."""
        return self.row.shape[0], self.row.shape[1], self.column.shape[1]

    def __getitem__(self, index: Tensor) -> Products:
        """The matrices at some places."""
        if index.dtype == torch.bool:
            index = index.nonzero().squeeze(-1)
        places = index if self.places is None else self.places[index]
        return replace(self, places=places, row=self.row[index], column=self.column[index])

    def times(self, x: Tensor) -> Tensor:
        """The product with vectors.  # shape: (count, n) to (count, m)."""
        return self.row * self.product(self.column * x, transposed=False)

    def back(self, y: Tensor) -> Tensor:
        """The product of the transposed.  # shape: (count, m) to (count, n)."""
        return self.column * self.product(self.row * y, transposed=True)

    def squares(self, weight: Tensor) -> Tensor:
        """Sums over the rows of squared entries times non-negative weights.  # shape: (count, n) to (count, m)."""
        return self.row**2 * self._squares(self.column**2 * weight, transposed=False)

    def squares_back(self, weight: Tensor) -> Tensor:
        """The same over the columns.  # shape: (count, m) to (count, n)."""
        return self.column**2 * self._squares(self.row**2 * weight, transposed=True)

    def combined(self, left: Tensor) -> Tensor:
        """Some combinations of the rows.  # shape: (count, k, m) to (count, k, n)."""
        rows = [self.back(one) for one in left.unbind(1)]
        return torch.stack(rows, 1) if rows else left.new_zeros(left.shape[0], 0, self.shape[2])

    def __matmul__(self, right: Tensor) -> Tensor:
        """The product with several vectors for each element.  # shape: (count, n, j) to (count, m, j)."""
        columns = [self.times(one) for one in right.unbind(-1)]
        return torch.stack(columns, -1) if columns else right.new_zeros(right.shape[0], self.shape[1], 0)

    def scaled(self, row: Tensor, column: Tensor) -> Products:
        """With the rows and columns scaled once more."""
        return replace(self, row=self.row * row, column=self.column * column)

    def product(self, x: Tensor, *, transposed: bool, entries: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """The product without scales, of the matrix itself or of a function of its entries."""
        matrix = self.matrix
        if transposed and self.transposed is not None:
            matrix, transposed = self.transposed, False
        if entries is not None:
            matrix = _entrywise(entries, cast("Tensor", matrix))
        product = rmatvec if transposed else matvec
        if not batch_of(matrix):
            return product(matrix, x.to(self.dtype)).to(torch.float64)
        # An operator of many matrices multiplies for all of them: other elements get zeros.
        whole = x
        if self.places is not None:
            whole = x.new_zeros(self.batch.numel(), x.shape[1])
            whole[self.places] = x
        result = product(matrix, whole.reshape(*self.batch, x.shape[1]).to(self.dtype)).to(torch.float64)
        result = result.reshape(self.batch.numel(), result.shape[-1])
        return result if self.places is None else result[self.places]

    def _squares(self, weight: Tensor, *, transposed: bool) -> Tensor:
        if isinstance(self.matrix, Tensor):
            return self.product(weight, transposed=transposed, entries=torch.square)
        # Fixed, so that equal programs are scaled alike.
        generator = torch.Generator().manual_seed(0)
        total = torch.zeros(weight.shape[0], self.shape[2 if transposed else 1], dtype=torch.float64)
        total = total.to(weight.device)
        for _ in range(tol.OPERATOR_PROBES):
            signs = 2.0 * torch.randint(2, (weight.shape[1],), generator=generator).to(weight) - 1
            total += self.product(weight.sqrt() * signs, transposed=transposed) ** 2
        return total / tol.OPERATOR_PROBES


class _Magnitude(NamedTuple):
    """A matrix with absolute entries; for an operator the roots of sums of squares, which are no larger."""

    matrix: Products

    def times(self, x: Tensor) -> Tensor:
        part = self.matrix
        if not isinstance(part.matrix, Tensor):
            return part.squares(x**2).sqrt()
        return part.row * part.product(part.column * x, transposed=False, entries=torch.abs)

    def back(self, y: Tensor) -> Tensor:
        part = self.matrix
        if not isinstance(part.matrix, Tensor):
            return part.squares_back(y**2).sqrt()
        return part.column * part.product(part.row * y, transposed=True, entries=torch.abs)


@dataclass(frozen=True)
class MatrixFreeForm(StandardForm):
    """A system whose ``A`` and ``E`` are :class:`Products`."""

    @classmethod
    def _matrix(cls, matrix: Matrix, problem: LinearProgram, *, numpy: bool) -> Products:  # noqa: ARG003
        """The products with a matrix of a problem; it is not written out."""
        return Products.of(matrix, problem)

    @staticmethod
    def times(matrix: Any, x: Any) -> Any:
        """A matrix times vectors.  # shape: (batch, m)."""
        return matrix.times(x)

    @staticmethod
    def back(matrix: Any, y: Any) -> Any:
        """The transposed matrix times vectors.  # shape: (batch, n)."""
        return matrix.back(y)

    @cached_property
    def magnitudes(self) -> tuple[Any, Any]:
        """A and E with absolute entries; for an operator the roots of sums of squares."""
        return _Magnitude(self.A), _Magnitude(self.E)

    @staticmethod
    def squares(matrix: Any, weight: Any) -> Any:
        """Sums over the rows of squared entries times weights.  # shape: (batch, n) to (batch, m)."""
        return matrix.squares(weight)

    @staticmethod
    def squares_back(matrix: Any, weight: Any) -> Any:
        """The same over the columns.  # shape: (batch, m) to (batch, n)."""
        return matrix.squares_back(weight)

    @staticmethod
    def scaled(matrix: Any, row: Any, column: Any) -> Any:
        """The matrix with its rows and columns scaled."""
        return matrix.scaled(row, column)

    def row_peaks(self, element: Tensor, row: Tensor, weight: Tensor) -> Tensor:
        """Norms of some weighted rows of G, in the place of their largest entries.  # shape: (places,)."""
        rows: Tensor = self.with_bounds(self.A.squares(weight**2).sqrt(), weight, weight)
        return rows[element, row]

    @cached_property
    def peaks(self) -> tuple[Tensor, Tensor, Tensor]:
        """Norms of the rows of G, the rows of E and the columns, in the place of their largest entries."""
        ones = torch.ones_like(self.c)
        rows, rows_eq = (part.squares(ones).sqrt() for part in (self.A, self.E))
        columns = self.A.squares_back(torch.ones_like(rows)) + self.E.squares_back(torch.ones_like(rows_eq))
        return self.with_bounds(rows, ones, ones), rows_eq, columns.sqrt()


def _entrywise(function: Callable[[Tensor], Tensor], matrix: Tensor) -> Tensor:
    """A dense or CSR matrix with a function of its entries that keeps 0."""
    if not is_csr(matrix):
        return function(matrix)
    parts = (matrix.crow_indices(), matrix.col_indices(), function(matrix.values()))
    return torch.sparse_csr_tensor(*parts, matrix.shape, check_invariants=False)
