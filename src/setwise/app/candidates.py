"""Candidate models of a binary table problem, each fitted to some rows and giving a scorer that can be stored.

============================  =========================================================================================
name                          what it is
============================  =========================================================================================
``logistic``                  logistic regression on standardized columns, its penalty chosen inside the training rows
``linear_measure``            from there towards the measure, over the whole training set, held to the start
``lightgbm``                  boosted trees, cross-entropy
``lightgbm_measure``          boosted trees, half cross-entropy and half the measure's loss
``extra_trees``               extremely randomized trees
``network``                   a small perceptron with a linear path, cross-entropy
``network_measure``           the same, half cross-entropy and half the measure's loss
============================  =========================================================================================

They stand from the simplest to the least simple. Every candidate takes rows of any scale, constant columns, rows of
weight zero (which are dropped) and training rows of one class (whose score is a constant). Fits depend on rows and seed
alone, not on threads or on what else is at work.

>>> import numpy as np
>>> x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
>>> scorer = CANDIDATES["logistic"].fit(Rows.of(x, x[:, 0] > 1), "average_precision", seed=0)
>>> scorer.score(x).shape
(200,)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._checks import InputError, all_binary, all_finite, all_non_negative, extra, one_of
from setwise.app.boosted import boosted
from setwise.app.folds import stratified
from setwise.app.forest_file import forest_text
from setwise.app.perceptrons import perceptrons
from setwise.app.scorers import Floats, ForestScorer, LinearScorer, Scorer
from setwise.linear import selection as linear
from setwise.linear.continuation import Labelled
from setwise.linear.logistic import fit_logistic
from setwise.measures import Measure, parse

CS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
_PULL = 0.1  # of the linear fit towards its start; the middle of `setwise.linear.selection`'s three
_INNER_FOLDS = 5
_MOST_CHOOSING = 20_000  # rows on which a penalty is chosen
_TREES = 100  # of a forest; the mean of five folds has 500


@dataclass(frozen=True, eq=False)
class Rows:
    """Encoded rows to learn from.

    Attributes:
        x: Encoded columns.  # shape: (n, d)
        y: Labels 0 and 1; class numbers only until :meth:`against` tells one class from the others.  # shape: (n,)
        weight: Non-negative weights, or None for equal ones.  # shape: (n,)
    """

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    weight: Floats | None = None

    @classmethod
    def of(cls, inputs: ArrayLike, labels: ArrayLike, weight: ArrayLike | None = None, *, classes: int = 2) -> Rows:
        """From arrays, checked; with more than two ``classes`` labels are their numbers."""
        x, y = np.asarray(inputs, np.float32), np.asarray(labels)
        if x.ndim != 2 or x.shape[1] == 0:
            raise InputError(f"Expected `inputs` to be of shape (n, d) with d >= 1, but got {x.shape}.")
        if y.shape != (len(x),):
            raise InputError(f"Expected `labels` to hold one label for each of {len(x)} rows, but got {y.shape}.")
        all_finite("inputs", x)
        if classes == 2:
            all_binary("labels", y)
        elif not np.isin(y, np.arange(classes)).all():
            raise InputError(f"Expected `labels` to be class numbers below {classes}, but some are not.")
        w = None if weight is None else np.asarray(weight, np.float64)
        if w is not None:
            if w.shape != y.shape:
                raise InputError(f"Expected `weight` to hold one weight for each of {len(x)} rows, but got {w.shape}.")
            all_finite("weight", w)
            all_non_negative("weight", w)
        return cls(np.ascontiguousarray(x), y.astype(np.int64), w)

    def take(self, which: NDArray[Any]) -> Rows:
        """Some of the rows, by mask or index."""
        return Rows(self.x[which], self.y[which], None if self.weight is None else self.weight[which])

    def against(self, number: int) -> Rows:
        """One class against the others: label 1 for its rows."""
        return replace(self, y=(self.y == number).astype(np.int64))

    def used(self) -> Rows:
        """Those of positive weight, the mean weight being 1."""
        if self.weight is None:
            return self
        rows = self.take(self.weight > 0)
        if rows.weight is None or not len(rows.y):
            return rows
        # Penalties and prior counts are in units of a row, so that all weights doubled change nothing.
        return replace(rows, weight=rows.weight / rows.weight.mean())

    def share(self) -> float:
        """Share of the positives, drawn a little towards one half so that its log-odds are finite."""
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        # Half a row of each class is added, so that the log-odds of one class alone are finite.
        return float((weight[self.y == 1].sum() + 0.5) / (weight.sum() + 1.0))

    @property
    def both(self) -> bool:
        """Whether both classes are there."""
        return bool(self.y.min(initial=1) < self.y.max(initial=0))


Fit = Callable[[Rows, Measure, int], Scorer]
FitAll = Callable[[Rows, NDArray[np.bool_], Measure, int], list[Scorer]]


@dataclass(frozen=True)
class Candidate:
    """One kind of model.

    Attributes:
        name: What it is called.
        title: What it is called in tables.
        on_measure: Whether its training knows the measure.
        one: Fits it to rows that have both classes.
        every: Fits it to several training parts side by side, where that is faster than one by one.
    """

    name: str
    title: str
    on_measure: bool
    one: Fit
    every: FitAll | None = None

    def fit(self, rows: Rows, measure: str | Measure, *, seed: int) -> Scorer:
        """Fit to all rows."""
        used = rows.used()
        if not used.both:
            return constant(used)
        return self.one(used, _binary(measure), seed)

    def fit_folds(self, rows: Rows, held: NDArray[np.bool_], measure: str | Measure, *, seed: int) -> list[Scorer]:
        """Fit once for each fold, to the rows that the fold does not leave out.

        Args:
            rows: All rows.
            held: Which rows each fold leaves out.  # shape: (folds, n)
            measure: The measure.
            seed: Of the fold models; each has its own.
        """
        # A fold with one class alone needs a constant, which networks side by side cannot have.
        if self.every is None or not all(rows.take(~mask).used().both for mask in held):
            return [self.fit(rows.take(~mask), measure, seed=seed + k) for k, mask in enumerate(held)]
        return self.every(rows, held, _binary(measure), seed)


def _binary(measure: str | Measure) -> Measure:
    chosen = parse(measure) if isinstance(measure, str) else measure
    if chosen.layout != "binary":
        raise InputError(f"Expected `measure` to be one of two classes, such as 'ap', but got {chosen.name!r}.")
    return chosen


def constant(rows: Rows) -> Scorer:
    """The same score for every row, that of their share of positives."""
    share = rows.share()
    return LinearScorer.constant(rows.x.shape[1], float(np.log(share / (1 - share))))


def _logistic(rows: Rows, _: Measure, seed: int) -> Scorer:
    """Logistic regression with the penalty that is best in cross-validation by cross-entropy."""
    part, start = _fitted_logistic(rows, seed)
    score = linear.LinearScore.of(part.features, *start)
    return LinearScorer.of(score.coef, score.intercept)


def _linear_measure(rows: Rows, measure: Measure, seed: int) -> Scorer:
    part, start = _fitted_logistic(rows, seed)
    score = linear.towards(part, measure, start, _PULL)
    return LinearScorer.of(score.coef, score.intercept)


def _fitted_logistic(rows: Rows, seed: int) -> tuple[Labelled, linear.Start]:
    """Standardized rows, and the logistic regression on them."""
    C = _best_c(rows, seed)
    part, weight = _labelled(rows)
    return part, fit_logistic(part.features, part.y, weight, l2=1 / (C * float(weight.sum())))


def _best_c(rows: Rows, seed: int) -> float:
    """The inverse penalty with the least cross-entropy on rows left out, within a standard error the smallest."""
    random = np.random.default_rng(seed)
    some = _sample(rows.y, _MOST_CHOOSING, random)
    rows = rows.take(some) if len(some) < len(rows.y) else rows
    folds = min(_INNER_FOLDS, int(np.bincount(rows.y).min()))
    # A class of one row cannot be in both parts, so nothing can be chosen: the middle of the grid.
    if folds < 2:
        return 1.0
    fold = stratified(rows.y, folds, random)
    settings = [linear.Setting(c, balanced=False) for c in CS]
    losses = np.zeros((len(CS), len(rows.y)))
    for k in range(folds):
        train, test = rows.take(fold != k), rows.take(fold == k)
        part, weight = _labelled(train)
        for j, start in enumerate(linear.logistic_path(part, weight, settings)):
            score = linear.LinearScore.of(part.features, *start)(test.x.astype(np.float64))
            losses[j, fold == k] = np.logaddexp(0.0, np.where(test.y == 1, -score, score))
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    # Argmin takes the first, so of equals the strongest penalty.
    return CS[int(np.argmin(losses @ weight))]


def _labelled(rows: Rows) -> tuple[Labelled, Floats]:
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    equal = rows.weight is None
    return linear.Rows(rows.x.astype(np.float64), rows.y, weight, equal).labelled(), weight


def _sample(y: NDArray[np.int64], most: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Some rows at the same share of positives, at least a hundred of each class where there are."""
    if len(y) <= most:
        return np.arange(len(y))
    parts = []
    for label in (0, 1):
        own = np.flatnonzero(y == label)
        # At least a hundred of each class, or a rare one would choose the penalty by a few rows.
        count = min(len(own), max(100, round(most * len(own) / len(y))))
        parts.append(random.choice(own, count, replace=False))
    return np.sort(np.concatenate(parts))


def _extra_trees(rows: Rows, _: Measure, seed: int) -> Scorer:
    """Trees are grown to the end on small tables; on large ones leaves keep enough rows that the text stays small."""
    # Leaves grow with the table, so that the text of a forest does not.
    made = extra("sklearn.ensemble", "sklearn").ExtraTreesClassifier(
        _TREES, min_samples_leaf=max(1, len(rows.y) // 2000), random_state=seed, n_jobs=1
    )
    made.fit(rows.x, rows.y, sample_weight=rows.weight)
    return ForestScorer.with_share(forest_text(made, rows.x.shape[1]), rows.x.shape[1], rows.share())


def _lightgbm(rows: Rows, _: Measure, seed: int) -> Scorer:
    return boosted(rows.x, rows.y, rows.weight, None, seed=seed)


def _lightgbm_measure(rows: Rows, measure: Measure, seed: int) -> Scorer:
    return boosted(rows.x, rows.y, rows.weight, measure.name, seed=seed)


def _network(share: float) -> tuple[Fit, FitAll]:
    def every(rows: Rows, held: NDArray[np.bool_], measure: Measure, seed: int) -> list[Scorer]:
        return list(perceptrons(rows.x, rows.y, rows.weight, held, measure.name, share=share, seed=seed))

    return alone(every), every


def alone(every: FitAll) -> Fit:
    """A fit to all rows, by one that fits to several training parts."""
    return lambda rows, measure, seed: every(rows, np.zeros((1, len(rows.y)), bool), measure, seed)[0]


CANDIDATES: dict[str, Candidate] = {
    each.name: each
    for each in (
        Candidate("logistic", "logistic regression", False, _logistic),
        Candidate("linear_measure", "linear scorer on the measure", True, _linear_measure),
        Candidate("lightgbm", "LightGBM", False, _lightgbm),
        Candidate("lightgbm_measure", "LightGBM on the measure", True, _lightgbm_measure),
        Candidate("extra_trees", "extra trees", False, _extra_trees),
        Candidate("network", "network", False, *_network(0.0)),
        Candidate("network_measure", "network on the measure", True, *_network(0.5)),
    )
}


def candidates_of(names: Sequence[str] | None = None) -> list[Candidate]:
    """Candidates by name, from the simplest on; all of them without names.

    Raises:
        InputError: For a name that is not known.
    """
    for name in names or ():
        one_of("models", name, tuple(CANDIDATES))
    return [each for name, each in CANDIDATES.items() if names is None or name in names]
