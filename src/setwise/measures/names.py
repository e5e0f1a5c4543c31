"""Measures by name: what ``setwise train --measure`` and every string argument understand."""

from __future__ import annotations

import difflib

from setwise import _checks, metrics
from setwise.measures._base import Measure
from setwise.measures.auc import AUCLoss, auc_program

_AUC = Measure(name="auc", title="AUROC", loss=AUCLoss, metric=metrics.auroc, program=auc_program)

MEASURES = {"auc": _AUC, "auroc": _AUC}


def parse(name: str) -> Measure:
    """The measure that goes by ``name``.

    Args:
        name: ``"auc"`` or its other name ``"auroc"``; case and surrounding blanks do not matter.

    Raises:
        InputError: For a name that is not known; the message lists the known ones.

    >>> parse("auc").title
    'AUROC'
    """
    if not isinstance(name, str):
        raise TypeError(f"Expected `measure` to be a string, but got {type(name).__name__}.")
    key = name.strip().lower()
    if key in MEASURES:
        return MEASURES[key]
    near = difflib.get_close_matches(key, MEASURES, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    known = ", ".join(map(repr, MEASURES))
    raise _checks.InputError(f"Expected `measure` to be one of {known}, but got {name!r}.{hint}")
