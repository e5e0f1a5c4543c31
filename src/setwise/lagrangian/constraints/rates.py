"""Constraints on rates of thresholded scores: floors, ceilings, equal over groups, unchanged from a reference.

    "recall>=0.9"                      "precision>=0.5"                     "positive_rate<=0.1"
    "recall[group=sex]>=0.8"           "recall[sex=1]>=0.8"                 "accuracy=0.85±0.01"
    "tpr_difference[group=sex]<=0.02"  "equalized_odds[group=sex]<=0.02"    "demographic_parity[group=race]<=0.05"
    "churn[reference=old]<=0.03"

A constraint is one or more rows v <= 0. :meth:`RateConstraint.true` is v by the decisions 1[score >= threshold],
:meth:`RateConstraint.surrogate` a differentiable stand-in. Rows of rates whose denominator does not depend on the
decisions (all but precision, F1 and Jaccard) are in units of the rate. ``precision >= p`` is the row
(p (TP + FP) - TP) / n <= 0, linear in the decisions as well, and likewise F1 and Jaccard.

>>> import torch
>>> constraint = RateConstraint.parse("recall>=0.9")
>>> scores, labels = torch.tensor([2.0, -0.5, 1.0, -3.0]), torch.tensor([1, 1, 0, 0])
>>> constraint.true(scores, labels)  # one of two positives is found: 0.4 short
tensor([0.4000], dtype=torch.float64)
>>> constraint.surrogate(scores, labels)  # hinge: misses of 0 and 1.5, so 0.75 - 0.1
tensor([0.6500])
>>> gap = RateConstraint.parse("tpr_difference[group=sex]<=0.02")
>>> gap.true(scores, labels, group={"sex": torch.tensor([0, 1, 0, 1])})  # TPR 1 against 0, both directions
tensor([ 0.9800, -1.0200], dtype=torch.float64)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from setwise import _checks
from setwise._checks import InputError
from setwise.lagrangian.constraints.confusion import (
    RATES,
    SURROGATES,
    RateValues,
    Row,
    cell_sums,
    linear_rows,
    rate_values,
    surrogate_rows,
)
from setwise.lagrangian.constraints.inputs import Columns, above_threshold, column, group_codes
from setwise.measures._base import positives, prepare
from setwise.metrics.constraints import ParsedConstraint, parse_constraint
from setwise.metrics.measure_names import read_number

AGAINST = ("pairs", "overall")
_DIFFERENCES = {
    "equalized_odds": ("tpr", "fpr"),
    "equal_opportunity": ("tpr",),
    "demographic_parity": ("positive_rate",),
}
_FORMS = (
    "a rate, >= or <= and a level such as 'recall>=0.9', '=' with a tolerance such as 'recall=0.9±0.02', or "
    "'tpr_difference[group=sex]<=0.02'; the rates are " + ", ".join(RATES) + "; with _difference those without "
    "precision, f1 and jaccard; and equalized_odds, equal_opportunity, demographic_parity; in brackets group=NAME, "
    "NAME=NUMBER for one group, against=overall, reference=NAME"
)


@dataclass(frozen=True)
class RateConstraint:
    """A rate of the decisions 1[score >= threshold] kept within bounds; usually made by name or :meth:`parse`.

    With ``difference`` the bound is on how much the rate differs between groups. Against ``"pairs"`` every group's rate
    less every other's is at most ``upper``, which is max - min <= upper and takes k (k - 1) rows for k groups. Against
    ``"overall"`` every group's rate is within ``upper`` of everyone's, 2 k rows: for many groups, such as sites.

    Args:
        rate: One of recall (or tpr), fnr, fpr, tnr (or specificity), positive_rate, accuracy, error, churn, precision,
            f1, jaccard; or several, bounded alike.
        lower: Floor, in [0, 1].
        upper: Ceiling, in [0, 1]; the tolerance where ``difference`` is set.
        difference: Whether differences between groups are bounded, not the rate itself.
        group: Name of the column of groups. Without it the rate is everyone's; with it every group's.
        member: Only this group of the column.
        against: ``"pairs"`` or ``"overall"``.
        reference: For churn, the share of decisions that differ from another model's: the column of its 0/1 decisions.
    """

    rate: str | tuple[str, ...]
    lower: float | None = None
    upper: float | None = None
    difference: bool = False
    group: str | None = None
    member: int | None = None
    against: str = "pairs"
    reference: str | None = None

    def __post_init__(self) -> None:
        if not self.rates:
            raise InputError("Expected `rate` to name at least one rate, but it is empty.")
        for rate in self.rates:
            _checks.one_of("rate", rate, RATES)
        if self.lower is None and self.upper is None:
            raise InputError("Expected `lower` or `upper` to be given, but both are None.")
        for name in ("lower", "upper"):
            if getattr(self, name) is not None:
                _checks.in_range(name, getattr(self, name), 0.0, 1.0)
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise InputError(f"Expected `lower` to be at most `upper`, {self.upper}, but got {self.lower}.")
        _checks.one_of("against", self.against, AGAINST)
        self._check_groups()

    def _check_groups(self) -> None:
        if self.member is not None:
            _checks.is_count("member", self.member, 0)
            if self.group is None:
                raise InputError("Expected `group` to name the column of `member`, but it is None.")
        if self.difference:
            if self.group is None or self.member is not None or self.upper is None or self.lower is not None:
                raise InputError("Expected `group` and `upper` alone where `difference` is set.")
            unfit = [rate for rate in self.rates if not RATES[rate].fixed]
            if unfit:
                raise InputError(
                    f"Expected a rate whose denominator does not depend on the decisions where `difference` is set, "
                    f"but got {unfit[0]!r}; bound it in every group, as in '{unfit[0]}[group=...]>=0.5'."
                )
        if ("churn" in self.rates) != (self.reference is not None) or ("churn" in self.rates and len(self.rates) > 1):
            raise InputError("Expected `reference`, a column of decisions, with the rate 'churn' and with no other.")

    @property
    def rates(self) -> tuple[str, ...]:
        """The names of the rates."""
        return (self.rate,) if isinstance(self.rate, str) else tuple(self.rate)

    @classmethod
    def parse(cls, text: str | ParsedConstraint) -> RateConstraint:
        """The constraint a text stands for; blanks do not matter. The forms are at the top of this module.

        Args:
            text: The text, or its parts.

        Raises:
            InputError: For a text that is no such form, which lists them, or a level out of range.

        >>> RateConstraint.parse("recall[group=sex] >= 0.8")
        RateConstraint('recall[group=sex]>=0.8')
        """
        if not isinstance(text, str | ParsedConstraint):
            raise TypeError(f"Expected a constraint to be a string, but got {type(text).__name__}.")
        parsed, given = (parse_constraint(text), text) if isinstance(text, str) else (text, text.text)
        settings = None if parsed is None else _settings(parsed)
        if settings is None:
            raise InputError(f"Expected a constraint to be {_FORMS}; but got {given!r}.")
        return cls(**settings)

    def __str__(self) -> str:
        """The text that :meth:`parse` understands; rates joined by + where no name says them."""
        names = {rates: name for name, rates in _DIFFERENCES.items() if len(rates) > 1}
        name = "+".join(self.rates)
        if self.difference:
            name = names.get(self.rates, f"{name}_difference")
        options = []
        if self.group is not None:
            options.append(f"group={self.group}" if self.member is None else f"{self.group}={self.member}")
        if self.against != "pairs":
            options.append(f"against={self.against}")
        if self.reference is not None:
            options.append(f"reference={self.reference}")
        name += f"[{','.join(options)}]" if options else ""
        lower, upper = self.lower, self.upper
        if lower is not None and upper is not None:
            return f"{name}={(lower + upper) / 2:g}±{(upper - lower) / 2:g}"
        return f"{name}>={lower:g}" if lower is not None else f"{name}<={upper:g}"

    def __repr__(self) -> str:
        return f"RateConstraint({str(self)!r})"

    def rows(self, groups: int) -> tuple[Row, ...]:
        """The inequalities, for a column of so many groups (1 without a column)."""
        return tuple(row for rate in self.rates for row in self._rows_of(rate, groups))

    def _rows_of(self, rate: str, groups: int) -> Iterator[Row]:
        of: dict[int | None, str] = {k: f"{rate}[{self.group}={k}]" for k in range(groups)}
        of[None] = rate
        if self.difference:
            pairs: list[tuple[int | None, int | None]] = (
                # Both directions: max - min <= upper without a max in it.
                list(permutations(range(groups), 2))
                if self.against == "pairs"
                else [pair for k in range(groups) for pair in ((k, None), (None, k))]
            )
            for a, b in pairs:
                upper = float(self.upper or 0.0)
                yield Row(f"{of[a]}-{of[b]}<={upper:g}", RATES[rate], ((1.0, a), (-1.0, b)), upper)
            return
        members = [None] if self.group is None else range(groups) if self.member is None else [self.member]
        for k in members:
            if self.lower is not None:
                # A floor is a ceiling of the negative rate, so that all rows are v <= 0.
                yield Row(f"{of[k]}>={self.lower:g}", RATES[rate], ((-1.0, k),), -self.lower)
            if self.upper is not None:
                yield Row(f"{of[k]}<={self.upper:g}", RATES[rate], ((1.0, k),), self.upper)

    def read(self, labels: Tensor, group: Columns = None, *, groups: int | None = None) -> tuple[Tensor, int]:
        """The cell of each sample, 2 * group + label, and how many groups there are.

        Args:
            labels: 0 or 1.
            group: The columns.
            groups: How many groups there are; otherwise one more than the highest number.
        """
        _checks.is_real("labels", labels)
        # For churn the other model's decisions take the place of the labels.
        truth = labels
        if self.reference is not None:
            truth = column(group, self.reference, labels)
        positive = positives(truth.reshape(-1), name=self.reference or "labels").long()
        if self.group is None:
            return positive, 1
        codes = group_codes(self.group, column(group, self.group, labels), groups)
        count = groups if groups is not None else int(codes.max()) + 1 if codes.numel() else 1
        if self.member is not None and groups is None:
            # A batch may lack the one group that the constraint is about.
            count = max(count, self.member + 1)
        return 2 * codes + positive, count

    def surrogate(
        self,
        scores: Tensor,
        labels: Tensor,
        group: Columns = None,
        weight: Tensor | None = None,
        *,
        threshold: float | Tensor = 0.0,
        kind: str = "hinge",
    ) -> Tensor:
        """Differentiable stand-ins for :meth:`true`, never below it with ``"hinge"`` and ``"logistic"``.

        Args:
            scores: Logits or any scores.  # shape: (n,)
            labels: 0 or 1.  # shape: (n,)
            group: Group of each sample, or columns by name.  # shape: (n,)
            weight: Non-negative weights.  # shape: (n,)
            threshold: Positive is predicted from here on; a number, or one for each sample.
            kind: ``"hinge"``, ``"logistic"`` or ``"sigmoid"``.

        Returns:
            One number per row; 0 where no sample counts.  # shape: (rows,)
        """
        _checks.one_of("kind", kind, SURROGATES)
        z, codes, w, groups = self._prepare(scores, labels, group, weight, threshold)
        totals = cell_sums(w, codes, 2 * groups)
        # 1[s < t] has the surrogate of 1[s >= t] at -z.
        above, below = (cell_sums(w * SURROGATES[kind](part), codes, 2 * groups) for part in (z, -z))
        return surrogate_rows(linear_rows(self.rows(groups), totals), above, below, totals)

    def true(
        self,
        scores: Tensor,
        labels: Tensor,
        group: Columns = None,
        weight: Tensor | None = None,
        *,
        threshold: float | Tensor = 0.0,
        groups: int | None = None,
    ) -> Tensor:
        """The rows by the decisions score >= threshold: at most 0 where the constraint holds; 0 where none counts.

        Arguments as :meth:`surrogate`; ``groups`` is how many there are, as for :meth:`read`.
        """
        z, codes, w, groups = self._prepare(scores, labels, group, weight, threshold, groups)
        w = w.double()
        # Counts in float64: float32 loses single samples from 2^24 on.
        linear = linear_rows(self.rows(groups), cell_sums(w, codes, 2 * groups))
        return linear.at(cell_sums(w * (z >= 0), codes, 2 * groups))

    def rate_values(
        self,
        scores: Tensor,
        labels: Tensor,
        group: Columns = None,
        weight: Tensor | None = None,
        *,
        threshold: float | Tensor = 0.0,
    ) -> RateValues:
        """Value, violation and standard error of each row in units of the rate; arguments as :meth:`surrogate`."""
        z, codes, w, groups = self._prepare(scores, labels, group, weight, threshold)
        cells = 2 * codes + (z >= 0).long()
        w = w.double()
        # On the CPU: the loop over rows that follows is of tiny tables.
        counts, squares = (cell_sums(part, cells, 4 * groups).reshape(groups, 2, 2) for part in (w, w**2))
        return rate_values(self.rows(groups), counts.cpu(), squares.cpu())

    def _prepare(
        self,
        scores: Tensor,
        labels: Tensor,
        group: Columns,
        weight: Tensor | None,
        threshold: float | Tensor,
        groups: int | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, int]:
        """Scores above the threshold, cells, weights and the number of groups."""
        wide_scores, w = prepare(scores, labels, weight, ("scores", "labels"))
        if _checks.values_are_readable():
            _checks.all_finite("scores", scores)
            if weight is not None:
                _checks.all_non_negative("weight", weight)
        codes, count = self.read(labels, group, groups=groups)
        z = above_threshold(wide_scores, threshold).reshape(-1)
        return z, codes, torch.ones_like(z).detach() if w is None else w.reshape(-1), count


def read_constraints(constraints: object) -> tuple[RateConstraint, ...]:
    """One constraint or several, each as such or as its text."""
    several = constraints if isinstance(constraints, list | tuple) else [constraints]
    found = []
    for one in several:
        if not isinstance(one, RateConstraint | str):
            raise TypeError(f"Expected `constraints` to be RateConstraint or text, but got {type(one).__name__}.")
        found.append(RateConstraint.parse(one) if isinstance(one, str) else one)
    if not found:
        raise InputError("Expected `constraints` to hold at least one, but it is empty.")
    return tuple(found)


def _settings(parsed: ParsedConstraint) -> dict[str, Any] | None:
    """A text's parts as the arguments of :class:`RateConstraint`; None if they do not fit together."""
    options = _read_options(parsed)
    name, sign = parsed.name.lower(), parsed.sign
    difference = name in _DIFFERENCES or name.endswith("_difference")
    rates = _DIFFERENCES.get(name, (name.removesuffix("_difference"),))
    if options is None or parsed.cases or parsed.percent or (sign == "=") != (parsed.spread is not None):
        return None
    level, spread = read_number(parsed.level), read_number(parsed.spread or "0")
    # A floor on a difference would ask for unequal groups.
    if any(rate not in RATES for rate in rates) or (difference and sign != "<="):
        return None
    if difference:
        options.setdefault("group", "group")
    if "churn" in rates:
        options.setdefault("reference", "reference")
    return {
        "rate": rates if len(rates) > 1 else rates[0],
        "lower": None if sign == "<=" else level if sign == ">=" else max(level - spread, 0.0),
        "upper": None if sign == ">=" else level if sign == "<=" else min(level + spread, 1.0),
        "difference": difference,
        **options,
    }


def _read_options(parsed: ParsedConstraint) -> dict[str, str | int] | None:
    """What stands in brackets; None if it is not understood."""
    settings: dict[str, str | int] = {}
    for name, value in parsed.options:
        if not name or not value:
            return None
        found: dict[str, str | int] = {name: value}
        if name not in ("group", "reference", "against"):
            if not value.isdecimal():
                return None
            found = {"group": name, "member": int(value)}
        if settings.keys() & found.keys():
            return None
        settings |= found
    return settings
