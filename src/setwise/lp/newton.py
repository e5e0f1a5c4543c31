"""The exterior finish: Mangasarian's penalty with multiplier steps, minimized by Newton's method, batched.

With sigma = 1 / penalty, each outer step minimizes over x the piecewise quadratic

    c'x + sigma/2 |relu(G x - h + z/sigma)|^2 + sigma/2 |E x - e + y/sigma|^2 + 1/(2 sigma) |x - x_last|^2

and then sets z = relu(z + sigma (G x - h)), y = y + sigma (E x - e). With z = y = 0 and without the last term this is
Mangasarian's function (1975, 2004), divided by the penalty: its minimizer gives an exact dual solution but breaks the
constraints by O(penalty). The multiplier steps take that away, in finitely many steps for a linear program, and the
last term keeps the Hessian positive definite where the optimum is not unique. The inner minimization takes Newton steps
with an exact line search (:mod:`setwise.lp.line_search`) and ends when the set of active rows stays the same, for then
the step was exact.

If a program has no feasible point the multipliers run off along a Farkas ray, if it is unbounded the points run off
along a ray: the last difference is tested for being one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from setwise.lp._flat import Flat, Point, dot, largest
from setwise.lp.forms import Dense, Prepared
from setwise.lp.line_search import exact_step

RUNNING, SOLVED, INFEASIBLE, UNBOUNDED = range(4)
_RAY = 1e-9
_NOISE = 1e-13  # a gradient below this, relative, that does not halve
_PATIENCE = 2  # in so many steps is rounding
_INNER_STEPS = 300  # a multiplier step after an unfinished minimization leads away


@dataclass
class Outcome:
    """What the exterior method reached."""

    point: Point
    code: Tensor  # shape: (batch,)
    steps: Tensor  # shape: (batch,)


@dataclass(frozen=True)
class Penalty:
    """How the penalty moves.

    Attributes:
        sigma: 1 / penalty at the start.
        growth: By how much sigma grows after an outer step that did not bring the residual down to a quarter.
        largest: Where it stops growing.
    """

    sigma: float = 1.0
    growth: float = 5.0
    largest: float = 1e6


def exterior(
    flat: Flat, point: Point, penalty: Penalty, *, max_steps: int, tolerance: float, form: Prepared | None = None
) -> Outcome:
    """Multiplier steps from ``point`` until residuals and gap are within ``tolerance``.

    Args:
        flat: The programs, scaled.
        point: Where to start; its multipliers of G must not be negative.
        penalty: How the penalty moves.
        max_steps: Most Newton steps of any element.
        tolerance: Of the relative residuals and the gap.
        form: How Newton's systems are solved; dense by default.
    """
    form = form or Dense()
    batch = flat.c.shape[0]
    result = Outcome(
        Point(*(part.clone() for part in point)),
        torch.zeros(batch, dtype=torch.long, device=flat.c.device),
        flat.c.new_zeros(batch),
    )
    places = torch.arange(batch, device=flat.c.device)
    sigma, steps, last, accuracy = penalty.sigma, 0, float("inf"), 1.0
    best = flat.c.new_full((batch,), torch.inf)
    stalled = torch.zeros(batch, device=flat.c.device)
    while steps < max_steps:
        before = point
        # Errors that can be summed: smaller than what is left to do, and smaller with every outer step.
        accuracy = max(0.1 * min(accuracy, last), 0.1 * tolerance)
        point, spent = _minimize(flat, before, sigma, min(_INNER_STEPS, max_steps - steps), form, accuracy)
        steps += max(spent, 1)
        residual = _distance(flat, point)
        code = _rays(flat, before, point)
        code = torch.where(residual <= tolerance, SOLVED, code)
        better = residual < best
        stalled = torch.where(residual < 0.5 * best, 0.0, stalled + 1)
        best = torch.where(better, residual, best)
        store = better | (code != RUNNING)
        for kept, value in zip(result.point, point, strict=True):
            kept[places[store]] = value[store]
        _store_rays(result, before, point, code, places)
        done = (code != RUNNING) | (stalled >= 12)
        result.code[places[done]] = code[done]
        result.steps[places] = float(steps)
        keep = (~done).nonzero().squeeze(-1)
        if keep.numel() == 0:
            break
        flat, point, places = flat.select(keep), Point(*(part[keep] for part in point)), places[keep]
        form = form.select(keep)
        best, stalled = best[keep], stalled[keep]
        worst = float(residual[keep].max())
        if worst > 0.25 * last:
            sigma = min(sigma * penalty.growth, penalty.largest)
        last = worst
    return result


def _distance(flat: Flat, point: Point) -> Tensor:
    """The largest violation, entry of stationarity or relative gap; data are of size 1.  # shape: (batch,)."""
    broken = torch.maximum(largest((flat.G(point.x) - flat.h).relu()), largest(flat.Ex(point.x) - flat.e))
    unbalanced = largest(flat.c + flat.Gt(point.z) + flat.Ety(point.y))
    primal, dual = flat.objectives(point)
    return torch.maximum(torch.maximum(broken, unbalanced), (primal - dual).abs() / (1 + primal.abs()))


def _store_rays(result: Outcome, before: Point, point: Point, code: Tensor, places: Tensor) -> None:
    """A certificate replaces the point itself."""
    for kind, parts in ((INFEASIBLE, (1, 2)), (UNBOUNDED, (0,))):
        where = code == kind
        for part in parts:
            result.point[part][places[where]] = (point[part] - before[part])[where]


def minimize_penalty(flat: Flat, start: Point, penalty: float, *, max_steps: int = 100) -> Tensor:
    """The minimizer of Mangasarian's function penalty c'x + |relu(G x - h)|^2 / 2 + |E x - e|^2 / 2 from a start.

    Where it is not unique, the one nearest to the start to rounding.  # shape: (batch, n)
    """
    zero = Point(start.x, torch.zeros_like(start.z), torch.zeros_like(start.y))
    return _newton(flat, zero, 1 / penalty, max_steps, ridge=1e-13, form=Dense())[0]


def published_loop(flat: Flat, start: Tensor, penalty: float, *, ridge: float, step_size: float, steps: int) -> Point:
    """The papers' loop, for comparison: a fixed number of steps at a fixed penalty, then the active rows."""
    y = start
    for _ in range(steps):
        y = published_step(flat, y, penalty, ridge=ridge, step_size=step_size)
    return published_point(flat, y, penalty)


def published_step(flat: Flat, y: Tensor, penalty: float, *, ridge: float, step_size: float) -> Tensor:
    """Y - step_size (G'DG + E'E + ridge I)^-1 (gradient of Mangasarian's function), without line search."""
    t = (flat.G(y) - flat.h) * flat.mask
    gradient = penalty * flat.c + flat.Gt(t.relu()) + flat.Ety(flat.Ex(y) - flat.e)
    eye = torch.eye(flat.c.shape[1], dtype=flat.c.dtype, device=flat.c.device)
    hessian = flat.normal((t > 0).to(flat.c.dtype)) + flat.E.mT @ flat.E + ridge * eye
    step: Tensor = torch.linalg.solve(hessian, gradient)
    return y - step_size * step


def published_point(flat: Flat, y: Tensor, penalty: float) -> Point:
    """What the papers read off y: v = relu(G y - h) / penalty, and the projection of y onto the rows with v > 0."""
    t = (flat.G(y) - flat.h) * flat.mask
    active = (t > 0).to(flat.c.dtype)
    normal = torch.linalg.pinv(flat.normal(active) + flat.E.mT @ flat.E, hermitian=True)
    missing = flat.Gt(active * t) + flat.Ety(flat.Ex(y) - flat.e)
    x = y - (normal @ missing.unsqueeze(-1)).squeeze(-1)
    return Point(x, t.relu() / penalty, (flat.Ex(y) - flat.e) / penalty)


def _minimize(flat: Flat, start: Point, sigma: float, max_steps: int, form: Prepared, goal: float) -> tuple[Point, int]:
    """The inner minimization and the multiplier step after it; also the Newton steps taken."""
    ridge = 1 / sigma**2
    x, t, steps = _newton(flat, start, sigma, max_steps, ridge=ridge, form=form, goal=goal / sigma)
    return Point(x, sigma * t.relu(), start.y + sigma * (flat.Ex(x) - flat.e)), steps


def _newton(
    flat: Flat, start: Point, sigma: float, max_steps: int, *, ridge: float, form: Prepared, goal: float = 0.0
) -> tuple[Tensor, Tensor, int]:
    """Newton's method with exact line search: the minimizer, G x - h + z / sigma there, and the steps taken.

    With an exact form a step that keeps the active rows was the last one. Otherwise the gradient must fall below
    ``goal``, and each direction is made conjugate to the one before (Polak and Ribiere), as a sketch or an unfinished
    system is no more than a preconditioner.
    """
    x, d = start.x, torch.zeros_like(start.x)
    shift, shift_eq = start.z / sigma, start.y / sigma
    solve = form.bind(flat, ridge)
    moving = torch.ones_like(flat.c[:, 0], dtype=torch.bool)
    t = (flat.G(x) - flat.h + shift) * flat.mask
    last, turn = None, None
    idle, least = torch.zeros_like(flat.c[:, 0]), torch.full_like(flat.c[:, 0], torch.inf)
    taken = 0
    while taken < max_steps and bool(moving.any()):
        active = t > 0
        r_eq = flat.Ex(x) - flat.e + shift_eq
        # gradient and Hessian, both divided by sigma
        gradient = flat.c / sigma + flat.Gt(t.relu()) + flat.Ety(r_eq) + ridge * (x - start.x)
        if not form.exact:
            size = largest(gradient)
            idle, least = torch.where(size < 0.5 * least, 0, idle + 1), torch.minimum(size, least)
            noise = (idle >= _PATIENCE) & (
                size < _NOISE * (1 + largest(x) + largest(t))
            )  # cost and sides are at most 1
            moving = moving & (size > goal) & ~noise
            if not bool(moving.any()):
                break
        taken += 1
        step = solve(active, gradient * moving.unsqueeze(-1))
        d, last, turn = _conjugate(form, step, gradient, d, last, turn)
        q, q_eq = flat.G(d), flat.Ex(d)
        linear = dot(flat.c, d) / sigma + dot(r_eq, q_eq) + ridge * dot(x - start.x, d)
        length = exact_step(t, q, linear, dot(q_eq, q_eq) + ridge * dot(d, d), 1.0)
        length = torch.where(torch.isfinite(length) & moving, length, 0.0)
        x = x + length.unsqueeze(-1) * d
        t = (flat.G(x) - flat.h + shift) * flat.mask
        moving = moving & (length > 0)
        if form.exact:
            moving = moving & ((t > 0) != active).any(-1)
    return x, t, taken


def _conjugate(
    form: Prepared, step: Tensor, gradient: Tensor, d: Tensor, last: Tensor | None, turn: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The direction for a preconditioned gradient ``step``, and what the next one needs to know."""
    size = dot(gradient, step)
    if form.exact or last is None or turn is None:
        return -step, gradient, size
    beta = (dot(gradient - last, step) / turn.clamp(min=1e-300)).clamp(min=0.0)
    mixed = beta.unsqueeze(-1) * d - step
    falls = dot(gradient, mixed) < 0
    return torch.where(falls.unsqueeze(-1), mixed, -step), gradient, size


def _rays(flat: Flat, before: Point, after: Point) -> Tensor:
    """Whether the last outer step went along a certificate of infeasibility or unboundedness."""
    dx, dz, dy = (new - old for new, old in zip(after, before, strict=True))
    price = dot(flat.h, dz) + dot(flat.e, dy)
    wrong = torch.maximum(largest(flat.Gt(dz) + flat.Ety(dy)), (-dz).relu().amax(-1) if dz.shape[-1] else 0 * price)
    infeasible = (price < -1e-6 * (1 + largest(dz))) & (wrong <= _RAY * -price)
    cost = dot(flat.c, dx)
    blocked = torch.maximum(largest(flat.G(dx).relu()), largest(flat.Ex(dx)))
    unbounded = (cost < -1e-6 * (1 + largest(dx))) & (blocked <= _RAY * -cost)
    return torch.where(infeasible, INFEASIBLE, torch.where(unbounded, UNBOUNDED, RUNNING))
