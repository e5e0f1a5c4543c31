"""Per-element driver on the CPU: each program of a batch solved by itself, faster unless they are many and tiny.

A step of :mod:`setwise.lp.solvers.interior_point` costs some sixty calls for each program; one of
:mod:`setwise.lp.solvers.embedding` twice as many for the whole batch, but with more to compute, for it embeds, masks,
refines and has more right-hand sides. Each program stops when it is done, and keeps the inverse of its active rows for
the backward pass. From an earlier solution that was a plain vertex, pivots alone may lead to the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution, Status
from setwise.lp.solvers import interior_point
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.interior_point import Nearby
from setwise.lp.solvers.residuals import residuals_of_one
from setwise.lp.solvers.simplex import FarkasRay, OptimalVertex, RecessionRay, solved
from setwise.lp.solvers.status import LOST, NEAR, RUNNING, VERTEX, Outcome
from setwise.lp.standard_form import Array, Index, Point, Program, StandardForm

Found = OptimalVertex | Nearby | FarkasRay | RecessionRay | None


def prefers_per_element(form: StandardForm, *, warm: bool = False) -> bool:
    """Whether each program should be solved by itself; with earlier solutions at hand, always on the CPU."""
    batch, m, p, n = form.sizes
    return form.c.device.type == "cpu" and p < n and (warm or batch <= tol.FEW_PROGRAMS or m * n >= tol.LARGE_PROGRAM)


def solve_one(program: Program, max_steps: int, tolerance: float, before: Array | None = None) -> Found:
    """A vertex, a point near the optimum, or nothing, on the way of :mod:`setwise.lp.solvers.interior_point`.

    Args:
        program: The program.
        max_steps: The most steps.
        tolerance: Of a point near the optimum.
        before: Multipliers of an earlier solution, over [A; -I; I]. If those that are positive are not as many as it
            takes to fix a point, nothing is done: there is a method that can use them all the same.
    """
    if before is not None:
        own = before[program.rows]
        active = (own > tol.WARM_POSITIVE * own.max(initial=0.0)).nonzero()[0]
        if len(active) != len(program.c) - len(program.e):
            return None
        vertex = interior_point.resume(program, active)
        if vertex is not None:
            return vertex
    return interior_point.run(program, max_steps, tolerance)


def per_element(form: StandardForm, max_steps: int, tolerance: float = 1e-10, start: Point | None = None) -> Outcome:
    """Take each program of a batch, from an earlier solution where there is one."""
    before = None if start is None else _by_row(form, start.z)
    pairs: list[tuple[Index, Found]] = []
    failures = 0
    keep = form.c.shape[0] * form.c.shape[1] ** 2 <= tol.KEPT_INVERSES
    for k, program in enumerate(_programs(form)):
        result = solve_one(program, max_steps, tolerance, None if before is None else before[k])
        if isinstance(result, OptimalVertex) and not keep:
            result = replace(result, K=result.K[:0], inverse=result.K[:0], strict=False)
        pairs.append((program.rows, result))
        failures += result is None
        if failures == tol.FAILURES:
            break
    return gather(form, pairs)


def simplex_per_element(form: StandardForm, point: Point, max_steps: int) -> Outcome:
    """Each program by the simplex method, started by a point: a vertex, or a proof that is yet to be checked."""
    x, z = point.x.numpy(force=True), _by_row(form, point.z)
    _, m, _, n = form.sizes
    most = min(max_steps * (1 + n // 10), tol.PIVOT_WORK // (n * (m + 2 * n)))
    ends = [
        (program.rows, interior_point.by_simplex(program, x[k], z[k, program.rows], most))
        for k, program in enumerate(_programs(form))
    ]
    return gather(form, ends, point)


def _programs(form: StandardForm) -> Iterator[Program]:
    """The programs of a batch, one after the other."""
    arrays = form.numpy()
    sides = np.full((form.c.shape[0], form.A.shape[1] + 2 * form.c.shape[1]), np.inf)
    sides[:, _columns(form)] = np.where(arrays.mask > 0, arrays.h, np.inf)
    for k in range(len(sides)):
        yield Program.from_arrays(arrays.c[k], arrays.A[k], sides[k], arrays.E[k], arrays.e[k])


def _by_row(form: StandardForm, z: Tensor) -> Array:
    """Multipliers over [A; -I; I]; infinite for the rows that the batch has not."""
    every = np.full((form.c.shape[0], form.A.shape[1] + 2 * form.c.shape[1]), np.inf)
    every[:, _columns(form)] = z.numpy(force=True)
    return every


def gather(form: StandardForm, pairs: Sequence[tuple[Index, Found]], start: Point | None = None) -> Outcome:
    """Collect the results of the first programs of a batch, each with its rows; where there is none, the start or 0."""
    batch, m, _, _ = form.sizes
    start = start or form.zero()
    every, x, y = _by_row(form, start.z), start.x.numpy(force=True).copy(), start.y.numpy(force=True).copy()
    code, steps = np.full(batch, RUNNING), np.zeros(batch, dtype=np.int64)
    vertices: list[tuple[Index, OptimalVertex]] = []
    for k, (rows, result) in enumerate(pairs):
        if result is None:
            continue
        code[k] = VERTEX if isinstance(result, OptimalVertex) else NEAR if isinstance(result, Nearby) else LOST
        if not isinstance(result, FarkasRay):
            x[k] = result.x
        if not isinstance(result, RecessionRay):
            every[k], y[k] = 0.0, result.y
            every[k, rows] = result.z
        if isinstance(result, OptimalVertex | Nearby):
            steps[k] = result.steps
        if isinstance(result, OptimalVertex) and result.strict:
            vertices.append((rows[result.active], result))
    device = form.c.device
    point = Point(*(torch.from_numpy(part).to(device) for part in (x, every[:, _columns(form)], y)))
    factor = VertexFactor(vertices, m) if len(vertices) == batch else None
    return Outcome(point, torch.from_numpy(code).to(device), torch.from_numpy(steps).to(device), factor)


def _columns(form: StandardForm) -> Index:
    """Which of the rows [A; -I; I] the batch has."""
    _, m, _, n = form.sizes
    first, last = (m if form.has_lower else m + n), (m + 2 * n if form.has_upper else m + n)
    return np.concatenate([np.arange(m), np.arange(first, last)])


@dataclass(frozen=True)
class VertexFactor:
    """The inverses of the active rows from the forward pass; see :class:`~setwise.lp.solution.Factor`."""

    vertices: Sequence[tuple[Index, OptimalVertex]]  # each with the places of its active rows in [A; -I; I]
    inequalities: int

    def by_columns(self, g: Tensor) -> Duals:
        """K'^-1 g, written into all constraints."""
        m, n = self.inequalities, g.shape[-1]
        rights = np.asarray(g.numpy(force=True), np.float64).reshape(-1, n)
        p = len(self.vertices[0][1].y)
        every = np.zeros((len(self.vertices), m + p + 2 * n))
        for k, (places, vertex) in enumerate(self.vertices):
            result = solved(vertex.K.T, vertex.inverse.T, rights[k])
            every[k, places], every[k, m + 2 * n :] = result[: len(places)], result[len(places) :]
        rows, lower, upper, y = torch.from_numpy(every).to(g.dtype).reshape(*g.shape[:-1], -1).split([m, n, n, p], -1)
        return Duals(rows, y, lower, upper)


def vertex_solution(
    problem: LinearProgram, program: Program, vertex: OptimalVertex, tolerance: float
) -> Solution | None:
    """The vertex of one program as its solution, or None where its residuals are too large."""
    x = program.within_bounds(vertex.x, vertex.active)
    result = residuals_of_one(program, x, vertex.z, vertex.y)
    if not max(result) <= tolerance:
        return None
    slack = program.h - program.G @ x
    # Where a chosen row has a multiplier of 0, the solution does not show it as active: what to differentiate through
    # is then decided from the solution, as for any other solver.
    shown = vertex.strict or np.array_equal((vertex.z > slack).nonzero()[0], vertex.active)
    batch, m, n, p = problem.batch_shape, program.inequalities, len(x), len(vertex.y)
    packed = np.zeros(3 * n + m + p + 4)  # one tensor, taken apart, costs less than many
    packed[:n], packed[n : n + p], packed[n + p : n + p + 4] = x, vertex.y, (program.c @ x, *result)
    packed[n + p + 4 :][program.rows] = vertex.z
    tensor = torch.from_numpy(packed)
    like = (*batch, -1)
    x, y, numbers, rows, lower, upper = tensor.reshape(like).split([n, p, 4, m, n, n], -1)
    optimum, broken, unbalanced, gap = numbers.unbind(-1)
    ray, *farkas = torch.zeros_like(tensor[4:]).reshape(like).split([n, m, p, n, n], -1)
    return Solution(
        value=optimum + problem.offset.detach(),
        primal=x,
        dual=Duals(rows, y, lower, upper),
        status=np.full(batch, Status.OPTIMAL, dtype=object) if batch else Status.OPTIMAL,
        primal_residual=broken,
        dual_residual=unbalanced,
        gap=gap,
        steps=torch.full(batch, vertex.steps),
        farkas=Duals(*farkas),
        ray=ray,
        solver="Interior",
        factor=VertexFactor([(program.rows[vertex.active], vertex)], m) if shown else None,
    )
