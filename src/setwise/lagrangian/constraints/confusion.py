r"""Rates of decisions by group as tables of counts, and bounds on them as rows that are linear in the decisions.

Each sample is in a cell (group g, label y). With t_gy the weight of a cell and m_gy the part of it that is predicted
positive, every rate here is a ratio N / D of two functions that are linear in m. A bound on one rate, or on the
difference of a rate between groups where D does not depend on the decisions, is then a row

    v = sum_gy a_gy m_gy + b <= 0,        m_gy = sum over the cell of w_i 1[s_i >= threshold],

whose a and b depend on the labels, groups and weights of the data set alone. Since m is a sum over samples, a batch
gives an unbiased estimate of v, however few of a group it holds. Put a convex bound of the step in place of the step
(by the sign of a one from above of 1[s >= threshold] or of 1[s < threshold]) and v becomes a convex bound of itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Rate(NamedTuple):
    """A ratio of two weighted sums of the counts (tp, fp, fn, tn)."""

    numerator: tuple[float, float, float, float]
    denominator: tuple[float, float, float, float]

    @property
    def fixed(self) -> bool:
        """Whether the denominator depends on the labels only, not on the decisions."""
        tp, fp, fn, tn = self.denominator
        # A denominator of all positives or all negatives counts both decisions alike.
        return tp == fn and fp == tn

    @property
    def cells(self) -> tuple[Tensor, Tensor]:
        """Numerator and denominator by label and decision.  # shape: (2, 2)."""
        return _by_cell(self.numerator), _by_cell(self.denominator)


def _by_cell(counts: tuple[float, float, float, float]) -> Tensor:
    tp, fp, fn, tn = counts
    # Rows are labels, columns decisions.
    return torch.tensor([[tn, fp], [fn, tp]], dtype=torch.float64)


_ALL, _POSITIVES, _NEGATIVES = (1, 1, 1, 1), (1, 0, 1, 0), (0, 1, 0, 1)
RATES: dict[str, Rate] = {
    "recall": Rate((1, 0, 0, 0), _POSITIVES),
    "tpr": Rate((1, 0, 0, 0), _POSITIVES),
    "fnr": Rate((0, 0, 1, 0), _POSITIVES),
    "fpr": Rate((0, 1, 0, 0), _NEGATIVES),
    "tnr": Rate((0, 0, 0, 1), _NEGATIVES),
    "specificity": Rate((0, 0, 0, 1), _NEGATIVES),
    "positive_rate": Rate((1, 1, 0, 0), _ALL),
    "accuracy": Rate((1, 0, 0, 1), _ALL),
    "error": Rate((0, 1, 1, 0), _ALL),
    "churn": Rate((0, 1, 1, 0), _ALL),  # the labels are then another model's decisions
    "precision": Rate((1, 0, 0, 0), (1, 1, 0, 0)),
    "f1": Rate((2, 0, 0, 0), (2, 1, 1, 0)),
    "jaccard": Rate((1, 0, 0, 0), (1, 1, 1, 0)),
}


@dataclass(frozen=True)
class Row:
    """One inequality: sum over terms of sign times the rate in a group (None: in all) <= bound."""

    text: str
    rate: Rate
    terms: tuple[tuple[float, int | None], ...]
    bound: float


class LinearRows(NamedTuple):
    """Rows as coefficients of m and constants; rows without a sample that counts are zero and not ``defined``."""

    coefficients: Tensor  # shape: (rows, cells)
    constant: Tensor  # shape: (rows,)
    defined: Tensor  # shape: (rows,), boolean

    def at(self, mass: Tensor) -> Tensor:
        """The rows' values where the weight predicted positive is ``mass``.  # shape: (cells,) -> (rows,)."""
        return self.coefficients @ mass.to(self.coefficients) + self.constant


class RateValues(NamedTuple):
    """The rates of the rows in their own units; NaN where there is nothing to measure."""

    value: Tensor  # the sum over terms, shape: (rows, *tables)
    violation: Tensor  # value - bound, 0 where undefined, shape: (rows, *tables)
    standard_error: Tensor  # of the value, as that of independent samples, shape: (rows, *tables)
    scale: Tensor  # what makes violations linear in the decisions: 1, or D / n where D depends on them


def cell_sums(values: Tensor, codes: Tensor, cells: int) -> Tensor:
    """Sums of the values of each cell.  # shape: (n,), (n,) -> (cells,)."""
    return values.new_zeros(cells).index_add(0, codes, values)


def linear_rows(rows: Sequence[Row], totals: Tensor) -> LinearRows:
    """Rows as linear functions of the weight predicted positive in each cell.

    Args:
        rows: The inequalities.
        totals: Weight of each cell of the data set.  # shape: (2 * groups,), groups outer, labels inner
    """
    t = totals.double().reshape(-1, 2)  # shape: (groups, 2)
    coefficients = t.new_zeros(len(rows), *t.shape)  # shape: (rows, groups, 2)
    constant, defined = t.new_zeros(len(rows)), []
    for k, row in enumerate(rows):
        n, d = (part.to(t.device) for part in row.rate.cells)
        known = True
        for sign, group in row.terms:
            where = slice(None) if group is None else slice(group, group + 1)
            part = t[where]
            if row.rate.fixed:  # sign N / D, and once the bound
                scale = (part * d[:, 0]).sum()
                # N is linear in m: the weight predicted positive counts n[:, 1], the rest of the cell n[:, 0].
                slope, level = sign * (n[:, 1] - n[:, 0]), sign * n[:, 0]
            else:  # sign N - bound D, over the number of samples
                # Over the samples of the group: a violation is then a share, whatever the group's size.
                scale = part.sum()
                # The ratio is not linear in m, but N - bound D is, and has the sign of the violation.
                shifted = sign * n - row.bound * d
                slope, level = shifted[:, 1] - shifted[:, 0], shifted[:, 0]
            # One side without a sample makes a difference between groups meaningless.
            known = known and bool(scale > 0)
            if known:
                coefficients[k, where] += slope / scale
                constant[k] += (part * level).sum() / scale
        if row.rate.fixed:
            constant[k] -= row.bound
        if not known:
            # A term that was added before the undefined one must not remain.
            coefficients[k], constant[k] = 0.0, 0.0
        defined.append(known)
    return LinearRows(coefficients.flatten(1), constant, torch.tensor(defined, dtype=torch.bool, device=t.device))


def rate_values(rows: Sequence[Row], counts: Tensor, squares: Tensor) -> RateValues:
    """The rows' rates and their standard errors from the counts of decisions.

    With n and d what a sample adds to N and D, the rate r = N / D has the variance sum w^2 (n - r d)^2 / D^2.

    Args:
        rows: The inequalities.
        counts: Weight by group, label and decision, one such table or many.  # shape: (groups, 2, 2, *tables)
        squares: The same of squared weights.  # shape: (groups, 2, 2, *tables)
    """
    tables = counts.shape[3:]
    value, error, scale = (counts.new_ones(len(rows), *tables) for _ in range(3))
    for k, row in enumerate(rows):
        n, d = (part.to(counts).reshape(2, 2, *[1] * len(tables)) for part in row.rate.cells)
        total, influence = counts.new_zeros(tables), torch.zeros_like(counts)
        for sign, group in row.terms:
            where = slice(None) if group is None else slice(group, group + 1)
            bottom = (counts[where] * d).sum((0, 1, 2))
            if not row.rate.fixed:
                scale[k] = bottom / counts[where].sum((0, 1, 2)).clamp(min=torch.finfo(counts.dtype).tiny)
            # NaN carries "undefined" through the sums; a zero would look like a rate.
            bottom = torch.where(bottom > 0, bottom, torch.nan)
            rate = (counts[where] * n).sum((0, 1, 2)) / bottom
            total = total + sign * rate
            # Terms of one row share samples (a group is part of everyone), so influences add before squaring.
            influence[where] += sign * (n - rate * d) / bottom
        value[k] = total
        error[k] = (squares * influence**2).sum((0, 1, 2)).sqrt()
    bounds = counts.new_tensor([row.bound for row in rows]).reshape(-1, *[1] * len(tables))
    return RateValues(value, (value - bounds).nan_to_num(0.0), error, scale)


SURROGATES: dict[str, Callable[[Tensor], Tensor]] = {
    "hinge": lambda z: (1 + z).relu(),
    "logistic": lambda z: F.softplus(z) / math.log(2),
    "sigmoid": torch.sigmoid,
}
"""In place of 1[z >= 0]; the first two are convex and nowhere below it, the third is neither."""


def surrogate_rows(linear: LinearRows, above: Tensor, below: Tensor, totals: Tensor) -> Tensor:
    """The rows with ``above`` for the weight predicted positive where that hurts, else ``below`` for the rest.

    Args:
        linear: The rows.
        above: Sum over each cell of the surrogate of 1[s >= threshold].  # shape: (cells,)
        below: The same of 1[s < threshold].  # shape: (cells,)
        totals: Weight of the cells.  # shape: (cells,)
    """
    a = linear.coefficients.to(above)
    # Each coefficient gets the surrogate that bounds its own step from above.
    rising, falling = a.clamp(min=0), (-a).clamp(min=0)
    # a m = a total - a (total - m): falling coefficients count what is predicted negative.
    constant = (linear.constant - linear.coefficients.clamp(max=0).neg() @ totals.double()).to(above)
    return rising @ above + falling @ below + constant
