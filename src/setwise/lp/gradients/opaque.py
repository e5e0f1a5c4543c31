"""Opaque operator: what is computed from a program's numbers, as one node of ``torch.func`` and ``torch.compile``.

A solver branches on values, so no transform can look into it. The operator ``setwise::lp`` runs such a task (a solve,
the inverse of the active rows) on plain tensors; its fake implementation gives the shapes, and its rule for ``vmap``
puts the mapped dimensions in front, where they are batch dimensions like all others: one call for the whole batch. It
has no derivative. The derivative is in the equations that are written around its results, see
:mod:`setwise.lp.gradients`. Tasks are numbered within a process, so that an exported graph is of no use in another one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.operator import is_csr, kind
from setwise.lp.problem import FIELDS, LinearProgram
from setwise.lp.solution import Duals, LPError, Solution

_OWN_DIMS = (1, 2, 1, 2, 1, 1, 1, 0)  # trailing dimensions of the fields, in their order; 1 of all other tensors


class Task(Protocol):
    """What the operator can run: settings, and a function of a program and tensors of its batch."""

    @property
    def run(self) -> Callable[..., list[Tensor]]:
        """A function of program and tensors to the results, with the batch as it is or in one dimension."""

    def sizes(self, n: int, rows: int) -> list[tuple[int, ...]]:
        """Trailing dimensions of the results; ``rows`` counts all constraints."""


_TASKS: dict[Hashable, Task] = {}  # an operator takes numbers and tensors alone, so tasks are known by their place here


def call(task: Callable[..., Task], settings: tuple[Any, ...], problem: LinearProgram, *points: Tensor) -> list[Tensor]:
    """The results of a task in float64, as constants: by the operator, or at once in eager mode.

    Args:
        task: The class of the task.
        settings: Arguments of its constructor.
        problem: The programs; under transforms dense ones.
        points: More tensors of the task.  # shape: (*batch, any) each
    """
    if _checks.values_are_readable():
        with torch.no_grad():
            return _shaped(task(*settings), problem, points)
    tensors = [part.detach() for part in (*(getattr(problem, name) for name in FIELDS), *points)]
    # As text: a float that has changed from one call to the next is a symbol to torch.compile, and no constant.
    texts = (part.hex() if isinstance(part, float) else part for part in settings)
    results: list[Tensor] = _lp(tensors, _place(task, *texts))
    return results


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _place(task: Callable[..., Task], *texts: Any) -> int:
    """The place of a task among all; those of equal settings are one, which keeps the dictionary small."""
    settings = [float.fromhex(part) if isinstance(part, str) else part for part in texts]
    key = (task, *(part if type(part).__hash__ else id(part) for part in settings))
    _TASKS.setdefault(key, task(*settings))
    return list(_TASKS).index(key)


def _shaped(task: Task, problem: LinearProgram, points: Sequence[Tensor]) -> list[Tensor]:
    sizes = task.sizes(problem.variables, problem.inequalities + problem.equalities + 2 * problem.variables)
    results = zip(task.run(problem, *points), sizes, strict=True)
    return [result.to(torch.float64).reshape(*problem.batch_shape, *size) for result, size in results]


@torch.library.custom_op("setwise::lp", mutates_args=(), schema="(Tensor[] tensors, int task) -> Tensor[]")
def _lp(tensors: Sequence[Tensor], task: int) -> list[Tensor]:
    problem = LinearProgram(**dict(zip(FIELDS, tensors, strict=False)))
    with torch.no_grad():
        results = _shaped(list(_TASKS.values())[task], problem, tensors[len(FIELDS) :])
    # The results of an operator share no memory, and are contiguous as the fake ones.
    return [result.clone(memory_format=torch.contiguous_format) for result in results]


@_lp.register_fake
def _(tensors: Sequence[Tensor], task: int) -> list[Tensor]:
    c, _, b, _, b_eq, *_ = tensors
    n = c.shape[-1]
    batches = (part.shape[: part.dim() - own] for part, own in zip(tensors, _OWN_DIMS, strict=False))
    sizes = list(_TASKS.values())[task].sizes(n, b.shape[-1] + b_eq.shape[-1] + 2 * n)
    batch = torch.broadcast_shapes(*batches)
    return [c.new_empty((*batch, *size), dtype=torch.float64) for size in sizes]


@_lp.register_vmap
def _(info: Any, in_dims: Any, tensors: Sequence[Tensor], task: int) -> tuple[list[Tensor], list[int]]:  # noqa: ARG001
    own = [*_OWN_DIMS, *(1 for _ in tensors[len(FIELDS) :])]
    parts = list(zip(tensors, in_dims[0], own, strict=True))
    batch_dims = max(part.dim() - (dim is not None) - own for part, dim, own in parts)

    def in_front(part: Tensor, dim: int | None, own: int) -> Tensor:
        if dim is None:  # the same for all, as in any batch
            return part
        part = part.movedim(dim, 0)
        return part.reshape(len(part), *(1 for _ in range(batch_dims + own + 1 - part.dim())), *part.shape[1:])

    results = _lp([in_front(*each) for each in parts], task)
    return results, [0] * len(results)


@dataclass(frozen=True)
class _Solve:
    """A solve: all of a solution but the name of the solver."""

    solver: Any
    max_steps: int | None
    tolerance: float
    throw: bool

    def sizes(self, n: int, rows: int) -> list[tuple[int, ...]]:
        return [(6,), (n,), (n,), (rows,), (rows,)]

    def run(self, problem: LinearProgram) -> list[Tensor]:
        run = getattr(self.solver, "run", self.solver)
        found: Solution = run(problem, max_steps=self.max_steps, tolerance=self.tolerance, start=None)
        if self.throw and not bool(found.optimal.all()):
            raise LPError(found)
        numbers = (found.value, found.primal_residual, found.dual_residual, found.gap, found.steps, found.codes())
        rows = [torch.cat(part, -1) for part in (found.dual, found.farkas)]
        return [torch.stack([number.to(torch.float64) for number in numbers], -1), found.primal, found.ray, *rows]


def solve(
    problem: LinearProgram, solver: Any, max_steps: int | None, tolerance: float, *, throw: bool
) -> tuple[LinearProgram, Solution]:
    """The program and its solution, under transforms; arguments as those of ``lp.solve``.

    The solver may be a function, called like a solver's method ``run``.
    """
    for name in ("A", "A_eq"):
        matrix = getattr(problem, name)
        if not isinstance(matrix, Tensor) or is_csr(matrix):  # functorch has no rules for CSR
            raise _checks.InputError(
                f"Expected `{name}` to be a dense tensor under torch.func and torch.compile, but got kind "
                f"{kind(matrix)}; make the program with a dense matrix, or solve it outside of the transform."
            )
    numbers, *vectors = call(_Solve, (solver, max_steps, float(tolerance), throw), problem)
    value, primal_residual, dual_residual, gap = numbers[..., :4].to(problem.dtype).unbind(-1)
    steps, codes = numbers[..., 4:].to(torch.int64).unbind(-1)
    x, ray, *rows = (part.to(problem.dtype) for part in vectors)
    n = problem.variables
    dual, farkas = (Duals(*part.split([problem.inequalities, problem.equalities, n, n], -1)) for part in rows)
    name = type(solver).__name__ if hasattr(solver, "run") else "default"
    return problem, Solution(value, x, dual, codes, primal_residual, dual_residual, gap, steps, farkas, ray, name)
