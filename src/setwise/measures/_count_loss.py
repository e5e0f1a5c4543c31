"""Base classes of the losses of counts: options and a call."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from setwise.distributed import ProcessGroupLike
from setwise.measures._base import SetLoss
from setwise.measures.counts import CountFunction, Counting


class CountLoss(SetLoss):
    """Base class of the losses of counts.

    Args:
        measure: Function of (tp, fp, fn, tn), elementwise.
        how: How predictions are counted.

    Attributes:
        both_classes: Whether the measure needs negatives too, not positives alone.
        undefined_batches: How many batches had nothing to measure (no positive label anywhere) so far, and so gave loss
            0 and no gradient. Batches under ``torch.func`` transforms are not counted.
    """

    both_classes: bool = False

    def __init__(self, measure: CountFunction, how: Counting) -> None:
        super().__init__(check_values=how.check_values, process_group=how.process_group)
        # Frozen, so that the options stay those that were checked; `margin` replaces the whole.
        self.how = how
        self.measure = measure

    @property
    def margin(self) -> float:
        """The margin; it may be set, as annealing does."""
        return self.how.used_margin

    @margin.setter
    def margin(self, value: float | None) -> None:
        # A new object goes through the checks of the first one.
        self.how = replace(self.how, margin=value)

    def batch_loss(self, input: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """1 - measure of one batch, which the ``forward`` of every class calls."""
        return self.count_defined(*self.how.loss(self.measure, input, target, weight, both_classes=self.both_classes))

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        how = self.how
        own = "".join(f"{name}={getattr(self, name)}, " for name in self.shown)
        # The margin in use: None would not say which.
        shown = f"margin={how.used_margin}, surrogate={how.surrogate!r}, link={how.link!r}, average={how.average!r}"
        return f"{own}{shown}, counting={how.counting!r}, ignore_index={how.ignore_index}"


class NamedMeasureLoss(CountLoss):
    """A loss of counts whose measure has no parameters of its own, such as MCC; a subclass says which.

    Args:
        margin: How far on its side of 0 a sample must be to count as right; in [0, 1] for the hinge. None stands for 1
            with the hinge and 0 with the sigmoid.
        surrogate: ``"hinge"``, whose value is that of the linear program, or ``"sigmoid"``.
        link: ``"identity"`` or ``"tanh"``, applied to the scores first.
        average: ``"binary"``, or over classes ``"micro"``, ``"macro"``, ``"weighted"`` or ``"none"``.
        counting: ``"batch"`` counts over the whole batch, ``"image"`` over each element of dimension 0.
        ignore_index: Targets of this value are left out.
        check_values: Refuse scores that are not finite and targets that are no labels.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Attributes:
        function: The measure, a function of (tp, fp, fn, tn).
    """

    function: CountFunction

    def __init__(
        self,
        *,
        margin: float | None = None,
        surrogate: str = "hinge",
        link: str = "identity",
        average: str = "binary",
        counting: str = "batch",
        ignore_index: int | None = None,
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
        CountLoss.__init__(self, self.function, how)  # whatever else a subclass is
