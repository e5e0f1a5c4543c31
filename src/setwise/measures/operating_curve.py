r"""Areas under the ROC and the precision-recall curve as a mean over a grid of operating points.

With the soft counts of :mod:`setwise.measures.operating_point`, and levels u_g = (g - 1/2) / G, g = 1 ... G,

    "roc":  loss = 1 - mean_g TPR at FPR = u_g,          "pr":  loss = 1 - mean_g precision at recall = u_g:

the midpoint rule for the area. Each level is a linear program of its own, so their sum is one (the grid's program). One
sort serves all levels: O(n log n + G log n) time, O(n + G) memory (:mod:`setwise.kernels.operating_curve`). More points
cost next to nothing, so the grid is here to be compared with, not to save time: :func:`operating_curve_area` is its
limit, the exact area. The error falls about as 1/G. Measured on 4,000 normal scores, 20 % of them positive and 1.5
higher, as the absolute error of the loss:

| points | roc, hard | pr, hard | roc, hinge | pr, hinge |
|--------|-----------|----------|------------|-----------|
| 5      | 1.0e-02   | 4.3e-04  | 2.9e-02    | 2.7e-03   |
| 10     | 2.1e-03   | 3.0e-03  | 1.3e-02    | 8.4e-04   |
| 100    | 2.6e-05   | 3.4e-04  | 9.7e-04    | 3.5e-05   |
| 1000   | 2.7e-06   | 3.4e-05  | 9.0e-05    | 6.9e-07   |
| 10000  | 2.5e-06   | 8.3e-07  | 9.4e-07    | 1.1e-08   |

"hard" is ``surrogate="ramp"`` with a margin of 1e-6: for "roc" beside scikit-learn's AUROC, for "pr" beside the exact
area, which here is 3.6e-04 from scikit-learn's average precision (that one takes the precision at the end of every step
of the recall). "hinge" is margin 1 beside the exact area under the soft curve. For training on the areas themselves
:func:`~setwise.measures.auc_loss` sums all pairs, and :func:`~setwise.measures.average_precision_loss` all steps.

With margin 1, or the ramp, 1 - loss is at most the same mean of the hard curve, and that differs from the hard area by
at most 1 / (2 G) for "roc", whose curve rises by 1 in all.

References: Eban, Schain, Mackey, Gordon, Saurous, Elidan, "Scalable Learning of Non-Decomposable Objectives", AISTATS
2017 (the grid); Meng, Mukherjee, Wu, Singh, Ravi, "Differentiable Optimization of Generalized Nondecomposable Functions
using Linear Programs", NeurIPS 2021.

>>> import torch
>>> scores = torch.tensor([3.0, 1.0, 0.0, -2.0], requires_grad=True)
>>> labels = torch.tensor([1, 1, 0, 0])
>>> operating_curve_loss(scores, labels, kind="roc", points=2).item()  # losses 1/4 and 0
0.125
"""

from __future__ import annotations

import torch
from torch import Tensor

from setwise import _checks
from setwise.distributed import ProcessGroupLike
from setwise.kernels.operating_curve import curve_loss, levels
from setwise.kernels.point_rules import TOLERANCE
from setwise.kernels.scaling import unit_torch
from setwise.kernels.soft_counts import counts_torch
from setwise.lp import LinearProgram
from setwise.measures._base import Reading, SetLoss, check_surrogate, one_set, positives, prepare
from setwise.measures._point_settings import SURROGATES
from setwise.measures._thresholded import in_units, unit_and_hinge
from setwise.measures.operating_point_programs import precision_at_recall_program, tpr_at_fpr_program

KINDS = ("roc", "pr")


def operating_curve_program(
    scores: Tensor,
    labels: Tensor,
    *,
    kind: str = "roc",
    points: int = 50,
    margin: float = 1.0,
    weight: Tensor | None = None,
) -> LinearProgram:
    """The program of the grid: those of its points side by side, each with variables and a threshold of its own.

    Args:
        scores: Scores; the program keeps their graph.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        kind: ``"roc"``, TPR at FPR, or ``"pr"``, precision at recall, at the floor.
        points: How many points.
        margin: How far from the threshold a score has to be to count as right.
        weight: Non-negative per-sample weights.  # shape: (n,)

    Returns:
        The mean of the programs of the points; dense, (points n)^2 numbers.
    """
    _check_settings(kind, points, margin, "hinge")
    # At the floor: the curve is read at each recall, not at the best precision beyond it.
    blocks = [
        tpr_at_fpr_program(scores, labels, fpr=float(level), margin=margin, weight=weight)
        if kind == "roc"
        else precision_at_recall_program(scores, labels, recall=float(level), margin=margin, at="floor", weight=weight)
        for level in levels(points)
    ]
    matrices = {
        name: torch.block_diag(*(matrix for block in blocks if isinstance(matrix := getattr(block, name), Tensor)))
        for name in ("A", "A_eq")
    }
    rows = {name: torch.cat([getattr(block, name) for block in blocks]) for name in ("b", "b_eq", "lower", "upper")}
    cost = torch.cat([block.c for block in blocks]) / points
    return LinearProgram(cost, offset=1.0, **matrices, **rows)


def operating_curve_area(
    scores: Tensor,
    labels: Tensor,
    *,
    kind: str = "roc",
    margin: float = 1.0,
    surrogate: str = "hinge",
    weight: Tensor | None = None,
) -> Tensor:
    """The limit of :func:`operating_curve_loss` for ever more points: 1 - the exact area under the soft curve.

    Between two neighbouring keys both counts are linear in the threshold, so the area there is a trapezoid ("roc"), or
    has the integral of a ratio of linear functions ("pr"). O(n log n), differentiable.

    Args:
        scores: Scores; every leading index is a set of its own.  # shape: (*batch, n)
        labels: 0 or 1.  # shape: (*batch, n)
        kind: ``"roc"`` or ``"pr"``.
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        surrogate: ``"hinge"`` or ``"ramp"``.
        weight: Non-negative per-sample weights.  # shape: (*batch, n)

    Returns:
        1 - the area of each set; 0 where a set has one class only.  # shape: (*batch,)
    """
    _check_settings(kind, 1, margin, surrogate)
    scores, weight = prepare(scores, labels, weight, ("scores", "labels"))
    positive = positives(labels, name="labels")
    unit, hinge = unit_and_hinge(margin, surrogate)
    counts = counts_torch(in_units(scores, unit, clipped=hinge.clipped), positive, weight, hinge)
    defined = (counts.positives > 0) & (counts.negatives > 0)  # shape: (*batch, 1)
    P, N = (torch.where(defined, total, 1) for total in (counts.positives, counts.negatives))
    # Outside of the keys nothing is missing, or nothing is a false positive: no area there.
    gap = counts.key.diff(dim=-1)  # shape: (*batch, E - 1)
    rising = counts.rising[..., :-1].cumsum(-1)
    falling = counts.falling[..., 1:].flip(-1).cumsum(-1).flip(-1)
    start = torch.zeros_like(counts.key[..., :1])
    missing = torch.cat([start, (rising * gap).cumsum(-1)], -1)
    fp = torch.cat([start, (falling * gap).flip(-1).cumsum(-1)], -1).flip(-1)
    # A slope within rounding of 0 is 0: the quotient of two such would be noise.
    slack = TOLERANCE * (P + N)
    if kind == "roc":
        share = torch.where(falling > slack, rising / torch.where(falling > slack, falling, 1), 0)
        high, low = fp[..., :-1].clamp(max=N), fp[..., 1:].clamp(max=N)
        area = (high - low) * (missing[..., 1:] - share * (high - low) / 2) / (P * N)
    else:
        sloped = rising > slack
        rate = torch.where(sloped, rising, 1)
        length = torch.where(missing[..., 1:] <= P, gap, (P - missing[..., :-1]).relu() / rate)  # up to TP = 0
        area = torch.where(sloped, _share_of_false(P - missing[..., :-1], fp[..., :-1], rate, falling, length), 0) / P
    return torch.where(defined, area, 0).sum(-1).to(scores.dtype)


def operating_curve_loss(
    input: Tensor,
    target: Tensor,
    *,
    kind: str = "roc",
    points: int = 50,
    margin: float = 1.0,
    surrogate: str = "hinge",
    weight: Tensor | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """1 - the area under the curve by the grid, over all elements of ``input``.

    Args:
        input: Logits of any shape; all elements are one set. Half precision is computed in float32.
        target: Labels 0 or 1, boolean, integer or float, of the same shape.
        kind: ``"roc"`` or ``"pr"``.
        points: How many points.
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        surrogate: ``"hinge"`` or ``"ramp"``.
        weight: Non-negative per-sample weights of the same shape, constants.
        check_values: Refuse scores that are not finite and labels other than 0 and 1. Never done while tracing or under
            ``torch.func`` transforms.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Returns:
        A scalar. A set of one class only (by weight) gives 0 with zero gradient.
    """
    _check_settings(kind, points, margin, surrogate)
    one = one_set(input, target, weight, Reading(check_values, process_group))
    return _evaluate(*one, kind, points, margin, surrogate)[0]


class OperatingCurveLoss(SetLoss):
    """:func:`operating_curve_loss` as a module: ``loss(logits, target, weight=None)``.

    Args:
        kind: ``"roc"`` or ``"pr"``.
        points: How many points.
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        surrogate: ``"hinge"`` or ``"ramp"``.
        check_values: Refuse scores that are not finite and labels other than 0 and 1.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Attributes:
        undefined_batches: How many batches held one class only so far, and so gave loss 0 and no gradient. Batches
            under ``torch.func`` transforms are not counted.

    >>> import torch
    >>> loss = OperatingCurveLoss("pr", points=2)
    >>> loss(torch.tensor([3.0, 1.0, 0.0, -2.0]), torch.tensor([1, 1, 0, 0]))
    tensor(0.1250)
    """

    shown = ("kind", "points", "margin", "surrogate")

    def __init__(
        self,
        kind: str = "roc",
        points: int = 50,
        margin: float = 1.0,
        *,
        surrogate: str = "hinge",
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        _check_settings(kind, points, margin, surrogate)
        super().__init__(check_values=check_values, process_group=process_group)
        self.kind = kind
        self.points = points
        self.margin = margin
        self.surrogate = surrogate

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of one batch; see :func:`operating_curve_loss`."""
        one = one_set(input, target, weight, self.reading)
        loss, total = _evaluate(*one, self.kind, self.points, self.margin, self.surrogate)
        return self.count_defined(loss, total > 0)


def _check_settings(kind: str, points: int, margin: float, surrogate: str) -> None:
    _checks.one_of("kind", kind, KINDS)
    _checks.is_count("points", points)
    check_surrogate(surrogate, margin, SURROGATES)


def _evaluate(
    scores: Tensor, positive: Tensor, weight: Tensor | None, kind: str, points: int, margin: float, surrogate: str
) -> tuple[Tensor, Tensor | float]:
    unit, hinge = unit_and_hinge(float(margin), surrogate)
    weight = None if weight is None else unit_torch(weight)[0]
    value, total = curve_loss(
        in_units(scores, unit, clipped=hinge.clipped), positive, weight, hinge, kind=kind, points=points
    )
    return value.to(scores.dtype), total


def _share_of_false(tp: Tensor, fp: Tensor, rising: Tensor, falling: Tensor, length: Tensor) -> Tensor:
    """The integral of rising FP / (TP + FP) over a length, from where the counts are tp, fp and fall at these rates.

    With S = TP + FP falling at the rate a = rising + falling, and c = falling / a, FP = c S + (fp - c S_0), so it is
    rising (c length + (fp - c S_0) log(S_0 / S_1) / a).
    """
    some = fp > 0
    rate = rising + falling
    part = falling / rate
    selected = torch.where(some, tp + fp, 1)
    fallen = torch.where(some, rate * length / selected, 0).clamp(max=1 - 1e-15)
    return rising * (part * length - (fp - part * selected) * torch.log1p(-fallen) / rate) * some
