"""Permutation importance of the columns of a table on the measure, out of fold (Breiman 2001).

All encoded columns of one table column are permuted together, among the rows that a fold holds out, and scored by the
models that have not seen these rows. The importance is the measure before less the measure after, the mean over some
permutations; its standard error is that of a bootstrap of the rows, with the spread of the permutations added.

Columns that say the same share their importance: without the one, the other still tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError, is_count
from setwise.app.candidates import Rows
from setwise.app.folds import Folds
from setwise.app.train_report import ColumnRow
from setwise.data import TableEncoding
from setwise.linear.continuation import hard_value
from setwise.measures import Measure, parse

REPEATS = 3
ROWS = 5_000  # rows that are enough to rank columns
_RESAMPLES = 50
DOMINANT = 0.8  # share of the positive importances from which on one column carries nearly everything

Floats = NDArray[np.float64]
FoldScore = Callable[[int, NDArray[np.float32]], Floats]
"""Logits of encoded rows by the model of a fold.  # shape: (n,) or (classes, n)"""


def permutation_importance(
    rows: Rows,
    folds: Folds,
    score: FoldScore,
    columns: Mapping[str, Sequence[int]],
    measure: str | Measure,
    *,
    repeats: int = REPEATS,
    most_rows: int = ROWS,
    seed: int = 0,
) -> list[ColumnRow]:
    """Importance of every column, the largest first.

    Args:
        rows: All rows; labels may be class numbers.
        folds: Which rows each fold's model has not seen.
        score: Scores rows by the model of a fold; with several classes one line for each against the others, and the
            macro average of the measure is taken.
        columns: Encoded columns of each column of the table, see :func:`encoded_columns`.
        measure: The measure.
        repeats: Permutations of each column.
        most_rows: Rows that are used at most, of both classes by their shares.
        seed: Of permutations and rows.

    Raises:
        InputError: When a column names an encoded column that does not exist.
    """
    is_count("repeats", repeats)
    is_count("most_rows", most_rows, 2)
    for name, places in columns.items():
        if any(not 0 <= place < rows.x.shape[1] for place in places):
            raise InputError(
                f"Expected `columns` to name encoded columns below {rows.x.shape[1]}, but {name!r} does not."
            )
    chosen = parse(measure) if isinstance(measure, str) else measure
    random = np.random.default_rng(seed)
    parts = _parts(rows, folds, most_rows, random)
    used = np.concatenate(parts)
    y, weight = rows.y[used], None if rows.weight is None else rows.weight[used]
    # Each row by the model of its fold, which has not seen it.
    before = np.concatenate([score(k, rows.x[part]) for k, part in enumerate(parts)], axis=-1)
    draws = _draws(y, random)
    found = []
    for name, places in columns.items():
        after = [_permuted(rows, parts, score, list(places), random) for _ in range(repeats)]
        drop, error = _drop(chosen, before, after, y, weight, draws)
        found.append((name, drop, error))
    # A column whose permutation helps by chance takes nothing from the share of others.
    total = sum(max(drop, 0.0) for _, drop, _ in found)
    made = [ColumnRow(name, drop, error, max(drop, 0.0) / total if total > 0 else 0.0) for name, drop, error in found]
    return sorted(made, key=lambda each: -each.drop)


def encoded_columns(encoding: TableEncoding) -> dict[str, list[int]]:
    """Places of the encoded columns of each column of the table."""
    found, place = {}, 0
    for code in encoding.features:
        width = len(code.columns)
        found[code.name] = list(range(place, place + width))
        place += width
    return found


def warning_of(importances: Sequence[ColumnRow]) -> str | None:
    """A sentence where one of several columns carries nearly everything, else None."""
    if len(importances) < 2:
        return None
    first = importances[0]
    # Two standard errors, so that noise on few rows raises no alarm.
    if first.share < DOMINANT or first.drop <= 2 * first.error:
        return None
    return (
        f"Column {first.column!r} carries {first.share:.0%} of what the model knows: if it becomes known only with the "
        "outcome, leave it out."
    )


def _parts(rows: Rows, folds: Folds, most: int, random: np.random.Generator) -> list[NDArray[np.int64]]:
    """Some of the rows that each fold holds out, all classes by their shares."""
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    share = min(1.0, most / max(int(folds.scored.sum()), 1))
    parts = []
    for held in folds.held:
        chosen = []
        for label in range(int(rows.y.max()) + 1):
            own = np.flatnonzero(held & (rows.y == label) & (weight > 0))
            # At least 20 of each class in each fold, however rare it is.
            count = min(len(own), max(round(share * len(own)), 20))
            chosen.append(np.sort(random.choice(own, count, replace=False)))
        parts.append(np.concatenate(chosen))
    return parts


def _permuted(
    rows: Rows,
    parts: Sequence[NDArray[np.int64]],
    score: FoldScore,
    places: list[int],
    random: np.random.Generator,
) -> Floats:
    """Scores with these columns permuted together among the rows of each fold."""
    found = []
    for k, part in enumerate(parts):
        # Fancy indexing has copied the rows, so that they may be written to; all places of a column move together.
        x = rows.x[part]
        x[:, places] = x[random.permutation(len(part))][:, places]
        found.append(score(k, x))
    return np.concatenate(found, axis=-1)


def _draws(y: NDArray[np.int64], random: np.random.Generator) -> list[NDArray[np.int64]]:
    """Bootstrap draws of the rows that hold more than one class."""
    draws = [random.integers(len(y), size=len(y)) for _ in range(_RESAMPLES)]
    # A draw of one class has no measure.
    return [draw for draw in draws if y[draw].min() < y[draw].max()]


def _drop(
    measure: Measure,
    before: Floats,
    after: Sequence[Floats],
    y: NDArray[np.int64],
    weight: Floats | None,
    draws: Sequence[NDArray[np.int64]],
) -> tuple[float, float]:
    """Mean drop of the measure and its standard error."""
    start = macro_value(measure, before, y, weight)
    drops = np.array([start - macro_value(measure, each, y, weight) for each in after])
    drawn = []
    for draw in draws:  # one permutation is enough for the spread over rows
        own = None if weight is None else weight[draw]
        if own is None or len(np.unique(y[draw][own > 0])) > 1:
            both = (macro_value(measure, scores[..., draw], y[draw], own) for scores in (before, after[0]))
            drawn.append(next(both) - next(both))
    of_rows = float(np.var(drawn, ddof=1)) if len(drawn) > 1 else 0.0
    of_permutations = float(np.var(drops, ddof=1)) / len(drops) if len(drops) > 1 else 0.0
    return float(drops.mean()), float(np.sqrt(of_rows + of_permutations))


def macro_value(measure: Measure, scores: Floats, y: NDArray[np.int64], weight: Floats | None) -> float:
    """The measure, more being better; with several classes its mean over those that rows of weight have.

    Args:
        measure: The measure of two classes.
        scores: Logits, or one line for each class against the others.  # shape: (n,) or (classes, n)
        y: Labels or class numbers.  # shape: (n,)
        weight: Of the rows, or None.  # shape: (n,)
    """
    if scores.ndim == 1:
        return hard_value(measure, scores, y, weight)
    known = np.unique(y if weight is None else y[weight > 0])
    return float(np.mean([hard_value(measure, scores[k], (y == k).astype(np.int64), weight) for k in known]))
