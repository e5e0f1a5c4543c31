"""Certificate of a threshold: which constraints hold on new data, as plain data for records and in words.

>>> from setwise.metrics import choose_threshold
>>> choice = choose_threshold(range(600), [0, 1] * 300, subject_to="recall>=0.9", confidence=0.95)
>>> record(choice.bounds, 0.95, choice.certified)["said"]
['recall >= 0.9 holds with 95 % confidence (lower bound 0.901; 300 calibration positives).']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from setwise.app.files import plain

if TYPE_CHECKING:
    from setwise.metrics import ConstraintBound

REUSED = "These rows have chosen the epoch too, so this holds about; a run with --subject-to keeps rows for it."
_POSITIVES, _NEGATIVES = ("recall", "tpr", "fnr"), ("fpr", "specificity", "tnr")


def record(
    bounds: Sequence[ConstraintBound],
    confidence: float | None,
    certified: bool | None,  # noqa: FBT001 (three values)
    *,
    named: Callable[[str], str] = str,
    set_name: str = "calibration",
    reused: bool = False,
) -> dict[str, Any]:
    """The certificate of a threshold, for JSON.

    Args:
        bounds: What is known of each constraint.
        confidence: The confidence that was asked for.
        certified: Whether all constraints are certified.
        named: Puts the names of groups in place of their numbers.
        set_name: What the rows are called on which the threshold was chosen.
        reused: Whether something else was chosen on these rows before.

    Returns:
        ``certified``, ``confidence``; ``bounds``, each constraint with ``estimate``, ``bound``, ``certified``,
        ``rows``, ``needed`` and ``reason``; and ``said``, the same in words.
    """
    found = []
    for bound in bounds:
        values = asdict(bound) | {"constraint": named(bound.constraint), "reason": named(bound.reason)}
        del values["group"]  # it stands in the constraint
        found.append(values)
    made: dict[str, Any] = plain({"certified": certified, "confidence": confidence, "bounds": found})
    return made | {"said": _lines(made, set_name, reused=reused)}


def _lines(found: Mapping[str, Any], set_name: str, *, reused: bool) -> list[str]:
    """The certificate in words, a line for each constraint; reasons that several share are said once."""
    percent = f"{100 * (found['confidence'] or 0):.10g} %"
    said = [
        f"{_spaced(bound['constraint'])} holds with {percent} confidence ({_bound_words(bound, set_name)})."
        for bound in found["bounds"]
        if bound["certified"]
    ]
    reasons = dict.fromkeys(bound["reason"] for bound in found["bounds"] if not bound["certified"])
    if said and reused:
        said.append(REUSED)
    return [*said, *(f"Not certified: {reason}." for reason in reasons)]


def _bound_words(bound: Mapping[str, Any], set_name: str) -> str:
    text = bound["constraint"]
    name = re.split(r"[\[<>=]", text, maxsplit=1)[0]
    side = "lower" if ">=" in text else "upper"
    if name in _POSITIVES or name in _NEGATIVES:
        rows = f"{bound['rows']} {set_name} {'positives' if name in _POSITIVES else 'negatives'}"
    else:
        rows = f"{bound['rows']} {set_name} rows{' predicted positive' if name == 'precision' else ''}"
    return f"{side} bound {bound['bound']:.3f}; {rows}"


def _spaced(text: str) -> str:
    """``recall[sex=F] >= 0.9``: blanks around the last sign."""
    return re.sub(r"(>=|<=)(?=[^<>=\]]*$)", r" \1 ", text)
