"""Differentiable optimization layer: data of a linear program in, optimal point out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from setwise import _checks
from setwise.lp.operator import Matrix
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Solution
from setwise.lp.solve import solve
from setwise.lp.solvers.hot_start import HotStart

if TYPE_CHECKING:
    from setwise.lp.gradients import Gradient
    from setwise.lp.solve import Solver


class LPLayer(nn.Module):
    """The optimal point of min c'z s.t. A z <= b, A_eq z = b_eq, lower <= z <= upper, with its gradient.

    The layer holds the settings of :func:`~setwise.lp.solve` and no parameters; every piece of data is an argument of
    the call, with leading batch dimensions that broadcast, and may require grad.

    With ``warm_start`` each call starts from the solution of the one before, as long as the shapes, dtype and device
    agree; otherwise it starts afresh. In training the program changes little from step to step, so this saves most of
    the work; the answer is the same to the tolerance. The last solution is not part of ``state_dict``: a loaded layer
    starts afresh.

    Args:
        solver: A solver such as ``Interior()`` or ``HiGHS()``; None lets :func:`~setwise.lp.solve` choose.
        gradient: How to differentiate, a name or an object, as in :func:`~setwise.lp.solve`.
        tolerance: Largest residual and gap of a solution that counts as optimal.
        max_steps: Largest number of steps of the solver; None for its own limit.
        throw: Whether a program without an optimum raises :class:`~setwise.lp.LPError`; otherwise look at
            ``layer.solution.status``.
        warm_start: Whether to start from the solution of the call before.

    Attributes:
        solution: The whole :class:`~setwise.lp.Solution` of the last call, None before the first and after one under
            a transform of ``torch.func`` or ``torch.compile``. It belongs to that call's graph;
            ``layer.solution.value`` can be differentiated too.

    Examples:
        >>> import torch
        >>> layer = LPLayer()
        >>> c, A = torch.tensor([-1.0, -2.0], dtype=torch.float64), torch.ones(1, 2, dtype=torch.float64)
        >>> b = torch.tensor([4.0], dtype=torch.float64, requires_grad=True)
        >>> z = layer(c, A, b, upper=3.0)
        >>> z
        tensor([1., 3.], dtype=torch.float64, ...)
        >>> z[0].backward()  # the second entry stands at its bound, so all of b goes to the first
        >>> b.grad
        tensor([1.], dtype=torch.float64)
    """

    def __init__(
        self,
        solver: Solver | None = None,
        *,
        gradient: str | Gradient = "implicit",
        tolerance: float = 1e-9,
        max_steps: int | None = None,
        throw: bool = True,
        warm_start: bool = False,
    ) -> None:
        super().__init__()
        _checks.in_range("tolerance", tolerance, 0, open_low=True)
        if max_steps is not None:
            _checks.is_count("max_steps", max_steps)
        self.solver = solver
        self.gradient = gradient
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.throw = throw
        self.warm_start = warm_start
        self.solution: Solution | None = None
        self._memory = HotStart()

    def forward(
        self,
        c: Tensor,
        A: Matrix | None = None,
        b: Tensor | None = None,
        A_eq: Matrix | None = None,
        b_eq: Tensor | None = None,
        lower: float | Tensor = 0.0,
        upper: float | Tensor = math.inf,
    ) -> Tensor:
        """Solve the programs and give their optimal points.

        Args:
            c: Cost, shape (*batch, n).
            A: Inequality matrix, shape (*batch, m, n), dense, CSR or an operator.
            b: Right-hand side of the inequalities, shape (*batch, m).
            A_eq: Equality matrix, shape (*batch, equalities, n).
            b_eq: Right-hand side of the equalities, shape (*batch, equalities).
            lower: Lower bounds, a number or shape (*batch, n).
            upper: Upper bounds, a number or shape (*batch, n).

        Returns:
            The optimal points, shape (*batch, n).

        Raises:
            LPError: A program has no optimum or none was found within the steps, and ``throw`` is set.
            InputError: Data that make no linear program, see :class:`~setwise.lp.LinearProgram`.
        """
        problem = LinearProgram(c, A, b, A_eq, b_eq, lower, upper)
        start = self.solution if self.warm_start and _fits(self.solution, problem) else None
        self.solution = None  # a call that raises must not leave the answer of an earlier one behind
        solution = solve(
            problem,
            self.solver,
            gradient=self.gradient,
            max_steps=self.max_steps,
            tolerance=self.tolerance,
            start=start,
            memory=self._memory if self.warm_start else None,
            throw=self.throw,
        )
        if _checks.values_are_readable():  # tensors of a transform have no meaning outside of it
            self.solution = solution
        return solution.primal

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles start afresh: the last solution hangs on its graph, which cannot be copied."""
        return self.__dict__ | {"solution": None, "_memory": HotStart()}

    def extra_repr(self) -> str:
        """The settings, for ``print(model)``."""
        return (
            f"solver={self.solver!r}, gradient={self.gradient!r}, tolerance={self.tolerance}, "
            f"max_steps={self.max_steps}, throw={self.throw}, warm_start={self.warm_start}"
        )


def _fits(solution: Solution | None, problem: LinearProgram) -> bool:
    """Whether an earlier solution can start a problem: the same batch, variables, rows, dtype and device."""
    return (
        solution is not None
        and solution.primal.shape == (*problem.batch_shape, problem.variables)
        and solution.dual.inequality.shape[-1] == problem.inequalities
        and solution.dual.equality.shape[-1] == problem.equalities
        and solution.primal.dtype == problem.dtype
        and solution.primal.device == problem.device
    )
