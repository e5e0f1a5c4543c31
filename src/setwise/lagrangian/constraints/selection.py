r"""Which model to keep of those that training went through: the best that meets the constraints, or a mixture of few.

Training under constraints need not end at a model that meets them: the last iterate may be just outside, and its
threshold off by a hair. So keep some iterates, adjust the threshold of each exactly, and choose at the end:

- ``"best"``: of those that meet all constraints the one with the highest measure, else the one that breaks them least;
- ``"shrink"``: a random choice between few of them, by the linear program over probabilities p

      max sum_t p_t value_t   s.t.   sum_t p_t v_tk <= 0 for each row k,   sum p = 1,   p >= 0,

  whose vertices have at most one iterate more than there are rows (Cotter et al., 2019). It may meet constraints that
  no single iterate meets, and is never worse than the best of them. Each prediction is then made by a model drawn anew.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from setwise import _checks
from setwise._checks import InputError
from setwise.lagrangian.constraints.certificates import CertificateSettings
from setwise.lagrangian.constraints.inputs import Columns
from setwise.lagrangian.constraints.rates import RateConstraint, read_constraints
from setwise.lagrangian.constraints.threshold_search import TOLERANCE, Objective, best_place
from setwise.lagrangian.constraints.thresholds import Threshold, ThresholdFit, ThresholdProblem
from setwise.lp import LinearProgram, solve
from setwise.metrics.certified import ConstraintBound

_NEGLIGIBLE = 1e-9
_GRID = 16  # thresholds of each iterate that a mixture may use beside its best ones


@dataclass(frozen=True, eq=False)
class Iterate:
    """A model on the way, with what it achieves at some thresholds.

    Attributes:
        snapshot: What was given to be kept: of a module its ``state_dict`` on the CPU.
        fits: Thresholds with their value and violations; the one that suits the constraints best comes first.
    """

    snapshot: Any
    fits: tuple[ThresholdFit, ...]


@dataclass(frozen=True, eq=False)
class Member:
    """A model that is drawn with some probability.

    Attributes:
        snapshot: What was kept of the model.
        threshold: Its threshold, or one for each group.
        probability: How likely it is to be drawn.
    """

    snapshot: Any
    threshold: Threshold
    probability: float


@dataclass(frozen=True, eq=False)
class Choice:
    """One model, or a few of which one is drawn for each prediction.

    Attributes:
        members: The models with their thresholds and probabilities, the most likely first.
        value: The expected measure on the data of the selection.
        violation: The expected violation of each row there.  # shape: (rows,)
        certified: Whether the model's constraints hold on new data with the confidence asked for; None for a mixture,
            or if none was asked for.
        bounds: What is known of each constraint.
    """

    members: tuple[Member, ...]
    value: float
    violation: Tensor
    certified: bool | None = None
    bounds: tuple[ConstraintBound, ...] = ()

    @property
    def feasible(self) -> bool:
        """Whether all constraints are met on the data of the selection."""
        return bool((self.violation <= _NEGLIGIBLE).all())

    @property
    def threshold(self) -> Threshold:
        """The threshold of the only, or the most likely, member."""
        return self.members[0].threshold

    def load_into(self, model: nn.Module) -> None:
        """Give a module the weights of the only, or the most likely, member."""
        model.load_state_dict(self.members[0].snapshot)

    def positive_probability(self, scores: Callable[[Any], Tensor], group: Columns = None) -> Tensor:
        """How likely each sample is to be predicted positive; 0 or 1 where there is one member.

        Args:
            scores: Called with the snapshot of each member, gives the scores of the samples.  # shape: (n,)
            group: The columns, where thresholds are by group.  # shape: (n,)
        """
        parts = [
            member.probability * member.threshold.decide(scores(member.snapshot), group).double()
            for member in self.members
        ]
        return torch.stack(parts).sum(0)


class Selection:
    """Keeps iterates as training goes on and chooses among them at the end.

    Args:
        constraints: What the chosen model must meet.
        maximize: The measure of the decisions to be maximized, as in
            :func:`~setwise.lagrangian.adjust_threshold`; ``"shrink"`` wants ``"accuracy"`` or another that is linear in
            the decisions.
        adjust: Whether the threshold of each iterate is moved to where it is best.
        per_group: A column of which each group may get a threshold of its own; it is then needed to predict.
        confidence: Certify the constraints of each iterate for new data, in (0, 1); a certified one comes before any
            that is not. Each certificate is that of its iterate alone: for the choice among n of them on the same data
            to hold with 95 %, ask for ``1 - 0.05 / n``. Mixtures (``"shrink"``) are not certified.
        max_weight: A bound on the weights of all samples, seen and unseen; needed to certify with weights.

    >>> scores, labels = torch.tensor([3.0, 1.0, -1.0, 2.0, 0.0, -2.0]), torch.tensor([1, 1, 0, 0, 1, 0])
    >>> selection = Selection("recall>=0.9", maximize="precision")
    >>> for name, sign in (("backwards", -1), ("forwards", 1)):
    ...     _ = selection.add(name, sign * scores, labels)
    >>> choice = selection.choose("best")
    >>> choice.members[0].snapshot, float(choice.threshold), choice.value
    ('forwards', 0.0, 0.75)
    """

    def __init__(
        self,
        constraints: RateConstraint | str | list[RateConstraint | str] | tuple[RateConstraint | str, ...],
        *,
        maximize: str | Objective = "accuracy",
        adjust: bool = True,
        per_group: str | None = None,
        confidence: float | None = None,
        max_weight: float | None = None,
    ) -> None:
        self.constraints = read_constraints(constraints)
        self.maximize = maximize
        self.adjust = adjust
        self.per_group = per_group
        self.asked = None if confidence is None else CertificateSettings(confidence, max_weight)
        self.iterates: list[Iterate] = []

    def add(
        self,
        model: nn.Module | Any,
        scores: Tensor,
        labels: Tensor,
        group: Columns = None,
        weight: Tensor | None = None,
        *,
        threshold: float = 0.0,
    ) -> ThresholdFit:
        """Keep an iterate, evaluated by its scores on the training set or on data held out for selection.

        Args:
            model: A module, whose ``state_dict`` is copied to the CPU; or anything else, kept as it is: a path, a name.
            scores: Its scores.  # shape: (n,)
            labels: 0 or 1.  # shape: (n,)
            group: Groups, or columns by name.  # shape: (n,)
            weight: Non-negative weights.  # shape: (n,)
            threshold: Its threshold, where that is not adjusted.

        Returns:
            Its threshold, adjusted or not, and what that achieves.
        """
        problem = ThresholdProblem(
            scores, labels, self.constraints, group, weight, maximize=self.maximize, asked=self.asked
        )
        # Copied: training goes on and would change the tensors under us.
        snapshot = _on_cpu(model.state_dict()) if isinstance(model, nn.Module) else model
        fits = problem.at([threshold])
        if self.adjust:
            best = problem.best() if self.per_group is None else problem.best_per_group(self.per_group)
            # A mixture may need an infeasible member with a high value, so such places are kept too.
            fits = [best, *fits, problem.best(constrained=False), *problem.at(_grid(scores))]
        self.iterates.append(Iterate(snapshot, tuple(fits)))
        return fits[0]

    def choose(self, how: str = "best") -> Choice:
        """The best iterate, or a mixture of few.

        Args:
            how: ``"best"`` or ``"shrink"``.
        """
        _checks.one_of("how", how, ("best", "shrink"))
        if not self.iterates:
            raise InputError("Expected iterates to choose from, but none was added.")
        return self._best() if how == "best" else self._shrink()

    def _best(self) -> Choice:
        # A certificate is worth more than a better figure on these rows.
        certified = [iterate for iterate in self.iterates if iterate.fits[0].certified]
        iterates = certified or self.iterates
        fits = [iterate.fits[0] for iterate in iterates]
        place = best_place(torch.stack([fit.violation for fit in fits], 1), _values(fits))
        fit = fits[place]
        member = Member(iterates[place].snapshot, fit.threshold, 1.0)
        return Choice((member,), fit.value, fit.violation, fit.certified, fit.bounds)

    def _shrink(self) -> Choice:
        # An undefined measure is minus infinity, with which no linear program can work.
        options = [(iterate, fit) for iterate in self.iterates for fit in iterate.fits if math.isfinite(fit.value)]
        fits = [fit for _, fit in options]
        violation = torch.stack([fit.violation for fit in fits], 1)
        value = _values(fits)
        p = _mixture(value, violation)
        members = [
            Member(iterate.snapshot, fit.threshold, float(p[k])) for k, (iterate, fit) in enumerate(options) if p[k] > 0
        ]
        members.sort(key=lambda member: -member.probability)
        return Choice(tuple(members), float(p @ value), violation @ p)

    def state_dict(self) -> dict[str, Any]:
        """All iterates as plain data and tensors; what was given to be kept is in it as it is."""
        return {"iterates": [asdict(iterate) for iterate in self.iterates]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up the iterates of :meth:`state_dict`."""
        if "iterates" not in state:
            raise InputError("Expected `state` to come from `state_dict`, but it lacks iterates.")
        self.iterates = []
        for saved in state["iterates"]:
            fits = []
            for fit in saved["fits"]:
                threshold = Threshold(tuple(fit["threshold"]["values"]), fit["threshold"]["group"])
                bounds = tuple(ConstraintBound(**bound) for bound in fit["bounds"])
                fits.append(ThresholdFit(**{**fit, "threshold": threshold, "bounds": bounds}))
            self.iterates.append(Iterate(saved["snapshot"], tuple(fits)))


def _on_cpu(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.detach().cpu().clone() if isinstance(value, Tensor) else copy.deepcopy(value)
        for name, value in state.items()
    }


def _grid(scores: Tensor) -> list[float]:
    """Thresholds that predict from none to all of the samples, for mixtures."""
    falling = scores.detach().reshape(-1).sort(descending=True).values
    places = torch.linspace(0, len(falling) - 1, _GRID).round().long().unique()
    return [math.inf, *falling[places.to(falling.device)].tolist()]


def _values(fits: list[ThresholdFit]) -> Tensor:
    return torch.tensor([fit.value for fit in fits], dtype=torch.float64)


def _mixture(value: Tensor, violation: Tensor) -> Tensor:
    """Probabilities of the best mixture that meets all rows, or of the one whose worst row is broken least.

    Two programs: the least worst violation t >= 0, then the best value within t.

    Args:
        value: # shape: (k,)
        violation: # shape: (rows, k)
    """
    rows, k = violation.shape
    one, none = torch.ones(1, dtype=torch.float64), torch.zeros(k, dtype=torch.float64)
    least = solve(
        LinearProgram(
            torch.cat([none, one]),
            torch.cat([violation, -torch.ones(rows, 1, dtype=torch.float64)], 1),
            torch.zeros(rows, dtype=torch.float64),
            torch.cat([none + 1, 0 * one]).unsqueeze(0),
            one,
        )
    )
    worst = max(float(least.value), 0.0)
    # A little slack, or rounding in the first program makes the second infeasible.
    bound = violation.new_full((rows,), worst + (TOLERANCE if worst > 0 else 0.0))
    mixture = solve(LinearProgram(-value, violation, bound, torch.ones(1, k, dtype=torch.float64), one)).primal
    return _sparse(mixture, value, violation)


def _sparse(p: Tensor, value: Tensor, violation: Tensor) -> Tensor:
    """A mixture as good of at most one iterate more than there are rows (Carathéodory).

    While there are more, some direction on the support leaves all rows and the sum as they are: go along it, up in
    value, until a probability is zero.
    """
    p = torch.where(p > _NEGLIGIBLE, p, 0.0)
    p = p / p.sum()
    kept = torch.cat([violation, torch.ones_like(violation[:1])])  # shape: (rows + 1, k)
    while True:
        support = p.nonzero().squeeze(1)
        if len(support) <= len(kept):
            return p
        # The last right singular vector spans the kernel: rows and sum stay as they are along it.
        direction = torch.linalg.svd(kept[:, support]).Vh[-1]
        if float(direction @ value[support]) < 0 or not bool((direction < 0).any()):
            direction = -direction
        falling = direction < 0
        steps = torch.where(falling, p[support] / direction.neg().clamp(min=1e-300), math.inf)
        moved = p[support] + steps.min() * direction
        # Exactly zero, so that the support shrinks in every round.
        moved[steps.argmin()] = 0.0
        p = p.clone()
        p[support] = moved.clamp(min=0)
        p = p / p.sum()
