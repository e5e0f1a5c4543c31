"""Choice of what is shipped: the stack beside its candidates, the best by the out-of-fold measure, and its ensemble.

With several classes there is one choice for all, by the macro average; each class has its own stack and ensemble.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from setwise.app.cross_fit import CrossFit
from setwise.app.ensemble import STACK, Ensemble
from setwise.app.resampled_criteria import Criterion
from setwise.app.selection import Selection, select
from setwise.app.stack import Stack, fit_stack, stack_out_of_fold
from setwise.measures import Measure

Floats = NDArray[np.float64]
BASELINE = "logistic"
FEWEST_TO_CHOOSE = 100  # rows beside those of the most frequent class; see `fixed_candidate`


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen of a cross-fit.

    Attributes:
        fits: All candidates.
        scored: Rows that some fold holds out.  # shape: (n,)
        logits: Out-of-fold scores of these rows, of every candidate and the stack.  # shape of each: (scored rows,)
        stack: The stack of all candidates; None where there is only one.
        selection: Which is shipped, and how good it is.
        ensemble: What is shipped.
    """

    fits: CrossFit
    scored: NDArray[np.bool_]
    logits: Mapping[str, Floats]
    stack: Stack | None
    selection: Selection
    ensemble: Ensemble

    @property
    def name(self) -> str:
        """The chosen candidate, or the stack."""
        return self.selection.chosen

    @property
    def labels(self) -> NDArray[np.int64]:
        """Of the rows that are scored."""
        return self.fits.rows.y[self.scored]

    @property
    def weight(self) -> Floats | None:
        """Of the rows that are scored."""
        weight = self.fits.rows.weight
        return None if weight is None else weight[self.scored]

    def title(self, name: str) -> str:
        """What a candidate is called."""
        return f"stack of {len(self.fits)} candidates" if name == STACK else self.fits[name].candidate.title

    def on_measure(self, name: str) -> bool:
        """Whether a candidate's training knows the measure."""
        return name != STACK and self.fits[name].candidate.on_measure

    @property
    def best_cross_entropy(self) -> str | None:
        """The best single candidate that was trained by cross-entropy alone, by the criterion of the choice."""
        names = [name for name in self.fits if not self.on_measure(name)]
        values, sign = self.selection.values, -1.0 if self.selection.estimator.minimize else 1.0
        return max(names, key=lambda name: sign * values[name]) if names else None


def fixed_candidate(labels: NDArray[np.int64], names: Collection[str]) -> str | None:
    """The stack where there are too few rows to choose among candidates, else None.

    With few positives nearly every candidate is within a standard error of the best, so that the rule of one standard
    error ships the simplest or a lucky one. The stack is drawn to the mean of all. Over 67 tables, 162 splits, average
    precision of the chosen candidate less that of the stack, by positives to learn from: below 20 -0.022 (standard
    error 0.010), 20 to 99 -0.001 (0.004), from 100 on -0.002 (0.002); AUROC -0.015, -0.002, -0.002.

    Args:
        labels: Of the rows that are scored.  # shape: (n,)
        names: Of the candidates, the stack among them if there is one.
    """
    few = len(labels) - int(np.bincount(labels).max()) < FEWEST_TO_CHOOSE
    return STACK if few and STACK in names else None


def choose_model(
    fits: CrossFit, measure: Measure, *, seed: int, level: float = 0.95, value: Criterion | None = None
) -> Choice:
    """Choose the candidate, or the stack of all, that is shipped.

    Args:
        fits: The candidates.
        measure: By which they are chosen.
        seed: Of the bootstrap draws.
        level: Of the intervals.
        value: A criterion in the measure's place, see :func:`setwise.app.selection.select`.
    """
    return choose_for_classes([fits], fits.rows.y, measure, seed=seed, level=level, value=value)[0]


def choose_for_classes(
    heads: Sequence[CrossFit],
    labels: NDArray[np.int64],
    measure: Measure,
    *,
    seed: int,
    level: float = 0.95,
    value: Criterion | None = None,
) -> list[Choice]:
    """Choose the candidate, or the stack, that is shipped for all of several classes, or for the one of two.

    Args:
        heads: The candidates of each class against the others; of two classes those of the positive one alone.
        labels: Class numbers of all rows.  # shape: (n,)
        measure: By whose macro average they are chosen.
        seed: Of the bootstrap draws.
        level: Of the intervals.
        value: As for :func:`choose_model`, of two classes.

    Returns:
        For each class its own scores, stack and ensemble with the selection that all share.
    """
    scored, weight = heads[0].folds.scored, heads[0].rows.weight
    parts = [_stacked(fits) for fits in heads]
    together = parts[0][0]
    if len(heads) > 1:
        together = {name: np.stack([logits[name] for logits, _ in parts]) for name in together}
    selection = select(
        together,
        labels[scored],
        measure,
        weight=None if weight is None else weight[scored],
        # Under constraints average precision says little: a constrained network gives some of it up for what is asked.
        guards=value is None,
        level=level,
        seed=seed,
        value=value,
        fixed=fixed_candidate(labels[scored], together) if value is None else None,
    )
    return [
        Choice(fits, scored, logits, stack, selection, _ensemble(fits, selection.chosen, stack))
        for fits, (logits, stack) in zip(heads, parts, strict=True)
    ]


def _stacked(fits: CrossFit) -> tuple[dict[str, Floats], Stack | None]:
    """Out-of-fold scores of every candidate and of their stack, and the stack fitted to all rows."""
    scored = fits.folds.scored
    names = list(fits)
    table = np.stack([fits[name].logits for name in names])  # shape: (candidates, n)
    labels, weight = fits.rows.y, fits.rows.weight
    own = None if weight is None else weight[scored]
    logits, stack = dict(zip(names, table[:, scored], strict=True)), None
    # The stack that is shipped sees all rows; its out-of-fold scores come from stacks that do not.
    if len(names) > 1:
        stack = fit_stack(table[:, scored], labels[scored], names=names, weight=own)
        logits[STACK] = stack_out_of_fold(table, labels, fits.folds, weight=weight)[scored]
    return logits, stack


def _ensemble(fits: CrossFit, chosen: str, stack: Stack | None) -> Ensemble:
    """The mean of the folds' models, or the stack of those candidates that have weight."""
    if chosen != STACK or stack is None:
        return Ensemble({chosen: fits[chosen].scorers})
    # Members without weight cost time and space, and give nothing.
    reduced = stack.reduced() if len(stack.used) else stack
    return Ensemble({name: fits[name].scorers for name in reduced.names}, reduced)


def refitted(choice: Choice, measure: Measure, *, seed: int) -> Ensemble:
    """The same ensemble with each candidate fitted once, to all rows: for folds in order of time.

    The model of a fold knows only what was before it, so the mean of the folds' models would be of the past.

    Args:
        choice: What was chosen.
        measure: For candidates trained on it.
        seed: Of the fits.
    """
    rows = choice.fits.rows
    # One fold that leaves nothing out.
    nothing = np.zeros((1, len(rows.y)), bool)
    members = {
        name: tuple(choice.fits[name].candidate.fit_folds(rows, nothing, measure, seed=seed))
        for name in choice.ensemble.members
    }
    return replace(choice.ensemble, members=members)


def shares(*choices: Choice) -> Sequence[tuple[str, float]]:
    """Candidates of the shipped stack with their part of its weights, the largest first; empty without a stack.

    Args:
        *choices: That of two classes, or those of several, whose mean is taken.
    """
    found: dict[str, float] = {}
    for stack in (choice.ensemble.stack for choice in choices):
        for name, share in {} if stack is None else stack.share.items():
            found[name] = found.get(name, 0.0) + share / len(choices)
    return sorted(found.items(), key=lambda each: -each[1])
