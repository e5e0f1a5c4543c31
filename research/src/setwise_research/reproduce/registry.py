"""The tables and figures that can be reproduced, by name."""

from __future__ import annotations

import difflib

from setwise._checks import InputError
from setwise_research.reproduce.entry import Entry, read_entry

NAMES = (
    "binary-auc",
    "multiclass-auc",
    "f-score",
    "operating-points",
    "all-positive",
    "solver-convergence",
    "solver-runtime",
    "sketch-auc",
    "gradient-properties",
    "nmf-maps",
    "sky-segmentation",
    "stuff-segmentation",
    "s-mnist",
    "shape-histograms",
    "camvid-iou",
)


def entries() -> tuple[Entry, ...]:
    """All of them."""
    return tuple(read_entry(name) for name in NAMES)


def entry(name: str) -> Entry:
    """The one of this name.

    Raises:
        InputError: When there is none; the message lists them.
    """
    if name in NAMES:
        return read_entry(name)
    near = difflib.get_close_matches(name, NAMES, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(f"Expected NAME to be one of {', '.join(NAMES)}, but got {name!r}.{hint}")
