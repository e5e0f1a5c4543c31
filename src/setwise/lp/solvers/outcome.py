"""Outcome of a solver on a batch, before verification: points, rays, and what is claimed of each program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from setwise.lp.solution import Status, Vertex
from setwise.lp.solvers.simplex import FarkasRay, Found, OptimalVertex, RecessionRay
from setwise.lp.standard_form import AnyArray, Index, Point, StandardForm

# What a solver claims of a program, and what the verifier leaves of that.
OPTIMAL, INFEASIBLE, UNBOUNDED, UNSOLVED = range(4)
STATUS = np.array([Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED, Status.ITERATION_LIMIT], dtype=object)


@dataclass
class Outcome:
    """Points, certificates and claims of a batch."""

    point: Point
    proof: Point  # a recession ray in x, Farkas multipliers in z and y; 0 where there is none
    code: Index  # shape: (batch,)
    steps: Index  # shape: (batch,)
    vertices: dict[int, Vertex] = field(default_factory=dict)  # of the elements that are strict vertices

    @classmethod
    def of(cls, form: StandardForm) -> Self:
        """Nothing found yet."""
        count = form.c.shape[0]
        return cls(form.zero(), form.zero(), np.full(count, UNSOLVED), np.zeros(count, dtype=np.int64))

    def store(self, k: int, found: Found, size: AnyArray, price: AnyArray) -> None:
        """Take what the simplex method found for program k, whose sides and costs were divided by two numbers."""
        if isinstance(found, OptimalVertex):
            self._put(self.point, k, (found.x * size, found.z * price, found.y * price))
            self.code[k] = OPTIMAL
            if found.strict and found.K is not None and found.inverse is not None:
                self.vertices[k] = Vertex(found.active, found.K, found.inverse)
        elif isinstance(found, FarkasRay):
            self._put(self.proof, k, (None, found.z, found.y))  # true in any size
            self.code[k] = INFEASIBLE
        elif isinstance(found, RecessionRay):
            self._put(self.point, k, (found.x * size, None, None))
            self._put(self.proof, k, (found.direction, None, None))
            self.code[k] = UNBOUNDED

    @staticmethod
    def _put(stored: Point, k: int, parts: tuple[AnyArray | None, ...]) -> None:
        for mine, theirs in zip(stored, parts, strict=True):
            if theirs is not None:
                mine[k] = mine.new_tensor(theirs) if hasattr(mine, "new_tensor") else theirs
