"""Solution of a batch: values, primal and dual points, and a status with its certificate for every element."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Status(enum.Enum):
    """Status of one program; the value says what it means and what to try."""

    OPTIMAL = "An optimal point was found; residuals and gap are within the tolerance."
    INFEASIBLE = (
        "No point meets all constraints: `farkas` combines them into a contradiction. "
        "Look at the rows where it is largest, and loosen one of them."
    )
    UNBOUNDED = (
        "The objective falls without end along `ray`. A bound or a row is missing, or a cost has the wrong sign."
    )
    ITERATION_LIMIT = (
        "The steps were used up before the tolerance was met. Raise `max_steps`, loosen `tolerance`, "
        "scale the rows and columns to a like size, or try solver=HiGHS()."
    )


_OPTIMAL = list(Status).index(Status.OPTIMAL)


class Duals(NamedTuple):
    """Multipliers of the constraints; at an optimum c + A' inequality + A_eq' equality - lower + upper = 0.

    All but those of the equalities are non-negative. The optimal value changes by -inequality with b, by -equality with
    b_eq, by lower with the lower and by -upper with the upper bounds.
    """

    inequality: Tensor  # shape: (*batch, m)
    equality: Tensor  # shape: (*batch, equalities)
    lower: Tensor  # shape: (*batch, n)
    upper: Tensor  # shape: (*batch, n)


class Vertex(NamedTuple):
    """The active rows of a vertex with their inverse, kept from the forward pass for the backward pass."""

    rows: NDArray[np.intp]  # places among the rows of all constraints, shape: (n,)
    K: NDArray[np.float64]  # shape: (n, n)
    inverse: NDArray[np.float64]  # shape: (n, n)


@dataclass(frozen=True, eq=False)
class Solution:
    """The outcome for a batch of programs.

    Attributes:
        value: The optimal value; inf where infeasible, -inf where unbounded.  # shape: (*batch,)
        primal: The optimal point; where there is none, the last iterate.  # shape: (*batch, n)
        dual: The multipliers.
        status: A :class:`Status`, or an array of them for a batch, so that ``status[k]`` is that of element k. Under
            transforms of ``torch.func`` and ``torch.compile``, the tensor that :meth:`codes` gives.
        primal_residual: Largest violation of a constraint, each relative to its own row's terms (see
            :mod:`setwise.lp.solvers.verifier`).  # shape: (*batch,)
        dual_residual: Largest entry of the stationarity condition, each relative to its own column's terms.
            # shape: (*batch,)
        gap: |primal - dual objective|, and what the dual residual may cost, relative to |c|'|z|.  # shape: (*batch,)
        steps: Factorizations (or the solver's own iterations) spent.  # shape: (*batch,)
        farkas: Where infeasible: multipliers y >= 0 with A'y_A + A_eq'y_eq - y_lower + y_upper = 0 and
            b'y_A + b_eq'y_eq - lower'y_lower + upper'y_upper = -1; zeros elsewhere.
        ray: Where unbounded: a direction d that keeps every constraint with c'd = -1; zeros elsewhere.
            # shape: (*batch, n)
        solver: Which solver it was.
        vertices: For the backward pass, where the solver kept them; :func:`~setwise.lp.solve` takes them off.
    """

    value: Tensor
    primal: Tensor
    dual: Duals
    status: Status | NDArray[Any] | Tensor
    primal_residual: Tensor
    dual_residual: Tensor
    gap: Tensor
    steps: Tensor
    farkas: Duals
    ray: Tensor
    solver: str
    vertices: Sequence[Vertex] = ()

    @property
    def optimal(self) -> Tensor:
        """Where an optimum was found, as booleans.  # shape: (*batch,)."""
        if isinstance(self.status, Tensor):
            return self.status == _OPTIMAL
        if isinstance(self.status, Status):
            return torch.tensor(self.status is Status.OPTIMAL, device=self.value.device)
        return torch.as_tensor(self.status == Status.OPTIMAL, device=self.value.device)

    def codes(self) -> Tensor:
        """The statuses as int64: 0 for the first member of :class:`Status`, and so on.  # shape: (*batch,)."""
        if isinstance(self.status, Tensor):
            return self.status
        codes = np.vectorize(list(Status).index, otypes=[np.int64])(np.asarray(self.status, dtype=object))
        return torch.as_tensor(codes, device=self.value.device)

    def __repr__(self) -> str:
        if isinstance(self.status, Tensor):
            return f"Solution(value={self.value!r}, solver={self.solver})"
        if isinstance(self.status, Status):
            summary = f"{self.status.name}, value={self.value.item():.6g}"
        else:
            names, counts = np.unique([status.name for status in self.status.flat], return_counts=True)
            summary = ", ".join(f"{count} {name}" for name, count in zip(names, counts, strict=True))
        return f"Solution({summary}, solver={self.solver})"


def with_status(
    solution: Solution, where: Tensor, status: Status, *, farkas: Duals | None = None, ray: Tensor | None = None
) -> Solution:
    """The solution with another end at some elements, and its proof there.

    Args:
        solution: Of a batch.
        where: Which elements, booleans.  # shape: (*batch,)
        status: ``INFEASIBLE`` or ``UNBOUNDED``.
        farkas: Multipliers that prove the first; zeros where this is another end.
        ray: A direction that proves the second.  # shape: (*batch, n)
    """
    here = where.unsqueeze(-1)
    proof, direction = solution.farkas, solution.ray
    # Enum members are no numbers: an object array, or the member itself for one program.
    statuses = np.where(where.cpu().numpy(), np.array(status, dtype=object), np.asarray(solution.status, dtype=object))
    return replace(
        solution,
        value=torch.where(where, torch.inf if status is Status.INFEASIBLE else -torch.inf, solution.value),
        status=statuses if statuses.ndim else statuses.item(),
        farkas=Duals(*(torch.where(here, 0.0 if farkas is None else farkas[k], part) for k, part in enumerate(proof))),
        ray=torch.where(here, 0.0 if ray is None else ray.to(direction), direction),
        vertices=(),
    )


def _fieldwise(function: Callable[..., Tensor], *solutions: Solution) -> dict[str, Any]:
    """A function of tensors of shape (*batch, size), applied to every field but status; numbers have size 1."""
    fields: dict[str, Any] = {"vertices": ()}
    for name in ("value", "primal_residual", "dual_residual", "gap", "steps"):
        fields[name] = function(*(getattr(each, name).unsqueeze(-1) for each in solutions)).squeeze(-1)
    for name in ("primal", "ray"):
        fields[name] = function(*(getattr(each, name) for each in solutions))
    for name in ("dual", "farkas"):
        fields[name] = Duals(*map(function, *(getattr(each, name) for each in solutions)))
    return fields


def merge(parts: Sequence[tuple[Tensor, Solution]], batch: torch.Size) -> Solution:
    """One solution from those of parts of a batch.

    Args:
        parts: Places in the batch, counted through, and the solution there, of shape (places,) or of one program.
        batch: The shape of the whole.
    """
    order = torch.cat([places for places, _ in parts]).argsort()

    def joined(*result: Tensor) -> Tensor:  # shape: (*places or none, size) each
        rows = [part.reshape(len(places), part.shape[-1]) for part, (places, _) in zip(result, parts, strict=True)]
        return torch.cat(rows)[order].reshape(*batch, rows[0].shape[-1])

    solutions = [solution for _, solution in parts]
    statuses = np.concatenate([np.atleast_1d(np.asarray(each.status, dtype=object)) for each in solutions])
    status = statuses[order.cpu().numpy()].reshape(tuple(batch))
    return replace(solutions[0], **_fieldwise(joined, *solutions), status=status)


def to_dtype(solution: Solution, dtype: torch.dtype) -> Solution:
    """The solution rounded to a dtype; its statuses are those found before."""
    if solution.value.dtype == dtype:
        return solution
    rounded = _fieldwise(lambda part: part.to(dtype), solution) | {"steps": solution.steps}
    return replace(solution, **rounded)


def with_parts(solution: Solution, places: Tensor, part: Solution) -> Solution:
    """A solution in which that of some elements is another one.

    Args:
        solution: Of a batch, or of one program.
        places: The elements, counted through the batch.  # shape: (places,)
        part: Their solution, of shape (places,) or of one program.
    """
    batch = solution.value.shape

    def put(mine: Tensor, theirs: Tensor) -> Tensor:
        changed = mine.reshape(batch.numel(), mine.shape[-1]).clone()
        changed[places] = theirs.reshape(len(places), mine.shape[-1]).to(mine)
        return changed.reshape(mine.shape)

    statuses = np.asarray(solution.status, dtype=object).reshape(-1).copy()
    statuses[places.cpu().numpy()] = np.asarray(part.status, dtype=object).reshape(-1)
    status = statuses.reshape(tuple(batch)) if batch else statuses.item()
    return replace(solution, **_fieldwise(put, solution, part), status=status)


class LPError(RuntimeError):
    """Some programs of a batch have no optimum; ``solution`` holds all that is known.

    Attributes:
        solution: The whole outcome, the good elements included.
    """

    def __init__(self, solution: Solution) -> None:
        self.solution = solution
        statuses = np.asarray(solution.status, dtype=object)
        lines = []
        for status in Status:
            places = [tuple(map(int, place)) for place in np.argwhere(statuses == status)]
            if status is Status.OPTIMAL or not places:
                continue
            shown = ", ".join(str(p[0] if len(p) == 1 else p) for p in places[:8]) + (
                ", ..." if len(places) > 8 else ""
            )
            where = f"Element {shown} of the batch" if statuses.ndim else "The program"
            lines.append(f"{where}: {status.name}. {status.value}")
        super().__init__(" ".join(lines) + " Pass throw=False to get the solution with its status instead.")
