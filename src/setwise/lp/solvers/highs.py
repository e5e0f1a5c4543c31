"""HiGHS interface (extra ``lp``): simplex and interior-point methods for large sparse programs on the CPU.

HiGHS answers for one program at a time, in float64, so a batch is a loop. What it says is not taken on trust: residuals
and gap are computed here from the program itself, and a program is called infeasible or unbounded only beside a
certificate that was checked. Where HiGHS gives no ray, or does not know, two auxiliary programs decide, both feasible
and bounded by construction:

- *elastic*: min 1's + 1'(p + q) s.t. A z - s <= b, A_eq z + p - q = b_eq, lower <= z <= upper, and s, p, q >= 0. A
  positive optimum proves infeasibility: its duals, divided by it, are the Farkas multipliers.
- *recession*: min c'd s.t. A d <= 0, A_eq d = 0, d >= 0 where lower is finite, d <= 0 where upper is, |d| <= 1. A
  negative optimum at a feasible program proves that it is unbounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.presolve.equilibration import Equilibration
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution, Status
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.highs_model import Model, Multipliers, models
from setwise.lp.solvers.status import tolerance_for, verify
from setwise.lp.standard_form import Array

if TYPE_CHECKING:
    from setwise.lp.settings import HiGHS

# Tried one after the other until HiGHS is sure: presolve and the dual simplex method may both end without an answer.
_ATTEMPTS: tuple[dict[str, Any], ...] = (
    {},
    {"presolve": "off", "solver": "simplex"},
    {"presolve": "off", "solver": "simplex", "simplex_strategy": 4},  # 4 is the primal simplex method
)
# Tried one after the other where what HiGHS was sure of does not hold on the program's own numbers.
_RETRIES: tuple[dict[str, Any], ...] = (*_ATTEMPTS[1:], {"solver": "ipm"})


class _End(NamedTuple):
    """Outcome of one program: a point, the multipliers of its rows (A, then A_eq), and the certificates."""

    status: Status | None  # None: HiGHS cannot tell
    z: Array  # shape: (n,)
    y: Array  # shape: (rows,)
    steps: int = 0
    farkas: Multipliers | None = None
    ray: Array | None = None  # shape: (n,)


def run(
    settings: HiGHS, problem: LinearProgram, max_steps: int | None, tolerance: float, start: Solution | None
) -> Solution:
    """Solve every program of a batch, in double precision whatever its dtype; see ``HiGHS.run``."""
    if max_steps is not None:
        _checks.is_count("max_steps", max_steps, 0)
    _checks.in_range("tolerance", tolerance, 0, open_low=True)
    batch = tuple(problem.batch_shape)  # costs a broadcast of all fields, so it is asked for once
    if start is not None:
        _check_start(start, problem, batch)
    highspy = _checks.extra("highspy", "lp")
    scaling = Equilibration.analyze(problem, units=True)
    scaled = problem
    if scaling is not None:
        scaled, start = scaling.apply(problem), start and scaling.map_start(start)
    level = tolerance_for(problem.dtype, tolerance)
    runner = _Runner(settings, highspy, max_steps, min(max(level, tol.HIGHS_LEAST_TOLERANCE), tol.HIGHS_MOST_TOLERANCE))
    ends = []
    for place, model in zip(np.ndindex(*batch), models(scaled, batch), strict=True):
        first = None if start is None or settings.method in ("ipm", "pdlp") else _first(start, place)
        ends.append((model, runner.solve(model, first)))

    def gathered() -> Solution:
        result = _gather(ends, scaled, batch, f"HiGHS({settings.method})")
        if scaling is not None:  # both in the units of the program and in those that suit it
            result = scaling.postsolve(verify(scaled, result, level))
        return verify(problem, result, level, equilibrated=scaling is None)

    solution = gathered()
    for attempt in _RETRIES:
        statuses = np.asarray(solution.status, dtype=object).reshape(-1)
        # What was claimed and did not hold on the program's own numbers is tried in another way.
        again = [k for k, (_, end) in enumerate(ends) if end.status not in (None, statuses[k])]
        for k in again:
            ends[k] = (ends[k][0], runner.solve(ends[k][0], None, (attempt,)))
        if not again:
            break
        solution = gathered()
    return solution


@dataclass(frozen=True)
class _Runner:
    """HiGHS with the settings of one call."""

    settings: HiGHS
    highspy: Any
    max_steps: int | None
    tolerance: float

    def solve(
        self, model: Model, first: tuple[Array, Array] | None, attempts: Sequence[dict[str, Any]] = _ATTEMPTS
    ) -> _End:
        """The outcome of one program, certified; ``first`` is a point to start from and the multipliers of its rows."""
        crossed = np.flatnonzero(model.lower > model.upper)
        if crossed.size:  # a contradiction of two bounds, for which HiGHS has no ray
            return _crossed(model, int(crossed[0]))
        end = self._attempts(model, first, attempts)
        if end.status in (Status.OPTIMAL, Status.ITERATION_LIMIT):
            return end
        if end.status is Status.INFEASIBLE and end.farkas is not None:
            return end
        if end.status is Status.UNBOUNDED and end.ray is not None and model.violation(end.z) <= tol.HIGHS_FEASIBLE:
            return end
        return self._decide(model, end)

    def _attempts(
        self, model: Model, first: tuple[Array, Array] | None, attempts: Sequence[dict[str, Any]] = _ATTEMPTS
    ) -> _End:
        end = _End(None, model.nearest(np.zeros(model.n)), np.zeros(model.rows))
        for attempt in attempts:
            end = self._run(model, attempt, first, end.steps)
            if end.status is not None:
                break
        return end

    def _decide(self, model: Model, end: _End) -> _End:
        """Settle by the auxiliary programs what HiGHS left open."""
        elastic = self._attempts(model.elastic(), None)
        end = end._replace(steps=end.steps + elastic.steps)
        farkas = model.contradiction(elastic.y)
        z = elastic.z[: model.n]
        if farkas is not None and model.violation(z) > self.tolerance:
            return end._replace(status=Status.INFEASIBLE, farkas=farkas)
        recession = self._attempts(model.recession(), None)
        end = end._replace(steps=end.steps + recession.steps)
        ray = model.direction(recession.z)
        if ray is not None and model.violation(z) <= tol.HIGHS_FEASIBLE:
            return end._replace(status=Status.UNBOUNDED, z=z, ray=ray)
        return end._replace(status=Status.ITERATION_LIMIT)

    def _run(self, model: Model, attempt: dict[str, Any], first: tuple[Array, Array] | None, spent: int) -> _End:
        """One run of HiGHS, read back."""
        highspy = self.highspy
        solver = highspy.Highs()
        for name, value in (self._options(model, spent) | attempt).items():
            if solver.setOptionValue(name, value) != highspy.HighsStatus.kOk:
                raise _checks.InputError(f"Expected settings that HiGHS accepts, but it refuses {name} = {value!r}.")
        if solver.passModel(model.highs(highspy)) == highspy.HighsStatus.kError:
            raise _checks.InputError(
                "Expected a program that HiGHS accepts: matrix entries below 1e15, sides below 1e20."
            )
        if first is not None and attempt.get("solver") is None:
            solver.setBasis(_basis(highspy, model, *first))
        solver.run()
        info, solution = solver.getInfo(), solver.getSolution()
        kinds = ("simplex", "ipm", "crossover", "pdlp")
        counts = [getattr(info, f"{kind}_iteration_count") for kind in kinds]
        z, y = np.asarray(solution.col_value, dtype=np.float64), -np.asarray(solution.row_dual, dtype=np.float64)
        if not solution.value_valid or len(z) != model.n or not np.isfinite(z).all():
            z = np.zeros(model.n)
        if not solution.dual_valid or len(y) != model.rows or not np.isfinite(y).all():
            y = np.zeros(model.rows)
        end = _End(self._status(solver), model.nearest(z), y, spent + sum(max(0, int(count)) for count in counts))
        if end.status is Status.INFEASIBLE:
            return end._replace(farkas=_certified(model.contradiction, solver.getDualRay))
        if end.status is Status.UNBOUNDED:
            return end._replace(ray=_certified(model.direction, solver.getPrimalRay))
        return end

    def _options(self, model: Model, spent: int) -> dict[str, Any]:
        options: dict[str, Any] = {
            "output_flag": False,
            "threads": self.settings.threads,
            "solver": self.settings.method,
            "presolve": "on" if self.settings.presolve else "off",
            "primal_feasibility_tolerance": self.tolerance,
            "dual_feasibility_tolerance": self.tolerance,
        }
        if self.settings.time_limit is not None:
            options["time_limit"] = float(self.settings.time_limit)
        if self.max_steps is not None:
            left = max(0, self.max_steps - spent)
            options |= {f"{kind}_iteration_limit": left for kind in ("simplex", "ipm", "pdlp")}
        if self.settings.method == "pdlp":
            # It stops by norms over all rows; the verifier looks at each.
            options["pdlp_optimality_tolerance"] = tol.HIGHS_PDLP_SHARE * self.tolerance
        if np.any(np.abs(model.matrix.value) < tol.HIGHS_SMALL_ENTRY):
            options["small_matrix_value"] = tol.HIGHS_SMALLEST_ENTRY
        return options

    def _status(self, solver: Any) -> Status | None:
        kinds = self.highspy.HighsModelStatus
        return {
            kinds.kOptimal: Status.OPTIMAL,
            kinds.kModelEmpty: Status.OPTIMAL,
            kinds.kInfeasible: Status.INFEASIBLE,
            kinds.kUnbounded: Status.UNBOUNDED,
            kinds.kIterationLimit: Status.ITERATION_LIMIT,
            kinds.kTimeLimit: Status.ITERATION_LIMIT,
        }.get(solver.getModelStatus())


def _crossed(model: Model, j: int) -> _End:
    """Two bounds of one variable that exclude each other: y_lower - y_upper = 0 and upper y - lower y = -1."""
    weight = np.zeros(model.n)
    weight[j] = 1 / (model.lower[j] - model.upper[j])
    farkas = Multipliers(np.zeros(model.m), np.zeros(model.rows - model.m), weight, weight)
    return _End(Status.INFEASIBLE, model.nearest(np.zeros(model.n)), np.zeros(model.rows), farkas=farkas)


def _certified(check: Callable[[Array], Any], getter: Callable[[], tuple[Any, bool, Any]]) -> Any:
    """The ray that HiGHS gives, checked and normalized; of either sign, for HiGHS does not promise one."""
    _, result, given = getter()
    if not result:
        return None
    ray = np.asarray(given, dtype=np.float64)
    made = check(ray)
    return check(-ray) if made is None else made


def _basis(highspy: Any, model: Model, z: Array, y: Array) -> Any:
    """The basis at a point: active constraints are non-basic. HiGHS repairs one that is too large or too small."""
    kinds = highspy.HighsBasisStatus
    at_lower, at_upper = z <= model.lower + tol.HIGHS_AT_BOUND, z >= model.upper - tol.HIGHS_AT_BOUND
    basis = highspy.HighsBasis()
    basis.valid, basis.alien = True, True
    basis.col_status = [
        kinds.kLower if low else kinds.kUpper if high else kinds.kBasic
        for low, high in zip(at_lower, at_upper, strict=True)
    ]
    active = (y > tol.HIGHS_AT_BOUND) | (np.arange(model.rows) >= model.m)
    basis.row_status = [kinds.kUpper if flag else kinds.kBasic for flag in active]
    return basis


def _check_start(start: Solution, problem: LinearProgram, batch: tuple[int, ...]) -> None:
    expected = (*batch, problem.variables)
    rows = (start.dual.inequality.shape[-1], start.dual.equality.shape[-1])
    if tuple(start.primal.shape) != expected or rows != (problem.inequalities, problem.equalities):
        raise _checks.InputError(
            f"Expected `start` to be a solution with `primal` of shape {expected} and {problem.inequalities} + "
            f"{problem.equalities} rows, but got shape {tuple(start.primal.shape)} and {rows[0]} + {rows[1]} rows."
        )


def _first(start: Solution, place: tuple[int, ...]) -> tuple[Array, Array]:
    parts = (start.primal, start.dual.inequality, start.dual.equality)
    z, v, w = (part.detach()[place].cpu().double().numpy() for part in parts)
    return z, np.concatenate([v, w])


def _gather(ends: list[tuple[Model, _End]], problem: LinearProgram, batch: tuple[int, ...], name: str) -> Solution:
    """The outcomes of all programs as tensors with the batch dimensions of the problem; yet to be verified."""
    sizes = (problem.inequalities, problem.equalities, problem.variables, problem.variables)
    zeros = Multipliers(*map(np.zeros, sizes))

    def tensor(values: list[Any], *size: int) -> Tensor:
        return torch.as_tensor(np.asarray(values, np.float64).reshape((*batch, *size)), device=problem.device)

    def duals(values: list[Multipliers]) -> Duals:
        return Duals(*(tensor([one[k] for one in values], size) for k, size in enumerate(sizes)))

    statuses = np.empty(batch, dtype=object)
    statuses.reshape(-1)[:] = [end.status for _, end in ends]
    steps = torch.as_tensor(np.asarray([end.steps for _, end in ends], dtype=np.int64).reshape(batch))
    unknown = tensor([np.inf] * len(ends))
    return Solution(
        value=unknown,
        primal=tensor([end.z for _, end in ends], problem.variables),
        dual=duals([model.multipliers(end.y, model.c)[0] for model, end in ends]),
        status=statuses if batch else statuses.item(),
        primal_residual=unknown,
        dual_residual=unknown,
        gap=unknown,
        steps=steps.to(problem.device),
        farkas=duals([end.farkas or zeros for _, end in ends]),
        ray=tensor([np.zeros(problem.variables) if end.ray is None else end.ray for _, end in ends], problem.variables),
        solver=name,
    )
