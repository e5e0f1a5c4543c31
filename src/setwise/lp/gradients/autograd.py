"""Autograd functions: value, point and multipliers of a solution attached to the problem's tensors.

A solve pays only for what is differentiated: nothing is recorded in the forward pass. First derivatives are formulas.
With vectors x by the variables and l by the constraints,

    d sum l'(rows of the constraints at x, less their sides)  =  l'(dA x - db) + ...

gives that of the value for its point and multipliers; that of the point for l = -(K')^+ g, where g is the derivative by
the point and K are the active rows; that of the multipliers, with g by them, for x = -K^+ g. A matrix in CSR gets the
entries that it has, l_i x_j. K is factored in the first backward pass and kept for further ones. All else has its graph
made in the backward pass, on the saved tensors, by the equations of :mod:`setwise.lp.gradients`; under transforms of
``torch.func`` and ``torch.compile``, and for operators, in the forward pass.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.gradients import GRADIENTS, Gradient, ImplicitGradient, ValueGradient
from setwise.lp.gradients.active_set import ActiveSet, constraints, split
from setwise.lp.operator import entries, is_csr
from setwise.lp.problem import FIELDS, LinearProgram
from setwise.lp.solution import Duals, Solution

Derivatives = dict[str, Tensor]


def attach(problem: LinearProgram, solution: Solution, gradient: str | Gradient) -> Solution:
    """The solution with value, primal and dual attached to the problem's tensors."""
    if isinstance(gradient, str):
        _checks.one_of("gradient", gradient, GRADIENTS)
        gradient = GRADIENTS[gradient]()
    if not hasattr(gradient, "primal"):
        raise TypeError(
            f"Expected `gradient` to be a name or an object such as ImplicitGradient(), but got {gradient!r}."
        )
    kept, solution = solution, replace(solution, vertices=())
    # What an operator holds, and what transforms differentiate by, is reached only by a graph that is made now.
    at_once = not (problem.has_entries and _checks.values_are_readable())
    if not (torch.is_grad_enabled() and (at_once or problem.requires_grad)):
        return solution
    fields = [getattr(problem, name) for name in FIELDS]
    outputs = _Outputs(kept, gradient)
    function: type[torch.autograd.Function] = _Deferred

    def attached(part: Tensor, name: str) -> Tensor:
        if at_once:
            built = outputs.build(name, problem, twice=True)
            return part + (built - built.detach()).to(part.dtype)
        return cast("Tensor", function.apply(part, outputs, name, problem, *fields))

    value, dual = attached(solution.value, "value"), attached(torch.cat(solution.dual, -1), "dual")
    primal = solution.primal if isinstance(gradient, ValueGradient) else attached(solution.primal, "primal")
    return replace(solution, value=value, primal=primal, dual=split(problem, dual))


class _Outputs:
    """Value, primal and dual of a solution and their derivatives."""

    def __init__(self, solution: Solution, gradient: Gradient) -> None:
        self.solution, self.gradient = solution, gradient
        self.kept: ActiveSet | None = None

    def active(self, problem: LinearProgram) -> ActiveSet:
        """The active set, made when it is first asked for."""
        self.kept = self.kept or ActiveSet(problem, self.solution)
        return self.kept

    def build(self, name: str, problem: LinearProgram, *, twice: bool) -> Tensor:
        """An output with a graph to a program; ``twice`` if its derivative will be differentiated."""
        if name == "dual":
            return self.active(problem).attached_duals(problem, twice=twice)
        if name == "value":  # errors of point and multipliers enter as their product: one step each is enough
            active = self.active(problem)
            x, multipliers = (part(problem, twice=False) for part in (active.attached_primal, active.attached_duals))
            return torch.where(self.solution.optimal, _lagrangian(problem, x, multipliers), 0.0)
        if isinstance(self.gradient, ImplicitGradient):
            return self.active(problem).attached_primal(problem, twice=twice)
        return self.gradient.primal(problem, self.solution)

    def pull(self, name: str, problem: LinearProgram, grad: Tensor, wanted: Collection[str]) -> Derivatives | None:
        """Its first derivatives by the wanted fields, those that are not 0; None where only the graph gives them."""
        x, multipliers = self.solution.primal, torch.cat(self.solution.dual, -1)
        if name == "dual":
            x = -self.active(problem).solve(grad, False)
            return {"c": x} | _by_matrices(problem, split(problem, multipliers), x, wanted)
        result: Derivatives = {}
        if name == "value":
            grad = torch.where(self.solution.optimal, grad, 0.0)
            multipliers = multipliers * grad.unsqueeze(-1)
            result = {"c": x * grad.unsqueeze(-1), "offset": grad}
        elif isinstance(self.gradient, ImplicitGradient):
            multipliers = -self.active(problem).solve(grad, True)
        else:
            return None
        v, w, low, up = parts = split(problem, multipliers)
        return result | {"b": -v, "b_eq": -w, "lower": low, "upper": -up} | _by_matrices(problem, parts, x, wanted)


class _Deferred(torch.autograd.Function):
    """An output whose derivative is looked for in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, outputs: _Outputs, name: str, problem: LinearProgram, *fields: Tensor
    ) -> Tensor:
        ctx.outputs, ctx.name, ctx.problem = outputs, name, problem
        # Saved by autograd, so that in-place changes of the fields before backward are noticed.
        ctx.save_for_backward(*fields)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        fields = dict(zip(FIELDS, ctx.saved_tensors, strict=True))
        wanted = [name for name, want in zip(FIELDS, ctx.needs_input_grad[4:], strict=True) if want]
        # Inside backward the grad mode says whether the caller wants this derivative differentiated again.
        twice = torch.is_grad_enabled()
        result = None if twice else ctx.outputs.pull(ctx.name, ctx.problem.replace(**fields), grad, wanted)
        if result is None:
            result = _through_graph(ctx, fields, grad, wanted, twice=twice)
        return (*[None] * 4, *(_shaped(result.get(name), fields[name]) if name in wanted else None for name in FIELDS))


def _through_graph(ctx: Any, fields: Derivatives, grad: Tensor, wanted: list[str], *, twice: bool) -> Derivatives:
    """The derivatives by the graph of the output, themselves differentiable where that is asked for."""
    if not twice:
        # New leaves: the graph built now ends here instead of reaching into the caller's.
        fields = {name: part.detach().requires_grad_(name in wanted) for name, part in fields.items()}
    with torch.enable_grad():
        built = ctx.outputs.build(ctx.name, ctx.problem.replace(**fields), twice=twice)
        if not built.requires_grad:
            return {}
        inputs = [fields[name] for name in wanted]
        result = torch.autograd.grad(built, inputs, grad.to(built.dtype), create_graph=twice, allow_unused=True)
    return {name: part for name, part in zip(wanted, result, strict=True) if part is not None}


def _shaped(result: Tensor | None, field: Tensor) -> Tensor:
    """A derivative in the shape of its field, summed over what was broadcast; zeros where there is none."""
    if result is None:
        return torch.zeros_like(field)
    return result if result.layout != torch.strided else result.sum_to_size(field.shape).to(field.dtype)


def _by_matrices(problem: LinearProgram, multipliers: Duals, x: Tensor, wanted: Collection[str]) -> Derivatives:
    """Derivatives of l'(A x - b) + l'(A_eq x - b_eq) + ... by the matrices."""
    parts = {"A": multipliers.inequality, "A_eq": multipliers.equality}
    return {name: _outer(parts[name], x, getattr(problem, name)) for name in parts if name in wanted}


def _outer(v: Tensor, x: Tensor, matrix: Tensor) -> Tensor:
    """V x', summed over the batch where there is one matrix for all, with the sparsity of one in CSR."""
    x = x.to(v.dtype)
    if matrix.dim() > 2:
        return v.unsqueeze(-1) * x.unsqueeze(-2)
    count = v.shape[:-1].numel()  # there may be no rows, which leave no size to infer
    v, x = v.reshape(count, v.shape[-1]), x.reshape(count, x.shape[-1])
    if not is_csr(matrix):
        return v.mT @ x
    rows, columns, values = entries(matrix)
    values = torch.zeros_like(values)
    for k in range(count):
        values += v[k][rows] * x[k][columns]
    return torch.sparse_csr_tensor(matrix.crow_indices(), columns, values, matrix.shape)


def _lagrangian(problem: LinearProgram, x: Tensor, multipliers: Tensor) -> Tensor:
    """c'x + offset + v'(A x - b) + w'(A_eq x - b_eq) + l'(lower - x) + u'(x - upper).  # shape: (*batch,)."""
    residual = torch.cat(constraints(problem, x), -1)
    return (problem.c * x).sum(-1) + problem.offset + (multipliers * residual).sum(-1)
