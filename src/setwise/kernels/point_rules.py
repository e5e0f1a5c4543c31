"""The measures at one operating point as data: constraint, loss and its derivatives as functions of the counts."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from torch import Tensor

TOLERANCE = 1e-12
"""A rate reaches its level within this share of the total weight, so that 9 of 10 reach 0.9 whatever the rounding."""


class Rule(NamedTuple):
    """Which measure under which constraint.

    ``kind`` is one of ``"precision@recall"``, ``"recall@precision"``, ``"tpr@fpr"``, ``"fpr@tpr"``, ``"precision@k"``,
    and ``level`` what its second rate is held to. ``interior`` lets precision at recall choose any threshold that keeps
    the floor, not only the one on it; ``share`` reads the level of precision at k as a share of the total weight.
    """

    kind: str
    level: float
    interior: bool = False
    share: bool = False

    def selected(self, positives: Any, negatives: Any) -> Any:
        """The k of precision at k, at most all; numbers or tensors."""
        total = positives + negatives
        if self.share:
            return self.level * total
        return total.clamp(max=self.level) if isinstance(total, Tensor) else min(self.level, total)

    def edge(self, positives: Any, negatives: Any) -> tuple[Any, float, float]:
        """c0, c1, c2 of the constraint; numbers or tensors."""
        if self.kind == "recall@precision":
            return 0.0 * positives, 1 - self.level, -self.level
        if self.kind == "tpr@fpr":
            return self.level * negatives, 0.0, -1.0
        if self.kind == "precision@k":
            return self.selected(positives, negatives), -1.0, -1.0
        return -self.level * positives, 1.0, 0.0

    def price(self, positives: Any, negatives: Any, missing: Any, fp: Any) -> tuple[Any, Any, Any]:
        """The loss V and its partial derivatives by TP and FP; numbers or tensors."""
        if self.kind == "precision@recall":
            selected = positives - missing + fp
            return fp / selected, -fp / selected**2, (positives - missing) / selected**2
        if self.kind == "precision@k":  # on the edge TP + FP = k, so FP / k is 1 - TP / k
            selected = self.selected(positives, negatives)
            return fp / selected, 0.0 * fp, 1 / selected
        if self.kind == "fpr@tpr":
            return fp / negatives, 0.0 * fp, 1 / negatives
        return missing / positives, -1 / positives, 0.0 * missing

    def missed(self, positives: Any, missing: Any, fp: Any) -> tuple[Any, Any, Any]:
        """The same for recall at a precision that no threshold reaches: 1 + log(level / highest precision)."""
        tp = positives - missing
        selected = tp + fp
        ratio = self.level * selected / tp
        value = 1 + (ratio.log() if isinstance(ratio, Tensor) else math.log(ratio))
        return value, -fp / (tp * selected), 1 / selected


class Found(NamedTuple):
    """Where the threshold came to stand; plain numbers in eager mode on the CPU, else tensors of shape (*batch,)."""

    threshold: Tensor | float
    tp: Tensor | float
    fp: Tensor | float
    positives: Tensor | float
    negatives: Tensor | float
    reached: Tensor | bool
