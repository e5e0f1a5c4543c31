r"""Area under the ROC curve for more than two classes: one versus all, and AUC-mu.

One versus all (``kind="ova"``). Class c's samples against all others, by column c of the scores; the same for every
label of a multi-label problem.

AUC-mu (``kind="mu"``). For two classes k and l and a partition matrix P, where P_kl is the cost of calling class k what
is class l, let v be row k minus row l of P. A sample with class scores f stands at v.f, and samples i of class k and j
of class l are in order if (v_k - v_l)(v.f_i - v.f_j) > 0, ties counting half. We divide by (v_k - v_l)^2, so that the
margin means the same for every two classes: with

    t = v.f / (v_k - v_l)        (for the 0/1 matrix: t = (f_k - f_l) / 2)

sample i is asked to stand above sample j, as a positive above a negative. The measure is the mean over the class pairs.

Both are sums of binary AUCs, and so are their linear programs: with a_g what a class or class pair g counts,

    min sum_g a_g sum_ij w_i w_j z_gij   s.t.   t_gi - t_gj >= margin - z_gij,   z >= 0,

whose optimum is the pairwise hinge, found by sorting in O(C n log n) time and O(C n) memory (:mod:`setwise.kernels`).
The surrogates are those of :mod:`setwise.measures.auc`.

Scores. The definition of AUC-mu takes class probabilities, and on logits its value differs; so the default is
``scores="softmax"``, differentiated through, and ``scores="raw"`` takes what comes. Differences of probabilities are at
most 1 (for both kinds), so there margin 1 is met only by certainty, and the hinge is then linear in the probabilities;
a smaller margin, such as 0.1, lets go of pairs that are well in order. Labels of a multi-label problem do not compete,
so they need ``scores="raw"``.

Averages. ``"macro"`` (classes alike), ``"weighted"`` (by the weight of the class), ``"pair"`` (class pairs alike): of
the mean over sample pairs of each. ``"sum"``: the plain sum over all sample pairs, as in the reference; it weighs large
classes more. A class (pair) without any sample pair is left out.

References: Kleiman, Page, "AUC-mu: a performance metric for multi-class machine learning models", ICML 2019; Meng,
Mukherjee, Wu, Singh, Ravi, "Differentiable Optimization of Generalized Nondecomposable Functions using Linear
Programs", NeurIPS 2021.

>>> import torch
>>> logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
>>> labels = torch.tensor([0, 1, 2, 2])
>>> multiclass_auc_loss(logits, labels, kind="mu", scores="raw")  # class pairs: 0, 0 and (2 + 0.5) / 2
tensor(0.4167)
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from setwise import _checks
from setwise.distributed import ProcessGroupLike, active
from setwise.kernels import class_pair_loss, pair_loss
from setwise.kernels.scaling import unit_torch
from setwise.lp import LinearProgram
from setwise.measures._base import Reading, SetLoss, pair_program
from setwise.measures._class_targets import Settings, class_scale, read_classes
from setwise.measures.auc import surrogate_terms


def multiclass_auc_program(
    input: Tensor,
    target: Tensor,
    *,
    kind: str = "ova",
    partition: Tensor | None = None,
    scores: str = "softmax",
    average: str | None = None,
    margin: float = 1.0,
    weight: Tensor | None = None,
) -> LinearProgram:
    """The linear program of either kind, one variable and one row for each pair of samples that is compared.

    The classes, or class pairs (0, 1), (0, 2), ..., (1, 2), ..., come one after the other, each in row-major order.

    Args:
        input: Logits; the right-hand side keeps their graph.  # shape: (n, C)
        target: As in :func:`multiclass_auc_loss`.
        kind: ``"ova"`` or ``"mu"``.
        partition: As in :func:`multiclass_auc_loss`.
        scores: ``"softmax"`` or ``"raw"``.
        average: As in :func:`multiclass_auc_loss`; it makes the cost.
        margin: As in :func:`multiclass_auc_loss`.
        weight: Per-sample weights.  # shape: (n,)
    """
    settings = Settings.checked(kind, partition, scores, average, margin, "hinge")
    if isinstance(input, Tensor) and input.ndim != 2:
        raise _checks.InputError(f"Expected `input` to be of shape (n, C), but got {tuple(input.shape)}.")
    values, target, weight = read_classes(input, target, weight, settings, check_values=True)
    w = torch.ones_like(values[:, 0]) if weight is None else weight.to(values)
    costs, gaps = [values.new_zeros(0)], [values.new_zeros(0)]
    for coefficient, t, upper, lower in _comparisons(values, target, w, settings):
        costs.append(coefficient * w[upper].outer(w[lower]).flatten())
        gaps.append((t[upper].unsqueeze(1) - t[lower]).flatten())
    cost, gap = torch.cat(costs), torch.cat(gaps)
    return pair_program(cost, gap, margin)


def multiclass_auc_loss(
    input: Tensor,
    target: Tensor,
    *,
    kind: str = "ova",
    partition: Tensor | None = None,
    scores: str = "softmax",
    average: str | None = None,
    margin: float = 1.0,
    surrogate: str = "hinge",
    weight: Tensor | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """Pairwise surrogate of one minus the multi-class AUC.

    Args:
        input: Logits; half precision is computed in float32.  # shape: (n, C)
        target: Class indices, or for ``"ova"`` labels 0 or 1 for each class.  # shape: (n,) or (n, C)
        kind: ``"ova"``, one versus all, or ``"mu"``, AUC-mu.
        partition: Partition matrix of ``"mu"``; None for 0 on the diagonal and 1 elsewhere.  # shape: (C, C)
        scores: ``"softmax"``: compare class probabilities; ``"raw"``: compare the input itself.
        average: ``"macro"`` (the default), ``"weighted"`` or ``"sum"`` for ``"ova"``; ``"pair"`` (the default) or
            ``"sum"`` for ``"mu"``.
        margin: How far in order each two samples are asked to be.
        surrogate: ``"hinge"``, ``"squared_hinge"`` or ``"ramp"``.
        weight: Non-negative per-sample weights, constants; a pair counts with the product of its two.  # shape: (n,)
        check_values: Refuse scores that are not finite and targets that are no class. Never done while tracing or under
            ``torch.func`` transforms.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Returns:
        A scalar. A set in which no class can be compared with another gives 0 with zero gradient.
    """
    settings = Settings.checked(kind, partition, scores, average, margin, surrogate)
    return _loss(input, target, weight, settings, Reading(check_values, process_group))[0]


class MulticlassAUCLoss(SetLoss):
    """:func:`multiclass_auc_loss` as a module: ``loss(logits, target, weight=None)``.

    Args:
        kind: ``"ova"``, one versus all, or ``"mu"``, AUC-mu.
        partition: Partition matrix of ``"mu"``; None for 0 on the diagonal and 1 elsewhere.  # shape: (C, C)
        scores: ``"softmax"``: compare class probabilities; ``"raw"``: compare the input itself.
        average: ``"macro"`` (the default), ``"weighted"`` or ``"sum"`` for ``"ova"``; ``"pair"`` (the default) or
            ``"sum"`` for ``"mu"``.
        margin: How far in order each two samples are asked to be.
        surrogate: ``"hinge"``, ``"squared_hinge"`` or ``"ramp"``.
        check_values: Refuse scores that are not finite and targets that are no class.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Attributes:
        undefined_batches: How many batches held no pair to compare so far, and so gave loss 0 and no gradient. Batches
            under ``torch.func`` transforms are not counted.

    >>> import torch
    >>> loss = MulticlassAUCLoss(kind="mu")
    >>> loss(torch.zeros(4, 3), torch.tensor([0, 1, 2, 2]))
    tensor(1.)
    >>> loss(torch.zeros(4, 3), torch.tensor([2, 2, 2, 2])), loss.undefined_batches.item()
    (tensor(0.), 1)
    """

    partition: Tensor | None

    def __init__(
        self,
        kind: str = "ova",
        *,
        partition: Tensor | None = None,
        scores: str = "softmax",
        average: str | None = None,
        margin: float = 1.0,
        surrogate: str = "hinge",
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        super().__init__(check_values=check_values, process_group=process_group)
        settings = Settings.checked(kind, partition, scores, average, margin, surrogate)
        self.kind = kind
        self.scores = scores
        self.average = settings.average
        self.margin = margin
        self.surrogate = surrogate
        # Not in the state: a setting, which the constructor is given anyway.
        self.register_buffer("partition", settings.partition, persistent=False)  # so that it moves with the module

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of one batch; see :func:`multiclass_auc_loss`."""
        settings = Settings(self.kind, self.partition, self.scores, self.average, self.margin, self.surrogate)
        return self.count_defined(*_loss(input, target, weight, settings, self.reading))

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        partition = "" if self.partition is None else f", partition={self.partition.tolist()}"
        return (
            f"kind={self.kind!r}{partition}, scores={self.scores!r}, average={self.average!r}, margin={self.margin}, "
            f"surrogate={self.surrogate!r}"
        )


def _masses(target: Tensor, w: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """The weight of the samples in each class, and that of all samples.  # shapes: (*batch, C), (*batch, 1)."""
    if target.dtype == torch.bool:
        inside = torch.where(target, w.unsqueeze(-1), torch.zeros_like(w).unsqueeze(-1)).sum(-2)
    else:
        zeros = torch.zeros_like(w.sum(-1, keepdim=True)).expand(*w.shape[:-1], classes)
        inside = zeros.scatter_add(-1, target, w)
    return inside, w.sum(-1, keepdim=True)


def _ova_shares(inside: Tensor, everything: Tensor, average: str) -> tuple[Tensor, Tensor]:
    """What each class's mean over sample pairs counts (its sum with ``"sum"``), and whether any does.

    shapes: (*batch, C), (*batch,)
    """
    present = inside * (everything - inside) > 0
    share = present.to(inside.dtype) if average == "macro" else torch.where(present, inside, torch.zeros_like(inside))
    return _normalized(share, present, average), present.any(-1)


def _mu_coefficients(inside: Tensor, average: str) -> tuple[Tensor, Tensor]:
    """What the sum over the sample pairs of each two classes counts.  # shapes: (*batch, C, C), (*batch,)."""
    pairs = (inside.unsqueeze(-1) * inside.unsqueeze(-2)).triu(1).flatten(-2)
    present = pairs > 0
    share = _normalized(present.to(pairs.dtype), present, average)
    upper = share if average == "sum" else share / torch.where(present, pairs, torch.ones_like(pairs))
    upper = upper.unflatten(-1, (inside.shape[-1],) * 2)
    return upper + upper.mT, present.any(-1)


def _normalized(share: Tensor, present: Tensor, average: str) -> Tensor:
    """The share of each over the sum of shares, 0 for what is not there; for the plain sum 1."""
    if average == "sum":
        return present.to(share.dtype)
    total = share.sum(-1, keepdim=True)
    # The inner `where` keeps 0/0 out of the gradient, which the outer one would multiply by 0, to NaN.
    return torch.where(present, share / torch.where(total > 0, total, torch.ones_like(total)), 0.0)


def _own_side(values: Tensor, target: Tensor, partition: Tensor | None) -> Tensor:
    """How far each sample stands on its own class's side of the line to each other class.  # shape: (*batch, n, C)."""
    own = target.unsqueeze(-1)
    if partition is None:
        # P = 1 - I: a class stands at the sum of all scores less its own, and every scale is -2.
        return (values.gather(-1, own) - values) / 2
    partition = partition.to(values)
    scale = class_scale(partition)
    scale = scale + torch.eye(len(scale), dtype=scale.dtype, device=scale.device)  # the own column is not used
    standing = values @ partition.mT
    return (standing.gather(-1, own) - standing) / scale[target]


def _value(values: Tensor, target: Tensor, weight: Tensor | None, settings: Settings) -> tuple[Tensor, Tensor]:
    """The value of each set, and whether any pair was compared."""
    terms = surrogate_terms(settings.surrogate, settings.margin)
    # Masses of pairs are products of weights: in units of a power of two they cannot overflow or vanish.
    unit, size = unit_torch(torch.ones_like(values[..., 0]) if weight is None else weight)
    inside, everything = _masses(target, unit, values.shape[-1])
    plain_sum = settings.average == "sum"
    if settings.kind == "mu":
        coefficient, defined = _mu_coefficients(inside, settings.average)
        if plain_sum:
            coefficient = coefficient * (size**2).unsqueeze(-1)
        standing = _own_side(values, target, settings.partition)
        return class_pair_loss(standing, target, None if weight is None else unit, coefficient, terms), defined
    share, defined = _ova_shares(inside, everything, settings.average)
    columns = values.mT.contiguous()  # shape: (*batch, C, n)
    classes = torch.arange(values.shape[-1], device=values.device)
    positive = target.mT if target.dtype == torch.bool else target.unsqueeze(-2) == classes.unsqueeze(-1)
    if columns.ndim == 2 and columns.device.type == "cpu" and _checks.values_are_readable():
        # One column at a time is the faster way on the CPU.
        rows = zip(columns.unbind(), positive.unbind(), strict=True)
        sums = torch.stack([pair_loss(*row, weight, terms, mean=not plain_sum)[0] for row in rows])
    else:
        weights = None if weight is None else weight.unsqueeze(-2).expand(columns.shape)
        sums = pair_loss(columns, positive, weights, terms, mean=not plain_sum)[0]
    return (share.to(sums.dtype) * sums).sum(-1), defined


def _comparisons(
    values: Tensor, target: Tensor, w: Tensor, settings: Settings
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """For each class (pair): what it counts, the scores compared, who shall be higher, who lower."""
    classes = values.shape[-1]
    inside, everything = _masses(target, w, classes)
    if settings.kind == "ova":
        share = _ova_shares(inside, everything, settings.average)[0]
        for c in range(classes):
            positive = target[:, c] if target.dtype == torch.bool else target == c
            pairs = inside[c] * (everything[0] - inside[c])
            # The program has a row per pair, so the mean over the pairs is in the cost.
            mean = settings.average != "sum" and bool(pairs > 0)
            yield share[c] / pairs if mean else share[c], values[:, c], positive, ~positive
        return
    coefficient = _mu_coefficients(inside, settings.average)[0]
    standing = _own_side(values, target, settings.partition)
    for k in range(classes):
        for other in range(k + 1, classes):
            # Both samples by their own distance from the line between k and the other class, with opposite signs.
            t = torch.where(target == k, standing[:, other], -standing[:, k])
            yield coefficient[k, other], t, target == k, target == other


def _loss(
    input: Tensor, target: Tensor, weight: Tensor | None, settings: Settings, reading: Reading
) -> tuple[Tensor, Tensor]:
    def read() -> tuple[Tensor, Tensor, Tensor | None]:
        if isinstance(input, Tensor) and input.ndim != 2:
            raise _checks.InputError(f"Expected `input` to be of shape (n, C), but got {tuple(input.shape)}.")
        return read_classes(input, target, weight, settings, check_values=reading.check_values)

    ranks = active(reading.process_group)
    values, classes, weights = read() if ranks is None else ranks.gather(read, input)
    return _value(values, classes, weights, settings)
