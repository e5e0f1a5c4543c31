"""From rows that nearly fix the optimum to the vertex that is optimal: pivots of the simplex method, on NumPy arrays.

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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from setwise.lp.vertex import BALANCED, FEASIBLE

if TYPE_CHECKING:
    from setwise.lp.single import System

Array = NDArray[np.float64]
Places = NDArray[np.intp]

_BROKEN = 1e-11  # a slack or a multiplier below minus this calls for a pivot; data are of size 1
_PIVOT = 1e-8  # the least number to divide by
_BY_TORCH = 64  # variables up to which NumPy's calls are faster
_OFF_ZERO = 1e-3
_FRESH = 50  # exchanges after which the inverse is made anew
_BLOCK = 64  # rows at a time
_APART = 1e-6  # how far a row is from the span of others, relative, that does not depend on them
_STRICT = 1e-9  # of slacks and multipliers where the optimum is said to be unique


@dataclass(frozen=True)
class Corner:
    """A vertex that is proven optimal, with the inverse of its rows K = [active rows of G; E]."""

    active: Places  # rows of G, shape: (n - p,)
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


def find_vertex(system: System, active: Places, *, pivots: int, steps: int = 0) -> Corner | None:
    """The optimal vertex by way of the given rows.

    Args:
        system: The program, with cost and sides of size 1.
        active: Rows of G to start from.  # shape: (n - p,)
        pivots: The most exchanges. A vertex reached by any is given only if it is the one optimum: where there are
            others, which of them is found should not depend on the way.
        steps: For the record.

    Returns:
        The vertex, or None where it was not found.
    """
    K, right = _rows(system, active)
    try:
        inverse: Array = np.asarray(np.linalg.inv(K), np.float64)
    except np.linalg.LinAlgError:  # rows that depend on one another
        return None
    tableau = _Tableau(system, active, inverse, system.h - system.G @ (inverse @ right), -(system.c @ inverse))
    wrong = tableau.wrong()
    if wrong == 0 or pivots == 0:
        return _prove(system, active, K, inverse, right, steps)
    if wrong > pivots or not tableau.run(pivots):
        return None
    corner = tableau.corner(steps)
    return corner if corner is not None and corner.strict else None


class Contradiction(NamedTuple):
    """Multipliers that prove that there is no feasible point: G'z + E'y = 0, z >= 0, h'z + e'y < 0."""

    z: Array  # shape: (k,)
    y: Array  # shape: (p,)


class Descent(NamedTuple):
    """A direction that proves that there is no bound, where there is a feasible point: G x <= 0, E x = 0, c'x < 0."""

    x: Array  # shape: (n,)


def simplex(system: System, ratio: Array, pivots: int) -> Corner | Contradiction | Descent | None:
    """The simplex method in full, for where all else has ended: an optimal vertex, or why there is none.

    Args:
        system: The program, with cost and sides of size 1.
        ratio: Of multiplier and slack of each row at some point; of the rows with the largest, those that do not depend
            on one another and on E are where the pivots start.  # shape: (k,)
        pivots: The most exchanges.
    """
    active = _spanning(system, ratio)
    if active is None:
        return None
    K, right = _rows(system, active)
    inverse: Array = np.asarray(np.linalg.inv(K), np.float64)
    tableau = _Tableau(system, active, inverse, system.h - system.G @ (inverse @ right), -(system.c @ inverse))
    return tableau.corner(0) if tableau.run(pivots, apart=True) else tableau.proof


def _spanning(system: System, ratio: Array) -> Places | None:
    """The first rows by ratio that fix a point together with E; None where there are none, or E has too many.

    Gram and Schmidt's method: by blocks against the rows before, twice, then row by row.
    """
    n, p = len(system.c), len(system.e)
    order = np.argsort(-ratio, kind="stable")
    basis, count, active = np.zeros((n, n)), 0, []
    for start in range(0, p + len(order), _BLOCK):
        ahead = range(start, min(start + _BLOCK, p + len(order)))  # the rows of E first
        rows = np.stack([system.E[k] if k < p else system.G[order[k - p]] for k in ahead])
        lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
        first = count
        for _ in range(2):
            rows -= (rows @ basis[:first].T) @ basis[:first]
        for k, row, length in zip(ahead, rows, lengths, strict=True):
            for _ in range(2):
                row[:] = row - (basis[first:count] @ row) @ basis[first:count]
            size = float(np.linalg.norm(row))
            if size <= _APART * length:
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


def _rows(system: System, active: Places) -> tuple[Array, Array]:
    """K and (h, e) of the rows.  # shape: (n, n), (n,)."""
    K, right = system.G[active], system.h[active]
    if not len(system.e):
        return K, right
    return np.concatenate([K, system.E]), np.concatenate([right, system.e])


class _Tableau:
    """Chosen rows, the inverse, slacks and multipliers, all changed by each pivot."""

    def __init__(self, system: System, active: Places, inverse: Array, slack: Array, w: Array) -> None:
        self.system, self.active, self.inverse, self.slack, self.w = system, active, inverse, slack, w
        self.slack[active] = 0.0
        self.cost, self.exchanges = system.c, 0
        self.proof: Contradiction | Descent | None = None  # set where the pivots end without a vertex

    def wrong(self) -> int:
        """How many rows are broken or have a negative multiplier; what is not a number counts too."""
        broken, negative = self.slack >= -_BROKEN, self.w[: len(self.active)] >= -_BROKEN
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
                chosen += _OFF_ZERO * np.random.default_rng(0).uniform(0.5, 1.0, count)
            self.cost = -(self.w @ _rows(self.system, self.active)[0])
        for _ in range(pivots):
            row = int(self.slack.argmin())
            if self.slack[row] >= -_BROKEN:
                break
            a = self.system.G[row] @ self.inverse
            place = _least_ratio(chosen, a[:count])
            if place is None:
                self.proof = self._contradiction(row, a)
                return False
            self._exchange(place, row, a, self.system.G @ self.inverse[:, place])
            pivots -= 1
        self.cost = self.system.c
        self.w[:] = -(self.cost @ self.inverse)
        for _ in range(pivots):
            place = int(chosen.argmin())
            if chosen[place] >= -_BROKEN:
                return bool(self.slack.min() >= -_BROKEN)
            along = self.system.G @ self.inverse[:, place]
            found = _least_ratio(self.slack, -along)
            if found is None:
                self.proof = Descent(-self.inverse[:, place])
                return False
            self._exchange(place, found, self.system.G[found] @ self.inverse, along)
        return False

    def _refresh(self) -> None:
        """Everything anew from the chosen rows: updates add up their rounding."""
        K, right = _rows(self.system, self.active)
        self.inverse[:] = np.linalg.inv(K)
        self.slack[:] = self.system.h - self.system.G @ solved(K, self.inverse, right)
        self.slack[self.active] = 0.0
        self.w[:] = -(self.cost @ self.inverse)

    def _contradiction(self, row: int, a: Array) -> Contradiction:
        """A broken row that the chosen ones imply the other way round: g_row = K'a with a <= 0 on inequalities."""
        z = np.zeros_like(self.slack)
        z[self.active] = np.maximum(-a[: len(self.active)], 0.0)
        z[row] = 1.0
        return Contradiction(z, -a[len(self.active) :])

    def corner(self, steps: int) -> Corner | None:
        """The vertex where the pivots ended, solved for again; by a new inverse where the updates cost too much."""
        system, count = self.system, len(self.active)
        order = self.active.argsort()
        active = self.active[order]
        inverse = self.inverse[:, np.concatenate([order, np.arange(count, len(system.c))])]
        K, right = _rows(system, active)
        corner = _prove(system, active, K, inverse, right, steps)
        return corner or find_vertex(system, active, pivots=0, steps=steps)

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
        if len(a) > _BY_TORCH:
            self.shared.addr_(torch.from_numpy(column), torch.from_numpy(a), alpha=-1)  # in place, in one pass
        else:
            self.inverse -= np.multiply.outer(column, a)
        self.inverse[:, place] = column
        self.exchanges += 1
        if self.exchanges % _FRESH == 0:
            self._refresh()


def _least_ratio(value: Array, step: Array) -> int | None:
    """Where value / step is least over step > 0; of those that tie to rounding, the largest step."""
    places = (step > _PIVOT).nonzero()[0]
    if not len(places):
        return None
    step = step[places]
    ratio = np.maximum(value[places], 0.0) / step
    tied = ratio <= ratio.min() + _BROKEN
    return int(places[np.where(tied, step, 0.0).argmax()])


def _prove(system: System, active: Places, K: Array, inverse: Array, right: Array, steps: int) -> Corner | None:
    """Solve for the vertex of the active rows; None if it is not feasible or if a multiplier is negative."""
    x, w = solved(K, inverse, right), solved(K.T, inverse.T, -system.c)
    slack = system.h - system.G @ x
    slack[active] = 0.0
    count = len(active)
    chosen = w[:count]
    least = float(chosen.min())
    off, unbalanced = np.abs(K @ x - right).max(), np.abs(w @ K + system.c).max()
    # Data are of size 1. Written so that what is not a number proves nothing.
    if not (float(slack.min()) >= -2 * FEASIBLE and least >= -2 * FEASIBLE and off <= 2 * FEASIBLE):
        return None
    if not unbalanced <= min(2 * FEASIBLE * max(1.0, float(np.abs(w).max())), BALANCED):
        return None
    z = np.zeros_like(slack)
    z[active] = np.maximum(chosen, 0.0)
    strict = least > _STRICT and np.count_nonzero(slack <= _STRICT) == count  # its own rows, and no other
    return Corner(active, K, inverse, x, z, w[count:], steps, strict)
