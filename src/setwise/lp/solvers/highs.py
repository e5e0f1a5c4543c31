"""HiGHS interface (extra ``lp``): simplex, interior-point and first-order methods for sparse programs, on the CPU.

Programs that share their matrices share one model, in which costs, sides and bounds are changed in place. A
:class:`HotStart` keeps the model for the next call, and the bases from which each place of the batch may start then.

What HiGHS says is not taken on trust: residuals and gap are computed here from the program itself, and a program is
called infeasible or unbounded only beside a certificate that was checked. Where HiGHS gives no ray, or does not know,
two auxiliary programs decide, both feasible and bounded by construction:

- *elastic*: min 1's + 1'(p + q) s.t. A z - s <= b, A_eq z + p - q = b_eq, lower <= z <= upper, and s, p, q >= 0. A
  positive optimum proves infeasibility: its duals are the Farkas multipliers.
- *recession*: min c'd s.t. A d <= 0, A_eq d = 0, d >= 0 where lower is finite, d <= 0 where upper is, |d| <= 1. A
  negative optimum at a feasible program proves that it is unbounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.presolve.equilibration import Equilibration, in_usual_units
from setwise.lp.presolve.reductions import DependentRows, LinealitySpace, partition, shared
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Solution
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.highs_model import Model, Options, Program, Rows, cone, elastic, elastic_rows
from setwise.lp.solvers.hot_start import HotStart, as_numpy
from setwise.lp.solvers.outcome import INFEASIBLE, OPTIMAL, STATUS, UNBOUNDED, UNSOLVED, Outcome
from setwise.lp.solvers.verifier import (
    Residuals,
    check,
    completed,
    contradicts,
    descends,
    kept_ray,
    to_solution,
    tolerance_for,
    verify,
)
from setwise.lp.standard_form import AnyArray, Array, Point

if TYPE_CHECKING:
    from setwise.lp.settings import HiGHS

# Tried one after the other until HiGHS is sure: a hot start, presolve and the dual simplex method may end without an
# answer. 4 is the primal simplex method.
_ATTEMPTS: tuple[Options, ...] = (
    {},
    {"presolve": "on", "solver": "simplex"},
    {"presolve": "off", "solver": "simplex"},
    {"presolve": "off", "solver": "simplex", "simplex_strategy": 4},
)
# Tried one after the other where what HiGHS was sure of does not hold on the program's own numbers.
_RETRIES: tuple[Options, ...] = (*_ATTEMPTS[1:], {"solver": "ipm"})


def run(
    settings: HiGHS,
    problem: LinearProgram,
    max_steps: int | None,
    tolerance: float,
    start: Solution | None,
    memory: HotStart | None = None,
) -> Solution:
    """Solve every program of a batch, in double precision whatever its dtype; see ``HiGHS.run``."""
    if max_steps is not None:
        _checks.is_count("max_steps", max_steps, 0)
    _checks.in_range("tolerance", tolerance, 0, open_low=True)
    if start is not None:
        _check_start(start, problem)
    level = tolerance_for(problem.dtype, tolerance)
    memory = memory or HotStart()
    with memory.lock:  # a model is for one thread at a time
        usual = memory.is_in_usual_units(problem) and in_usual_units(problem.c)
        scaling = None if usual else Equilibration.analyze(problem, units=True)
        if scaling is None:
            memory.sides = memory.sides_of(problem)._replace(usual=True)
            return _run(settings, problem, max_steps, level, start, memory, lambda solution: solution)
        scaled, start = scaling.apply(problem), start and scaling.map_start(start)

        def back(solution: Solution) -> Solution:
            return verify(problem, scaling.postsolve(solution), level, equilibrated=False)

        return _run(settings, scaled, max_steps, level, start, HotStart(), back)


def points(settings: HiGHS, problem: LinearProgram, tolerance: float, memory: HotStart) -> Tensor | None:
    """The optimal points alone, verified, without what else a solution holds.

    None where the memory does not know matrices and sides, or a program has no optimum: then :func:`run` says why.
    """
    with memory.lock:
        if not (memory.is_in_usual_units(problem) and in_usual_units(problem.c)):
            return None
        level = tolerance_for(problem.dtype, tolerance)
        batch = _Batch(settings, problem, None, level, memory)
        batch.run(None)
        checked, _ = batch.checked(level)
    if (checked.code != OPTIMAL).any():
        return None
    found = torch.as_tensor(checked.point.x, device=problem.device)
    return found.reshape(*problem.batch_shape, problem.variables).to(problem.dtype)


def _run(
    settings: HiGHS,
    problem: LinearProgram,
    max_steps: int | None,
    level: float,
    start: Solution | None,
    memory: HotStart,
    back: Callable[[Solution], Solution],
) -> Solution:
    """Solve, verify, and try again in other ways what was claimed and does not hold; ``back`` undoes a scaling."""
    batch = _Batch(settings, problem, max_steps, level, memory)
    batch.run(start)
    solution, name = back(batch.solution(level)), f"HiGHS({settings.method})"
    for attempt in _RETRIES:
        status, claims = np.asarray(solution.status, dtype=object).reshape(-1), batch.outcome.code
        again = [k for k in range(len(claims)) if claims[k] != UNSOLVED and status[k] is not STATUS[claims[k]]]
        if not again:
            break
        for k in again:
            batch.solve(k, (attempt,))
        solution, name = back(batch.solution(level)), f"HiGHS({settings.method}), HiGHS({attempt['solver']})"
    return replace(solution, solver=name)


class _Batch:
    """The programs of one call, with the models that serve them."""

    def __init__(
        self, settings: HiGHS, problem: LinearProgram, max_steps: int | None, level: float, memory: HotStart
    ) -> None:
        self.settings, self.problem = settings, problem
        self.highspy, self.max_steps = _checks.extra("highspy", "lp"), max_steps
        self.tolerance = min(max(level, tol.HIGHS_LEAST_TOLERANCE), tol.HIGHS_MOST_TOLERANCE)
        self.one_matrix = memory.knows(problem) or (
            len(problem.A.shape) == len(problem.A_eq.shape) == 2
            or (shared(problem.A) is not None and shared(problem.A_eq) is not None)
        )
        sides = memory.sides_of(problem)
        if self.one_matrix:
            memory.open(problem, (settings, self.tolerance, max_steps))
            memory.sides = sides
        self.memory = memory if self.one_matrix else HotStart()  # a model of many matrices is of no use later
        self.sides, count = sides, problem.batch_shape.numel()
        self.form = form = sides.form.with_costs(problem)
        self.programs = [Program(c, *rest) for c, rest in zip(as_numpy(form.c), sides.each, strict=True)]
        self.outcome = Outcome.of(form)
        self.x, self.y = np.zeros((count, problem.variables)), np.zeros((count, sides.high.shape[1]))
        self.bases: list[Any] = [None] * count  # to start from

    def run(self, start: Solution | None) -> None:
        """All programs, one after the other or by several workers."""
        count, workers = len(self.programs), self.settings.workers
        simplex = self.settings.method not in ("ipm", "pdlp")
        if self.one_matrix and simplex:
            self.bases = list(self.memory.starts(count))
        hot = any(basis is not None for basis in self.bases)
        if start is not None and simplex and not hot:
            x, z, y = (as_numpy(part) for part in self.form.point(start.primal, start.dual))
            m, model = self.problem.inequalities, self._model(0, 0)
            rows = np.concatenate([z[:, :m], y], 1)
            self.bases = [model.basis(one, x[k], rows[k], m) for k, one in enumerate(self.programs)]
        if workers == 1 or count == 1:
            self._sweep(range(count), 0)
        else:
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(self._sweep, np.array_split(np.arange(count), workers), range(workers)))
        if self.one_matrix and count:
            self.memory.note(self.bases, float(self.outcome.steps.mean()), hot=hot)

    def _sweep(self, places: Sequence[int], worker: int) -> None:
        for k in places:
            self.solve(int(k), _ATTEMPTS, worker)

    def solve(self, k: int, attempts: Sequence[Options], worker: int = 0) -> None:
        """One program, with what certifies its end."""
        program, outcome = self.programs[k], self.outcome
        if self.sides.crossed[k] >= 0:  # a contradiction of two bounds, for which HiGHS has no ray
            for part in self.form.split(outcome.proof.z)[1:]:
                cast("AnyArray", part)[k, self.sides.crossed[k]] = 1.0
            outcome.code[k] = INFEASIBLE
            return
        model = self._model(k, worker)
        code = self._attempts(k, model, program, attempts, self.bases[k] if attempts is _ATTEMPTS else None)
        self.x[k], self.y[k] = model.point()
        if self.one_matrix and self.memory.asks_for_bases:
            self.bases[k] = model.solver.getBasis() if code == OPTIMAL else None
        if code == INFEASIBLE and not self._farkas(k, model.solver.getDualRay()):
            code = None
        if code == UNBOUNDED and not (self._is_feasible(k, model.rows) and self._ray(k, model.solver.getPrimalRay())):
            code = None
        outcome.code[k] = self._decide(k, model) if code is None else code

    def solution(self, level: float) -> Solution:
        """What was found, verified."""
        checked, result = self.checked(level)
        return to_solution(self.problem, self.form, checked, result, f"HiGHS({self.settings.method})")

    def checked(self, level: float) -> tuple[Outcome, Residuals]:
        """Points and multipliers of all constraints, verified."""
        form, sides, m = self.form, self.sides, self.problem.inequalities
        x, y = (part if np.isfinite(part).all() else np.nan_to_num(part) for part in (self.x, self.y))
        x = np.minimum(np.maximum(x, sides.lower), sides.upper)
        x, y_eq = self._canonical(x, y[:, m:])
        rows = np.where(np.isfinite(sides.high[:, :m]), y[:, :m].clip(0), 0.0)
        z, y_eq = self._like(self._padded(rows)), self._like(y_eq)
        self.outcome.point = Point(self._like(x), completed(form, z, y_eq, cost=form.c), y_eq)
        return check(form, self.outcome, level)

    def _canonical(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The points nearest to 0 along free directions, and the least multipliers of dependent equalities."""
        if self.form.xp is not np or self.problem.variables > tol.DENSE_VARIABLES:
            return x, y
        parts: list[tuple[LinearProgram, slice, DependentRows | None]] = []
        if self.one_matrix:
            if self.memory.dependent is None:
                self.memory.dependent = (DependentRows.of(shared(self.problem.A_eq)),)
            parts = [(self.problem, slice(None), self.memory.dependent[0])]
        else:
            own = partition(self.problem)
            for k in () if own is None else own.tolist():
                one = self._element(k)
                parts.append((one, slice(k, k + 1), DependentRows.of(shared(one.A_eq))))
        free = np.isinf(self.sides.lower) & np.isinf(self.sides.upper)
        for problem, places, dependent in parts:
            lines = LinealitySpace.analyze(problem) if free[places].any() else None
            if lines is not None:
                N = lines.N.numpy()
                x[places] -= (x[places] @ N) @ N.T
            if dependent is not None:
                y[places] = y[places] @ dependent.combine.numpy() @ dependent.spread.numpy().T
        return x, y

    def _element(self, k: int) -> LinearProgram:
        batch = self.problem.batch_shape
        return self.problem.element(*map(int, np.unravel_index(k, batch))) if batch else self.problem

    def _model(self, k: int, worker: int) -> Model:
        """The model with a program's matrix: that of all, or its own."""
        memory = self.memory
        known = memory.models.get(worker)
        if known is not None and self.one_matrix and known.rows is memory.rows:
            return known
        if worker not in memory.models:
            memory.models[worker] = Model(self.highspy, self._options())
        model = memory.models[worker]
        if not self.one_matrix:
            model.open(self._rows(k))
        elif model.rows is not memory.rows or memory.rows is None:
            memory.rows = memory.rows or self._rows(k)
            model.open(memory.rows)
        return model

    def _rows(self, k: int) -> Rows:
        if self.problem.is_dense and self.form.xp is np:
            A, E = (part[k if part.shape[0] > 1 else 0] for part in (self.form.A, self.form.E))
            return Rows.of_dense(A).over(Rows.of_dense(E))  # entries, not whole matrices, are put together
        one = self._element(k)
        return Rows.of("A", one.A).over(Rows.of("A_eq", one.A_eq))

    def _options(self) -> Options:
        settings, problem = self.settings, self.problem
        small = problem.variables + problem.inequalities + problem.equalities <= tol.HIGHS_PRESOLVE_FROM
        presolve = not small if settings.presolve is None else settings.presolve
        options: Options = {
            "output_flag": False,
            "threads": settings.threads,
            "solver": settings.method,
            "presolve": "on" if presolve else "off",
            "primal_feasibility_tolerance": self.tolerance,
            "dual_feasibility_tolerance": self.tolerance,
        }
        if settings.time_limit is not None:
            options["time_limit"] = float(settings.time_limit)
        if settings.method == "pdlp":
            # It stops by norms over all rows; the verifier looks at each.
            options["pdlp_optimality_tolerance"] = tol.HIGHS_PDLP_SHARE * self.tolerance
        return options

    def _attempts(
        self, k: int, model: Model, program: Program, attempts: Sequence[Options], basis: Any = None
    ) -> int | None:
        """One attempt after the other until HiGHS is sure."""
        for attempt in attempts:
            code, steps = model.run(program, attempt if self.max_steps is None else attempt | self._limits(k), basis)
            self.outcome.steps[k] += steps
            if code is not None:
                return code
            basis = None
        return None

    def _limits(self, k: int) -> Options:
        left = max(0, cast("int", self.max_steps) - int(self.outcome.steps[k]))
        return {f"{kind}_iteration_limit": left for kind in ("simplex", "ipm", "pdlp")}

    def _decide(self, k: int, model: Model) -> int:
        """Settle by the auxiliary programs what HiGHS left open."""
        program, rows = self.programs[k], model.rows
        auxiliary = Model(self.highspy, self._options())
        auxiliary.open(elastic_rows(program, rows))
        self._attempts(k, auxiliary, elastic(program), _ATTEMPTS)
        x, y = auxiliary.point()
        self.x[k], self.y[k] = np.clip(x[: rows.shape[1]], program.lower, program.upper), 0.0
        if not self._is_feasible(k, rows) and self._farkas(k, (None, True, y)):
            return INFEASIBLE
        auxiliary.open(rows)
        self._attempts(k, auxiliary, cone(program), _ATTEMPTS)
        return UNBOUNDED if self._ray(k, (None, True, auxiliary.point()[0])) else UNSOLVED

    def _is_feasible(self, k: int, rows: Rows) -> bool:
        """Whether the stored point keeps all rows, relative to 1 + the largest side."""
        program = self.programs[k]
        x = np.clip(self.x[k], program.lower, program.upper)
        held = np.bincount(rows.row, rows.value * x[rows.column], rows.shape[0])
        excess = np.maximum(held - program.high, program.low - held)
        size = np.abs(program.high[np.isfinite(program.high)]).max(initial=0.0)
        return bool(excess.max(initial=0.0) <= tol.HIGHS_FEASIBLE * (1 + size))

    def _padded(self, rows: Array) -> Array:
        """Multipliers of the inequalities with room for those of the bounds.  # shape: (batch, k)."""
        return np.concatenate([rows, np.zeros((len(rows), self.form.h.shape[1] - rows.shape[1]))], 1)

    def _like(self, part: Array) -> AnyArray:
        return part if self.form.xp is np else torch.as_tensor(part).to(self.form.c)

    def _farkas(self, k: int, given: tuple[Any, bool, Any]) -> bool:
        """Store the multipliers that HiGHS gives where they prove that there is no feasible point."""
        _, there, values = given
        one, m, finite = self.form.select(np.array([k])), self.problem.inequalities, np.isfinite(self.programs[k].high)
        for ray in (np.asarray(values), -np.asarray(values)) if there else ():  # HiGHS does not promise a sign
            rows = self._like(self._padded(np.where(finite, ray.clip(0), 0.0)[None, :m]))
            y = self._like(ray[None, m:])
            z = completed(one, rows, y)
            if bool(contradicts(one, z, y)):
                self.outcome.proof.z[k], self.outcome.proof.y[k] = z[0], y[0]
                return True
        return False

    def _ray(self, k: int, given: tuple[Any, bool, Any]) -> bool:
        """Store the direction that HiGHS gives where it keeps all constraints and the cost falls along it."""
        _, there, values = given
        one = self.form.select(np.array([k]))
        for ray in (np.asarray(values), -np.asarray(values)) if there else ():
            x = kept_ray(one, self._like(ray[None]))
            if bool(descends(one, x)):
                self.outcome.proof.x[k] = x[0]
                return True
        return False


def _check_start(start: Solution, problem: LinearProgram) -> None:
    expected = (*problem.batch_shape, problem.variables)
    rows = (start.dual.inequality.shape[-1], start.dual.equality.shape[-1])
    if tuple(start.primal.shape) != expected or rows != (problem.inequalities, problem.equalities):
        raise _checks.InputError(
            f"Expected `start` to be a solution with `primal` of shape {expected} and {problem.inequalities} + "
            f"{problem.equalities} rows, but got shape {tuple(start.primal.shape)} and {rows[0]} + {rows[1]} rows."
        )
