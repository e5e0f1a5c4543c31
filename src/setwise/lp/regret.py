r"""Decision regret of predicted costs and the convex loss that bounds it (SPO+).

A model predicts the costs p of a program whose true costs c are known in training. With z(c) an optimal point for c,

    regret(p, c) = c'z(p) - c'z(c)  >=  0

is what is reported where predictions serve a decision. It is a step function of p, so it has no gradient to train with.
The loss is

    loss(p, c) = max_z (c - 2 p)'z + 2 p'z(c) - c'z(c),

convex in p, 0 at p = c where z(c) is unique, and never below the regret: c'z(p) <= max_z (c - 2 p)'z + 2 p'z(p), and
p'z(p) <= p'z(c). The maximum is one more program, with the costs 2 p - c, and the derivative is 2 (z(c) - z(2 p - c)).

What may be decided is a :class:`~setwise.lp.LinearProgram` or an :data:`~setwise.lp.Oracle`, a function from costs to
minimizers. Over the points of a combinatorial set the loss is that of their convex hull, as is its minimizer.

References: Elmachtoub, Grigas, "Smart Predict, then Optimize", Management Science 2022 (the loss, there SPO+).

>>> import torch
>>> program = LinearProgram(torch.zeros(3), A_eq=torch.ones(1, 3), b_eq=torch.ones(1))  # choose one of three
>>> costs, predicted = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 1.5, 3.0], requires_grad=True)
>>> regret(predicted, costs, program)  # the second is taken instead of the first
tensor(1.)
>>> loss = regret_loss(predicted, costs, program)
>>> loss.backward()
>>> loss, predicted.grad
(tensor(2., grad_fn=<DivBackward0>), tensor([ 2., -2.,  0.]))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from setwise import _checks
from setwise.lp.oracle import Oracle, check_feasible_set, check_not_beaten, minimizers, read
from setwise.lp.problem import LinearProgram
from setwise.lp.solvers.hot_start import HotStart

if TYPE_CHECKING:
    from setwise.lp.solve import Solver

REDUCTIONS = ("mean", "sum", "none")
MIRRORED = "2 * predicted - costs"


def regret(
    predicted: Tensor,
    costs: Tensor,
    program: LinearProgram | Oracle,
    *,
    best: Tensor | None = None,
    solver: Solver | None = None,
) -> Tensor:
    """By how much the decision for predicted costs is worse than the best one, by the true costs.

    Args:
        predicted: Predicted costs.  # shape: (*batch, n)
        costs: True costs.  # shape: (*batch, n)
        program: What may be decided, a program, whose own ``c`` and ``offset`` do not count, or an oracle.
        best: Optimal points for the true costs, where they are known already.  # shape: (*batch, n)
        solver: A solver, or None to let :func:`~setwise.lp.solve` choose.

    Returns:
        The regret of each program, without a graph. Where several points are optimal for the predicted costs it is that
        of the one the solver gives.  # shape: (*batch,)

    Raises:
        LPError: When a program has no optimum for the predicted or for the true costs.
        InputError: When an argument cannot be used, or an oracle's answer is no minimizer.
    """
    with torch.no_grad():
        program, predicted, costs, best = _read(predicted, costs, program, best, solver)
        chosen = minimizers(program, predicted, solver, "predicted")
        if not isinstance(program, LinearProgram):
            check_not_beaten(program, costs, best, chosen, costs_name="costs", other_name="its answer to `predicted`")
        return (costs * (chosen - best)).sum(-1)


def regret_loss(
    predicted: Tensor,
    costs: Tensor,
    program: LinearProgram | Oracle,
    *,
    best: Tensor | None = None,
    reduction: str = "mean",
    solver: Solver | None = None,
    memory: HotStart | None = None,
) -> Tensor:
    """The convex upper bound of :func:`regret`.

    Args:
        predicted: Predicted costs; half precision is computed in the program's.  # shape: (*batch, n)
        costs: True costs.  # shape: (*batch, n)
        program: What may be decided, a constant: a program, whose own ``c`` and ``offset`` do not count, or an oracle.
            Bounds that keep every variable finite are a good idea: the costs 2 predicted - costs may be any.
        best: Optimal points for the true costs. They do not change while a model trains, so to find them once before
            saves half of the work.  # shape: (*batch, n)
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        solver: A solver, or None to let :func:`~setwise.lp.solve` choose.
        memory: What the solver keeps between calls over the same program, see :func:`~setwise.lp.solve`.

    Returns:
        A scalar, or the loss of each program for ``"none"``; 0 for a batch of none.

    Raises:
        LPError: When a program has no optimum for the true costs, or for 2 predicted - costs.
        InputError: When an argument cannot be used, or an oracle's answer is no minimizer: then the loss is negative.
    """
    _checks.one_of("reduction", reduction, REDUCTIONS)
    # Half precision has too few digits for a difference of costs; the loss comes back in float32 at least.
    dtype = torch.promote_types(predicted.dtype, torch.float32) if isinstance(predicted, Tensor) else None
    program, predicted, costs, best = _read(predicted, costs, program, best, solver, memory)
    mirrored = 2 * predicted - costs
    point = minimizers(program, mirrored, solver, MIRRORED, memory)
    if not isinstance(program, LinearProgram):
        check_not_beaten(program, mirrored, point, best, costs_name=MIRRORED, other_name="the best point for `costs`")
    loss = (mirrored * (best - point)).sum(-1)
    if reduction != "none":
        loss = loss.sum() / (max(loss.numel(), 1) if reduction == "mean" else 1)
    return loss.to(dtype)


class RegretLoss(nn.Module):
    """:func:`regret_loss` as a module: ``loss(predicted, costs, best=None)``. It keeps HiGHS's model between calls.

    Args:
        program: What may be decided, a program, whose own ``c`` and ``offset`` do not count, or an oracle.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        solver: A solver, or None to let :func:`~setwise.lp.solve` choose.

    Examples:
        >>> import torch
        >>> loss = RegretLoss(LinearProgram(torch.zeros(3), A_eq=torch.ones(1, 3), b_eq=torch.ones(1)))
        >>> loss(torch.tensor([[2.0, 1.5, 3.0], [1.0, 2.0, 3.0]]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(1.)
    """

    def __init__(
        self, program: LinearProgram | Oracle, *, reduction: str = "mean", solver: Solver | None = None
    ) -> None:
        super().__init__()
        check_feasible_set("program", program, solver)
        _checks.one_of("reduction", reduction, REDUCTIONS)
        self.program = program
        self.reduction = reduction
        self.solver = solver
        self._memory = HotStart()

    def forward(self, predicted: Tensor, costs: Tensor, best: Tensor | None = None) -> Tensor:
        """The loss of one batch; see :func:`regret_loss`."""
        return regret_loss(
            predicted,
            costs,
            self.program,
            best=best,
            reduction=self.reduction,
            solver=self.solver,
            memory=self._memory,
        )

    def extra_repr(self) -> str:
        """The settings, for ``print(model)``."""
        return f"program={self.program!r}, reduction={self.reduction!r}, solver={self.solver!r}"


def _read(
    predicted: Tensor,
    costs: Tensor,
    program: LinearProgram | Oracle,
    best: Tensor | None,
    solver: Solver | None,
    memory: HotStart | None = None,
) -> tuple[LinearProgram | Oracle, Tensor, Tensor, Tensor]:
    """The arguments checked, in one shape, and the best points, found where they are not given."""
    given = {"predicted": predicted, "costs": costs} | ({} if best is None else {"best": best})
    program, tensors = read(program, solver, given)
    if best is None:
        tensors.append(minimizers(program, tensors[1], solver, "costs", memory))
    predicted, costs, best = tensors
    return program, predicted, costs, best
