"""Simplex method on a plain program: crossover from nearly optimal rows, crash basis, dual and primal pivots.

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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from setwise.lp.solvers import tolerances as tol
from setwise.lp.standard_form import Array, Index, Program


@dataclass(frozen=True)
class OptimalVertex:
    """A vertex that is proven optimal, with the inverse of its rows K = [active rows of G; E]."""

    active: Index  # rows of G, shape: (n - p,)
    K: Array  # shape: (n, n)
    inverse: Array  # shape: (n, n)
    x: Array  # shape: (n,)
    z: Array  # shape: (k,)
    y: Array  # shape: (p,)
    steps: int
    strict: bool  # no other slack and no multiplier of its rows is 0, so that no other optimum exists


def solved(K: Array, inverse: Array, right: Array) -> Array:
    """K^-1 right by the inverse and one step of refinement."""
    x = inverse @ right
    return np.asarray(x + inverse @ (right - K @ x))


def crossover(program: Program, active: Index, *, pivots: int, steps: int = 0) -> OptimalVertex | None:
    """The optimal vertex by way of the given rows.

    Args:
        program: The program, with cost and sides of size 1.
        active: Rows of G to start from.  # shape: (n - p,)
        pivots: The most exchanges. A vertex reached by any is given only if it is the one optimum: where there are
            others, which of them is found should not depend on the way.
        steps: For the record.

    Returns:
        The vertex, or None where it was not found.
    """
    K, right = _rows(program, active)
    try:
        inverse: Array = np.asarray(np.linalg.inv(K), np.float64)
    except np.linalg.LinAlgError:  # rows that depend on one another
        return None
    tableau = _Tableau(program, active, inverse, right)
    wrong = tableau.wrong()
    if wrong == 0 or pivots == 0:
        return _prove(program, active, K, inverse, right, steps)
    if wrong > pivots or not tableau.run(pivots):
        return None
    vertex = tableau.vertex(steps)
    return vertex if vertex is not None and vertex.strict else None


class FarkasRay(NamedTuple):
    """Multipliers that prove that there is no feasible point: G'z + E'y = 0, z >= 0, h'z + e'y < 0."""

    z: Array  # shape: (k,)
    y: Array  # shape: (p,)


class RecessionRay(NamedTuple):
    """A direction that proves that there is no bound, where there is a feasible point: G x <= 0, E x = 0, c'x < 0."""

    x: Array  # shape: (n,)


def simplex(program: Program, ratio: Array, pivots: int) -> OptimalVertex | FarkasRay | RecessionRay | None:
    """The simplex method in full, for where all else has ended: an optimal vertex, or why there is none.

    Args:
        program: The program, with cost and sides of size 1.
        ratio: Of multiplier and slack of each row at some point; of the rows with the largest, those that do not depend
            on one another and on E are where the pivots start.  # shape: (k,)
        pivots: The most exchanges.
    """
    active = crash_basis(program, ratio)
    if active is None:
        return None
    K, right = _rows(program, active)
    inverse: Array = np.asarray(np.linalg.inv(K), np.float64)
    tableau = _Tableau(program, active, inverse, right)
    return tableau.vertex(0) if tableau.run(pivots, apart=True) else tableau.proof


def crash_basis(program: Program, ratio: Array) -> Index | None:
    """The first rows by ratio that fix a point together with E; None where there are none, or E has too many.

    Gram and Schmidt's method: by blocks against the rows before, twice, then row by row.
    """
    n, p = len(program.c), len(program.e)
    order = np.argsort(-ratio, kind="stable")
    basis, count, active = np.zeros((n, n)), 0, []
    for start in range(0, p + len(order), tol.CRASH_BLOCK):
        ahead = range(start, min(start + tol.CRASH_BLOCK, p + len(order)))  # the rows of E first
        rows = np.stack([program.E[k] if k < p else program.G[order[k - p]] for k in ahead])
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


def _rows(program: Program, active: Index) -> tuple[Array, Array]:
    """K and (h, e) of the rows.  # shape: (n, n), (n,)."""
    K, right = program.G[active], program.h[active]
    if not len(program.e):
        return K, right
    return np.concatenate([K, program.E]), np.concatenate([right, program.e])


class _Tableau:
    """Chosen rows, the inverse, slacks and multipliers, all changed by each pivot."""

    def __init__(self, program: Program, active: Index, inverse: Array, right: Array) -> None:
        self.program, self.active, self.inverse = program, active, inverse
        self.slack, self.w = program.h - program.G @ (inverse @ right), -(program.c @ inverse)
        self.slack[active] = 0.0
        self.cost, self.exchanges = program.c, 0
        self.proof: FarkasRay | RecessionRay | None = None  # set where the pivots end without a vertex

    def wrong(self) -> int:
        """How many rows are broken or have a negative multiplier; what is not a number counts too."""
        broken, negative = self.slack >= -tol.PIVOT_NEEDED, self.w[: len(self.active)] >= -tol.PIVOT_NEEDED
        return len(broken) + len(negative) - int(np.count_nonzero(broken)) - int(np.count_nonzero(negative))

    def run(self, pivots: int, *, apart: bool = False) -> bool:
        """Dual steps, then primal ones; whether they got there.

        Where multipliers are 0, dual steps gain nothing and may go round in circles. With ``apart`` each is moved off 0
        by a little of its own for as long as rows are broken.
        """
        self.active, self.shared = self.active.copy(), torch.from_numpy(self.inverse)
        count = len(self.active)
        chosen = self.w[:count]  # a view: pivots change it in place
        if apart or float(chosen.min()) < 0:
            np.maximum(chosen, 0.0, out=chosen)
            if apart:
                chosen += tol.PERTURBATION * np.random.default_rng(0).uniform(0.5, 1.0, count)
            self.cost = -(self.w @ _rows(self.program, self.active)[0])
        for _ in range(pivots):
            row = int(self.slack.argmin())
            if self.slack[row] >= -tol.PIVOT_NEEDED:
                break
            a = self.program.G[row] @ self.inverse
            place = _least_ratio(chosen, a[:count])
            if place is None:
                self.proof = self._farkas_ray(row, a)
                return False
            self._exchange(place, row, a, self.program.G @ self.inverse[:, place])
            pivots -= 1
        self.cost = self.program.c
        self.w[:] = -(self.cost @ self.inverse)
        for _ in range(pivots):
            place = int(chosen.argmin())
            if chosen[place] >= -tol.PIVOT_NEEDED:
                return bool(self.slack.min() >= -tol.PIVOT_NEEDED)
            along = self.program.G @ self.inverse[:, place]
            result = _least_ratio(self.slack, -along)
            if result is None:
                self.proof = RecessionRay(-self.inverse[:, place])
                return False
            self._exchange(place, result, self.program.G[result] @ self.inverse, along)
        return False

    def _refresh(self) -> None:
        """Everything anew from the chosen rows: updates add up their rounding."""
        K, right = _rows(self.program, self.active)
        self.inverse[:] = np.linalg.inv(K)
        self.slack[:] = self.program.h - self.program.G @ solved(K, self.inverse, right)
        self.slack[self.active] = 0.0
        self.w[:] = -(self.cost @ self.inverse)

    def _farkas_ray(self, row: int, a: Array) -> FarkasRay:
        """A broken row that the chosen ones imply the other way round: g_row = K'a with a <= 0 on inequalities."""
        z = np.zeros_like(self.slack)
        z[self.active] = np.maximum(-a[: len(self.active)], 0.0)
        z[row] = 1.0
        return FarkasRay(z, -a[len(self.active) :])

    def vertex(self, steps: int) -> OptimalVertex | None:
        """The vertex where the pivots ended, solved for again; by a new inverse where the updates cost too much."""
        program, count = self.program, len(self.active)
        order = self.active.argsort()
        active = self.active[order]
        inverse = self.inverse[:, np.concatenate([order, np.arange(count, len(program.c))])]
        K, right = _rows(program, active)
        vertex = _prove(program, active, K, inverse, right, steps)
        return vertex or crossover(program, active, pivots=0, steps=steps)

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
        if self.exchanges % tol.REFACTOR_EVERY == 0:
            self._refresh()


def _least_ratio(value: Array, step: Array) -> int | None:
    """Ratio test: the least value / step over step > 0; of those that tie to rounding, the largest step."""
    places = (step > tol.PIVOT_LEAST).nonzero()[0]
    if not len(places):
        return None
    step = step[places]
    ratio = np.maximum(value[places], 0.0) / step
    tied = ratio <= ratio.min() + tol.PIVOT_NEEDED
    return int(places[np.where(tied, step, 0.0).argmax()])


def _prove(program: Program, active: Index, K: Array, inverse: Array, right: Array, steps: int) -> OptimalVertex | None:
    """Solve for the vertex of the active rows; None if it is not feasible or if a multiplier is negative."""
    x, w = solved(K, inverse, right), solved(K.T, inverse.T, -program.c)
    slack = program.h - program.G @ x
    slack[active] = 0.0
    count = len(active)
    chosen = w[:count]
    least = float(chosen.min())
    off, unbalanced = np.abs(K @ x - right).max(), np.abs(w @ K + program.c).max()
    # Data are of size 1. Written so that what is not a number proves nothing.
    if not (
        float(slack.min()) >= -2 * tol.VERTEX_FEASIBLE
        and least >= -2 * tol.VERTEX_FEASIBLE
        and off <= 2 * tol.VERTEX_FEASIBLE
    ):
        return None
    if not unbalanced <= min(2 * tol.VERTEX_FEASIBLE * max(1.0, float(np.abs(w).max())), tol.VERTEX_BALANCED):
        return None
    z = np.zeros_like(slack)
    z[active] = np.maximum(chosen, 0.0)
    strict = least > tol.UNIQUE and np.count_nonzero(slack <= tol.UNIQUE) == count  # its own rows, and no other
    return OptimalVertex(active, K, inverse, x, z, w[count:], steps, strict)
