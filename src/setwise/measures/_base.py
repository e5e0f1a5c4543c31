"""Base class of the losses, the record of a measure, and the reading of scores, labels and weights."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from setwise import _checks
from setwise.distributed import ProcessGroupLike, active, check_process_group
from setwise.lp import LinearProgram

_MANY = 8192  # from here on NumPy counts booleans faster, even if they have to be made first

OneSet = tuple[Tensor, Tensor, Tensor | None]  # scores, boolean labels, weights, each of shape (n,)


class Metric(Protocol):
    """A hard measure of scores against labels."""

    def __call__(self, scores: Any, labels: Any, *, weight: Any = None) -> float:
        """The measure's value."""


@dataclass(frozen=True)
class Measure:
    """A measure with its three faces: linear program, training loss, hard metric.

    Attributes:
        name: What :func:`setwise.measures.parse` understands, such as ``"auc"``.
        title: How it is written in tables and plots, such as ``"AUROC"``.
        loss: Makes the training loss; keyword options go to its constructor.
        metric: The hard measure, ``metric(scores, labels, weight=None)``.
        program: Its linear program, or None where it has none.
        maximize_threshold: What :func:`setwise.metrics.choose_threshold` maximizes to turn scores into decisions.
        subject_to: The constraint under which it does so, or None.
        at_threshold: Whether the metric depends on a threshold, which it then takes as an argument.
        minimize: Whether less is better, as with FPR at TPR.
        layout: ``"binary"``, or ``"classes"`` for scores of shape (N, C, ...).
    """

    name: str
    title: str
    loss: Callable[..., nn.Module]
    metric: Metric
    program: Callable[..., LinearProgram] | None
    maximize_threshold: str = "f1"
    subject_to: str | None = None
    at_threshold: bool = False
    minimize: bool = False
    layout: str = "binary"


class Reading(NamedTuple):
    """How a set is read: whether its values are looked at, and over which ranks it is spread."""

    check_values: bool
    process_group: ProcessGroupLike


class SetLoss(nn.Module):
    """Base class of the losses: what of a batch is checked, and how many batches left the measure undefined.

    A subclass has a ``forward`` of its own: ``torch.compile`` counts recompilations by the code of that method, and one
    for all losses would soon reach the limit.

    Args:
        check_values: Refuse scores that are not finite and targets that are no labels.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Attributes:
        shown: The settings that ``repr`` shows.
        undefined_batches: How many batches had nothing to measure so far, and so gave loss 0 and no gradient. Batches
            under ``torch.func`` transforms are not counted.
    """

    shown: tuple[str, ...] = ()
    undefined_batches: Tensor

    def __init__(self, *, check_values: bool, process_group: ProcessGroupLike) -> None:
        super().__init__()
        check_process_group(process_group)
        self.check_values = check_values
        self.process_group = process_group
        # Not in the state: a count of this run, which a checkpoint of the weights has no use for.
        self.register_buffer("undefined_batches", torch.zeros((), dtype=torch.int64), persistent=False)

    @property
    def reading(self) -> Reading:
        """How a batch is read, with the options as they are now."""
        return Reading(self.check_values, self.process_group)

    def count_defined(self, loss: Tensor, defined: Tensor | bool) -> Tensor:  # noqa: FBT001 (with its loss, a pair)
        """The loss as it is; a batch that is not defined is counted, except under ``torch.func`` transforms."""
        if isinstance(defined, bool):
            if not defined:
                self.undefined_batches += 1
        elif not torch._C._are_functorch_transforms_active():  # noqa: SLF001 (no public name)
            self.undefined_batches += ~defined
        return loss

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        values = {name: getattr(self, name) for name in self.shown}
        return ", ".join(f"{name}={value!r}" for name, value in values.items())


def check_surrogate(surrogate: str, margin: float, allowed: tuple[str, ...]) -> None:
    """Refuse a surrogate that a measure has not, or a margin that the surrogate cannot have: a ramp needs a width."""
    _checks.one_of("surrogate", surrogate, allowed)
    _checks.in_range("margin", margin, 0.0, math.inf, open_low=surrogate == "ramp", open_high=True)


def read_vectors(scores: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """Scores, boolean labels and weights of one set for its program, each of shape (n,)."""
    scores, weight = prepare(scores, labels, weight, ("scores", "labels"))
    if scores.ndim != 1:
        raise _checks.InputError(f"Expected `scores` to be of shape (n,), but got {tuple(scores.shape)}.")
    if weight is not None:
        _checks.all_non_negative("weight", weight)
    return scores, positives(labels, name="labels"), weight


def pair_program(cost: Tensor, gap: Tensor, margin: float) -> LinearProgram:
    """min cost'z subject to z >= margin - gap and z >= 0: the program of hinges of pairs.  # shape of both: (n,)."""
    rows = torch.arange(len(cost) + 1, device=cost.device)
    size = (len(cost), len(cost))
    minus_identity = torch.sparse_csr_tensor(rows, rows[:-1], -torch.ones_like(cost), size, check_invariants=False)
    return LinearProgram(cost, minus_identity, gap - margin)


def prepare(
    scores: Tensor, labels: Tensor, weight: Tensor | None, names: tuple[str, str] = ("input", "target")
) -> tuple[Tensor, Tensor | None]:
    """Scores and weights in float32 or better, after the checks of type and shape that always run.

    Args:
        scores: Scores of any shape.
        labels: Labels of the same shape; looked at, not changed.
        weight: Per-sample weights of the same shape, or None.
        names: What the caller's first two arguments are called, for the messages.
    """
    _checks.is_floating(names[0], scores)
    _checks.is_real(names[1], labels)
    _checks.same_shape(names[1], labels, names[0], scores)
    return promote_dtype(scores), read_weight(weight, names[0], scores)


def read_weight(weight: Tensor | None, name: str, like: Tensor) -> Tensor | None:
    """Per-sample weights as constants in float32 or better, after the checks that always run.

    Args:
        weight: The weights, or None.
        name: What the argument is called whose shape they must have.
        like: That argument.
    """
    if weight is None:
        return None
    _checks.is_real("weight", weight)
    _checks.same_shape("weight", weight, name, like)
    _checks.is_constant("weight", weight)
    return promote_dtype(weight.detach())


def promote_dtype(value: Tensor) -> Tensor:
    """The value in float32 or better."""
    return value if value.dtype in (torch.float32, torch.float64) else value.float()


def positives(labels: Tensor, *, check_values: bool = True, name: str = "target") -> Tensor:
    """Which labels are 1, as booleans; labels other than 0 and 1 are refused where values can be read."""
    readable = _checks.values_are_readable()
    if readable and labels.device.type == "cpu" and labels.dtype != torch.bfloat16:  # which NumPy does not know
        return _positives_numpy(labels, check_values=check_values, name=name)
    positive = labels.detach() == 1
    if check_values and readable and not torch.equal(positive, labels.bool()):
        _checks.all_binary(name, labels)
    return positive


def _positives_numpy(labels: Tensor, *, check_values: bool, name: str) -> Tensor:
    """The same by NumPy, which begins faster and compares faster."""
    values = labels.detach().numpy()
    positive = np.asarray(values == 1)
    if check_values and values.dtype != np.bool_:
        nonzero = np.count_nonzero(values if values.size < _MANY else values != 0)
        if nonzero != np.count_nonzero(positive):
            _checks.all_binary(name, labels)
    return torch.from_numpy(positive)


def class_indices(target: Tensor, classes: int, *, check_values: bool, hint: str = "") -> Tensor:
    """Class indices from 0 to classes - 1 as constants in int64."""
    if target.is_floating_point() or target.dtype == torch.bool:
        raise TypeError(f"Expected `target` to hold class indices (an integer dtype), but got {target.dtype}.")
    if check_values and target.numel():
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= classes:
            raise _checks.InputError(
                f"Expected `target` to hold class indices from 0 to {classes - 1}, but it holds "
                f"{low if low < 0 else high}{hint}."
            )
    return target.detach().long()


def one_set(
    input: Tensor, target: Tensor, weight: Tensor | None, reading: Reading, *, check_finite: bool = True
) -> OneSet:
    """All elements of ``input``, on all ranks of the group, as one set of scores, boolean labels and weights.

    Args:
        input: Scores of any shape.
        target: Labels of the same shape.
        weight: Weights of the same shape, or None.
        reading: Whether values are looked at, where they can be read, and over which ranks the set is spread.
        check_finite: Whether scores that are not finite are refused here. A single process may leave it to the value of
            the loss, which shows them; several check before they exchange anything.
    """
    check_values, process_group = reading
    ranks = active(process_group)
    if ranks is None:
        return _own_set(input, target, weight, check_values=check_values, check_finite=check_finite)
    own = functools.partial(_own_set, input, target, weight, check_values=check_values, check_finite=True)
    return cast("OneSet", ranks.gather(own, input))


def _own_set(input: Tensor, target: Tensor, weight: Tensor | None, *, check_values: bool, check_finite: bool) -> OneSet:
    scores, weight = prepare(input, target, weight)
    if scores.ndim != 1:
        scores, target, weight = scores.flatten(), target.flatten(), None if weight is None else weight.flatten()
    check_values = check_values and _checks.values_are_readable()
    if check_values and weight is not None:
        _checks.all_non_negative("weight", weight)
    positive = positives(target, check_values=check_values)
    # A sum is a cheap look at all scores: it is finite if they are, unless they are near the largest float.
    if check_finite and check_values and not math.isfinite(scores.detach().sum().item()):
        _checks.all_finite("input", input)
    return scores, positive, weight
