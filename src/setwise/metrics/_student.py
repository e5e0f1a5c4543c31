"""Two-sided quantiles of Student's t for whole degrees of freedom, without SciPy.

With theta = atan(t / sqrt(d)), the probability A that |T| <= t is a finite sum (Abramowitz and Stegun 26.7.3, 26.7.4):

    d odd:   A = (2 / pi) (theta + sin theta cos theta (1 + 2/3 cos^2 + (2 4)/(3 5) cos^4 + ... up to cos^(d-3)))
    d even:  A = sin theta (1 + 1/2 cos^2 + (1 3)/(2 4) cos^4 + ... up to cos^(d-2))

All terms are positive, so nothing cancels, and A rises with theta: bisection finds theta to the last bit. Above
a thousand degrees of freedom the expansion around the normal quantile (26.7.5) is exact to more than ten digits.
"""

from __future__ import annotations

import math
from statistics import NormalDist

_MANY = 1000


def t_quantile(level: float, degrees: int) -> float:
    """The t with P(|T| <= t) = level, for T of Student's distribution.

    Args:
        level: probability in (0, 1).
        degrees: degrees of freedom, at least 1.

    Returns:
        The half-width of a confidence interval in units of standard errors.

    Example:
        >>> round(t_quantile(0.95, 4), 6)
        2.776445
    """
    if degrees > _MANY:
        return _near_normal(NormalDist().inv_cdf((1 + level) / 2), degrees)
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        if _central_probability(middle, degrees) < level:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(low)


def _central_probability(theta: float, degrees: int) -> float:
    cosine, sine = math.cos(theta), math.sin(theta)
    odd = degrees % 2
    if degrees == 1:
        return 2 * theta / math.pi
    term = cosine if odd else 1.0
    total = term
    for k in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    return 2 / math.pi * (theta + sine * total) if odd else sine * total


def _near_normal(z: float, degrees: int) -> float:
    corrections = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    value = z
    for power, term in enumerate(corrections, start=1):
        value += term / float(degrees) ** power
    return value


def student_p_value(statistic: float, degrees: int) -> float:
    """The probability that |T| exceeds |statistic|, for T of Student's distribution.

    Args:
        statistic: a mean difference in units of its standard error.
        degrees: degrees of freedom, at least 1.

    Returns:
        The two-sided p-value of the t test.

    Example:
        >>> round(student_p_value(2.776445, 4), 6)
        0.05
    """
    return 1.0 - _central_probability(math.atan(abs(statistic) / math.sqrt(degrees)), degrees)
