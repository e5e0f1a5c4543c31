"""Assessment: the out-of-fold scores of what is shipped evaluated beside its baselines, for the page of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.app.certificates import record
from setwise.app.choice import BASELINE, Choice
from setwise.app.decision import Decision, decide_by
from setwise.app.settings import TrainSettings
from setwise.app.table_constraints import Constraints, Groups
from setwise.metrics.certified import ConstraintBound
from setwise.report import ConstraintCheck, Evaluation, MeasureRow, ScoreColumn, evaluate
from setwise.report.evaluation import Decision as ShownDecision

Floats = NDArray[np.float64]
SHIPPED = "shipped"


def assess(
    choice: Choice,
    decision: Decision,
    groups: Mapping[str, Groups],
    settings: TrainSettings,
    *,
    title: str,
    classes: Sequence[str],
    by_measure: bool = True,
) -> Evaluation:
    """Evaluate the shipped scores, logistic regression's and those of the best cross-entropy candidate.

    Args:
        choice: What was chosen, with the scores of all candidates.
        decision: Of what is shipped.
        groups: Groups of the scored rows.
        settings: What was asked for.
        title: Of the page.
        classes: Names of label 0 and label 1.
        by_measure: Whether the measure has made the choice, whose estimates for new rows are then shown; constraints
            by group have a criterion of their own.
    """
    named = {f"{SHIPPED} ({choice.title(choice.name)})": (choice.name, decision)}
    for name in dict.fromkeys((BASELINE, choice.best_cross_entropy)):
        if name is not None and name in choice.logits and name != choice.name:
            own = decide_by(choice.logits[name], choice.labels, choice.weight, groups, decision.rule)
            named[choice.title(name)] = name, own
    decisions = {title: own for title, (_, own) in named.items()}
    scores = {title: np.asarray(own.calibration(choice.logits[name])) for title, (name, own) in named.items()}
    reported = _reported(settings.measure)
    found = evaluate(
        scores,
        np.array(classes)[choice.labels],
        measure=reported,
        threshold={title: own.threshold for title, own in decisions.items()},
        weight=choice.weight,
        group={name: np.array(group.names)[group.codes] for name, group in groups.items()} or None,
        positive=classes[1],
        confidence=settings.confidence or 0.95,
        max_weight=settings.max_weight,
        title=title,
        seed=settings.seed,
    )
    constraints = Constraints(settings.subject_to, groups)
    columns = [_decided(column, decisions[column.name], settings, constraints) for column in found.columns]
    compared = found.comparisons
    if by_measure and reported is not None:
        keys = [name for name, _ in named.values()]
        columns = [_estimated(column, choice, name, found.measure) for column, name in zip(columns, keys, strict=True)]
        # The paired difference that allows for the choice stands in the table of candidates; one that does not would
        # contradict it.
        compared = tuple(row for row in compared if row.key != found.measure)
    return replace(found, columns=tuple(columns), comparisons=compared, subject_to=settings.floors)


def _reported(measure: str) -> str | None:
    """The measure, where evaluations know it."""
    from setwise.report.measuring import read_measures

    try:
        read_measures(measure, ())
    except InputError:
        return None
    return measure


def _decided(column: ScoreColumn, decision: Decision, settings: TrainSettings, constraints: Constraints) -> ScoreColumn:
    """The column with its decision as what it is: chosen on these rows, and certified or not."""
    asked = decision.certificate is not None
    certified = asked and bool(decision.certificate and decision.certificate["certified"])
    shown: ShownDecision = replace(
        column.decision,
        how="certified" if certified else "not certified" if asked else "chosen",
        maximize=decision.maximize,
        same_rows=True,
        checks=tuple(_check(bound, settings, constraints) for bound in decision.bounds),
    )
    return replace(column, decision=shown)


def _check(bound: ConstraintBound, settings: TrainSettings, constraints: Constraints) -> ConstraintCheck:
    made = record([bound], settings.confidence, bound.certified, named=constraints.shown)["bounds"][0]
    text = made["constraint"]
    floor = ">=" in text
    level = float(text.rpartition(">=" if floor else "<=")[2])
    met = bound.estimate >= level - 1e-9 if floor else bound.estimate <= level + 1e-9
    return ConstraintCheck(
        text,
        bound.estimate,
        bound.bound if bound.certified else float("nan"),
        True if bound.certified else None if met else False,
        rows=bound.rows,
        needed=bound.needed,
        reason=made["reason"],
        source="certificate",
    )


def _estimated(column: ScoreColumn, choice: Choice, name: str, key: str) -> ScoreColumn:
    """The column with the measure asked for estimated for new rows: the choice and few rows allowed for."""
    selection = choice.selection
    estimate = selection.estimate if name == choice.name else selection.interval_of(name)
    rows = tuple(MeasureRow(row.key, row.title, estimate) if row.key == key else row for row in column.measures)
    return replace(column, measures=rows)
