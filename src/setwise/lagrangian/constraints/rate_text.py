"""Constraints on rates as text, such as ``"recall[group=sex]>=0.8"``: reading and writing it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from setwise._checks import InputError
from setwise.lagrangian.constraints.confusion import RATES
from setwise.metrics.names import NUMBER, read_number

if TYPE_CHECKING:
    from setwise.lagrangian.constraints.rates import RateConstraint

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


def read_text(text: object) -> dict[str, Any]:
    """What the text says, as the arguments of :class:`~setwise.lagrangian.constraints.rates.RateConstraint`."""
    if not isinstance(text, str):
        raise TypeError(f"Expected a constraint to be a string, but got {type(text).__name__}.")
    form = rf"(\w+)(?:\[([^\[\]]*)\])?(>=|<=|=)({NUMBER})(?:(?:±|\+-|\+/-)({NUMBER}))?"
    match = re.fullmatch(form, re.sub(r"\s+", "", text), flags=re.IGNORECASE)
    settings = None if match is None else _read_options(match[2])
    if match is None or settings is None or (match[3] == "=") != (match[5] is not None):
        raise InputError(f"Expected a constraint to be {_FORMS}; but got {text!r}.")
    name, sign, level, spread = match[1].lower(), match[3], read_number(match[4]), read_number(match[5] or "0")
    difference = name in _DIFFERENCES or name.endswith("_difference")
    rates = _DIFFERENCES.get(name, (name.removesuffix("_difference"),))
    if any(rate not in RATES for rate in rates) or (difference and sign != "<="):
        raise InputError(f"Expected a constraint to be {_FORMS}; but got {text!r}.")
    if difference:
        settings.setdefault("group", "group")
    if "churn" in rates:
        settings.setdefault("reference", "reference")
    return {
        "rate": rates if len(rates) > 1 else rates[0],
        "lower": None if sign == "<=" else level if sign == ">=" else max(level - spread, 0.0),
        "upper": None if sign == ">=" else level if sign == "<=" else min(level + spread, 1.0),
        "difference": difference,
        **settings,
    }


def write_text(constraint: RateConstraint) -> str:
    """The text that :func:`read_text` understands; rates joined by + where no name says them."""
    names = {rates: name for name, rates in _DIFFERENCES.items() if len(rates) > 1}
    name = "+".join(constraint.rates)
    if constraint.difference:
        name = names.get(constraint.rates, f"{name}_difference")
    options = []
    if constraint.group is not None:
        one = constraint.member is not None
        options.append(f"{constraint.group}={constraint.member}" if one else f"group={constraint.group}")
    if constraint.against != "pairs":
        options.append(f"against={constraint.against}")
    if constraint.reference is not None:
        options.append(f"reference={constraint.reference}")
    name += f"[{','.join(options)}]" if options else ""
    lower, upper = constraint.lower, constraint.upper
    if lower is not None and upper is not None:
        return f"{name}={(lower + upper) / 2:g}±{(upper - lower) / 2:g}"
    return f"{name}>={lower:g}" if lower is not None else f"{name}<={upper:g}"


def _read_options(text: str | None) -> dict[str, str | int] | None:
    """What stands in brackets; None if it is not understood."""
    settings: dict[str, str | int] = {}
    for part in text.split(",") if text else []:
        name, sign, value = part.partition("=")
        if not sign or not name or not value:
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
