"""Summary of a training in sentences: what is shipped, how good it is beside the others, and which floors hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from setwise.app.choice import BASELINE, Choice, Floats, shares
from setwise.app.decision import Decision
from setwise.metrics import Interval
from setwise.report.text import interval_text

CLAIMED = 100  # positives from which on a figure for new rows is claimed, and not only shown
_NAMED = 4  # members of a stack that are named


def headline(choice: Choice, decision: Decision, criterion: str) -> list[str]:
    """The sentences that come first.

    Args:
        choice: What is shipped.
        decision: Its threshold.
        criterion: Title of what the candidates are compared by.
    """
    few = int(choice.labels.sum()), "positives"
    return [_shipped(choice), *_compared(choice, criterion, few), *decided(decision, choice)]


def headline_for_classes(
    choices: Sequence[Choice], classes: Sequence[str], probabilities: Floats, labels: NDArray[np.int64], criterion: str
) -> list[str]:
    """The sentences that come first with several classes.

    Args:
        choices: What is shipped, for each class.
        classes: Their names.
        probabilities: Out of fold, of what is shipped.  # shape: (n, classes)
        labels: Class numbers of the same rows.  # shape: (n,)
        criterion: Title of what the candidates are compared by.
    """
    counts = np.bincount(labels, minlength=len(classes))
    few = int(counts.min()), f"rows of class {classes[int(counts.argmin())]!r}"
    right = float(np.average(probabilities.argmax(axis=1) == labels, weights=choices[0].weight))
    return [
        _shipped(*choices),
        *_compared(choices[0], criterion, few),
        f"The most probable class is predicted: out of fold it is the right one in {right:.1%} of rows.",
    ]


def _shipped(*choices: Choice) -> str:
    """Of two classes one choice, of several one for each."""
    choice = choices[0]
    models = {name: len(scorers) for each in choices for name, scorers in each.ensemble.members.items()}
    fitted = (
        "refitted to all rows" if set(models.values()) == {1} else f"the mean of {max(models.values())} folds' models"
    )
    if len(choices) > 1:
        fitted += f", for each of {len(choices)} classes against the others"
    parts = shares(*choices)
    if not parts:
        candidate = choice.fits[choice.name].candidate
        how = "" if candidate.on_measure else ", trained by cross-entropy"
        behind = (
            ""
            if choice.selection.best == choice.name
            else f"; no more than a standard error behind the {_best(choice)}"
        )
        return f"Shipped: {candidate.title}{how}, {fitted}{behind}."
    named = [f"{choice.title(name)} {share:.0%}" for name, share in parts[:_NAMED]]
    rest = [f"{len(parts) - _NAMED} more"] if len(parts) > _NAMED else []
    why = "; there are too few rows of the rarer class to choose among them" if choice.selection.fixed else ""
    return f"Shipped: a stack of {len(parts)} candidates ({', '.join([*named, *rest])}), {fitted}{why}."


def _best(choice: Choice) -> str:
    return f"best, the {choice.title(choice.selection.best)}"


def _compared(choice: Choice, criterion: str, few: tuple[int, str]) -> list[str]:
    """The measure beside logistic regression's and that of the best cross-entropy candidate.

    Args:
        choice: What was chosen.
        criterion: Title of the measure.
        few: How many rows of the rarest class there are, and what these are called.
    """
    selection, (count, called) = choice.selection, few
    estimate = selection.estimate
    if count < CLAIMED:
        said = f"{count} {called} are too few to claim a figure for new rows; out of fold it was"
        lines = [f"{criterion}: {said} {interval_text(estimate)}."]
    else:
        lines = [f"{criterion} on new rows: {interval_text(estimate)}, {estimate.level:.0%} interval."]
    others = {BASELINE: "Logistic regression"} if BASELINE in choice.fits and choice.name != BASELINE else {}
    best = choice.best_cross_entropy
    if best is not None and best not in (choice.name, BASELINE):
        others[best] = f"Best cross-entropy candidate, {choice.title(best)}"
    if best == choice.name != BASELINE:
        lines[0] += " No other candidate trained by cross-entropy is better."
    if others:
        lines.append(" ".join(_beside(choice, name, said) for name, said in others.items()))
    return lines


def _beside(choice: Choice, name: str, said: str) -> str:
    selection = choice.selection
    difference, minimize = selection.difference(name), selection.estimator.minimize
    return f"{said}: {interval_text(selection.interval_of(name))}; {verdict(difference, minimize=minimize)}."


def verdict(difference: Interval, *, minimize: bool) -> str:
    """``shipped is better by 0.012 [0.003, 0.021]``, or that there is no significant difference."""
    shown = interval_text(difference, signed=True)
    if difference.low <= 0 <= difference.high:
        return f"no significant difference ({shown})"
    better = (difference.estimate > 0) != minimize
    return f"shipped is {'better' if better else 'worse'} ({shown})"


def decided(decision: Decision, choice: Choice) -> list[str]:
    """Which constraints hold, and where the threshold lies."""
    said: Sequence[str] = () if decision.certificate is None else decision.certificate["said"]
    lines = list(said)
    if decision.certificate is None and decision.constraints:
        lines += [
            f"{row['constraint']}: {'met' if row['met'] else 'missed'} on the rows of the table ({row['value']:.3f}); "
            "not certified for new ones, since no confidence is asked for."
            for row in decision.constraints
        ]
    if choice.fits.folds.kind == "time" and decision.certificate is not None and decision.certificate["certified"]:
        lines.append("This is said of rows like those of the later folds; what changes with time is not covered.")
    if not math.isfinite(decision.score_threshold):
        return [*lines, "No row is predicted positive: no threshold meets what was asked for."]
    return [
        *lines,
        f"Predicted positive from probability {decision.threshold:.4g} on ({at_threshold(decision, choice)}).",
    ]


def at_threshold(decision: Decision, choice: Choice) -> str:
    """Recall and precision out of fold."""
    scores, labels = choice.logits[choice.name], choice.labels == 1
    flagged = scores >= decision.score_threshold
    recall, precision = recall_and_precision(flagged, labels, choice.weight)
    return f"out of fold: recall {recall:.3f}, precision {precision:.3f}, {float(flagged.mean()):.1%} of rows"


def recall_and_precision(
    flagged: NDArray[np.bool_], positive: NDArray[np.bool_], weight: Floats | None
) -> tuple[float, float]:
    """Of rows that are predicted positive; without any of them the precision is NaN.

    Args:
        flagged: Which rows these are.  # shape: (n,)
        positive: Which rows are positive.  # shape: (n,)
        weight: Of the rows, or None.  # shape: (n,)
    """
    w = np.ones(len(flagged)) if weight is None else weight
    hits, total = float(w[positive & flagged].sum()), float(w[flagged].sum())
    return hits / float(w[positive].sum()), hits / total if total > 0 else math.nan
