"""Dual numbers (forward-mode differentiation): values with two derivatives, for functions of the counts of a set.

A few operations on tensors of one element cost more than all counting in a small batch. A function that is written with
plain arithmetic takes these numbers instead; one that needs more of a tensor raises TypeError on them, and is called
with tensors.
"""

from __future__ import annotations

from typing import Any


class Dual:
    """value + a da + b db, with the rules of calculus; what is divided by 0 is 0, as undefined ratios count 0."""

    # Dozens are made for each batch: slots make them, and the reading of their numbers, cheaper.
    __slots__ = ("a", "b", "value")

    def __init__(self, value: float, a: float = 0.0, b: float = 0.0) -> None:
        self.value = value
        self.a = a
        self.b = b

    def _chain(self, value: float, slope: float) -> Dual:
        # The chain rule: d f(v) = f'(v) dv, by each of the two.
        return Dual(value, slope * self.a, slope * self.b)

    def __add__(self, other: Any) -> Dual:
        if isinstance(other, Dual):
            return Dual(self.value + other.value, self.a + other.a, self.b + other.b)
        return Dual(self.value + float(other), self.a, self.b)

    def __mul__(self, other: Any) -> Dual:
        if isinstance(other, Dual):
            x, y = self.value, other.value
            return Dual(x * y, self.a * y + x * other.a, self.b * y + x * other.b)
        return self._chain(self.value * float(other), float(other))

    def __neg__(self) -> Dual:
        return self * -1.0

    def __sub__(self, other: Any) -> Dual:
        return self + (other * -1.0 if isinstance(other, Dual) else -float(other))

    def __rsub__(self, other: Any) -> Dual:
        return (self * -1.0).__add__(other)

    def __truediv__(self, other: Any) -> Dual:
        if not isinstance(other, Dual):
            return self * (1 / float(other)) if other else Dual(0.0)
        # As `ratio_of` has it for tensors: 0/0 counts 0 and has no slope.
        if not other.value:
            return Dual(0.0)
        value = self.value / other.value
        return Dual(value, (self.a - value * other.a) / other.value, (self.b - value * other.b) / other.value)

    def __rtruediv__(self, other: Any) -> Dual:
        return Dual(float(other)) / self

    def __pow__(self, power: Any) -> Dual:
        # 0.0 to a negative power raises in Python, so the slope of a root at 0 is left out.
        exponent = float(power)
        return self._chain(self.value**exponent, exponent * self.value ** (exponent - 1) if self.value else 0.0)

    __radd__ = __add__
    __rmul__ = __mul__


def ratio_of_duals(
    numerator: tuple[float, ...], denominator: tuple[float, ...], counts: tuple[Dual, Dual, Dual, Dual]
) -> Dual:
    """A ratio of linear functions of four numbers: what their rules give, in one go, since it is what F-scores are."""
    w, x, y, z = counts
    a, b, c, d = denominator
    below = a * w.value + b * x.value + c * y.value + d * z.value
    if not below:
        return Dual(0.0)
    # (u / v)' = (u' - (u / v) v') / v, so v' first.
    by_a, by_b = a * w.a + b * x.a + c * y.a + d * z.a, a * w.b + b * x.b + c * y.b + d * z.b
    a, b, c, d = numerator
    value = (a * w.value + b * x.value + c * y.value + d * z.value) / below
    return Dual(
        value,
        (a * w.a + b * x.a + c * y.a + d * z.a - value * by_a) / below,
        (a * w.b + b * x.b + c * y.b + d * z.b - value * by_b) / below,
    )
