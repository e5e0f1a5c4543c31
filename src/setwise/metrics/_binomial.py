"""Exact binomial tails and Clopper-Pearson bounds, without SciPy.

P(Bin(n, p) >= k) is the regularized incomplete beta function I_p(k, n - k + 1). It is computed by its continued
fraction (modified Lentz), after log-gamma factors, to some ten digits for any n; the number of terms grows with the
square root of n.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from setwise import _checks
from setwise._checks import InputError

_TINY = 1e-300  # keeps a denominator of Lentz's recursion away from 0
_TERMS = 100_000  # enough for n = 1e9
_STEPS = 100  # of the search for a bound; some ten are enough
_WIDTH = 1e-14  # of the bracket of a bound, relative
_ROUNDING = 1e-10  # of delta: a tail that equals it up to rounding is not above it


def upper_tail(successes: int, trials: int, rate: float) -> float:
    """P(Bin(trials, rate) >= successes)."""
    if successes <= 0:
        return 1.0
    if successes > trials or rate <= 0:
        return 0.0
    if rate >= 1:
        return 1.0
    return _incomplete_beta(float(successes), float(trials - successes + 1), rate)


@lru_cache(1024)
def lower_bound(successes: int, trials: int, confidence: float) -> float:
    """One-sided Clopper-Pearson bound: the p with P(Bin(trials, p) >= successes) = 1 - confidence; 0 of no success."""
    if successes <= 0:
        return 0.0
    delta = 1 - confidence

    def excess(rate: float) -> float:
        return upper_tail(successes, trials, rate) - delta

    high = min(1.0, successes / trials)
    low, step = high, math.sqrt(high * (1 - high) / trials) + 1 / trials
    below = above = excess(high)
    while above < 0 and high < 1:  # a confidence below one half
        high = min(1.0, high + step)
        above, step = excess(high), 2 * step
    while below > 0:  # a few standard errors down
        high, above = low, below
        low, step = max(0.0, low - step), 2 * step
        below = excess(low)
    return _root(excess, low, high, below, above)


def _root(excess: Callable[[float], float], low: float, high: float, below: float, above: float) -> float:
    """The root of a rising function by regula falsi with the Illinois rule, from the side where it is at most 0."""
    side = 0
    for _ in range(_STEPS):
        middle = (low * above - high * below) / (above - below)
        if not low < middle < high or high - low <= _WIDTH * high:
            break
        value = excess(middle)
        if value <= 0:
            low, below, above, side = middle, value, above / 2 if side < 0 else above, -1
        else:
            high, above, below, side = middle, value, below / 2 if side > 0 else below, 1
    return low


def upper_bound(successes: int, trials: int, confidence: float) -> float:
    """One-sided Clopper-Pearson bound from above."""
    return 1.0 - lower_bound(trials - successes, trials, confidence)


@lru_cache(1024)
def largest_rank(trials: int, rate: float, confidence: float) -> int:
    """The largest k with P(Bin(trials, rate) >= k) >= confidence; 0 where even k = 1 is too many."""
    low, high = 0, trials + 1  # the tail is 1 at 0 and 0 above all trials
    while high - low > 1:
        middle = (low + high) // 2
        if upper_tail(middle, trials, rate) >= confidence - _ROUNDING * (1 - confidence):
            low = middle
        else:
            high = middle
    return low


def rows_needed(level: float, confidence: float) -> int | None:
    """The fewest trials that can certify a rate of ``level`` when all succeed: level^n <= 1 - confidence."""
    if level <= 0:
        return 0
    if level >= 1:
        return None
    count = max(math.floor(math.log1p(-confidence) / math.log(level)) - 1, 1)
    while level**count > (1 - confidence) * (1 + _ROUNDING):
        count += 1
    return count


def rate_bound(
    successes: int, trials: int, *, confidence: float = 0.95, side: Literal["lower", "upper"] = "lower"
) -> float:
    """One-sided Clopper-Pearson confidence bound of a rate.

    The bound holds for a rate whose rows were chosen before looking at their outcomes, such as recall at a threshold
    that was in use already. For a threshold picked on the same rows see
    :func:`~setwise.metrics.choose_threshold` with ``confidence=``.

    Args:
        successes: How many of the trials succeeded.
        trials: How many there were.
        confidence: Probability with which the bound holds, in (0, 1).
        side: ``"lower"`` for a bound from below, ``"upper"`` for one from above.

    Returns:
        The bound; 0 or 1, which say nothing, without trials.

    Example:
        >>> round(rate_bound(29, 29), 4)
        0.9019
    """
    _checks.is_count("trials", trials, low=0)
    _checks.is_count("successes", successes, low=0)
    if successes > trials:
        raise InputError(f"Expected `successes` to be at most `trials`, {trials}, but got {successes}.")
    _checks.in_range("confidence", confidence, 0, 1, open_low=True, open_high=True)
    _checks.one_of("side", side, ("lower", "upper"))
    return (lower_bound if side == "lower" else upper_bound)(int(successes), int(trials), confidence)


def _incomplete_beta(a: float, b: float, x: float) -> float:
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    # The fraction converges fast below the mean; above it the symmetric one does.
    if x < (a + 1) / (a + b + 2):
        return min(math.exp(front) * _fraction(a, b, x) / a, 1.0)
    return max(1.0 - math.exp(front) * _fraction(b, a, 1 - x) / b, 0.0)


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's recursion."""
    c, d = 1.0, 1.0 / _away(1.0 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _TERMS):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _away(1.0 + factor * d)
            c = _away(1.0 + factor / c)
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
