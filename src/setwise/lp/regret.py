r"""Decision regret of predicted costs and the convex loss that bounds it (SPO+).

A model predicts the costs p of a program whose true costs c are known in training. With z(c) an optimal point for c,

    regret(p, c) = c'z(p) - c'z(c)  >=  0

is what is reported where predictions serve a decision. It is a step function of p, so it has no gradient to train with.
The loss is

    loss(p, c) = max_z (c - 2 p)'z + 2 p'z(c) - c'z(c),

convex in p, 0 at p = c where z(c) is unique, and never below the regret: c'z(p) <= max_z (c - 2 p)'z + 2 p'z(p), and
p'z(p) <= p'z(c). The maximum is one more program, with the costs 2 p - c, and the derivative is 2 (z(c) - z(2 p - c)).

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
from setwise.lp.problem import LinearProgram, check_program
from setwise.lp.solution import LPError
from setwise.lp.solve import solve

if TYPE_CHECKING:
    from setwise.lp.solve import Solver

REDUCTIONS = ("mean", "sum", "none")


def regret(
    predicted: Tensor,
    costs: Tensor,
    program: LinearProgram,
    *,
    best: Tensor | None = None,
    solver: Solver | None = None,
) -> Tensor:
    """By how much the decision for predicted costs is worse than the best one, by the true costs.

    Args:
        predicted: Predicted costs.  # shape: (*batch, n)
        costs: True costs.  # shape: (*batch, n)
        program: What may be decided; its own ``c`` and ``offset`` do not count.
        best: Optimal points for the true costs, where they are known already.  # shape: (*batch, n)
        solver: A solver, or None to let :func:`~setwise.lp.solve` choose.

    Returns:
        The regret of each program, without a graph. Where several points are optimal for the predicted costs it is that
        of the one the solver gives.  # shape: (*batch,)

    Raises:
        LPError: When a program has no optimum for the predicted or for the true costs.
    """
    with torch.no_grad():
        predicted, costs, program, best = _read(predicted, costs, program, best)
        chosen = _point(program, predicted, solver, "predicted")
        best = _point(program, costs, solver, "costs") if best is None else best
        return (costs * (chosen - best)).sum(-1)


def regret_loss(
    predicted: Tensor,
    costs: Tensor,
    program: LinearProgram,
    *,
    best: Tensor | None = None,
    reduction: str = "mean",
    solver: Solver | None = None,
) -> Tensor:
    """The convex upper bound of :func:`regret`.

    Args:
        predicted: Predicted costs; half precision is computed in the program's.  # shape: (*batch, n)
        costs: True costs.  # shape: (*batch, n)
        program: What may be decided, a constant; its own ``c`` and ``offset`` do not count. Bounds that keep every
            variable finite are a good idea: the costs 2 predicted - costs may be any.
        best: Optimal points for the true costs. They do not change while a model trains, so to find them once before
            saves half of the work.  # shape: (*batch, n)
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        solver: A solver, or None to let :func:`~setwise.lp.solve` choose.

    Returns:
        A scalar, or the loss of each program for ``"none"``; 0 for a batch of none.

    Raises:
        LPError: When a program has no optimum for the true costs, or for 2 predicted - costs.
    """
    _checks.one_of("reduction", reduction, REDUCTIONS)
    # Half precision has too few digits for a difference of costs; the loss comes back in float32 at least.
    dtype = torch.promote_types(predicted.dtype, torch.float32) if isinstance(predicted, Tensor) else None
    predicted, costs, program, best = _read(predicted, costs, program, best)
    if best is None:
        best = _point(program, costs, solver, "costs")
    mirrored = 2 * predicted - costs
    loss = (mirrored * (best - _point(program, mirrored, solver, "2 * predicted - costs"))).sum(-1)
    if reduction != "none":
        loss = loss.sum() / (max(loss.numel(), 1) if reduction == "mean" else 1)
    return loss.to(dtype)


class RegretLoss(nn.Module):
    """:func:`regret_loss` as a module: ``loss(predicted, costs, best=None)``.

    Args:
        program: What may be decided; its own ``c`` and ``offset`` do not count.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        solver: A solver, or None to let :func:`~setwise.lp.solve` choose.

    Examples:
        >>> import torch
        >>> loss = RegretLoss(LinearProgram(torch.zeros(3), A_eq=torch.ones(1, 3), b_eq=torch.ones(1)))
        >>> loss(torch.tensor([[2.0, 1.5, 3.0], [1.0, 2.0, 3.0]]), torch.tensor([1.0, 2.0, 3.0]))
        tensor(1.)
    """

    def __init__(self, program: LinearProgram, *, reduction: str = "mean", solver: Solver | None = None) -> None:
        super().__init__()
        check_program("program", program)
        _checks.one_of("reduction", reduction, REDUCTIONS)
        self.program = program
        self.reduction = reduction
        self.solver = solver

    def forward(self, predicted: Tensor, costs: Tensor, best: Tensor | None = None) -> Tensor:
        """The loss of one batch; see :func:`regret_loss`."""
        return regret_loss(predicted, costs, self.program, best=best, reduction=self.reduction, solver=self.solver)

    def extra_repr(self) -> str:
        """The settings, for ``print(model)``."""
        return f"program={self.program!r}, reduction={self.reduction!r}, solver={self.solver!r}"


def _read(
    predicted: Tensor, costs: Tensor, program: LinearProgram, best: Tensor | None
) -> tuple[Tensor, Tensor, LinearProgram, Tensor | None]:
    """All in the program's dtype, on the device of the predictions; costs of shape (*batch, n)."""
    check_program("program", program)
    n = program.variables
    given = {"predicted": predicted, "costs": costs} | ({} if best is None else {"best": best})
    for name, value in given.items():
        _checks.is_floating(name, value)
        if value.dim() == 0 or value.shape[-1] != n:
            raise _checks.InputError(
                f"Expected `{name}` to have shape (*batch, {n}), one entry per variable of `program`, but got "
                f"{tuple(value.shape)}."
            )
        if _checks.values_are_readable():
            _checks.all_finite(name, value)
    if program.device != predicted.device:
        program = program.to(device=predicted.device)
    try:
        shape = torch.broadcast_shapes(*(value.shape for value in given.values()))
    except RuntimeError as error:
        shapes = ", ".join(f"`{name}` {tuple(value.shape)}" for name, value in given.items())
        raise _checks.InputError(f"Expected shapes that broadcast, but got {shapes}.") from error
    predicted, costs = (value.to(program.c).expand(shape) for value in (predicted, costs))
    return predicted, costs, program, None if best is None else best.to(program.c)


@torch.no_grad()
def _point(program: LinearProgram, costs: Tensor, solver: Solver | None, name: str) -> Tensor:
    """An optimal point, a constant.  # shape: (*batch, n)."""
    try:
        return solve(program.replace(c=costs.detach()), solver).primal
    except LPError as error:
        error.add_note(f"It was solved with the costs `{name}`; bounds on the variables of `program` keep it bounded.")
        raise
