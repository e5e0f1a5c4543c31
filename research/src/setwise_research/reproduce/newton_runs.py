"""The papers' Newton loop and ours, on batches of programs from random starts: what each has reached after some steps.

Shared by ``solver-convergence`` and by ``benchmarks/convergence.py``. An end counts as *solved* if its value is within
1e-6 (relative) of HiGHS' and no constraint is broken by more; the loop has *converged* if the gradient of the penalty
function has gone, whatever the point is worth then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from setwise.lp import Duals, ExteriorNewton, HiGHS, Interior, LinearProgram, Solution, solve
from setwise.lp.solvers import interior_point
from setwise.lp.solvers.exterior_newton import minimize_penalty, undamped_point, undamped_step
from setwise.lp.solvers.verifier import residuals
from setwise.lp.standard_form import StandardForm

SHORT, LONG = 20, 300  # the papers' number of steps, and enough of them
PENALTY = RIDGE = 1e-3  # the papers'
SOLVED = 1e-6
LONGEST_CYCLE = 100
STOPS = (1, 2, 3, 5, 7, 10, 14, SHORT, 28, 40, 56, 80, 110, 150, 200, LONG)  # where the errors are looked at
MARGIN = 0.1
DOUBLE = torch.float64

Draw = Callable[[torch.Generator, int], LinearProgram]


def pairs(gaps: Tensor, margin: float = MARGIN) -> LinearProgram:
    """Min sum z s.t. -z <= gaps - margin, z >= 0: a variable and a row for each pair.  # shape: (batch, pairs)."""
    eye = torch.eye(gaps.shape[-1], dtype=DOUBLE)
    return LinearProgram(torch.ones_like(gaps), -eye, gaps - margin)


def auc(g: torch.Generator, count: int) -> LinearProgram:
    """The AUC of 14 given scores: 49 pairs."""
    positive, negative = torch.randn(2, count, 7, generator=g, dtype=DOUBLE)
    return pairs((0.5 + positive.unsqueeze(-1) - negative.unsqueeze(-2)).flatten(1))


def auc_tied(g: torch.Generator, count: int) -> LinearProgram:
    """Scores in halves and margin 1/2: where a pair stands exactly at the margin, both of its rows say z >= 0."""
    positive, negative = (2 * torch.randn(2, count, 7, generator=g, dtype=DOUBLE)).round() / 2
    return pairs((0.5 + positive.unsqueeze(-1) - negative.unsqueeze(-2)).flatten(1), 0.5)


def auc_mu(g: torch.Generator, count: int) -> LinearProgram:
    """AUC-mu of the probabilities of 12 samples in 3 classes: 48 pairs, the orientation taken the right way round."""
    f = torch.randn(count, 12, 3, generator=g, dtype=DOUBLE).softmax(-1)
    y = torch.arange(12) % 3
    i, j = (y.unsqueeze(1) < y).nonzero().unbind(-1)
    return pairs(f[:, i, y[i]] - f[:, i, y[j]] - f[:, j, y[i]] + f[:, j, y[j]])


def auc_scorer(g: torch.Generator, count: int) -> LinearProgram:
    """Learning to rank: the scores are w'x, and the 5 weights are variables in [-1, 1] beside the 36 pairs."""
    positive, negative = torch.randn(2, count, 6, 5, generator=g, dtype=DOUBLE)
    difference = (0.3 + positive.unsqueeze(2) - negative.unsqueeze(1)).flatten(1, 2)  # shape: (count, 36, 5)
    eye = torch.eye(36, dtype=DOUBLE).expand(count, -1, -1)
    zero, one = torch.zeros(36, dtype=DOUBLE), torch.ones(5, dtype=DOUBLE)
    return LinearProgram(
        torch.cat([0 * one, zero + 1]),
        torch.cat([-difference, -eye], -1),
        zero - MARGIN,
        lower=torch.cat([-one, zero]),
        upper=torch.cat([one, zero + torch.inf]),
    )


def f_score(g: torch.Generator, count: int) -> LinearProgram:
    """The papers' F-score program of 20 samples, by Charnes and Cooper, variables (z, t).

    Max 2 y'z s.t. 1'z + n+ t = 1, l t <= z <= u t, z >= 0, t >= 0, with l = max(0, phi), u = min(1, 1 + phi) and
    phi = tanh(score).
    """
    return _f_score(torch.randn(count, 20, generator=g, dtype=DOUBLE))


def f_score_plain(g: torch.Generator, count: int) -> LinearProgram:
    """The same without z >= 0, which l t <= z and t >= 0 imply: no row is there twice."""
    problem = f_score(g, count)
    free = torch.full((20,), -torch.inf, dtype=DOUBLE)
    return replace(problem, lower=torch.cat([free, torch.zeros(1, dtype=DOUBLE)]))


def f_score_tied(g: torch.Generator, count: int) -> LinearProgram:
    """The same with all scores equal."""
    return _f_score(torch.randn(count, 1, generator=g, dtype=DOUBLE).expand(-1, 20))


def _f_score(scores: Tensor) -> LinearProgram:
    count, n = scores.shape
    phi = scores.tanh().unsqueeze(-1)
    eye = torch.eye(n, dtype=DOUBLE).expand(count, -1, -1)
    upper, lower = (1 + phi).clamp(max=1.0), phi.clamp(min=0.0)
    A = torch.cat([torch.cat([eye, -upper], -1), torch.cat([-eye, lower], -1)], 1)
    label = (torch.arange(n) % 2).to(DOUBLE)
    cost = torch.cat([-2 * label, torch.zeros(1, dtype=DOUBLE)]).expand(count, -1)
    total = torch.cat([torch.ones(n, dtype=DOUBLE), label.sum().unsqueeze(0)]).unsqueeze(0)
    return LinearProgram(cost, A, torch.zeros(2 * n, dtype=DOUBLE), total, torch.ones(1, dtype=DOUBLE))


def generic(variables: int, rows: int) -> Draw:
    """Random programs with a feasible point and a dual feasible one."""

    def draw(g: torch.Generator, count: int) -> LinearProgram:
        def uniform(*shape: int) -> Tensor:
            return torch.rand(count, *shape, generator=g, dtype=DOUBLE)

        A = torch.randn(count, rows, variables, generator=g, dtype=DOUBLE)
        b = (A @ uniform(variables, 1)).squeeze(-1) + uniform(rows)
        v = uniform(rows) * (uniform(rows) < 0.5)
        return LinearProgram(uniform(variables) - (v.unsqueeze(1) @ A).squeeze(1), A, b)

    return draw


MAIN: dict[str, Draw] = {
    "AUC": auc,
    "AUC, scorer learned": auc_scorer,
    "AUC-mu": auc_mu,
    "F-score": f_score,
    "generic 20x60": generic(20, 60),
    "generic 50x200": generic(50, 200),
}
EXTRA: dict[str, Draw] = {
    "F-score, no row twice": f_score_plain,
    "F-score, scores equal": f_score_tied,
    "AUC, pairs at the margin": auc_tied,
}


@dataclass(frozen=True)
class Case:
    """100 programs of a kind with their optimal values."""

    name: str
    problem: LinearProgram
    form: StandardForm
    exact: Solution  # ours; its value is HiGHS'

    @classmethod
    def draw(cls, name: str, draw: Draw, count: int) -> Case:
        """Draw them and solve them by HiGHS."""
        problem = draw(torch.Generator().manual_seed(0), count)
        exact = replace(solve(problem), value=solve(problem, HiGHS()).value)
        return cls(name, problem, StandardForm.of(problem, tensors=True), exact)

    def starts(self, scale: float) -> Solution:
        """Random points with multipliers 0."""
        g = torch.Generator().manual_seed(round(scale))
        zero = Duals(*(torch.zeros_like(part) for part in self.exact.dual))
        return replace(self.exact, primal=scale * torch.randn(self.form.c.shape, generator=g, dtype=DOUBLE), dual=zero)

    def error(self, point: Tensor) -> Tensor:
        """The larger of the relative error of the value and the relative violation.  # shape: (batch,)."""
        value = self.exact.value
        off = ((self.form.c * point).sum(-1) - value).abs() / (1 + value.abs())
        return torch.maximum(off, residuals(self.form, self.form.zero()._replace(x=point)).primal)

    def qualification(self) -> tuple[Tensor, Tensor]:
        """Rows active at the optimum, equalities among them, and their rank.  # shape: (batch,) each."""
        form = self.form
        active = (form.h - form.G(self.exact.primal) <= 1e-9) & (form.mask > 0)
        rows = torch.cat([form.folded().A * active.unsqueeze(-1), form.E], 1)
        return active.sum(-1) + form.E.shape[1], torch.linalg.matrix_rank(rows)


@dataclass(frozen=True)
class Trace:
    """What the loop reached at some steps."""

    error: dict[int, Tensor]  # shape: (batch,)
    converged: dict[int, Tensor]  # shape: (batch,)
    period: Tensor  # of the cycle at the end, 0 for none; shape: (batch,)

    def share(self, step: int) -> float:
        """How many are solved at a step, in percent."""
        return percent(self.error[step] <= SOLVED)


def loop(case: Case, start: Tensor, step_size: float = 1.0) -> Trace:
    """The published loop, looked at on its way where it is undamped, and at its end."""
    form, y = case.form, start
    error, converged, tail = {}, {}, []
    for step in range(1, LONG + 1):
        y = undamped_step(form, y, PENALTY, ridge=RIDGE, step_size=step_size)
        if step == LONG or (step_size == 1 and step in STOPS):
            point = undamped_point(form, y, PENALTY)
            error[step] = case.error(point.x)
            converged[step] = (
                residuals(form, point).dual <= SOLVED
            )  # stationarity: the gradient of the penalty function
        if step >= LONG - LONGEST_CYCLE:
            tail.append(y)
    back = torch.stack(tail[-2::-1])  # shape: (steps back - 1, batch, n)
    again = (back - y).abs().amax(-1) <= 1e-9 * (1 + y.abs().amax(-1))
    period = torch.where(again.any(0), again.to(torch.uint8).argmax(0) + 1, 0)
    return Trace(error, converged, torch.where(converged[LONG], 0, period))


def ours(case: Case, solver: ExteriorNewton | Interior, start: Solution | None, stop: int | None = None) -> Solution:
    """One of our solvers, stopped after some steps or not."""
    return solve(case.problem, solver, start=start, max_steps=stop, throw=False)


def percent(flags: Tensor) -> float:
    """Share of the true ones."""
    return 100 * float(flags.double().mean())


@dataclass(frozen=True)
class Curve:
    """Errors against steps."""

    label: str
    colour: str
    style: str
    steps: list[float]
    errors: list[Tensor]


def curves(case: Case, undamped: Trace, scale: float) -> list[Curve]:
    """All methods from the starts of one size; ours are stopped after 1, 2, 3, ... steps."""
    form, start = case.form, case.starts(scale)
    origin = form.zero()._replace(x=start.primal)
    searched: list[Tensor] = []
    for stop in STOPS:
        y = minimize_penalty(form, origin, PENALTY, max_steps=stop)
        searched.append(case.error(undamped_point(form, y, PENALTY).x))
        if len(searched) > 1 and torch.equal(*searched[-2:]):  # all have ended
            break
    searched += searched[-1:] * (len(STOPS) - len(searched))
    taken, reached = [], []
    for stop in STOPS:
        found = ours(case, ExteriorNewton(), start, stop)
        taken.append(float(found.steps.double().median()))
        reached.append(case.error(found.primal))
        if bool(found.optimal.all()):
            break
    steps = [float(stop) for stop in STOPS]
    return [
        Curve("published loop, undamped", "#D55E00", "-", steps, list(undamped.error.values())),
        Curve("the same with exact line search", "#56B4E9", "--", steps, searched),
        Curve("line search and multiplier steps: ExteriorNewton", "#0072B2", "-", taken, reached),
        Curve("interior steps of the default, from their own start", "black", ":", steps, inside(case)),
    ]


def inside(case: Case) -> list[Tensor]:
    """Errors of the interior steps alone: those of the point 0 until they end, which most do at a vertex."""
    tolerance, longest = Interior().switch_tolerance, 28  # none takes longer
    stops = [min(stop, longest) for stop in STOPS]
    ends = {stop: interior_point.run(case.form, max_steps=stop, tolerance=tolerance) for stop in set(stops)}
    return [case.error(ends[stop].point.x) for stop in stops]
