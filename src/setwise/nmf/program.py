"""The whole program of separable factorization, with sparse matrices, and the checks of its data."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.problem import LinearProgram


def nmf_program(V: Tensor, rank: int, *, noise: float = 0.0, weights: Tensor | None = None) -> LinearProgram:
    """The whole program, with sparse matrices built from their Kronecker structure and never dense.

    The variables are C row by row, then, with noise, the positive and the negative part of C V - V. The rows of V are
    scaled to sum 1; zero rows must be dropped before.

    Args:
        V: Non-negative matrix without zero rows.  # shape: (c, f)
        rank: Number of anchors.
        noise: Noise level of a row, as a part of its sum.
        weights: The cost p of the diagonal, of distinct entries; None for a fixed sequence in [1, 2).  # shape: (c,)

    Returns:
        A program with c^2 variables, or c^2 + 2cf with noise.

    Examples:
        >>> V = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
        >>> nmf_program(V, 2)
        LinearProgram(variables=9, inequalities=6, equalities=7, batch_shape=(), A=csr, A_eq=csr, dtype=torch.float64,
            device=cpu)
    """
    check(V, rank, noise, weights)
    data = V.detach().double()
    if not bool((data.sum(1) > 0).all()):
        raise _checks.InputError("Expected `V` to have no zero rows, but it has; drop them first.")
    c = len(data)
    M, _ = reduced(data / data.sum(1, keepdim=True), noise, V.dtype)  # shape: (c, d)
    d, parts = M.shape[1], 2 if noise > 0 else 0
    unit = torch.arange(c, device=V.device)
    diagonal = unit * (c + 1)
    size = c * c + parts * c * d
    # Row (i, k) of the equalities: sum_j C_ij M_jk - e+ + e- = M_ik, that is the Kronecker product of I and M'.
    kept = M.T.to_sparse_coo().coalesce()  # shape: (d, c)
    k, j = kept.indices()
    fits = (_outer(unit * d, k), _outer(unit * c, j), kept.values().repeat(c))
    error = torch.arange(c * d, device=V.device)
    signs = [
        (error, c * c + part * c * d + error, (2.0 * part - 1) * torch.ones_like(M).flatten()) for part in range(parts)
    ]
    trace = (torch.full_like(unit, c * d), diagonal, torch.ones_like(M[:, 0]))
    A_eq = _csr([fits, *signs, trace], (c * d + 1, size))
    b_eq = torch.cat([M.flatten(), M.new_tensor([float(rank)])])
    # C_ij - C_jj <= 0 off the diagonal, and the sums of the errors.
    row, column = (unit.unsqueeze(1) != unit).nonzero(as_tuple=True)
    pair = torch.arange(len(row), device=V.device)
    ones = torch.ones(len(row), dtype=M.dtype, device=V.device)
    bounds = [(pair, row * c + column, ones), (pair, diagonal[column], -ones)]
    sums = [
        (len(row) + error // d, c * c + part * c * d + error, torch.ones_like(M).flatten()) for part in range(parts)
    ]
    rows = len(row) + (c if parts else 0)
    b = torch.cat([torch.zeros_like(ones), M.new_full((rows - len(row),), 2 * noise)])
    cost, upper = M.new_zeros(size), M.new_full((size,), math.inf)
    cost[diagonal], upper[diagonal] = weights_or_default(weights, M), 1.0
    return LinearProgram(cost, _csr([*bounds, *sums], (rows, size)), b, A_eq, b_eq, upper=upper)


def check(V: Tensor, rank: int, noise: float | None, weights: Tensor | None) -> None:
    """Refuse what is no non-negative matrix, and settings that do not fit it."""
    _checks.is_floating("V", V)
    if V.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"Expected `V` to be float32 or float64, but got {V.dtype}.")
    if V.ndim != 2 or V.numel() == 0:
        raise _checks.InputError(f"Expected `V` of shape (c, f) with at least one entry, but got {tuple(V.shape)}.")
    _checks.all_non_negative("V", V.detach())
    _checks.is_count("rank", rank)
    if rank > len(V):
        raise _checks.InputError(f"Expected `rank` to be at most {len(V)}, the rows of `V`, but got {rank}.")
    if noise is not None:
        _checks.in_range("noise", noise, 0, 1)
    if weights is not None:
        _checks.is_floating("weights", weights)
        if weights.shape != V.shape[:1]:
            raise _checks.InputError(f"Expected `weights` of shape ({len(V)},), but got {tuple(weights.shape)}.")
        _checks.all_finite("weights", weights)
        if len(weights.unique()) < len(weights):
            raise _checks.InputError("Expected `weights` to hold distinct values, but some are equal.")


def weights_or_default(weights: Tensor | None, like: Tensor) -> Tensor:
    """The given costs, or 1 + the fractional parts of the multiples of the golden ratio: spread out, never equal."""
    if weights is not None:
        return weights.detach().to(like)
    return 1 + (torch.arange(len(like), dtype=like.dtype, device=like.device) * (math.sqrt(5) - 1) / 2) % 1


def reduced(scaled: Tensor, noise: float | None, dtype: torch.dtype) -> tuple[Tensor, float]:
    """What the rows are fitted in, and to which accuracy: V Q without noise, V itself where the 1-norm matters."""
    exact = dtype == torch.float64
    if noise is None or noise > 0:
        return scaled, 1e-8 if exact else 1e-6
    _, spectrum, basis = torch.linalg.svd(scaled, full_matrices=False)
    kept = int((spectrum > spectrum[0] * max(scaled.shape) * torch.finfo(dtype).eps).sum())
    return scaled @ basis[:kept].T, 1e-8 if exact else 1e-5


def _outer(first: Tensor, second: Tensor) -> Tensor:
    """All sums, with the second index running fastest: the index arithmetic of a Kronecker product."""
    return (first.unsqueeze(1) + second).flatten()


def _csr(blocks: list[tuple[Tensor, Tensor, Tensor]], size: tuple[int, int]) -> Tensor:
    row, column, value = (torch.cat(part) for part in zip(*blocks, strict=True))
    return torch.sparse_coo_tensor(torch.stack([row, column]), value, size).coalesce().to_sparse_csr()
