"""Constraints on rates by group: their text with the table's own names of groups, and their values on a set.

``"recall[group=sex]>=0.8"`` bounds the recall of every value of the column, ``"recall[sex=Female]>=0.8"`` that of one
value, ``"tpr_difference[group=sex]<=0.05"`` how far they are apart. :class:`~setwise.lagrangian.RateConstraint` counts
groups 0, 1, ...; here they go by their names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError
from setwise.lagrangian import RateConstraint, Scored, adjust_threshold
from setwise.lagrangian.constraints.rates import read_constraints
from setwise.lagrangian.constraints.report import constraint_report
from setwise.lagrangian.constraints.threshold_search import TOLERANCE
from setwise.lagrangian.constraints.thresholds import ThresholdFit
from setwise.metrics.constraints import parse_constraint

_WORDS = ("against", "reference")


@dataclass(frozen=True, eq=False)
class Groups:
    """A column of groups.

    Args:
        codes: Number of each row's group.  # shape: (n,)
        names: What the numbers mean.
    """

    codes: NDArray[np.int64]
    names: tuple[str, ...]


def check_text(text: str) -> None:
    """Refuse a text that is no constraint, before any table is read."""
    _parse(text, None)
    if "reference=" in "".join(text.split()) or text.strip().lower().startswith("churn"):
        raise InputError(f"Expected `subject_to` to be on a rate other than churn, but got {text!r}.")


def group_columns(texts: Sequence[str]) -> list[str]:
    """The columns that constraints speak of, blanks removed."""
    found = []
    for text in texts:
        parsed = parse_constraint(text)
        for name, value in [] if parsed is None else parsed.options:
            found += [] if name in _WORDS or not name + value else [value if name == "group" else name]
    return list(dict.fromkeys(found))


def no_blanks(name: str) -> str:
    """A column's name as it stands in a constraint, where blanks do not matter."""
    return "".join(name.split())


class Constraints:
    """Constraints on rates of groups that go by their names.

    Args:
        texts: The constraints.
        groups: The columns of groups by name. Where there is one only, ``"tpr_difference<=0.05"`` means it.
    """

    def __init__(self, texts: Sequence[str], groups: Mapping[str, Groups]) -> None:
        self.names = {no_blanks(name): group.names for name, group in groups.items()}
        self.only = next(iter(self.names)) if len(self.names) == 1 else None
        # Where there is one column, its name may be left out.
        if self.only is not None:
            self.names.setdefault("group", self.names[self.only])
        # Written twice it is one, and is reported once.
        self.each = tuple(dict.fromkeys(_parse(text, self.names) for text in texts))
        for constraint in self.each:
            if constraint.group is not None and constraint.group not in self.names:
                raise InputError(
                    f"Expected --group to name the column of `subject_to` {constraint}, since it compares groups, "
                    f"but {'there are several' if self.names else 'there is none'}."
                )

    def __bool__(self) -> bool:
        return bool(self.each)

    def columns(self, groups: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Group numbers of some rows as the constraints ask for them."""
        found = {no_blanks(name): codes for name, codes in groups.items()}
        return found | ({"group": next(iter(found.values()))} if len(found) == 1 else {})

    def threshold(
        self,
        part: Scored,
        maximize: str,
        subject_to: str | None,
        *,
        confidence: float | None = None,
        max_weight: float | None = None,
    ) -> ThresholdFit:
        """The best threshold under the constraints and one more, certified where a confidence is given."""
        return adjust_threshold(
            part.scores,
            part.labels,
            self.with_own(subject_to),
            part.group,
            part.weight,
            maximize=maximize,
            confidence=confidence,
            max_weight=max_weight,
        )

    def with_own(self, subject_to: str | None) -> list[RateConstraint]:
        """The constraints, and that of the measure where it has one that is not among them."""
        own = () if subject_to is None else read_constraints(subject_to)
        # The measure's own may be among those that were asked for.
        return [*self.each, *(each for each in own if each not in self.each)]

    def values(
        self, part: Scored, threshold: float, subject_to: str | None = None, *, confidence: float = 0.95
    ) -> list[dict[str, Any]]:
        """The value of each inequality on a set, with its bound.

        Args:
            part: The set.
            threshold: Where scores are cut.
            subject_to: The constraint of the measure.
            confidence: Of the bound.

        Returns:
            ``constraint``, ``value``, ``standard_error``, ``violation``, ``bound`` (the value's confidence bound),
            ``met`` (by the value) and ``certain`` (by its bound).
        """
        wanted = self.with_own(subject_to)
        report = constraint_report(wanted, {"set": part}, threshold=threshold, confidence=confidence)
        return [
            {
                "constraint": self.shown(row.constraint),
                "value": row.value,
                "standard_error": row.standard_error,
                "violation": row.violation,
                "bound": row.bound,
                "met": row.violation <= TOLERANCE and not math.isnan(row.value),
                "certain": row.certain,
            }
            for row in report.rows
        ]

    def shown(self, text: str) -> str:
        """An inequality, or a sentence about one, with the groups' names in place of their numbers."""

        def named(match: re.Match[str]) -> str:
            names = self.names.get(match[2])
            return f"{match[1]}{match[2]}={names[int(match[3])]}" if names and int(match[3]) < len(names) else match[0]

        if self.only is not None:  # where no column was named
            text = text.replace("[group=group]", f"[group={self.only}]")
        return re.sub(r"([\['])([^\[\]=']+)=(\d+)(?=[\]'])", named, text)


def _parse(text: str, groups: Mapping[str, tuple[str, ...]] | None) -> RateConstraint:
    """The constraint, with numbers for the names of groups; any name is 0 where groups are not known yet."""
    parsed = parse_constraint(text)
    if parsed is None:
        return RateConstraint.parse(text)
    options: list[tuple[str, str | int]] = []
    for name, value in parsed.options:
        known = name in ("group", *_WORDS) or not value
        number = value if known else 0 if groups is None else _number(name, value, groups)
        options += [(name, number)] if name + value else []
    brackets = ",".join(f"{name}={value}" for name, value in options)
    return RateConstraint.parse(replace(parsed, brackets=brackets))


def _number(column: str, value: str, groups: Mapping[str, tuple[str, ...]]) -> int:
    names = [no_blanks(name) for name in groups[column]]
    if value not in names:
        shown = ", ".join(groups[column])
        raise InputError(f"Expected `subject_to` to name a group of {column!r} ({shown}), but got {value!r}.")
    return names.index(value)
