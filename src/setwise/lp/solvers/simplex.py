"""Simplex method on one program: crossover from nearly optimal rows, crash basis, dual and primal pivots.

For min c'x s.t. G x <= h, E x = e, take n - p rows of G, and K = [those rows; E] with its inverse. They give the point
x = K^-1 (h, e) and the multipliers w = -K^-T c. The point is optimal if no other row is broken and no multiplier of the
chosen rows is negative. Otherwise one chosen row is exchanged for another at a time, and the inverse follows by a
rank-one update:

- *Dual steps*, while a row is broken: the row r that is broken the most comes in. With g_r = K'a, the multipliers stay
  non-negative if the row with the least w_j / a_j over a_j > 0 goes out. Multipliers that are negative at the start are
  counted as 0 until all rows hold, which is to say that the cost is changed for a while.
- *Primal steps*, while a multiplier is negative: that row goes out, and along its column of the inverse the first row
  that would be broken comes in.

Interior steps name the rows nearly right when they are half done, and in training an earlier solution does. A few
pivots, each the price of a product with G, then take the place of several factorizations. There is no guard against
cycles but the limit on the pivots: whoever calls has another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from setwise.lp.solvers import tolerances as tol
from setwise.lp.standard_form import Array, Index, Point, StandardForm, largest


class Program(NamedTuple):
    """One program of a standard form on NumPy arrays; rows that do not count have an infinite side."""

    c: Array  # shape: (n,)
    A: Array  # shape: (m, n)
    h: Array  # shape: (k,)
    E: Array  # shape: (p, n)
    e: Array  # shape: (p,)
    has_lower: bool

    def times(self, x: Array) -> Array:
        """G x.  # shape: (k,)."""
        rows = self.A @ x
        count = (len(self.h) - len(rows)) // len(x)
        if not count:
            return np.asarray(rows)
        return np.concatenate([rows] + [-x] * self.has_lower + [x] * (count - self.has_lower))

    def rows(self, index: Index) -> Array:
        """Some rows of G.  # shape: (len(index), n)."""
        m, n = self.A.shape
        inside = index < m
        if inside.all():
            return self.A[index]
        chosen = np.zeros((len(index), n))
        chosen[inside] = self.A[index[inside]]
        outside = (~inside).nonzero()[0]
        bound = index[outside] - m
        chosen[outside, bound % n] = np.where((bound < n) & self.has_lower, -1.0, 1.0)
        return chosen

    def system(self, active: Index) -> tuple[Array, Array]:
        """K and (h, e) of the chosen rows.  # shape: (n, n), (n,)."""
        K, right = self.rows(active), self.h[active]
        if not len(self.e):
            return K, right
        return np.concatenate([K, self.E]), np.concatenate([right, self.e])


def programs(form: StandardForm) -> Iterator[Program]:
    """The programs of a batch on NumPy arrays, one after the other."""
    sides = np.where(form.mask > 0, form.h, np.inf)
    for k, (c, h, e) in enumerate(zip(form.c, sides, form.e, strict=True)):
        A, E = (part[k if part.shape[0] > 1 else 0] for part in (form.A, form.E))
        yield Program(c, A, h, E, e, form.has_lower)


class OptimalVertex(NamedTuple):
    """A vertex that is proven optimal."""

    x: Array  # shape: (n,)
    z: Array  # shape: (k,)
    y: Array  # shape: (p,)
    active: Index  # its rows of G, shape: (n - p,)
    strict: bool  # no other slack and no multiplier of its rows is 0, so that no other optimum exists
    K: Array | None = None  # its rows and E, shape: (n, n)
    inverse: Array | None = None  # to be refined


class FarkasRay(NamedTuple):
    """Multipliers that prove that there is no feasible point: G'z + E'y = 0, z >= 0, h'z + e'y < 0."""

    z: Array  # shape: (k,)
    y: Array  # shape: (p,)


class RecessionRay(NamedTuple):
    """A feasible point and a direction that proves that there is no optimum: G d <= 0, E d = 0, c'd < 0."""

    x: Array  # shape: (n,)
    direction: Array  # shape: (n,)


Found = OptimalVertex | FarkasRay | RecessionRay | None


def crossover(program: Program, active: Index, *, pivots: int) -> OptimalVertex | None:
    """The optimal vertex by way of the given rows.

    Args:
        program: The program, with cost and sides of size 1.
        active: Rows of G to start from.  # shape: (n - p,)
        pivots: The most exchanges.

    Returns:
        The vertex, or None where it was not found.
    """
    try:
        tableau = Tableau(program, active)
    except np.linalg.LinAlgError:  # rows that depend on one another
        return None
    wrong = tableau.wrong()
    if wrong and (wrong > pivots or not tableau.run(pivots)):
        return None
    return tableau.vertex(fresh=not wrong)


def simplex(program: Program, ratio: Array, pivots: int) -> Found:
    """The simplex method in full: an optimal vertex, or why there is none.

    Args:
        program: The program, with cost and sides of size 1.
        ratio: Of multiplier and slack of each row at some point; of the rows with the largest, those that do not depend
            on one another and on E are where the pivots start.  # shape: (k,)
        pivots: The most exchanges.
    """
    tableau = Tableau.crash(program, ratio)
    return None if tableau is None else tableau.solve(pivots)


def crash_basis(program: Program, ratio: Array) -> Index | None:
    """The first rows by ratio that fix a point together with E; None where there are none, or E has too many.

    Gram and Schmidt's method: by blocks against the rows before, twice, then row by row.
    """
    n, p = len(program.c), len(program.e)
    order = np.argsort(-np.where(np.isfinite(program.h), ratio, -1.0), kind="stable")
    order = order[: np.count_nonzero(np.isfinite(program.h))]
    basis, count, active = np.zeros((n, n)), 0, []
    for start in range(0, p + len(order), tol.CRASH_BLOCK):
        ahead = range(start, min(start + tol.CRASH_BLOCK, p + len(order)))  # the rows of E first
        above = [k for k in ahead if k < p]
        rows = np.concatenate([program.E[above], program.rows(order[[k - p for k in ahead if k >= p]])])
        lengths = np.maximum(np.linalg.norm(rows, axis=1), tol.TINY)
        first = count
        for _ in range(2):
            rows -= (rows @ basis[:first].T) @ basis[:first]
        for k, row, length in zip(ahead, rows, lengths, strict=True):
            for _ in range(2):
                row[:] = row - (basis[first:count] @ row) @ basis[first:count]
            size = float(np.linalg.norm(row))
            if size <= tol.CRASH_INDEPENDENT * length:
                if k < p:
                    return None
                continue
            basis[count] = row / size
            count += 1
            if k >= p:
                active.append(order[k - p])
            if count == n:
                return np.sort(np.array(active, dtype=np.intp))
    return None


class Tableau:
    """Chosen rows, the inverse, slacks and multipliers, all changed by each pivot."""

    def __init__(self, program: Program, active: Index) -> None:
        self.program, self.active = program, active.copy()
        K, right = program.system(active)
        self.inverse: Array = np.asarray(np.linalg.inv(K), np.float64)
        self.slack, self.w = program.h - program.times(self.inverse @ right), -(program.c @ self.inverse)
        self.slack[active] = 0.0
        self.cost, self.exchanges = program.c, 0
        self.proof: FarkasRay | RecessionRay | None = None  # set where the pivots end without a vertex

    @classmethod
    def crash(cls, program: Program, ratio: Array) -> Tableau | None:
        """The one of a crash basis; None where there is none."""
        active = crash_basis(program, ratio)
        return None if active is None else cls(program, active)

    def solve(self, pivots: int) -> Found:
        """The simplex method in full."""
        return self.vertex() if self.run(pivots, apart=True) else self.proof

    def wrong(self) -> int:
        """How many rows are broken or have a negative multiplier; what is not a number counts too."""
        broken, negative = self.slack >= -tol.PIVOT_NEEDED, self.w[: len(self.active)] >= -tol.PIVOT_NEEDED
        return len(broken) + len(negative) - int(np.count_nonzero(broken)) - int(np.count_nonzero(negative))

    def run(self, pivots: int, *, apart: bool = False) -> bool:
        """Dual steps, then primal ones; whether they got there.

        Where multipliers are 0, dual steps gain nothing and may go round in circles. With ``apart`` each is moved off 0
        by a little of its own for as long as rows are broken.
        """
        self.shared = torch.from_numpy(self.inverse)
        chosen = self.w[: len(self.active)]  # a view: pivots change it in place
        if apart or float(chosen.min(initial=0.0)) < 0:
            np.maximum(chosen, 0.0, out=chosen)
            if apart:
                chosen += tol.PERTURBATION * np.random.default_rng(0).uniform(0.5, 1.0, len(chosen))
            self.cost = -(self.w @ self.program.system(self.active)[0])
        left = self._dual_steps(chosen, pivots)
        if left is None:
            return False
        self.cost = self.program.c
        self.w[:] = -(self.cost @ self.inverse)
        return self._primal_steps(chosen, left)

    def _dual_steps(self, chosen: Array, pivots: int) -> int | None:
        """Exchanges until no row is broken, and how many are left; None where a row cannot be met."""
        for left in range(pivots, 0, -1):
            row = int(self.slack.argmin())
            if self.slack[row] >= -tol.PIVOT_NEEDED:
                return left
            a = self._row(row) @ self.inverse
            place = _least_ratio(chosen, a[: len(chosen)])
            if place is None:
                # The chosen rows imply the broken one the other way round: g_row = K'a, a <= 0 on inequalities.
                a = _without_noise(a)
                z = np.zeros_like(self.slack)
                z[self.active], z[row] = np.maximum(-a[: len(chosen)], 0.0), 1.0
                self.proof = FarkasRay(z, -a[len(chosen) :])
                return None
            self._exchange(place, row, a, self.program.times(self.inverse[:, place]))
        return 0

    def _primal_steps(self, chosen: Array, pivots: int) -> bool:
        """Exchanges until no multiplier is negative; whether they got there."""
        idle = 0
        for _ in range(pivots):
            place = int(chosen.argmin()) if len(chosen) else 0
            if not len(chosen) or chosen[place] >= -tol.PIVOT_NEEDED:
                return True
            # Where steps have no length, the least multiplier may go round in circles, and a random one does not.
            if idle >= tol.FEW_PIVOTS:
                place = int(np.random.default_rng(idle).choice(np.flatnonzero(chosen < -tol.PIVOT_NEEDED)))
            along = self.program.times(self.inverse[:, place])
            row = _least_ratio(self.slack, -along)
            if row is None:
                K, right = self.program.system(self.active)
                self.proof = RecessionRay(_solved(K, self.inverse, right), _without_noise(-self.inverse[:, place]))
                return False
            idle = 0 if self.slack[row] > tol.PIVOT_NEEDED else idle + 1
            self._exchange(place, row, self._row(row) @ self.inverse, along)
        return False

    def _row(self, row: int) -> Array:
        A = self.program.A
        return np.asarray(A[row] if row < len(A) else self.program.rows(np.array([row]))[0])

    def _exchange(self, place: int, row: int, a: Array, along: Array) -> None:
        """Row ``row`` of G for the one at ``place``; a = K^-T g_row, along = G K^-1[:, place]."""
        pivot = a[place]
        move = self.slack[row] / pivot
        self.slack -= move * along
        self.slack[self.active[place]], self.slack[row] = -move, 0.0
        price = self.w[place] / pivot
        self.w -= price * a
        self.w[place] = price
        self.active[place] = row
        column = self.inverse[:, place] / pivot
        if len(a) > tol.NUMPY_UPDATE:
            self.shared.addr_(torch.from_numpy(column), torch.from_numpy(a), alpha=-1)  # in place, in one pass
        else:
            self.inverse -= np.multiply.outer(column, a)
        self.inverse[:, place] = column
        self.exchanges += 1
        if self.exchanges % tol.REFACTOR_EVERY == 0:  # updates add up their rounding
            K, right = self.program.system(self.active)
            self.inverse[:] = np.linalg.inv(K)
            self.slack[:] = self.program.h - self.program.times(_solved(K, self.inverse, right))
            self.slack[self.active] = 0.0
            self.w[:] = -(self.cost @ self.inverse)

    def vertex(self, *, fresh: bool = False) -> OptimalVertex | None:
        """The vertex where the pivots ended, solved for again; by a new inverse where the updates cost too much."""
        program = self.program
        K, right = program.system(self.active)
        rest = program.c[None], program.h[None], lambda x: program.times(x[0])[None]
        for again in (False,) if fresh else (False, True):
            inverse = np.asarray(np.linalg.inv(K), np.float64) if again else self.inverse
            (x, z, y), good, strict = prove(K[None], inverse[None], right[None], self.active[None], rest)
            if good[0]:
                return OptimalVertex(x[0], z[0], y[0], self.active, bool(strict[0]), K, inverse)
        return None


def _without_noise(ray: Array) -> Array:
    """A ray without what rounding has left of its zeros, which would keep sums from being 0."""
    return np.where(np.abs(ray) > tol.REDUCED_COST_NOISE * np.abs(ray).max(), ray, 0.0)


def _least_ratio(value: Array, step: Array) -> int | None:
    """Ratio test: the least value / step over step > 0; of those that tie to rounding, the largest step."""
    places = (step > tol.PIVOT_LEAST).nonzero()[0]
    if not len(places):
        return None
    step = step[places]
    ratio = np.maximum(value[places], 0.0) / step
    least = ratio.min()
    if least == np.inf:  # rows that do not count
        return None
    tied = ratio <= least + tol.PIVOT_NEEDED
    return int(places[np.where(tied, step, 0.0).argmax()])


def prove(
    K: Array, inverse: Array, right: Array, active: Index, rest: tuple[Array, Array, Callable[[Array], Array]]
) -> tuple[Point, NDArray[np.bool_], NDArray[np.bool_]]:
    """Solve for the vertices of some active rows, and say which are optimal.

    Args:
        K: The rows, those of E last.  # shape: (vertices, n, n)
        inverse: Of K, to be refined.  # shape: (vertices, n, n)
        right: Their sides.  # shape: (vertices, n)
        active: Which rows of G they are.  # shape: (vertices, n - p)
        rest: Costs, the sides of all rows of G, and the function x -> G x.

    Returns:
        Points and multipliers, which are proven optimal, and which of these are the only optimum.
    """
    cost, h, times = rest
    x, w = _solved(K, inverse, right), _solved(K.mT, inverse.mT, -cost)
    slack, count = h - times(x), active.shape[1]
    np.put_along_axis(slack, active, 0.0, 1)
    chosen = w[:, :count]
    least = chosen.min(-1, initial=np.inf)
    off, unbalanced = largest(_times(K, x) - right), largest(_times(K.mT, w) + cost)
    # Data are of size 1. Written so that what is not a number proves nothing.
    good = (slack.min(-1, initial=0.0) >= -tol.VERTEX_FEASIBLE) & (least >= -tol.VERTEX_FEASIBLE)
    good &= (off <= tol.VERTEX_FEASIBLE) & (unbalanced <= tol.VERTEX_BALANCED)
    good &= unbalanced <= tol.VERTEX_FEASIBLE * np.maximum(1.0, largest(w))
    z = np.zeros_like(slack)
    # What the terms of a multiplier may leave by rounding is none.
    w = np.where(np.abs(w) > tol.MULTIPLIER_NOISE * _times(np.abs(inverse.mT), np.abs(cost)), w, 0.0)
    np.put_along_axis(z, active, np.maximum(w[:, :count], 0.0), 1)
    # Only its own rows are met, and all of them pay.
    strict = good & (least > tol.UNIQUE) & (np.count_nonzero(slack <= tol.UNIQUE, -1) == count)
    return Point(x, z, w[:, count:]), good, strict


def _times(matrix: Array, x: Array) -> Array:
    return np.asarray((matrix @ x[..., None])[..., 0])


def _solved(K: Array, inverse: Array, right: Array) -> Array:
    """K^-1 right by the inverse and one step of refinement."""
    x = _times(inverse, right)
    return x + _times(inverse, right - _times(K, x))
