"""Means over seeds with intervals, as the studies' tables show them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from setwise import metrics
from setwise.metrics import Interval
from setwise.report import interval_text

LEVEL = 0.95


def mean_of(values: Sequence[float]) -> Interval:
    """Mean and 95 % Student interval of the values that are finite; one alone has no interval, none no mean.

    >>> mean_of([1.0, 3.0, float("nan")]).estimate, mean_of([2.0]).low
    (2.0, nan)
    """
    known = [value for value in values if math.isfinite(value)]
    if len(known) < 2:
        return Interval(known[0] if known else math.nan, math.nan, math.nan, LEVEL)
    return metrics.mean_interval(np.asarray(known), level=LEVEL)


def change_text(change: Interval, digits: int = 3) -> str:
    """A change with its sign; bold where the interval excludes zero.

    >>> change_text(Interval(0.02, 0.01, 0.03, 0.95)), change_text(Interval(0.02, -0.01, 0.05, 0.95))
    ('**+0.020 [+0.010, +0.030]**', '+0.020 [-0.010, +0.050]')
    """
    text = interval_text(change, signed=True, digits=digits)
    return f"**{text}**" if change.low > 0 or change.high < 0 else text
