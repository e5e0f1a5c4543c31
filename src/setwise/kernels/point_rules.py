"""Measures at one operating point: the table of what each minimizes and what it holds, as functions of the counts.

At a threshold let TP and FP be the counts, n+ and n- the weights of the classes and FN = n+ - TP. With the level a, and
k the weight to select (a itself, at most n+ + n-, or as a share a (n+ + n-)), a measure is one row:

| rule             | minimized      | held              | c0, c1, c2 of c0 + c1 TP + c2 FP >= 0 |
|------------------|----------------|-------------------|---------------------------------------|
| precision@recall | FP / (TP + FP) | TP >= a n+        | -a n+, 1, 0                           |
| recall@precision | FN / n+        | TP >= a (TP + FP) | 0, 1 - a, -a                          |
| tpr@fpr          | FN / n+        | FP <= a n-        | a n-, 0, -1                           |
| fpr@tpr          | FP / n-        | TP >= a n+        | -a n+, 1, 0                           |
| precision@k      | 1 - TP / k     | TP + FP <= k      | k, -1, -1                             |

The kernels, the linear programs and the losses read it here. In the first two rows a ratio
of the counts is minimized or held: their losses are curved, and their programs have a further variable for scale.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from torch import Tensor

TOLERANCE = 1e-12
"""A rate reaches its level within this share of the total weight, so that 9 of 10 reach 0.9 whatever the rounding."""


class Rule(NamedTuple):
    """Which measure under which constraint: a row of the table, at a level.

    Attributes:
        measure: The rate that is best: ``"precision"``, ``"recall"``, ``"tpr"`` or ``"fpr"``.
        held: The rate that is held, ``"recall"``, ``"precision"``, ``"fpr"`` or ``"tpr"``, or the number ``"k"``.
        per: The total that the loss is a share of: ``"selected"``, ``"positives"``, ``"negatives"`` or ``"k"``.
        ratio: Whether measure or constraint is a ratio of the counts.
        may_be_one: Whether the level may be 1.
        level: What the second rate is held to.
        interior: Lets precision at recall choose any threshold that keeps the floor, not only the one on it.
        share: Reads the level of precision at k as a share of the total weight.
    """

    measure: str
    held: str
    per: str
    ratio: bool = False
    may_be_one: bool = False
    level: float = math.nan
    interior: bool = False
    share: bool = False

    @property
    def kind(self) -> str:
        """The key in the table, such as ``"precision@recall"``."""
        return f"{self.measure}@{self.held}"

    def selected(self, positives: Any, negatives: Any) -> Any:
        """The k of precision at k, at most all; numbers or tensors."""
        total = positives + negatives
        if self.share:
            return self.level * total
        return total.clamp(max=self.level) if isinstance(total, Tensor) else min(self.level, total)

    def edge(self, positives: Any, negatives: Any) -> tuple[Any, float, float]:
        """c0, c1, c2 of the constraint; numbers or tensors."""
        if self.held == "precision":
            return 0.0 * positives, 1 - self.level, -self.level
        if self.held == "fpr":
            return self.level * negatives, 0.0, -1.0
        if self.held == "k":
            return self.selected(positives, negatives), -1.0, -1.0
        return -self.level * positives, 1.0, 0.0

    def price(self, positives: Any, negatives: Any, missing: Any, fp: Any) -> tuple[Any, Any, Any]:
        """The loss V and its partial derivatives by TP and FP; numbers or tensors, ``missing`` is FN."""
        if self.per == "positives":
            return missing / positives, -1 / positives, 0.0 * missing
        if self.per == "selected":
            selected = positives - missing + fp
            return fp / selected, -fp / selected**2, (positives - missing) / selected**2
        # On the edge of precision at k TP + FP = k, so FP / k is 1 - TP / k.
        total = negatives if self.per == "negatives" else self.selected(positives, negatives)
        return fp / total, 0.0 * fp, 1 / total

    def missed(self, positives: Any, missing: Any, fp: Any) -> tuple[Any, Any, Any]:
        """The same for recall at a precision that no threshold reaches: 1 + log(level / highest precision)."""
        tp = positives - missing
        selected = tp + fp
        ratio = self.level * selected / tp
        value = 1 + (ratio.log() if isinstance(ratio, Tensor) else math.log(ratio))
        return value, -fp / (tp * selected), 1 / selected


_ROWS = (
    Rule("precision", "recall", per="selected", ratio=True, may_be_one=True),
    Rule("recall", "precision", per="positives", ratio=True),
    Rule("tpr", "fpr", per="positives"),
    Rule("fpr", "tpr", per="negatives", may_be_one=True),
    Rule("precision", "k", per="k"),
)
RULES = {row.kind: row for row in _ROWS}


class Found(NamedTuple):
    """Where the threshold came to stand; plain numbers in eager mode on the CPU, else tensors of shape (*batch,)."""

    threshold: Tensor | float
    tp: Tensor | float
    fp: Tensor | float
    positives: Tensor | float
    negatives: Tensor | float
    reached: Tensor | bool
