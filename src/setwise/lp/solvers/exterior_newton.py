"""Exterior penalty method with multiplier steps: Mangasarian's function minimized by Newton's method, batched.

With sigma = 1 / penalty, each outer step minimizes over x the piecewise quadratic

    c'x + sigma/2 |relu(G x - h + z/sigma)|^2 + sigma/2 |E x - e + y/sigma|^2 + 1/(2 sigma) |x - x_last|^2

and then sets z = relu(z + sigma (G x - h)), y = y + sigma (E x - e). With z = y = 0 and without the last term this is
Mangasarian's function (1975, 2004), divided by the penalty: its minimizer gives an exact dual solution but breaks the
constraints by O(penalty). The multiplier steps take that away, in finitely many steps for a linear program, and the
last term keeps the Hessian positive definite where the optimum is not unique. The inner minimization takes Newton steps
with an exact line search and ends when the set of active rows stays the same,
for then the step was exact.

If a program has no feasible point the multipliers run off along a Farkas ray, if it is unbounded the points run off
along a ray: the last difference is tested for being one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.newton_systems import Dense, Prepared
from setwise.lp.solvers.outcome import INFEASIBLE, OPTIMAL, UNBOUNDED, UNSOLVED, Outcome
from setwise.lp.standard_form import Point, StandardForm, dot, largest, select


def run(
    form: StandardForm,
    point: Point,
    *,
    sigma: float = 1.0,
    growth: float = 5.0,
    max_steps: int,
    tolerance: float,
    system: Prepared | None = None,
) -> Outcome:
    """Multiplier steps from ``point`` until residuals and gap are within ``tolerance``.

    Args:
        form: The programs, scaled.
        point: Where to start; its multipliers of G must not be negative.
        sigma: 1 / penalty at the start.
        growth: By how much sigma grows after an outer step that did not bring the residual down to a quarter.
        max_steps: Most Newton steps of any element.
        tolerance: Of the relative residuals and the gap.
        system: How Newton's systems are solved; dense by default.
    """
    system = system or Dense()
    batch = form.c.shape[0]
    places = torch.arange(batch, device=form.c.device)
    result = Outcome.of(form)
    result.point = select(point, places)
    result.code[:] = OPTIMAL  # even at its limit a point may be: the verifier knows
    steps, last, accuracy = 0, float("inf"), 1.0
    best = form.c.new_full((batch,), torch.inf)
    stalled = torch.zeros(batch, device=form.c.device)
    while steps < max_steps:
        before = point
        # Errors that can be summed: smaller than what is left to do, and smaller with every outer step.
        accuracy = max(tol.INNER_SHARE * min(accuracy, last), tol.INNER_SHARE * tolerance)
        # The proximal term |x - x_last|^2 / (2 sigma), divided by sigma as all of the objective is.
        limit, ridge = min(tol.INNER_STEPS, max_steps - steps), 1 / sigma**2
        x, t, spent = _newton(form, before, sigma, limit, ridge=ridge, system=system, goal=accuracy / sigma)
        point = Point(x, sigma * t.relu(), before.y + sigma * (form.Ex(x) - form.e))
        steps += max(spent, 1)
        residual = _distance(form, point)
        code = torch.where(residual <= tolerance, OPTIMAL, _rays(form, before, point))
        better = residual < best
        stalled = torch.where(residual < tol.OUTER_PROGRESS * best, 0.0, stalled + 1)
        best = torch.where(better, residual, best)
        _store(result, before, point, code, better, places)
        result.steps[places.numpy(force=True)] = steps
        done = (code != UNSOLVED) | (stalled >= tol.STALLED_OUTER_STEPS)
        keep = (~done).nonzero().squeeze(-1)
        if keep.numel() == 0:
            break
        # Finished elements are left out, so that one hard element does not keep the batch at full cost.
        form, point, places = form.select(keep), select(point, keep), places[keep]
        system = system.select(keep)
        best, stalled = best[keep], stalled[keep]
        worst = float(residual[keep].max())
        if worst > tol.SLOW_OUTER_STEP * last:
            # A larger sigma makes outer steps longer but the inner systems worse conditioned.
            sigma = min(sigma * growth, tol.LARGEST_SIGMA)
        last = worst
    return result


def _store(result: Outcome, before: Point, point: Point, code: Tensor, better: Tensor, places: Tensor) -> None:
    """Outer steps are not monotone: the best point so far is the answer. A certificate is the last difference."""
    for kept, value in zip(result.point, point, strict=True):
        kept[places[better]] = value[better]
    rays = (code == INFEASIBLE) | (code == UNBOUNDED)
    for kept, value, old in zip(result.proof, point, before, strict=True):
        kept[places[rays]] = (value - old)[rays]
    result.code[places[rays].numpy(force=True)] = code[rays].numpy(force=True)


def _distance(form: StandardForm, point: Point) -> Tensor:
    """The largest violation, entry of stationarity or relative gap; data are of size 1.  # shape: (batch,)."""
    broken = torch.maximum(largest((form.G(point.x) - form.h).relu()), largest(form.Ex(point.x) - form.e))
    unbalanced = largest(form.c + form.Gt(point.z) + form.Ety(point.y))
    cost = dot(form.c, point.x)
    gap = (cost + dot(form.h, point.z) + dot(form.e, point.y)).abs() / (1 + cost.abs())
    return torch.maximum(torch.maximum(broken, unbalanced), gap)


def minimize_penalty(form: StandardForm, start: Point, penalty: float, *, max_steps: int = 100) -> Tensor:
    """The minimizer of Mangasarian's function penalty c'x + |relu(G x - h)|^2 / 2 + |E x - e|^2 / 2 from a start.

    Where it is not unique, the one nearest to the start to rounding.  # shape: (batch, n)
    """
    # Multipliers of 0 make the augmented Lagrangian Mangasarian's plain penalty.
    zero = Point(start.x, torch.zeros_like(start.z), torch.zeros_like(start.y))
    return _newton(form, zero, 1 / penalty, max_steps, ridge=tol.PENALTY_RIDGE, system=Dense())[0]


def undamped_step(form: StandardForm, y: Tensor, penalty: float, *, ridge: float, step_size: float) -> Tensor:
    """Y - step_size (G'DG + E'E + ridge I)^-1 (gradient of Mangasarian's function), without line search."""
    t = (form.G(y) - form.h) * form.mask
    gradient = penalty * form.c + form.Gt(t.relu()) + form.Ety(form.Ex(y) - form.e)
    eye = torch.eye(form.c.shape[1], dtype=form.c.dtype, device=form.c.device)
    hessian = form.normal((t > 0).to(form.c.dtype)) + form.E.mT @ form.E + ridge * eye
    step: Tensor = torch.linalg.solve(hessian, gradient)
    return y - step_size * step


def undamped_point(form: StandardForm, y: Tensor, penalty: float) -> Point:
    """The papers' point at y: v = relu(G y - h) / penalty, and the projection of y onto the rows with v > 0."""
    t = (form.G(y) - form.h) * form.mask
    active = (t > 0).to(form.c.dtype)
    normal = torch.linalg.pinv(form.normal(active) + form.E.mT @ form.E, hermitian=True)
    missing = form.Gt(active * t) + form.Ety(form.Ex(y) - form.e)
    x = y - (normal @ missing.unsqueeze(-1)).squeeze(-1)
    return Point(x, t.relu() / penalty, (form.Ex(y) - form.e) / penalty)


def _newton(
    form: StandardForm, start: Point, sigma: float, max_steps: int, *, ridge: float, system: Prepared, goal: float = 0.0
) -> tuple[Tensor, Tensor, int]:
    """Newton's method with exact line search: the minimizer, G x - h + z / sigma there, and the steps taken.

    With an exact system a step that keeps the active rows was the last one. Otherwise the gradient must fall below
    ``goal``, and each direction is made conjugate to the one before (Polak and Ribiere), as a sketch or an unfinished
    system is no more than a preconditioner.
    """
    x, d = start.x, torch.zeros_like(start.x)
    shift, shift_eq = start.z / sigma, start.y / sigma
    solve = system.bind(form, ridge)
    moving = torch.ones_like(form.c[:, 0], dtype=torch.bool)
    t = (form.G(x) - form.h + shift) * form.mask
    last, turn = None, None
    idle, least = torch.zeros_like(form.c[:, 0]), torch.full_like(form.c[:, 0], torch.inf)
    taken = 0
    while taken < max_steps and bool(moving.any()):
        active = t > 0
        r_eq = form.Ex(x) - form.e + shift_eq
        # gradient and Hessian, both divided by sigma
        gradient = form.c / sigma + form.Gt(t.relu()) + form.Ety(r_eq) + ridge * (x - start.x)
        if not system.exact:
            size = largest(gradient)
            idle, least = torch.where(size < 0.5 * least, 0, idle + 1), torch.minimum(size, least)
            noise = (idle >= tol.GRADIENT_PATIENCE) & (
                size < tol.GRADIENT_NOISE * (1 + largest(x) + largest(t))
            )  # cost and sides are at most 1
            moving = moving & (size > goal) & ~noise
            if not bool(moving.any()):
                break
        taken += 1
        step = solve(active, gradient * moving.unsqueeze(-1))
        d, last, turn = _conjugate(system, step, gradient, d, last, turn)
        q, q_eq = form.G(d), form.Ex(d)
        linear = dot(form.c, d) / sigma + dot(r_eq, q_eq) + ridge * dot(x - start.x, d)
        length = exact_step(t, q, linear, dot(q_eq, q_eq) + ridge * dot(d, d), 1.0)
        length = torch.where(torch.isfinite(length) & moving, length, 0.0)
        x = x + length.unsqueeze(-1) * d
        t = (form.G(x) - form.h + shift) * form.mask
        # A step of length 0 cannot change anything in the next iteration either.
        moving = moving & (length > 0)
        if system.exact:
            moving = moving & ((t > 0) != active).any(-1)
    return x, t, taken


def _conjugate(
    system: Prepared, step: Tensor, gradient: Tensor, d: Tensor, last: Tensor | None, turn: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The direction for a preconditioned gradient ``step``, and what the next one needs to know."""
    size = dot(gradient, step)
    if system.exact or last is None or turn is None:
        return -step, gradient, size
    beta = (dot(gradient - last, step) / turn.clamp(min=tol.TINY)).clamp(min=0.0)
    mixed = beta.unsqueeze(-1) * d - step
    # An inexact preconditioner may turn the mixed direction uphill; then the plain one is taken.
    falls = dot(gradient, mixed) < 0
    return torch.where(falls.unsqueeze(-1), mixed, -step), gradient, size


def _rays(form: StandardForm, before: Point, after: Point) -> Tensor:
    """Certificate test: whether the last outer step went along a Farkas or recession ray."""
    dx, dz, dy = (new - old for new, old in zip(after, before, strict=True))
    price = dot(form.h, dz) + dot(form.e, dy)
    wrong = torch.maximum(largest(form.Gt(dz) + form.Ety(dy)), (-dz).relu().amax(-1) if dz.shape[-1] else 0 * price)
    infeasible = (price < -tol.RAY_STEEP * (1 + largest(dz))) & (wrong <= tol.RAY_DIFFERENCE * -price)
    cost = dot(form.c, dx)
    blocked = torch.maximum(largest(form.G(dx).relu()), largest(form.Ex(dx)))
    unbounded = (cost < -tol.RAY_STEEP * (1 + largest(dx))) & (blocked <= tol.RAY_DIFFERENCE * -cost)
    return torch.where(infeasible, INFEASIBLE, torch.where(unbounded, UNBOUNDED, UNSOLVED))


def exact_step(t: Tensor, q: Tensor, linear: Tensor, quadratic: Tensor, weight: float) -> Tensor:
    """Exact line search: the minimizer of a convex piecewise quadratic along a line.

        phi(a) = linear * a + quadratic * a^2 / 2 + sum_i weight * relu(t_i + a q_i)^2 / 2,     a >= 0

    Its slope is piecewise linear and grows, with break points -t_i / q_i. Sort them, accumulate intercept and slope
    over the sorted break points, and the minimizer lies on the first piece at whose right end the slope is not
    negative. One sort, O(k log k).

    Args:
        t: Arguments of relu at a = 0.  # shape: (batch, k)
        q: How fast they grow.  # shape: (batch, k)
        linear: Slope of the smooth part at a = 0; the whole slope there must be negative.  # shape: (batch,)
        quadratic: Curvature of the smooth part, not negative.  # shape: (batch,)
        weight: Of the relu terms.

    Returns:
        The step, 0 where the slope at 0 is not negative, infinity where it never turns.  # shape: (batch,)
    """
    # relu is on at the start where t > 0, or t = 0 and growing.
    on = (t > 0) | ((t == 0) & (q > 0))
    crossing = torch.where((t * q < 0), -t / torch.where(q == 0, 1.0, q), torch.inf)
    # Past its break point a term that was on goes off, and the other way round.
    change = torch.where(on, -weight, weight) * torch.isfinite(crossing)
    crossing, order = crossing.sort(-1)
    intercept = linear.unsqueeze(-1) + _running(torch.where(on, weight * t * q, 0.0), change * t * q, order)
    slope = quadratic.unsqueeze(-1) + _running(torch.where(on, weight * q * q, 0.0), change * q * q, order)
    right = torch.cat([crossing, torch.full_like(crossing[:, :1], torch.inf)], -1)
    end = intercept + slope * torch.where(torch.isfinite(right), right, 0.0)
    turned = torch.where(torch.isfinite(right), end >= 0, slope > 0)
    piece = turned.to(torch.uint8).argmax(-1, keepdim=True)
    a = -intercept.gather(-1, piece) / slope.gather(-1, piece)
    a = torch.where(turned.gather(-1, piece), a, torch.inf).squeeze(-1)
    return torch.where(intercept[:, 0] < 0, a.clamp(min=0), 0.0)


def _running(start: Tensor, change: Tensor, order: Tensor) -> Tensor:
    """The sum over all terms at the start and after each sorted break point.  # shape: (batch, k + 1)."""
    first = start.sum(-1, keepdim=True)
    return torch.cat([first, first + change.gather(-1, order).cumsum(-1)], -1)
