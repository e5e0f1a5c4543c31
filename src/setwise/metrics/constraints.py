"""The grammar of constraints on rates, such as ``recall>=0.9``: reading them, and saying why they cannot be met.

Every constraint of the library is taken apart here, by :func:`parse_constraint`; what its parts may be depends on who
reads it: :func:`read_constraints`, or :meth:`setwise.lagrangian.RateConstraint.parse` for rates by group.

A constraint is a rate, ``>=`` or ``<=``, and a level. The rates are those of the four counts at a threshold;
``cost(10,1)`` is the expected cost per case when a miss costs 10 and a false alarm 1; ``top_k<=200`` is a budget, at
most 200 predicted positive among as many cases as there are rows, ``top_k<=200/5000`` among 5,000.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from setwise import _checks
from setwise._checks import InputError
from setwise.metrics import _rates
from setwise.metrics.measure_names import NUMBER, plain_text, read_form, read_number
from setwise.metrics.operating_point import at_least, at_most

if TYPE_CHECKING:
    from setwise._types import Floats

_BETTER_LOW = ("fpr", "fnr")  # to maximize them is a slip
_FORMS = (
    f"a rate, >= or <=, and a number, such as 'recall>=0.9'; the rates are {', '.join(_rates.RATES)}, fbeta(2), "
    "tversky(0.3,0.7) and cost(10,1) (of a miss, of a false alarm); a budget is 'top_k<=200' or 'top_k<=200/5000'"
)
_GRAMMAR = re.compile(
    rf"(.+?)(?:\[([^\[\]]*)\])?(>=|<=|=)({NUMBER})(?:/({NUMBER}))?(%?)(?:(?:±|\+-|\+/-)({NUMBER}))?", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ParsedConstraint:
    """A constraint's text taken apart, before anything is looked up; the parts are as they were written.

    Attributes:
        text: All of it, for messages.
        name: The rate, in parentheses its numbers.
        brackets: What stands in brackets; None without them.
        sign: ``">="``, ``"<="`` or ``"="``.
        level: The number after it.
        cases: The number after a slash; None without one.
        percent: ``"%"`` where that follows, else empty.
        spread: The number after ``±``; None without one.

    >>> parsed = parse_constraint("recall[sex = 1] >= 0.8")
    >>> parsed.name, parsed.options, parsed.sign, parsed.level
    ('recall', [('sex', '1')], '>=', '0.8')
    """

    text: str
    name: str
    brackets: str | None
    sign: str
    level: str
    cases: str | None
    percent: str
    spread: str | None

    @property
    def options(self) -> list[tuple[str, str]]:
        """Names and values in the brackets, either of them empty where it was left out."""
        parts = (part.partition("=") for part in (self.brackets or "").split(",") if self.brackets)
        return [(name, value) for name, _, value in parts]

    @property
    def full_name(self) -> str:
        """The name with its brackets."""
        return self.name if self.brackets is None else f"{self.name}[{self.brackets}]"


def parse_constraint(text: str) -> ParsedConstraint | None:
    """Take a constraint apart; blanks do not matter. None if it is no such form."""
    match = _GRAMMAR.fullmatch(re.sub(r"\s+", "", text))
    return None if match is None else ParsedConstraint(text, *match.groups())


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rate with a floor (``sign`` >=) or a ceiling (``sign`` <=).

    Attributes:
        name: The rate's name, ``"top_k"`` for a budget.
        rate: The rate as a function of (tp, fp, fn, tn), 0 where it is undefined.
        sign: ``">="`` or ``"<="``.
        level: What it is compared with. For a budget a share of all cases; above 1 a count, of as many cases as there
            are rows (see :meth:`for_rows`).
        terms: Weights of the counts above and below the rate's fraction; None for rates that are no such ratio.
        budget: As it was written, for a budget.
    """

    name: str
    rate: _rates.Rate
    sign: str
    level: float
    terms: _rates.Terms | None = None
    budget: str = ""

    @property
    def text(self) -> str:
        """As the user might have written it."""
        return f"{self.name}{self.sign}{self.budget or format(self.level, 'g')}"

    @property
    def spaced(self) -> str:
        """The text with blanks, for sentences."""
        return f"{self.name} {self.sign} {self.budget or format(self.level, 'g')}"

    def for_rows(self, rows: float) -> Constraint:
        """A budget that is a count, as the share of so many cases; any other constraint as it is."""
        if self.name != "top_k" or "/" in self.budget:
            return self
        return Constraint(self.name, self.rate, self.sign, self.level / rows, self.terms, self.budget)

    def shortfall(self, rate: Floats) -> Floats:
        """How far each rate misses the level; exactly 0 where it is met within the tolerance."""
        met = at_least(rate, self.level) if self.sign == ">=" else at_most(rate, self.level)
        return np.where(met, 0.0, np.abs(rate - self.level))


def read_constraints(subject_to: str | Sequence[str] | None) -> list[Constraint]:
    """Constraints from one string, several, or none; ``"recall>=0.9, precision>=0.5"`` is two."""
    if subject_to is None:
        return []
    if isinstance(subject_to, str):
        return [_read(text) for text in _split(subject_to)]
    if not isinstance(subject_to, Sequence):
        raise TypeError(
            f"Expected `subject_to` to be a string, a sequence of strings or None, but got {type(subject_to).__name__}."
        )
    return [_read(text) for text in subject_to]


def read_rate(argument: str, name: object, *, to_maximize: bool = False) -> _rates.Rate:
    """The rate of that name."""
    text = plain_text(argument, name)
    if to_maximize and text.startswith("-cost("):
        found = _cost(text[1:])
        if found is not None:
            negated = found[0]
            return lambda tp, fp, fn, tn: -negated(tp, fp, fn, tn)
    elif (found := _formula(text)) is not None and not (to_maximize and text.startswith("cost(")):
        return found[0]
    known = [rate for rate in _rates.RATES if not (to_maximize and rate in _BETTER_LOW)]
    if text not in known:
        near = difflib.get_close_matches(text, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        if text.startswith("cost("):
            hint = f"; a cost is to be low: write {'-' + text!r}"
        raise InputError(
            f"Expected `{argument}` to be one of {', '.join(known)}, fbeta(2), tversky(0.3,0.7)"
            f"{', -cost(10,1)' if to_maximize else ', cost(10,1)'} or a function of (tp, fp, fn, tn), "
            f"but got {name!r}{hint}."
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


def _formula(text: str) -> tuple[_rates.Rate, _rates.Terms] | None:
    """A rate with numbers in parentheses, and its terms; None if it is no such form."""
    if text.startswith("cost("):
        return _cost(text)
    form = read_form(text)
    if form is None or form.words:
        return None
    match form.kind, form.numbers:
        case "fbeta", (beta,):
            _checks.in_range("beta", beta, 0)
            square = min(beta * beta, 1e300)  # recall for an infinite beta
            terms = ((1 + square, 0.0, 0.0, 0.0), (1 + square, 1.0, square, 0.0))
            return _rates.zero_filled(_rates.fbeta(beta)), terms
        case "tversky", (alpha, beta):
            _checks.in_range("alpha", alpha, 0)
            _checks.in_range("beta", beta, 0)
            return _rates.zero_filled(_rates.tversky(alpha, beta)), ((1.0, 0.0, 0.0, 0.0), (1.0, alpha, beta, 0.0))
    return None


def _cost(text: str) -> tuple[_rates.Rate, _rates.Terms] | None:
    """``cost(10,1)``, of a miss and of a false alarm, or the same as ``cost(fn=10,fp=1)`` in any order."""
    match = re.fullmatch(rf"cost\((?:(fn|fp)=)?({NUMBER}),(?:(fn|fp)=)?({NUMBER})\)", text)
    if match is None or (match[1] is None) != (match[3] is None) or (match[1] and match[1] == match[3]):
        return None
    miss, false_alarm = read_number(match[2]), read_number(match[4])
    if match[1] == "fp":
        miss, false_alarm = false_alarm, miss
    for name, value in (("the cost of a miss", miss), ("the cost of a false alarm", false_alarm)):
        _checks.in_range(name, value, 0)
    terms = ((0.0, false_alarm, miss, 0.0), (1.0, 1.0, 1.0, 1.0))  # per case
    return _rates.zero_filled(_rates.weighted_ratio(*terms)), terms


def _split(text: str) -> list[str]:
    """Constraints in one string, separated by commas outside of parentheses, semicolons or the word and."""
    parts = re.split(r"[,;](?![^()]*\))|\band\b", text)
    return [part for part in parts if part.strip()] or [text]


def _read(text: object) -> Constraint:
    parsed = parse_constraint(plain_text("subject_to", text))
    if parsed is None or parsed.spread is not None:
        raise InputError(f"Expected `subject_to` to be {_FORMS}; but got {text!r}.")
    name, sign, number = parsed.full_name, parsed.sign, parsed.level
    if name in ("top_k", "topk") and sign != ">=" and not parsed.percent:
        return _budget(number, parsed.cases, text)
    if sign == "=" or parsed.cases is not None:
        raise InputError(f"Expected `subject_to` to be {_FORMS}; but got {text!r}.")
    level = read_number(number) / (100 if parsed.percent else 1)
    formula = _formula(name)
    if formula is not None:
        return Constraint(name, formula[0], sign, level, formula[1])
    if name not in _rates.RATES:
        near = difflib.get_close_matches(name, [*_rates.RATES, "top_k"], n=1)
        hint = f"Did you mean '{near[0]}{sign}{number}'? " if near else ""
        raise InputError(f"{hint}Expected `subject_to` to be {_FORMS}; but got {text!r}.")
    return Constraint(name, _rates.RATES[name], sign, level, _rates.TERMS.get(name))


def _budget(count: str, cases: str | None, text: object) -> Constraint:
    flagged, of = read_number(count), read_number(cases or "1")
    if flagged < 0 or of <= 0 or (cases is not None and flagged > of):
        raise InputError(
            f"Expected a budget in `subject_to` to be a count, such as 'top_k<=200', or a count of so many cases, such "
            f"as 'top_k<=200/5000'; but got {text!r}."
        )
    written = count if cases is None else f"{count}/{cases}"
    terms = _rates.TERMS["positive_rate"]
    return Constraint("top_k", _rates.RATES["positive_rate"], "<=", flagged / of, terms, written)
