r"""A model that does equally well on every group: the task's own errors by group, as constraint or as regularizer.

Groups may be sizes (small and big), sites, or values of a protected attribute. With e_g the error of group g (of a
classifier 0/1, of a segmentation 1 - IoU, or whatever is given), n_g its share and l_i the loss of example i,

    total = mean_i w_g(i) l_i,        w_g proportional to exp(a_g), mean 1, within [1 / cap, cap].

- ``"constraint"``: no group's error is more than half the tolerance above the mean e of the groups' errors; for two
  groups their difference is then within the tolerance. Each has a multiplier, a_g = max(0, lambda_g + damping v_g) with
  lambda_g <- max(0, lambda_g + eta_t v_g) and v_g = (e_g - e - tolerance / 2) / e.
- ``"worst"``: the worst group counts most, a_g <- a_g + eta_t e_g / e (group DRO, Sagawa et al., 2020).
- ``"max"``: the loss of the batch's worst group alone; no state.

The weights only share out what the model attends to. No group's loss is ever pushed up to make another's look better,
as a penalty on the difference would; that is why they are bounded, and why little of the overall quality is lost.

**Which errors?** What differs between groups on held-out data need not differ on training data, and may differ the
other way round: a network that has learnt its training set by heart makes no errors there in any group. So give
:meth:`EqualQuality.step` the errors of held-out data where there are some; training errors are used otherwise.

>>> import torch
>>> _ = torch.manual_seed(0)
>>> x, group = torch.randn(2000, 2), (torch.arange(2000) % 5 == 0).long()  # a fifth is in group 1
>>> labels = (x[:, 0] + torch.where(group == 1, 2.0, 0.0) * x[:, 1] > 0).long()  # one line cannot serve both
>>> def gap(quality):
...     model = torch.nn.Linear(2, 2)
...     optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
...     for step in range(200):
...         optimizer.zero_grad()
...         quality(model(x), group, labels=labels).backward()
...         optimizer.step()
...         if step % 5 == 4:
...             quality.step()
...     wrong = model(x).argmax(1) != labels
...     return float(wrong[group == 1].float().mean() - wrong[group == 0].float().mean())
>>> gap(EqualQuality(2, tolerance=1.0)) > 0.2, abs(gap(EqualQuality(2, tolerance=0.02))) < 0.05
(True, True)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from setwise import _checks
from setwise._checks import InputError
from setwise.distributed import ProcessGroupLike, active, check_process_group
from setwise.lagrangian.constraints.confusion import cell_sums
from setwise.lagrangian.constraints.inputs import group_codes
from setwise.lagrangian.multipliers import Multipliers, rise
from setwise.measures._base import promote_dtype

FORMS = ("constraint", "worst", "max")


class ExampleQuality(NamedTuple):
    """Loss to be minimized and error to be compared, one of each per example."""

    loss: Tensor  # differentiable, shape: (n,)
    error: Tensor  # in [0, 1], without gradient, shape: (n,)


class EqualQuality(nn.Module):
    """Weighs the examples' losses so that no group is left behind; see the top of this module.

    Args:
        num_groups: How many groups there are, numbered from 0.
        tolerance: How far errors of two groups may differ (``"constraint"``).
        form: ``"constraint"``, ``"worst"`` or ``"max"``.
        dual_learning_rate: How far a relative difference of errors moves the logarithm of a weight in the first step;
            in step t by 1 / sqrt(t) of it, so that weights settle.
        damping: How far it does so at once, for as long as it lasts (``"constraint"``).
        cap: Weights stay within [1 / cap, cap].
        warm_up: The first so many steps move nothing: at the start groups differ because one is learnt sooner.
        process_group: Over which ranks a batch is spread, as for the losses (:mod:`setwise.distributed`): losses,
            errors and groups are then gathered, here and in :meth:`step`, and all ranks weigh alike.

    Attributes:
        duals: The multipliers lambda, or the logarithms a, one for each group.
        errors: The errors of the groups at the last step, NaN before.  # shape: (num_groups,)
    """

    errors: Tensor
    counts: Tensor
    sums: Tensor
    shares: Tensor
    steps: Tensor

    def __init__(
        self,
        num_groups: int,
        tolerance: float = 0.01,
        *,
        form: str = "constraint",
        dual_learning_rate: float = 2.0,
        damping: float = 1.0,
        cap: float = 4.0,
        warm_up: int = 3,
        process_group: ProcessGroupLike = None,
    ) -> None:
        super().__init__()
        check_process_group(process_group)
        self.process_group = process_group
        _checks.is_count("num_groups", num_groups, 2)
        _checks.in_range("tolerance", tolerance, 0.0)
        _checks.one_of("form", form, FORMS)
        _checks.in_range("dual_learning_rate", dual_learning_rate, 0.0)
        _checks.in_range("damping", damping, 0.0)
        _checks.in_range("cap", cap, 1.0)
        _checks.is_count("warm_up", warm_up, 0)
        self.num_groups = num_groups
        self.tolerance = float(tolerance)
        self.form = form
        self.dual_learning_rate = float(dual_learning_rate)
        self.damping = float(damping)
        self.cap = float(cap)
        self.warm_up = int(warm_up)
        self.duals = Multipliers(num_groups)
        self.register_buffer("errors", torch.full((num_groups,), math.nan))
        for name in ("sums", "counts", "shares"):
            self.register_buffer(name, torch.zeros(num_groups, dtype=torch.float64))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(
        self,
        input: Tensor,
        group: Tensor,
        *,
        labels: Tensor | None = None,
        error: Tensor | None = None,
        ignore_index: int = -100,
    ) -> Tensor:
        """The weighted mean of the losses.

        Args:
            input: The loss of each example; or with ``labels`` logits.  # shape: (n,), or (n, classes, ...)
            group: The group of each example.  # shape: (n,)
            labels: Classes of the examples, or label maps.  # shape: (n,), or (n, ...)
            error: What is compared between groups: by default 0/1 errors, or 1 - IoU, of ``labels``, and else the
                losses.  # shape: (n,)
            ignore_index: Labels that do not count.
        """

        def read() -> tuple[Tensor, Tensor, Tensor]:
            return self._read(input, group, labels, error, ignore_index)

        ranks = active(self.process_group)
        parts: tuple[Tensor, Tensor, Tensor] = read() if ranks is None else ranks.rows(read, input)
        loss, errors, codes = parts
        # Passes for evaluation must not move the shares by which weights are normalized.
        if self.training and torch.is_grad_enabled():
            self._observe(errors, codes)
            self.shares += cell_sums(torch.ones_like(loss, dtype=torch.float64), codes, self.num_groups)
        if self.form == "max":
            present = cell_sums(torch.ones_like(loss), codes, self.num_groups)
            # A group that the batch lacks has mean 0 and is left out below: it cannot be the worst.
            means = cell_sums(loss, codes, self.num_groups) / present.clamp(min=1)
            return means[present > 0].max() if loss.numel() else loss.sum()
        if not loss.numel():
            return loss.sum()
        # The mean over examples, not over groups: with equal weights it is the plain loss.
        return (self.weights().to(loss)[codes] * loss).mean()

    def _read(
        self, input: Tensor, group: Tensor, labels: Tensor | None, error: Tensor | None, ignore_index: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Losses, errors and group codes of the examples, after checks."""
        if labels is not None:
            input, found = example_quality(input, labels, ignore_index=ignore_index)
            error = found if error is None else error
        else:
            _checks.is_floating("input", input)
        if input.ndim != 1:
            raise InputError(f"Expected `input` to be one loss per example, or `labels`, but got {tuple(input.shape)}.")
        _checks.is_tensor("group", group)
        _checks.same_shape("group", group, "the losses", input)
        codes = group_codes("group", group, self.num_groups)
        loss = promote_dtype(input)
        errors = loss.detach() if error is None else error
        _checks.is_tensor("error", errors)
        if errors.shape != codes.shape:
            raise InputError(f"Expected `error` to be one per example, {len(codes)}, but got {tuple(errors.shape)}.")
        return loss, errors, codes

    @torch.no_grad()
    def weights(self) -> Tensor:
        """The weight of each group now; the mean over examples is 1 unless the cap cuts in.  # shape: (num_groups,)."""
        a = self.duals()
        if self.form == "constraint":
            a = (a + self.damping * self._violation().to(a)).clamp(min=0)
            # Before the first dual step the errors are those of an untrained network.
            if int(self.steps) <= self.warm_up:
                a = torch.zeros_like(a)
        total = self.shares.sum()
        # Before the first batch groups are taken to be of equal size.
        shares = torch.where(total > 0, self.shares / total, 1 / self.num_groups).to(a)
        # Shifted by the largest, so that exp cannot overflow; the constant cancels below.
        raw = (a - a.max()).exp()
        return torch.clamp(raw / (shares * raw).sum(), 1 / self.cap, self.cap)

    @torch.no_grad()
    def step(self, error: Tensor | None = None, group: Tensor | None = None) -> None:
        """Move the multipliers by the groups' errors; a few times an epoch.

        Args:
            error: Errors of held-out examples; by default those of the batches since the last step.  # shape: (n,)
            group: Their groups.  # shape: (n,)
        """
        if (error is None) != (group is None):
            raise InputError("Expected `error` and `group` together, but one of them is None.")
        if error is not None and group is not None:

            def read() -> tuple[Tensor, Tensor]:
                _checks.is_real("error", error)
                _checks.same_shape("group", group, "error", error)
                _checks.all_finite("error", error)
                return error.reshape(-1), group_codes("group", group, self.num_groups)

            ranks = active(self.process_group, always=True)
            errors, codes = read() if ranks is None else ranks.rows(read, error)
            self.sums.zero_()
            self.counts.zero_()
            self._observe(errors, codes)
        seen = self.counts > 0
        # A group not seen since the last step keeps its last error.
        self.errors.copy_(torch.where(seen, self.sums / self.counts.clamp(min=1e-300), self.errors))
        self.sums.zero_()
        self.counts.zero_()
        self.steps += 1
        if int(self.steps) <= self.warm_up or self.form == "max":
            return
        # Steps fall as 1 / sqrt(t): with constant ones the weights would follow the noise of the errors for ever.
        rise(self.duals, self._violation(), self.dual_learning_rate / math.sqrt(int(self.steps) - self.warm_up))
        if self.form == "worst":  # only differences matter
            self.duals.values.sub_(self.duals.values.min())

    def _violation(self) -> Tensor:
        """By how much each group is worse than it may be, relative to the mean error; 0 while not all are known."""
        mean = self.errors.mean()
        # NaN while a group is unknown; a mean of zero leaves nothing to share out, and nothing to divide by.
        if not bool(mean.isfinite()) or float(mean) <= 0:
            return torch.zeros_like(self.errors)
        if self.form == "worst":
            return self.errors / mean
        # Relative, so that a step means the same for errors of 30 % and of 0.3 %.
        return (self.errors - mean - self.tolerance / 2) / mean

    @torch.no_grad()
    def _observe(self, error: Tensor, codes: Tensor) -> None:
        self.sums += cell_sums(error.detach().double(), codes, self.num_groups)
        self.counts += cell_sums(torch.ones_like(error, dtype=torch.float64), codes, self.num_groups)

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        return f"num_groups={self.num_groups}, tolerance={self.tolerance}, form={self.form!r}, cap={self.cap}"


def example_quality(logits: Tensor, labels: Tensor, *, ignore_index: int = -100) -> ExampleQuality:
    """Cross-entropy and error of each example: of a classifier 0/1, of a segmentation 1 - IoU.

    The IoU of an image is the mean over the classes that are in its labels or its prediction. An image without a
    pixel that counts has loss and error 0.

    Args:
        logits: Scores of the classes.  # shape: (n, classes), or (n, classes, ...) for maps
        labels: Classes.  # shape: (n,), or (n, ...)
        ignore_index: Labels that do not count.

    >>> example_quality(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])).error
    tensor([0., 1.])
    """
    _checks.is_floating("logits", logits)
    _checks.is_tensor("labels", labels)
    if logits.ndim < 2 or labels.shape != logits.shape[:1] + logits.shape[2:]:
        raise InputError(
            f"Expected `labels` to have the shape of `logits` without its second dimension, but got "
            f"{tuple(labels.shape)} beside {tuple(logits.shape)}."
        )
    scores, truth = promote_dtype(logits), labels.long()
    if labels.ndim > 1:
        scores, truth = scores.flatten(2), truth.flatten(1)  # shape: (n, classes, pixels), (n, pixels)
    each = F.cross_entropy(scores, truth, reduction="none", ignore_index=ignore_index)
    known = truth != ignore_index
    predicted = scores.detach().argmax(1)
    wrong = (predicted != truth) & known
    if labels.ndim == 1:
        return ExampleQuality(each, wrong.to(scores))
    # An image without a pixel that counts is divided by one and has loss 0.
    pixels = known.sum(1).clamp(min=1)
    return ExampleQuality(each.sum(1) / pixels, 1 - _image_iou(predicted, truth, known, scores.shape[1]).to(scores))


def _image_iou(predicted: Tensor, truth: Tensor, known: Tensor, classes: int) -> Tensor:
    """Mean IoU of each image over the classes that are there.  # shape: (n, pixels) -> (n,)."""
    n = len(truth)
    row = torch.arange(n, device=truth.device).unsqueeze(1) * classes

    def per_class(values: Tensor, where: Tensor) -> Tensor:
        return torch.bincount((row + values)[where], minlength=n * classes).reshape(n, classes)

    # One bincount over (image, class) cells in place of a loop over classes.
    both = per_class(predicted, known & (predicted == truth))
    # Ignored labels may be negative; they are clamped for bincount and left out by `known`.
    union = per_class(predicted, known) + per_class(truth.clamp(min=0), known) - both
    there = union > 0
    mean = torch.where(there, both / union.clamp(min=1), 0.0).sum(1) / there.sum(1).clamp(min=1)
    return torch.where(there.any(1), mean, 1.0)
