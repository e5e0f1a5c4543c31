"""Constraints such as ``recall>=0.9`` on the rates of a threshold: reading them, and saying why they cannot be met."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from setwise import _checks
from setwise._checks import InputError
from setwise.metrics import _rates
from setwise.metrics.names import NUMBER, plain_text, read_form, read_number
from setwise.metrics.operating_point import at_least, at_most

if TYPE_CHECKING:
    from setwise.metrics._inputs import Floats

_ONLY_BOUNDED = ("fpr", "fnr")  # rates that are better low: to maximize them is a slip
_FORMS = (
    f"a rate, >= or <=, and a number, such as 'recall>=0.9'; the rates are {', '.join(_rates.RATES)}, fbeta(2) "
    "and tversky(0.3,0.7)"
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rate with a floor (``sign`` >=) or a ceiling (``sign`` <=)."""

    name: str
    rate: _rates.Rate
    sign: str
    level: float

    @property
    def text(self) -> str:
        """As the user might have written it."""
        return f"{self.name}{self.sign}{self.level:g}"

    def shortfall(self, rate: Floats) -> Floats:
        """How far each rate misses the level; exactly 0 where it is met within the tolerance."""
        met = at_least(rate, self.level) if self.sign == ">=" else at_most(rate, self.level)
        return np.where(met, 0.0, np.abs(rate - self.level))


def read_constraints(subject_to: str | Sequence[str] | None) -> list[Constraint]:
    """Constraints from one string, several, or none."""
    if subject_to is None:
        return []
    if isinstance(subject_to, str):
        return [_read(subject_to)]
    if not isinstance(subject_to, Sequence):
        raise TypeError(
            f"Expected `subject_to` to be a string, a sequence of strings or None, but got {type(subject_to).__name__}."
        )
    return [_read(text) for text in subject_to]


def read_rate(argument: str, name: object, *, to_maximize: bool = False) -> _rates.Rate:
    """The rate of that name."""
    text = plain_text(argument, name)
    form = read_form(text)
    if form is not None and not form.words:
        match form.name, form.numbers:
            case "fbeta", (beta,):
                _checks.in_range("beta", beta, 0)
                return _rates.zero_filled(_rates.fbeta(beta))
            case "tversky", (alpha, beta):
                _checks.in_range("alpha", alpha, 0)
                _checks.in_range("beta", beta, 0)
                return _rates.zero_filled(_rates.tversky(alpha, beta))
    known = [rate for rate in _rates.RATES if not (to_maximize and rate in _ONLY_BOUNDED)]
    if text not in known:
        raise InputError(
            f"Expected `{argument}` to be one of {', '.join(known)}, fbeta(2), tversky(0.3,0.7) or a function of "
            f"(tp, fp, fn, tn), but got {name!r}."
        )
    return _rates.RATES[text]


def explain(
    constraints: Sequence[Constraint],
    thresholds: Floats,
    table: tuple[Floats, Floats, Floats, Floats],
    chosen: int,
) -> str:
    """One sentence: which constraints cannot be met, and the best that can be reached."""
    alone = []
    for constraint in constraints:
        rate = constraint.rate(*table)
        shortfall = constraint.shortfall(rate)
        best = int(np.argmin(shortfall))
        if shortfall[best] > 0:
            word = "highest" if constraint.sign == ">=" else "lowest"
            alone.append(
                f"No threshold reaches {constraint.text}: the {word} {constraint.name} is {rate[best]:.6g}, "
                f"at threshold {thresholds[best]:.6g}."
            )
    if alone:
        return " ".join(alone)
    wanted = " and ".join(constraint.text for constraint in constraints)
    reached = ", ".join(f"{constraint.name} = {constraint.rate(*table)[chosen]:.6g}" for constraint in constraints)
    return f"No threshold meets {wanted} together: the closest has {reached}."


def _read(text: object) -> Constraint:
    match = re.fullmatch(rf"(.+?)(>=|<=)({NUMBER})", plain_text("subject_to", text))
    if match is None:
        raise InputError(f"Expected `subject_to` to be {_FORMS}; but got {text!r}.")
    name, sign, number = match.groups()
    level = read_number(number)
    try:
        rate = read_rate("subject_to", name)
    except InputError:
        raise InputError(f"Expected `subject_to` to be {_FORMS}; but got {text!r}.") from None
    return Constraint(name, rate, sign, level)
