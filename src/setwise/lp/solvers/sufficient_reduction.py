"""Sufficient dimension reduction as a sketch: fewer directions, chosen from data.

Some of the variables of a program, w, are the weights of features: the rows hold combinations of the samples' features.
If a response depends on the features x through B'x alone, weights of the system w = B u are as good as any, and u is
shorter (sliced inverse regression finds B).

*In the direction*: the Hessian is exact for the directions in the span of B and for all other variables, and diagonal
on what is left, so the whole space stays reachable and the optimum the fixed point.

*In the program*: w = B u is put in. Whatever the reduced program finds is a point of the whole one, so its value is at
least the optimum.

*The directions* come from sliced inverse regression (Li, 1991): whiten the features, cut the response into slices, and
take the covariance of the slices' means. If the response depends on the features through B'x alone, and the features
are elliptical, the leading eigenvectors span B. There are at most (slices - 1) of them; with a response of two values,
one. The rest of the space is ordered by sliced average variance estimation (Cook and Weisberg, 1991), by how much the
covariance inside the slices differs from that of all: it sees what the means cannot.

How many directions to keep is chosen by cross validation: the response of a held-out sample is predicted by the mean of
its nearest neighbours in the reduced features, which needs no model and is spoilt by directions that say nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.operator import columns, is_csr, kind
from setwise.lp.problem import LinearProgram
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.newton_systems import Prepared, Solve, bounds_diagonal, factored
from setwise.lp.standard_form import StandardForm


@dataclass(frozen=True, eq=False)
class SufficientReduction:
    """Directions by sliced inverse regression of a response on features.

    Args:
        size: How many directions are kept; None to choose by cross validation.
        features: The features whose weights are variables of the program. None takes the rows of A (dense) as samples
            over all variables, and b as their response.  # shape: (samples, q)
        response: What the features are to explain, as labels.  # shape: (samples,)
        first: Which variable is the weight of the first feature; the others follow it.
        slices: Slices of the response.
        shrinkage: Of the features' covariance towards a multiple of the identity, for features that are nearly
            collinear.
        folds: Of the cross validation.
        seed: Of its folds.

    Examples:
        >>> x = torch.randn(200, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        >>> sketch = SufficientReduction(features=x, response=x[:, 0] + 0.1 * x[:, 1] ** 2)
        >>> program = LinearProgram(torch.ones(6, dtype=torch.float64), lower=-1.0)
        >>> basis = sketch.basis(program)
        >>> basis.shape, bool(basis[0].abs().argmax() == 0)
        (torch.Size([5, 1]), True)
    """

    size: int | None = None
    features: Tensor | None = None
    response: Tensor | None = None
    first: int = 0
    slices: int = 8
    shrinkage: float = 0.1
    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.size is not None:
            _checks.is_count("size", self.size)
        for name, low in (("first", 0), ("slices", 2), ("folds", 2), ("seed", 0)):
            _checks.is_count(name, getattr(self, name), low)
        _checks.in_range("shrinkage", self.shrinkage, 0.0, 1.0)
        if (self.features is None) != (self.response is None):
            missing = "features" if self.features is None else "response"
            raise _checks.InputError(f"Expected `features` and `response` together, but `{missing}` is None.")
        if self.features is not None and self.response is not None:
            _checks.is_floating("features", self.features)
            _checks.is_real("response", self.response)
            if self.features.dim() != 2 or self.response.shape != self.features.shape[:1]:
                raise _checks.InputError(
                    "Expected `features` of shape (samples, q) and `response` of shape (samples,), "
                    f"but got {tuple(self.features.shape)} and {tuple(self.response.shape)}."
                )
            for name, value in (("features", self.features), ("response", self.response)):
                _checks.not_empty(name, value)
                _checks.all_finite(name, value)
            self._check_samples(len(self.features), self.features.shape[1])

    def basis(self, problem: LinearProgram) -> Tensor:
        """The kept directions for a program: weights w = basis @ u.  # shape: (q, size)."""
        directions, count = self._directions(problem)
        return directions[:, :count]

    def prepare(self, problem: LinearProgram, column: Tensor) -> Prepared:
        """The system for a program whose variables are scaled, x = z / column.  # shape: (batch, n)."""
        directions, count = self._directions(problem)
        own = column[:, self.first : self.first + len(directions)].unsqueeze(-1)
        return _Subspace(directions / own, count, self.first)

    def reduced(self, problem: LinearProgram) -> LinearProgram:
        """The program in (variables before, u, variables after), with matrices written out and no bounds on u.

        Finite bounds of the weights become rows.
        """
        basis = self._orthonormal(problem)
        (q, d), V = basis.shape, self._lifting(problem, basis)
        before, after = self.first, self.first + q
        rows, sides = [columns(problem.A, V)], [problem.b]
        weights = V[before:after]
        for bound, sign in ((problem.upper, 1.0), (problem.lower, -1.0)):
            # A bound on a weight is a row in u: weights are combinations of all directions.
            side = sign * bound[..., before:after]
            if bool(torch.isfinite(side).any()):
                rows.append(sign * weights)
                sides.append(side)
        batch = problem.batch_shape
        free = torch.full((d,), math.inf, dtype=problem.dtype, device=problem.device)

        def bounds(given: Tensor, sign: float) -> Tensor:
            own = (sign * free).expand(*given.shape[:-1], d)
            return torch.cat([given[..., :before], own, given[..., after:]], -1)

        return LinearProgram(
            problem.c @ V,
            torch.cat([_over(batch, part, 2) for part in rows], -2),
            torch.cat([_over(batch, part, 1) for part in sides], -1),
            columns(problem.A_eq, V),
            problem.b_eq,
            bounds(problem.lower, -1.0),
            bounds(problem.upper, 1.0),
            offset=problem.offset,
        )

    def lift(self, problem: LinearProgram, point: Tensor) -> Tensor:
        """A point of the reduced program as one of the whole.  # shape: (*batch, n)."""
        return point @ self._lifting(problem, self._orthonormal(problem)).mT

    def _directions(self, problem: LinearProgram) -> tuple[Tensor, int]:
        """All directions in their order, and how many are kept.  # shape: (q, q)."""
        features, response = self._samples(problem)
        count = self.size
        if count is None:
            count = choose_dimension(
                features, response, slices=self.slices, shrinkage=self.shrinkage, folds=self.folds, seed=self.seed
            )
        return directions(features, response, self.slices, self.shrinkage), count

    def _orthonormal(self, problem: LinearProgram) -> Tensor:
        """Directions of length 1, so that the reduced program is scaled like the whole one.  # shape: (q, size)."""
        basis: Tensor = torch.linalg.qr(self.basis(problem)).Q
        return basis.to(problem.dtype)

    def _lifting(self, problem: LinearProgram, basis: Tensor) -> Tensor:
        """Lifting matrix from points of the reduced program to the whole one.  # shape: (n, variables left)."""
        parts = (
            basis.new_ones(self.first).diag(),
            basis,
            basis.new_ones(problem.variables - self.first - len(basis)).diag(),
        )
        matrix: Tensor = torch.block_diag(*parts)
        return matrix

    def _samples(self, problem: LinearProgram) -> tuple[Tensor, Tensor]:
        n = problem.variables
        if self.features is None or self.response is None:
            A = problem.A
            if not isinstance(A, Tensor) or is_csr(A):
                raise TypeError(f"Expected `A` to be dense where `features` is None, but got {kind(A)}.")
            rows = A.detach().expand(*problem.batch_shape, -1, -1).reshape(-1, n)
            side = problem.b.detach().expand(*problem.batch_shape, -1).reshape(-1)
            finite = torch.isfinite(side)
            features, response = rows[finite], side[finite]
            self._check_samples(len(features), n)
        else:
            features, response = self.features.detach(), self.response.detach()
        last = self.first + features.shape[1]
        if last > n:
            raise _checks.InputError(f"Expected a program of at least {last} variables for `features`, but got {n}.")
        device = problem.device
        return features.to(device=device, dtype=torch.float64), response.to(device=device, dtype=torch.float64)

    def _check_samples(self, samples: int, q: int) -> None:
        if self.size is not None and self.size > q:
            raise _checks.InputError(f"Expected `size` to be at most {q}, the number of features, but got {self.size}.")
        needed = 2 if self.size is not None else 2 * self.folds
        if samples < needed:
            raise _checks.InputError(f"Expected at least {needed} samples in `features`, but got {samples}.")


@dataclass(frozen=True, eq=False)
class _Subspace:
    """The exact Hessian on a subspace and on all variables without features, its diagonal on the rest.

    The rest is spanned by the directions that came last in the regression, made conjugate to what is kept. They are
    hardly correlated over the samples, which makes the diagonal a fair account of them.

    Attributes:
        directions: Of the weights.  # shape: (batch, q, q)
        count: How many of them are kept.
        first: The first of the weights.
    """

    directions: Tensor
    count: int
    first: int
    exact: ClassVar[bool] = False

    def bind(self, form: StandardForm, ridge: float) -> Solve:
        """With the products of the matrices and the directions formed once."""
        V, U = self._split(form)
        AV, AU, EV, EU = (matrix @ part for matrix in (form.A, form.E) for part in (V, U))
        m = form.A.shape[1]

        def solve(active: Tensor, right: Tensor) -> Tensor:
            on, diagonal = (
                active[:, :m].to(right.dtype).unsqueeze(1),
                (ridge + bounds_diagonal(form, active)).unsqueeze(1),
            )
            left = torch.cat([AV.mT * on, EV.mT, V.mT * diagonal], -1)  # with the matrices below it, V'H
            block = left @ torch.cat([AV, EV, V], 1)
            cross = left @ torch.cat([AU, EU, U], 1)
            # The kept block is solved exactly; the rest, made conjugate to it, by its diagonal.
            lower = factored(block)
            shift = torch.cholesky_solve(cross, lower)
            rest = on @ AU**2 + (EU**2).sum(1, keepdim=True) + diagonal @ U**2 - (cross * shift).sum(1, keepdim=True)
            apart = U - V @ shift  # conjugate to all that is kept
            side = right.unsqueeze(-1)
            weight = (apart.mT @ side).squeeze(-1) / torch.maximum(rest.squeeze(1), (U**2).sum(1) * ridge)
            return (V @ torch.cholesky_solve(V.mT @ side, lower) + apart @ weight.unsqueeze(-1)).squeeze(-1)

        return solve

    def select(self, index: Tensor) -> _Subspace:
        """The subspaces of some elements."""
        return _Subspace(self.directions[index], self.count, self.first)

    def _split(self, form: StandardForm) -> tuple[Tensor, Tensor]:
        """The directions that are kept, and those that are not.  # shape: (batch, n, .) each."""
        batch, n = form.c.shape
        q = self.directions.shape[1]
        eye = torch.eye(n, dtype=form.c.dtype, device=form.c.device)
        others = torch.cat([eye[:, : self.first], eye[:, self.first + q :]], 1).expand(batch, -1, -1)
        weights = form.c.new_zeros(batch, n, q)
        weights[:, self.first : self.first + q] = self.directions / self.directions.norm(dim=1, keepdim=True)
        return torch.cat([weights[..., : self.count], others], -1), weights[..., self.count :]


def _over(batch: torch.Size, part: Tensor, dims: int) -> Tensor:
    """A tensor expanded to the batch, for concatenation."""
    return part.expand(*batch, *part.shape[part.dim() - dims :])


def directions(features: Tensor, response: Tensor, slices: int, shrinkage: float) -> Tensor:
    """All directions, the most telling first; features @ directions are hardly correlated, those without variance last.

    Args:
        features: Samples.  # shape: (samples, q)
        response: What is to be explained.  # shape: (samples,)
        slices: How many slices; a response of no more different values than that has one slice for each.
        shrinkage: Share of the mean variance in the covariance, which keeps directions of little variance, where the
            slices differ by chance, from coming first.

    Returns:
        Columns that span the whole space.  # shape: (q, q)
    """
    centred = features - features.mean(0)
    variance, axes = torch.linalg.eigh(centred.mT @ centred / len(features))
    kept = variance > tol.VARIANCE_RANK * variance.amax().clamp(min=torch.finfo(variance.dtype).tiny)
    shrunk = (1 - shrinkage) * variance[kept] + shrinkage * variance.mean()
    whitening = axes[:, kept] / shrunk.sqrt()  # shape: (q, rank)
    white = centred @ whitening
    label = sliced(response, slices)
    rank, count = white.shape[1], int(label.max()) + 1
    spread = white.mT @ white / len(white)  # the identity, but for the shrinkage
    between, within = white.new_zeros(rank, rank), white.new_zeros(rank, rank)
    for k in range(count):
        part = white[label == k]
        share, mean = len(part) / len(white), part.mean(0)
        between += share * mean.outer(mean)
        away = spread - (part - mean).mT @ (part - mean) / len(part)
        within += share * away @ away
    strength, vectors = torch.linalg.eigh(between)
    vectors = vectors.flip(-1)
    significant = min(count - 1, int((strength > tol.VARIANCE_RANK).sum()))
    rest = vectors[:, significant:]
    inside = torch.linalg.eigh(rest.mT @ within @ rest).eigenvectors.flip(-1)
    ordered = torch.cat([vectors[:, :significant], rest @ inside], 1)
    return torch.cat([whitening @ ordered, axes[:, ~kept]], 1)


def sliced(response: Tensor, slices: int) -> Tensor:
    """The slice of each sample: one for each value if they are few, else of equal numbers.  # shape: (samples,)."""
    label: Tensor
    values, label = response.unique(return_inverse=True)
    if len(values) <= slices:
        return label
    edges = torch.quantile(response, torch.linspace(0, 1, slices + 1, dtype=response.dtype)[1:-1].to(response.device))
    label = torch.bucketize(response.contiguous(), edges.unique()).unique(return_inverse=True)[1]
    return label


def choose_dimension(
    features: Tensor, response: Tensor, *, slices: int, shrinkage: float, folds: int, seed: int
) -> int:
    """The smallest dimension whose held-out error is within a standard error of the least.

    Args:
        features: Samples.  # shape: (samples, q)
        response: What is predicted.  # shape: (samples,)
        slices: As for :func:`directions`.
        shrinkage: The same.
        folds: Of the cross validation.
        seed: Of the folds.
    """
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed))[: tol.FOLD_SAMPLES].to(
        features.device
    )
    features, response = features[order], response[order]
    fold = torch.arange(len(order), device=features.device) % folds
    errors = torch.stack([_held_out(features, response, fold == k, slices, shrinkage) for k in range(folds)])
    mean = errors.mean(0)  # shape: (dimensions,)
    best = int(mean.argmin())
    allowed = mean[best] + errors[:, best].std() / math.sqrt(folds)
    return int((mean <= allowed).nonzero()[0]) + 1


def _held_out(features: Tensor, response: Tensor, held: Tensor, slices: int, shrinkage: float) -> Tensor:
    """Mean squared error on the held-out samples with the first 1, 2, ... directions.  # shape: (dimensions,)."""
    basis = directions(features[~held], response[~held], slices, shrinkage)[:, : tol.FOLD_DIMENSIONS]
    known, asked = features[~held] @ basis, features[held] @ basis
    neighbours = min(tol.FOLD_NEIGHBOURS, len(known))
    distance = known.new_zeros(len(asked), len(known))
    errors = []
    for d in range(basis.shape[1]):
        distance = distance + (asked[:, d : d + 1] - known[:, d]) ** 2
        nearest = distance.topk(neighbours, largest=False).indices
        errors.append(((response[~held][nearest].mean(-1) - response[held]) ** 2).mean())
    return torch.stack(errors)
