"""Linear minimization oracles: the feasible set as a function from costs to a minimizer.

Decision-focused losses never look at the constraints. All they need of a feasible set Z is z(c) in argmin c'z over Z,
so a combinatorial solver (dynamic programming, mixed-integer, ...) serves them as well as a linear program:

    oracle(costs of shape (count, n)) -> minimizers of shape (count, n)

It must minimize for any costs: those that the losses ask for are in part negative, even where true costs never are.
Nobody can prove from outside that a point is optimal. But every loss compares two points of Z on the same costs, and
where the oracle's own point is the dearer one, it is no minimizer: that is checked in every call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise import _checks
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import LPError
from setwise.lp.solve import optimal_points
from setwise.lp.solvers.hot_start import HotStart

if TYPE_CHECKING:
    from setwise.lp.solve import Solver

Oracle: TypeAlias = Callable[[Tensor], Tensor | NDArray[Any]]
"""Costs of shape (count, n) to a minimizer for each row, a tensor or array of shape (count, n).

It is called without a graph, once per batch, with a copy of the costs on the device of the predictions, in float32 or
float64. What it returns may be of any real dtype and on any device. A batch of none is not passed on. To maximize, turn
the sign of the costs: ``lambda costs: best_profit(-costs)``, and predict minus the profits.
"""

# Mixed-integer solvers stop at a relative gap of 1e-4 by default, and float32 sums lose 1e-6: neither is a mistake.
DEARER = 1e-3


def check_feasible_set(name: str, value: object, solver: Solver | None) -> None:
    """Refuse what is neither a program nor an oracle, and a solver beside an oracle."""
    if isinstance(value, LinearProgram):
        return
    if not callable(value):
        raise TypeError(
            f"Expected `{name}` to be a LinearProgram or an oracle, a function from costs of shape (count, n) to "
            f"minimizers of that shape, but got {type(value).__name__}."
        )
    if solver is not None:
        raise _checks.InputError(f"Expected `solver` to be None where `{name}` is an oracle, but got {solver!r}.")


def read(
    program: LinearProgram | Oracle, solver: Solver | None, given: dict[str, Tensor]
) -> tuple[LinearProgram | Oracle, list[Tensor]]:
    """Check the tensors of a call and bring them to one shape, dtype and device.

    Args:
        program: A program, whose own costs are dropped, or an oracle.
        solver: As given.
        given: By name, the predictions first.  # shape: (*batch, n)

    Returns:
        The program on the device of the predictions, and the tensors of shape (*batch, n) in the program's dtype; for
        an oracle, in the widest of their dtypes and float32.
    """
    check_feasible_set("program", program, solver)
    for name, value in given.items():
        _checks.is_floating(name, value)
    predicted = next(iter(given.values()))
    if isinstance(program, LinearProgram):
        n, each, dtype = program.variables, "one entry per variable of `program`", program.dtype
        if program.device != predicted.device:
            program = program.to(device=predicted.device)
        program = program.replace(c=program.c.new_zeros(n), offset=program.c.new_zeros(()))
    else:
        n, each, dtype = (predicted.shape or (1,))[-1], "as many entries as `predicted`", torch.float32
        for value in given.values():
            dtype = torch.promote_types(dtype, value.dtype)
    for name, value in given.items():
        if value.dim() == 0 or value.shape[-1] != n:
            raise _checks.InputError(
                f"Expected `{name}` to have shape (*batch, {n}), {each}, but got {tuple(value.shape)}."
            )
        if _checks.values_are_readable():
            _checks.all_finite(name, value)
    try:
        shape = predicted.shape
        if any(value.shape != shape for value in given.values()):
            shape = torch.broadcast_shapes(*(value.shape for value in given.values()))
    except RuntimeError as error:
        shapes = ", ".join(f"`{name}` {tuple(value.shape)}" for name, value in given.items())
        raise _checks.InputError(f"Expected shapes that broadcast, but got {shapes}.") from error
    return program, [value.to(device=predicted.device, dtype=dtype).expand(shape) for value in given.values()]


@torch.no_grad()
def minimizers(
    program: LinearProgram | Oracle, costs: Tensor, solver: Solver | None, name: str, memory: HotStart | None = None
) -> Tensor:
    """A minimizer for each cost vector, a constant.

    Args:
        program: A program or an oracle.
        costs: In the dtype and on the device of the result.  # shape: (*batch, n)
        solver: For a program.
        name: What the costs are, for errors.
        memory: What the solver keeps between calls.

    Returns:
        The minimizers.  # shape: (*batch, n)
    """
    costs = costs.detach()
    try:
        if isinstance(program, LinearProgram):
            return optimal_points(program.replace(c=costs), solver, memory)
        if costs.numel() == 0:
            return costs.clone()
        # A copy, since an oracle that works in place must not change the costs of the caller.
        rows = costs.reshape(-1, costs.shape[-1]).clone()
        return _read_answer(program(rows), costs).reshape(costs.shape)
    except LPError as error:
        error.add_note(f"It was solved with the costs `{name}`; bounds on the variables of `program` keep it bounded.")
        raise
    except Exception as error:
        error.add_note(f"It was raised by, or for, the oracle's answer to the costs `{name}`.")
        raise


def _read_answer(answer: object, costs: Tensor) -> Tensor:
    """What an oracle returned, in the dtype and on the device of the costs.  # shape: (count, n)."""
    n = costs.shape[-1]
    expected = (costs.numel() // n, n)
    if isinstance(answer, np.ndarray) and answer.dtype.kind in "biuf":
        answer = torch.from_numpy(np.ascontiguousarray(answer))
    if not isinstance(answer, Tensor) or answer.is_complex():
        what = f"dtype {answer.dtype}" if isinstance(answer, Tensor | np.ndarray) else type(answer).__name__
        raise TypeError(
            f"Expected `oracle(costs)` to be a real tensor or NumPy array of shape {expected}, but got {what}; "
            "np.stack or torch.stack makes one of a list of rows."
        )
    if answer.shape != expected:
        raise _checks.InputError(
            f"Expected `oracle(costs)` to have the shape of the costs, {expected}, but got {tuple(answer.shape)}. An "
            "oracle gets a batch; a solver of one program becomes one by "
            "`lambda costs: torch.stack([solve_one(c) for c in costs])`."
        )
    _checks.all_finite("oracle(costs)", answer)
    return answer.detach().to(costs.dtype).to(costs.device)  # in this order: some devices have no float64


@torch.no_grad()
def check_not_beaten(
    program: LinearProgram | Oracle, costs: Tensor, points: Tensor, other: Tensor, *, costs_name: str, other_name: str
) -> None:
    """Refuse points that cost more than other feasible ones, which no minimizer does.

    A program's points are proven optimal by its solver, so there the other one cannot be feasible.

    Args:
        program: What the points minimize over.
        costs: By which.  # shape: (*batch, n)
        points: Said to be minimizers.  # shape: (*batch, n)
        other: Feasible points.  # shape: broadcasts with (*batch, n)
        costs_name: What the costs are.
        other_name: What the other points are.
    """
    if not _checks.values_are_readable():
        return
    dearer = (costs * (points - other)).sum(-1)
    terms = (costs * points).abs().sum(-1) + (costs * other).abs().sum(-1)
    bad = dearer > DEARER * terms
    if not bool(bad.any()):
        return
    found = f"on {int(bad.sum())} of {bad.numel()} cost vectors `{costs_name}`, by up to {float(dearer.max()):.3g}"
    if isinstance(program, LinearProgram):
        raise _checks.InputError(
            f"Expected {other_name} to be feasible for `program`, but it costs less than the optimum {found}."
        )
    raise _checks.InputError(
        f"Expected `oracle(costs)` to return minimizers, but {other_name} costs less than its answer {found}. One that "
        "maximizes takes `-costs`; one for costs that are not negative, such as Dijkstra's algorithm, does not serve. "
        f"If the oracle is right, {other_name} is not feasible."
    )
