"""Evaluation of any classifier's scores: measures with intervals, a certified threshold, calibration, groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats
from setwise.metrics import Counts
from setwise.metrics._inputs import Sample
from setwise.metrics._ranked import rank
from setwise.metrics.bootstrap import EXACT_ROWS, Resampler, cells_of
from setwise.metrics.constraints import Constraint, read_constraints, read_rate
from setwise.report.deciding import (
    Asked,
    Chosen,
    certificate_checks,
    choose,
    default_objective,
    fixed_checks,
    percent,
    requirement_checks,
)
from setwise.report.evaluation import Curve, Decision, Evaluation, GroupRow, PairedRow, ScoreColumn
from setwise.report.measuring import (
    GROUP_RATES,
    Measured,
    Specs,
    compare,
    measure_counts,
    measure_curves,
    measure_probabilities,
    read_measures,
)
from setwise.report.reading import Rows, read_rows

_CURVE_POINTS = 1000  # of the running counts that a page draws


def evaluate(
    scores: Any,
    labels: Any,
    *,
    names: str | Sequence[str] | None = None,
    measure: str | Sequence[str] | None = None,
    subject_to: str | Sequence[str] | None = None,
    maximize: str | None = None,
    confidence: float = 0.95,
    threshold: float | Sequence[float] | Mapping[str, float] | None = None,
    weight: Any = None,
    max_weight: float | None = None,
    group: Any = None,
    calibration: Mapping[str, Any] | Sequence[Any] | None = None,
    require: str | Sequence[str] | None = None,
    positive: Any = None,
    title: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Evaluation:
    """Evaluate the scores of a classifier, whatever made them.

    Every measure has an interval that covers the sampling of the rows: what another test set from the same source
    would give. Rows are resampled with replacement, classes not held fixed; beyond a few thousand rows by random blocks
    (:mod:`setwise.metrics.bootstrap`). Shares of rows at the threshold have Clopper-Pearson intervals.

    The threshold is, in this order,

    - ``threshold``, one that is in use. It was fixed before, so plain Clopper-Pearson bounds hold at it;
    - the best one for ``maximize`` on the ``calibration`` rows, certified there for ``subject_to``, and verified on
      these rows, again by plain bounds;
    - the best one on these rows themselves, certified for ``subject_to`` by bounds that allow for the choice. Its other
      rates are optimistic, most of all with few positives.

    Args:
        scores: Scores, higher is more positive: one column (array, tensor, series), several as a mapping by name, a
            data frame or an array. # shape: (n,) or (n, columns)
        labels: 0 and 1, booleans, or any two values. # shape: (n,)
        names: Of the columns of scores.
        measure: One or several to report beside the usual ones, such as ``"precision@recall>=0.9"`` (the default) or
            ``"tpr@fpr<=0.01"``.
        subject_to: Constraints on the threshold, such as ``"recall>=0.9"``.
        maximize: What the threshold maximizes: by default precision under a recall floor, recall under a precision
            floor or a ceiling, otherwise F1.
        confidence: Of all intervals and bounds, in (0, 1).
        threshold: One for all columns of scores, or one for each.
        weight: Non-negative weight per row. # shape: (n,)
        max_weight: A bound on the weights of all cases, seen and unseen; needed for certain statements with weights.
        group: A column of groups, or several as a mapping or a data frame. Constraints must hold in every group.
            # shape: (n,)
        calibration: Other rows to choose the threshold on: ``(scores, labels)``, or a mapping with ``scores``,
            ``labels`` and, where the evaluation rows have them, ``weight`` and ``group``.
        require: Constraints to be checked at the threshold. Without ``threshold`` and ``subject_to`` the threshold is
            certified for them.
        positive: The label that is positive. By default the second of a usual pair such as no and yes, or the rarer.
        title: Of the report.
        resamples: Draws of the bootstrap.
        seed: Of the draws.

    Returns:
        The evaluation; ``print`` shows a table, ``write("report.html")`` makes a page.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.random(500) < 0.3
        >>> found = evaluate(rng.normal(size=500) + 2 * labels, labels, subject_to="recall>=0.9", resamples=200)
        >>> found.columns[0].decision.how
        'certified'
        >>> print(found.headline[0])  # doctest: +ELLIPSIS
        At the certified threshold ...: recall 0.9... (asked at least 0.9: holds with 95 % confidence, lower bound ...
    """
    _checks.in_range("confidence", confidence, 0, 1, open_low=True, open_high=True)
    _checks.is_count("resamples", resamples)
    _checks.is_count("seed", seed, low=0)
    required = _read_required(require)
    constraints = tuple(read_constraints(subject_to)) or (required if threshold is None else ())
    specs = read_measures(measure, constraints)
    if maximize is not None:
        read_rate("maximize", maximize, to_maximize=True)
    if max_weight is not None:
        _checks.in_range("max_weight", max_weight, 0, open_low=True)
    rows = read_rows(scores, labels, names=names, weight=weight, group=group, positive=positive)
    if max_weight is not None and rows.weight is not None and rows.weight.max() > max_weight:
        raise InputError(f"Expected `max_weight` to be at least the largest weight, {rows.weight.max():g}.")
    asked = Asked(constraints, maximize or default_objective(constraints), confidence, max_weight)
    given = _read_thresholds(threshold, list(rows.scores))
    if given is not None and calibration is not None:
        raise InputError("Expected `threshold` or `calibration`, but got both; the threshold comes from one of them.")
    other = None if calibration is None else _read_calibration(calibration, rows, names)
    draws = Resampler(rows.positive, rows.weight, resamples=resamples, seed=seed)

    chosen = {
        name: Chosen(given[name], "given", None, None) if given else choose(name, other or rows, asked)
        for name in rows.scores
    }
    parts = [_evaluate_column(name, rows, each, specs, asked, draws) for name, each in chosen.items()]
    first = parts[0][0]
    decided = first.decision
    mass = np.ones(len(rows.positive)) if rows.weight is None else rows.weight
    return Evaluation(
        title=title or f"Evaluation of {', '.join(rows.scores)}",
        rows=len(rows.positive),
        positives=int(rows.positive.sum()),
        total_weight=float(mass.sum()),
        positive_weight=float(mass[rows.positive].sum()),
        positive=rows.classes[1],
        negative=rows.classes[0],
        confidence=confidence,
        subject_to=tuple(constraint.text for constraint in constraints),
        maximize="" if given else asked.maximize,
        measure=specs.first,
        columns=tuple(column for column, _ in parts),
        comparisons=_compare(parts, confidence),
        labels=rows.positive,
        weight=rows.weight,
        groups=rows.groups,
        requirements=tuple(requirement_checks(required, decided.checks, first.name, chosen[first.name], rows, asked)),
        settings=_settings(asked, specs, decided, resamples, seed, len(rows.positive)),
        facts=_facts(rows, other),
    )


_Part = tuple[ScoreColumn, Mapping[str, Measured]]  # a column with what only the comparison with others needs


def _evaluate_column(name: str, rows: Rows, chosen: Chosen, specs: Specs, asked: Asked, draws: Resampler) -> _Part:
    scores, weighted, confidence = rows.scores[name], rows.weight is not None, asked.confidence
    flagged = scores >= chosen.threshold
    # TP, FP, FN, TN, by weight where there are weights. # shape: (4,)
    cells = np.bincount(cells_of(flagged, rows.positive), rows.weight, minlength=4).astype(np.float64)
    rates = measure_counts(specs.counts, cells, draws.counts_at(flagged)[:, 0], confidence, weighted=weighted)
    curves = measure_curves(specs, scores, rows, draws, confidence)
    calibration, losses = measure_probabilities(scores, rows, draws, confidence)
    measured = {each.row.key: each for each in (*curves, *rates, *losses)}
    # The measure that was asked for comes first.
    order = [key for key in (specs.first, *(key for key in measured if key != specs.first)) if key in measured]
    # A threshold chosen on these very rows needs bounds that allow for the choice; any other was fixed before them.
    same = chosen.rows is rows
    fixed = () if same else fixed_checks(asked.subject_to, scores, rows, chosen.threshold, asked)
    decision = Decision(
        threshold=chosen.threshold,
        how=chosen.how,
        maximize="" if chosen.choice is None else asked.maximize,
        same_rows=same,
        counts=_counts(cells, weighted=weighted),
        rates=tuple(each.row for each in rates),
        checks=tuple(certificate_checks(chosen, asked) if same else fixed),
        choice=chosen.choice,
    )
    column = ScoreColumn(
        name=name,
        scores=scores,
        measures=tuple(measured[key].row for key in order),
        decision=decision,
        calibration=calibration,
        groups=_groups(flagged, rows, draws, confidence),
        curve=_curve(scores, rows, chosen.threshold),
    )
    return column, {key: measured[key] for key in order}


def _groups(flagged: NDArray[np.bool_], rows: Rows, draws: Resampler, confidence: float) -> tuple[GroupRow, ...]:
    found = []
    cell = cells_of(flagged, rows.positive)
    for group in rows.groups:
        size = len(group.values)
        # Rows are counted as rows even where they have weights, of which the table holds the sums.
        counts = np.bincount(4 * group.codes + cell, minlength=4 * size).reshape(size, 4)
        table = np.bincount(4 * group.codes + cell, rows.weight, minlength=4 * size).reshape(size, 4).astype(np.float64)
        drawn = draws.counts_at(flagged, group.codes, size)
        for k, value in enumerate(group.values):
            rates = measure_counts(GROUP_RATES, table[k], drawn[:, k], confidence, weighted=rows.weight is not None)
            found.append(
                GroupRow(
                    column=group.name,
                    value=value,
                    rows=int(counts[k].sum()),
                    positives=int(counts[k, 0] + counts[k, 2]),
                    counts=_counts(table[k], weighted=rows.weight is not None),
                    rates=tuple(each.row for each in rates),
                )
            )
    return tuple(found)


def _compare(parts: Sequence[_Part], confidence: float) -> tuple[PairedRow, ...]:
    """The first column against each other, for the measures that both have."""
    (first, own), *others = parts
    return tuple(
        PairedRow(key, one.row.title, first.name, other.name, compare(one, measured[key], confidence))
        for other, measured in others
        for key, one in own.items()
        if key in measured
    )


def _curve(scores: NDArray[Any], rows: Rows, threshold: float) -> Curve:
    """Running counts at quantiles of both classes, and at the threshold."""
    ranked = rank(Sample(scores, rows.positive, rows.weight))
    thresholds = ranked.thresholds
    keep = np.arange(len(thresholds))
    if len(keep) >= _CURVE_POINTS:
        # Quantiles of both classes: with few positives those of all rows would leave out most of their steps.
        shares = np.linspace(0, 1, _CURVE_POINTS // 2 - 1)
        places = [np.searchsorted(running, shares * running[-1]) for running in (ranked.tp, ranked.fp)]
        at = np.searchsorted(-thresholds, -threshold, side="right") - 1  # the last score that is predicted positive
        keep = np.unique(np.concatenate([*places, [max(at, 0), len(thresholds) - 1]]).clip(0, len(thresholds) - 1))
    # The curve begins where nothing is predicted positive.
    return Curve(np.append(np.inf, thresholds[keep]), np.append(0.0, ranked.tp[keep]), np.append(0.0, ranked.fp[keep]))


def _read_required(require: str | Sequence[str] | None) -> tuple[Constraint, ...]:
    try:
        return tuple(read_constraints(require))
    except InputError as error:
        # The grammar is that of the constraints; only the argument is called otherwise.
        raise InputError(str(error).replace("`subject_to`", "`require`")) from None


def _read_thresholds(threshold: Any, names: Sequence[str]) -> dict[str, float] | None:
    if threshold is None:
        return None
    if isinstance(threshold, Mapping):
        if set(threshold) != set(names):
            raise InputError(f"Expected `threshold` to have one for each of {list(names)}, but got {list(threshold)}.")
        values = [threshold[name] for name in names]
    elif isinstance(threshold, Sequence) and not isinstance(threshold, str):
        values = list(threshold) * len(names) if len(threshold) == 1 else list(threshold)
        if len(values) != len(names):
            raise InputError(f"Expected `threshold` to be one number or {len(names)}, but got {len(values)}.")
    else:
        values = [threshold] * len(names)
    for value in values:
        _checks.in_range("threshold", value)
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def _read_calibration(calibration: Any, rows: Rows, names: str | Sequence[str] | None) -> Rows:
    """The calibration rows, with the same columns and classes as the evaluation rows."""
    if isinstance(calibration, Mapping):
        known = {"scores", "labels", "weight", "group"}
        if not {"scores", "labels"} <= set(calibration) <= known:
            raise InputError(
                f"Expected `calibration` to hold scores and labels, and maybe weight and group, but got "
                f"{', '.join(map(str, calibration))}."
            )
        parts = dict(calibration)
    elif isinstance(calibration, Sequence) and len(calibration) == 2:
        parts = {"scores": calibration[0], "labels": calibration[1]}
    else:
        raise InputError("Expected `calibration` to be (scores, labels), or a mapping with scores and labels.")
    found = read_rows(
        parts["scores"],
        parts["labels"],
        names=names if names is not None else list(rows.scores) if len(rows.scores) == 1 else None,
        weight=parts.get("weight"),
        group=parts.get("group"),
        classes=rows.classes,
        prefix="calibration ",
    )
    missing = sorted(
        {*rows.scores} - {*found.scores} | {each.name for each in rows.groups} - {g.name for g in found.groups}
    )
    if missing:
        raise InputError(
            f"Expected `calibration` to have the columns of the rows evaluated, but {missing[0]!r} is not there."
        )
    return found


def _counts(cells: Floats, *, weighted: bool) -> Counts:
    return Counts(*(float(cell) if weighted else int(cell) for cell in cells))


def _settings(asked: Asked, specs: Specs, decision: Decision, resamples: int, seed: int, rows: int) -> dict[str, str]:
    where = "" if decision.choice is None else f" on {'these rows' if decision.same_rows else 'the calibration rows'}"
    kind = "rows" if rows <= EXACT_ROWS else "random blocks of rows"
    found = {
        "measure": specs.first,
        "constraints": ", ".join(constraint.text for constraint in asked.subject_to) or "none",
        "threshold": f"{decision.how}{where}",
        "maximized": decision.maximize or "nothing",
        "confidence": percent(asked.confidence),
        "intervals": f"bootstrap of {kind}, {resamples} draws, seed {seed}; Clopper-Pearson for shares of rows",
    }
    if asked.max_weight is not None:
        found["largest weight"] = f"{asked.max_weight:g}"
    return found


def _facts(rows: Rows, other: Rows | None) -> dict[str, str]:
    positives = int(rows.positive.sum())
    found = {
        "rows": f"{len(rows.positive):,}",
        "positives": f"{positives:,} ({100 * positives / len(rows.positive):.3g} %), label {rows.classes[1]}",
        "negatives": f"{len(rows.positive) - positives:,}, label {rows.classes[0]}",
    }
    if rows.weight is not None:
        found["weights"] = f"{rows.weight.min():g} to {rows.weight.max():g}, sum {rows.weight.sum():g}"
    for name, scores in rows.scores.items():
        found[f"scores {name}"] = f"{scores.min():g} to {scores.max():g}"
    if other is not None:
        found["calibration rows"] = f"{len(other.positive):,}, {int(other.positive.sum()):,} of them positive"
    return found
