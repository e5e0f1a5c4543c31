"""Base class and evaluation of the losses at an operating point, and the point that a batch reached."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from setwise import _checks
from setwise.distributed import ProcessGroupLike
from setwise.kernels.fixed_threshold import fixed_point
from setwise.kernels.operating_point import best_point
from setwise.kernels.point_rules import Found, Rule
from setwise.kernels.scaling import unit_torch
from setwise.kernels.soft_counts import Hinge
from setwise.measures._base import Reading, SetLoss, one_set
from setwise.measures._point_settings import Settings, read_settings


class OperatingPoint(NamedTuple):
    """Where a loss stands on the curve of its soft counts; plain numbers, no graph.

    With the hinge of margin 1, or the ramp, and predictions ``score > threshold``, the hard measure is at least as good
    as ``value`` and the hard rate keeps its level wherever ``reached`` holds.

    Attributes:
        value: The soft measure: precision, recall, true or false positive rate.
        constraint: The soft rate that was held to its level; for precision at k the soft number of selected samples.
        threshold: The threshold, in units of the scores, whatever the link; infinite where it selects all or none.
        reached: Whether the level was reached; if not, this is the closest point that can be.
    """

    value: float
    constraint: float
    threshold: float
    reached: bool


def evaluate(scores: Tensor, positive: Tensor, weight: Tensor | None, chosen: Settings) -> tuple[Tensor, Found]:
    """The loss of each set along the last dimension, and its point."""
    unit, hinge = unit_and_hinge(chosen.margin, chosen.surrogate)
    dtype = scores.dtype
    scores, threshold = chosen.linked(scores)
    scores = in_units(scores, unit, clipped=hinge.clipped)
    size: Tensor | float = 1.0
    if weight is not None and (chosen.rule.held != "k" or chosen.rule.share):  # a count k is a weight itself
        weight, size = unit_torch(weight)
        size = size.squeeze(-1)
    if threshold is None:
        value, found = best_point(scores, positive, weight, chosen.rule, hinge)
    else:
        value, found = fixed_point(scores, positive, weight, chosen.rule, hinge, threshold=threshold / unit)
    found = found._replace(
        threshold=chosen.unlinked(found.threshold * unit),
        tp=found.tp * size,
        fp=found.fp * size,
        positives=found.positives * size,
        negatives=found.negatives * size,
    )
    return value.to(dtype), found


def unit_and_hinge(margin: float, surrogate: str) -> tuple[float, Hinge]:
    """The ramp min(1, z / margin) is the hinge of margin 1 on scores in units of it, stopped at 1 per sample."""
    return (margin, Hinge(1.0, clipped=True)) if surrogate == "ramp" else (1.0, Hinge(margin, clipped=False))


def in_units(scores: Tensor, unit: float, *, clipped: bool) -> Tensor:
    """For the ramp, scores in units of its width: in float64 where float32's spacing is no longer small beside it.

    Float64 sorts several times slower, so float32 stays where the scores can be read and are within 256 widths of 0.
    """
    if not clipped:
        return scores
    near = scores.dtype == torch.float64 or scores.device.type == "mps"  # Apple's devices have no float64
    if not near and scores.ndim == 1 and len(scores) and scores.device.type == "cpu" and _checks.values_are_readable():
        near = scores.detach().abs().max().item() <= 256 * unit
    return (scores if near else scores.double()) / unit


def loss(
    input: Tensor, target: Tensor, weight: Tensor | None, chosen: Settings, reading: Reading
) -> tuple[Tensor, Found]:
    """The loss over all elements of ``input`` as one set, and its point."""
    return evaluate(*one_set(input, target, weight, reading), chosen)


class OperatingPointLoss(SetLoss):
    """The module behind all losses at an operating point; the subclasses only name their rule and their options.

    Args:
        options: The options by name, the level first.
        check_values: Refuse scores that are not finite and labels other than 0 and 1.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Attributes:
        kind: The row of the table of rules, such as ``"precision@recall"``.
        undefined_batches: How many batches held one class only so far, and so gave loss 0 and no gradient. Batches
            under ``torch.func`` transforms are not counted.
    """

    kind: ClassVar[str]

    def __init__(self, options: dict[str, Any], *, check_values: bool, process_group: ProcessGroupLike) -> None:
        level, *others = options.items()
        read_settings(self.kind, level[1], **dict(others))  # checks the options
        super().__init__(check_values=check_values, process_group=process_group)
        self.shown = tuple(options)
        for name, value in options.items():
            setattr(self, name, value)
        self._found: Found | None = None

    @property
    def settings(self) -> Settings:
        """The options as they are now: each is an attribute that may be changed between batches."""
        level, *options = self.shown
        return read_settings(self.kind, getattr(self, level), **{name: getattr(self, name) for name in options})

    def evaluated(self, input: Tensor, target: Tensor, weight: Tensor | None) -> tuple[Tensor, Found]:
        """The loss and its point, with the options as they are now."""
        return loss(input, target, weight, self.settings, self.reading)

    # Each subclass has a `forward` of its own: torch.compile counts recompilations by the code of that method.
    def _evaluate(self, input: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        value, found = self.evaluated(input, target, weight)
        if _checks.values_are_readable():
            self._found = found
        return self.count_defined(value, _defined(found))

    @property
    def point(self) -> OperatingPoint | None:
        """The point of the last batch; None before the first one and where the batch held one class only.

        Calls under ``torch.compile`` and ``torch.func`` transforms leave it as it was. On an accelerator the numbers
        are fetched when this is read, so a training loop that does not read it does not wait for them.
        """
        return None if self._found is None else _describe(self.settings.rule, self._found)


def find_operating_point(
    measure: OperatingPointLoss, input: Tensor, target: Tensor, weight: Tensor | None = None
) -> OperatingPoint | None:
    """The point at which a loss stands on a set, without graph; the loss itself stays as it was.

    Args:
        measure: One of the losses at an operating point.
        input: Logits of any shape.
        target: Labels 0 or 1 of the same shape.
        weight: Non-negative per-sample weights of the same shape.

    Returns:
        The point, or None for a set of one class only.

    >>> import torch
    >>> from setwise.measures.operating_point import FPRAtTPRLoss
    >>> scores, labels = torch.tensor([3.0, 1.0, 0.0, -2.0]), torch.tensor([1, 1, 0, 0])
    >>> find_operating_point(FPRAtTPRLoss(tpr=1.0), scores, labels)
    OperatingPoint(value=0.5, constraint=1.0, threshold=0.0, reached=True)
    """
    if not isinstance(measure, OperatingPointLoss):
        raise TypeError(f"Expected `measure` to be a loss at an operating point, but got {type(measure).__name__}.")
    with torch.no_grad():
        found = measure.evaluated(input, target, weight)[1]
    return _describe(measure.settings.rule, found)


def _defined(found: Found) -> Tensor | bool:
    """Whether the set holds both classes."""
    if isinstance(found.positives, Tensor):
        return (found.positives > 0) & (found.negatives > 0)
    return found.positives > 0 and found.negatives > 0


def _describe(rule: Rule, found: Found) -> OperatingPoint | None:
    if not _defined(found):
        return None
    threshold, tp, fp, P, N = (float(part) for part in found[:5])
    counted = max(tp, 0.0)  # hinge counts may fall below 0, where there is no precision to speak of
    rates = {
        "precision": counted / (counted + fp) if counted else 0.0,
        "recall": tp / P,
        "tpr": tp / P,
        "fpr": fp / N,
        "k": tp + fp,
    }
    value = tp / rule.selected(P, N) if rule.held == "k" else rates[rule.measure]
    return OperatingPoint(value, rates[rule.held], threshold, bool(found.reached))
