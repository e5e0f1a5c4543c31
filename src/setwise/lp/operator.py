"""Matrices and linear operators: dense, CSR, or known by products, multiplied by the same functions.

A matrix is a dense tensor of shape (*batch, m, n), a ``torch.sparse_csr`` tensor of shape (m, n) shared by the whole
batch, or a :class:`LinearOperator`: any object that knows its shape and can multiply. The functions here take all
three, so that hardly anything else in ``setwise.lp`` asks which one it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor


@runtime_checkable
class LinearOperator(Protocol):
    """A matrix known only by its products.

    Both products act on the last dimension and broadcast over all dimensions before it; to be differentiable they are
    written with torch operations. An operator that also has a method ``to(device=..., dtype=...)`` can be moved with
    the program that holds it.
    """

    @property
    def shape(self) -> Sequence[int]:
        """The shape (*batch, m, n) of the matrix."""

    def matvec(self, z: Tensor, /) -> Tensor:
        """A z, from shape (*batch, n) to (*batch, m)."""

    def rmatvec(self, y: Tensor, /) -> Tensor:
        """A' y, from shape (*batch, m) to (*batch, n)."""


Matrix: TypeAlias = Tensor | LinearOperator


def is_csr(A: Matrix) -> bool:
    """Whether the matrix is a ``torch.sparse_csr`` tensor."""
    return isinstance(A, Tensor) and A.layout == torch.sparse_csr


def kind(A: Matrix) -> str:
    """One word for how the matrix is held: ``dense``, ``csr``, or the class of the operator."""
    if not isinstance(A, Tensor):
        return type(A).__name__
    return "csr" if is_csr(A) else "dense"


def batch_of(A: Matrix) -> torch.Size:
    """The leading dimensions of a matrix of shape (*batch, m, n)."""
    return torch.Size(A.shape[:-2])


def matvec(A: Matrix, z: Tensor) -> Tensor:
    """A z for z of shape (*batch, n); the batches of A and z broadcast.

    Examples:
        >>> A = torch.tensor([[1.0, 2.0], [0.0, -1.0]])
        >>> matvec(A, torch.tensor([3.0, 1.0]))
        tensor([ 5., -1.])
    """
    if not isinstance(A, Tensor):
        return A.matvec(z)
    return _csr_product(A, z, transposed=False) if is_csr(A) else _dense_product(A, z)


def rmatvec(A: Matrix, y: Tensor) -> Tensor:
    """A' y for y of shape (*batch, m); the batches of A and y broadcast.

    Examples:
        >>> A = torch.tensor([[1.0, 2.0], [0.0, -1.0]])
        >>> rmatvec(A, torch.tensor([3.0, 1.0]))
        tensor([3., 5.])
    """
    if not isinstance(A, Tensor):
        return A.rmatvec(y)
    return _csr_product(A, y, transposed=True) if is_csr(A) else _dense_product(A.mT, y)


def to_dense(A: Matrix, *, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The matrix as a dense tensor of shape (*batch, m, n); an operator is applied to the n unit vectors."""
    if isinstance(A, Tensor):
        return A.to_dense() if is_csr(A) else A
    return columns(A, torch.eye(A.shape[-1], dtype=dtype, device=device))


def entries(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and values of the entries of a matrix in CSR.  # shape: (nonzeros,) each."""
    columns = A.col_indices()
    return torch.repeat_interleave(A.crow_indices().diff(), output_size=len(columns)), columns, A.values()


def columns(A: Matrix, V: Tensor) -> Tensor:
    """A V for one matrix V of shape (n, j), written out, with its graph.  # shape: (*batch, m, j)."""
    if isinstance(A, Tensor) and not is_csr(A):
        return A @ V
    return matvec(A, V.mT.reshape(V.shape[1], *(1 for _ in batch_of(A)), V.shape[0])).movedim(0, -1)


def rows(S: Tensor, A: Matrix) -> Tensor:
    """S A for one matrix S of shape (k, m), written out, with its graph.  # shape: (*batch, k, n)."""
    if isinstance(A, Tensor) and not is_csr(A):
        return S @ A
    return rmatvec(A, S.reshape(S.shape[0], *(1 for _ in batch_of(A)), S.shape[1])).movedim(0, -2)


def _dense_product(A: Tensor, z: Tensor) -> Tensor:
    if A.dim() == 2:
        return z @ A.mT  # one product for the whole batch, without expanding A
    return (A @ z.unsqueeze(-1)).squeeze(-1)


def _csr_product(A: Tensor, z: Tensor, *, transposed: bool) -> Tensor:
    if A.requires_grad and torch.is_grad_enabled():
        # torch's own product would give A a dense gradient of m x n numbers; this one keeps the sparsity of A.
        return _gathered_product(A, z, transposed=transposed)
    columns = z.reshape(z.shape[:-1].numel(), z.shape[-1]).mT  # shape: (n, batch)
    product = (A.t() if transposed else A) @ columns  # shape: (m, batch)
    return product.mT.reshape((*z.shape[:-1], product.shape[0]))


def _gathered_product(A: Tensor, z: Tensor, *, transposed: bool) -> Tensor:
    rows, columns, values = entries(A)
    source, target, size = (rows, columns, A.shape[1]) if transposed else (columns, rows, A.shape[0])
    terms = values * z[..., source]  # shape: (*batch, nonzeros)
    return terms.new_zeros(*z.shape[:-1], size).index_add(-1, target, terms)
