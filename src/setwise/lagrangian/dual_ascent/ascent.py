r"""Dual ascent on the S-measure: when to step, and when to project.

    ascent = DualAscent(term)
    for epoch in range(epochs):
        for x, y, group, index in loader:
            loss = cross_entropy(model(x), y) + 0.1 * term(head(), group, index)
            loss.backward(); optimizer.step(); optimizer.zero_grad()
            ascent.step()
        ascent.epoch_end()

``step`` moves (tau, eps), projects where that is due, and every ``dual_every`` batches moves the multipliers along the
batch; ``epoch_end`` projects all rows and moves all multipliers along the remembered scores. For the variant ``exact``
there is nothing to move: ``epoch_end`` solves once more.

Step rule. With the normalized term every step is free of the size of the data set. Augmented (the default, rho = 1) the
last iterate comes in at constant steps 0.1 and 1 (``benchmarks/dual_ascent.py``); without the quadratic term take
``decay="inverse"``, steps c / e in epoch e as in the paper, and read the averaged iterate.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from setwise import _checks
from setwise.lagrangian.dual_ascent.primal_dual import Batch, PrimalDual
from setwise.lagrangian.regularizers.problems import Sizes
from setwise.lagrangian.regularizers.s_measure import SMeasure

SCHEDULES = ("auto", "epoch", "step", "touched", "one")
DECAYS = ("constant", "inverse")
_OF_VARIANT = {"partial": "epoch", "partial_step": "step", "partial_touched": "touched", "partial_one": "one"}
_STATE = ("_epoch", "_steps", "_dual_steps", "_wait", "_moved", "projections", "rows_projected")


class DualAscent:
    """Moves the variables and multipliers of an :class:`~setwise.lagrangian.SMeasure`.

    Args:
        term: The term.
        primal_step: Step of tau and eps.
        dual_step: Step of the multipliers; three numbers for lambda, mu and gamma apart.
        schedule: When to project: ``"epoch"``, ``"step"`` (all rows), ``"touched"`` (the batch's rows, all rows once an
            epoch), ``"one"`` (one tau a step), a number k (all rows every k steps), or ``"auto"``, the cheaper of
            ``"touched"`` and ``"epoch"`` by the paper's count: B log B a step against n log n an epoch. By default what
            the term's variant says.
        dual_every: Batches between steps of the multipliers, or ``"epoch"``.
        decay: ``"constant"``, or ``"inverse"`` for dual steps c / e in epoch e = 1, 2, ...
        growth: Factor by which the time between two dual steps grows: 1.5 gives longer inner loops later.
        inner: Steps of (tau, eps) on the remembered scores of all examples before the multipliers move at the end of an
            epoch; they cost no pass through the network.
    """

    def __init__(
        self,
        term: SMeasure,
        *,
        primal_step: float = 0.1,
        dual_step: float | tuple[float, float, float] = 1.0,
        schedule: str | int | None = None,
        dual_every: str | int = "epoch",
        decay: str = "constant",
        growth: float = 1.0,
        inner: int = 0,
    ) -> None:
        if not isinstance(term, SMeasure):
            raise TypeError(f"Expected `term` to be an SMeasure, but got {type(term).__name__}.")
        _checks.in_range("primal_step", primal_step, 0, open_high=True)
        steps = dual_step if isinstance(dual_step, tuple) else (dual_step,) * 3
        if len(steps) != 3:
            raise _checks.InputError(f"Expected `dual_step` to be one number or three, but got {len(steps)}.")
        for step in steps:
            _checks.in_range("dual_step", step, 0, open_high=True)
        schedule = _OF_VARIANT.get(term.variant, "epoch") if schedule is None else schedule
        if isinstance(schedule, str):
            _checks.one_of("schedule", schedule, SCHEDULES)
        else:
            _checks.is_count("schedule", schedule)
        if dual_every != "epoch":
            _checks.is_count("dual_every", dual_every)  # type: ignore[arg-type]
        _checks.one_of("decay", decay, DECAYS)
        _checks.in_range("growth", growth, 1, open_high=True)
        _checks.is_count("inner", inner, 0)
        self.term = term
        self.primal_step, self.dual_step = float(primal_step), (float(steps[0]), float(steps[1]), float(steps[2]))
        self.schedule, self.dual_every, self.decay = schedule, dual_every, decay
        self.growth, self.inner = float(growth), int(inner)
        self.projections = 0  # of all rows
        self.rows_projected = 0  # counted once for each time a row was projected
        self._epoch, self._steps, self._dual_steps, self._wait = 0, 0, 0, 0
        self._moved = 0  # tau that have moved since the last dual step

    @torch.no_grad()
    def step(self) -> None:
        """After each batch: (tau, eps) along the batch of the term's last call, and what else is due."""
        self._steps += 1
        batch, primal_dual = self.term.last, self.term.primal_dual
        if primal_dual is None:
            return
        # Two steps on one batch would move (tau, eps) twice along the same estimate.
        if batch is None:
            raise _checks.InputError("Expected the term to be called, in training mode, before each `step()`.")
        sizes = self.term.sizes()
        self._descend(batch, sizes)
        if self.dual_every != "epoch":
            self._wait += 1
            if self._wait >= int(self.dual_every) * self.growth**self._dual_steps:
                self._ascend(batch, sizes)
        # The batch is spent; the next step asks for a call of the term.
        self.term.last = None

    @torch.no_grad()
    def epoch_end(self) -> None:
        """After each pass over the data: inner steps, all rows projected, the multipliers moved."""
        self._epoch += 1
        primal_dual = self.term.primal_dual
        if primal_dual is None:
            # The exact variant has no steps: its multipliers are solved for.
            self.term.refresh()
            return
        every, sizes = self._everything(), self.term.sizes()
        if isinstance(primal_dual, PrimalDual):
            primal_dual.start(every.own)  # against the drift of a sum kept up step by step
        for _ in range(self.inner):
            primal_dual.descend(every, sizes, step=self.primal_step)
            self._moved += int(every.own.sum())
            self._project(every, sizes, None)
        # Inner steps end with a projection already.
        if not self.inner:
            self._project(every, sizes, None)
        if self.dual_every == "epoch":
            self._wait += 1
            # Longer inner loops later: near the solution the multipliers need better primal points.
            if self._wait >= self.growth**self._dual_steps:
                self._ascend(every, sizes)

    def state_dict(self) -> dict[str, Any]:
        """Where the ascent stands; the variables themselves are in the term's ``state_dict``."""
        return {name.removeprefix("_"): getattr(self, name) for name in _STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up where :meth:`state_dict` was called."""
        lacking = self.state_dict().keys() - state.keys()
        if lacking:
            raise _checks.InputError(
                f"Expected `state` to come from `state_dict`, but it lacks {', '.join(sorted(lacking))}."
            )
        for name in _STATE:
            setattr(self, name, int(state[name.removeprefix("_")]))

    def resolved_schedule(self, batch_size: int) -> str | int:
        """When to project with batches of this size: what ``"auto"`` chooses, or the schedule as it was given."""
        if self.schedule != "auto":
            return self.schedule
        n = max(2, int(self.term.sizes().positives.max()))
        # Batches in a pass over the data.
        steps = max(1, len(self.term.memory) // max(1, batch_size))
        every = steps * batch_size * math.log2(max(2, batch_size))
        return "touched" if every < n * math.log2(n) else "epoch"

    def _descend(self, batch: Batch, sizes: Sizes) -> None:
        primal_dual = self.term.primal_dual
        schedule = self.resolved_schedule(len(batch.rows))
        if not isinstance(primal_dual, PrimalDual):
            if primal_dual is not None:
                primal_dual.descend(batch, sizes, step=self.primal_step)
            return
        only = None
        if schedule == "one":  # the first member of S+ of each task
            first = batch.own.int().cumsum(0) == 1
            only = batch.own & first
        primal_dual.descend(batch, sizes, step=self.primal_step, only=only)
        # Counted, since the multipliers step in proportion to it.
        self._moved += int((batch.own if only is None else only).sum())
        if primal_dual.full:
            return
        if schedule == "touched":
            self._project(batch, sizes, batch.rows)
        elif only is not None:
            # The few rows that moved; projecting the others would cost a sort for nothing.
            rows = only.any(1)
            self._project(batch._replace(own=only[rows]), sizes, batch.rows[rows])
        elif schedule == "step" or (isinstance(schedule, int) and self._steps % schedule == 0):
            self._project(self._everything(), sizes, None)

    def _project(self, batch: Batch, sizes: Sizes, rows: torch.Tensor | None) -> None:
        primal_dual = self.term.primal_dual
        if not isinstance(primal_dual, PrimalDual) or primal_dual.full:
            return
        primal_dual.project(batch.own, sizes.total, rows)
        self.projections += rows is None
        self.rows_projected += int(batch.own.sum())

    def _everything(self) -> Batch:
        """All examples seen so far, as one batch."""
        memory, tasks = self.term.memory, self.term.tasks
        own, other = tasks.members(memory.seen_groups)
        one = memory.scores.new_ones(len(tasks))
        rows = torch.arange(len(memory), device=memory.scores.device)
        return Batch(tasks.scores(memory.scores), own, other, rows, one, one)

    def _ascend(self, batch: Batch, sizes: Sizes) -> None:
        """The multipliers, in proportion to how much of tau has moved: they must not run ahead of it."""
        primal_dual = self.term.primal_dual
        factor = 1 / max(1, self._epoch) if self.decay == "inverse" else 1.0
        first, second, third = (factor * step for step in self.dual_step)
        if isinstance(primal_dual, PrimalDual) and self.term.scaling == "normalized":
            share = min(1.0, self._moved / max(1.0, float(sizes.positives.sum())))
            # mu sees all of tau at once: a full step for a few moved rows would run ahead of the rest.
            second *= share
            # Along a batch lambda and gamma move for its rows alone, in step with their tau.
            if len(batch.rows) == len(self.term.memory):
                first, third = first * share, third * share
        if primal_dual is not None:
            primal_dual.ascend(batch, sizes, steps=(first, second, third))
        self._dual_steps, self._wait, self._moved = self._dual_steps + 1, 0, 0
