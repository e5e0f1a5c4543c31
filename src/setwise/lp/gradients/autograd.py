"""Autograd functions: value, point and multipliers of a solution attached to the problem's tensors.

A solve pays only for what is differentiated: nothing is recorded in the forward pass. A first derivative of the value
or of the point is a formula. With multipliers l of the constraints (inequalities, equalities, lower, upper bounds),

    d sum l'(rows of the constraints at x, less their sides)  =  l'(dA x - db) + ...

gives that of the value for l = its duals, and that of the point for l = -(K')^-1 g, where g is the derivative by the
point and K are the active rows. A solver may hand on their factorization (``Solution.factor``: one small program does);
otherwise it is made once more here. All else has its graph made in the backward pass, on the saved tensors, by the
equations of :mod:`setwise.lp.gradients`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.gradients import GRADIENTS, Gradient, ImplicitGradient, ValueGradient
from setwise.lp.gradients.active_set import ActiveSet, constraints
from setwise.lp.problem import FIELDS, LinearProgram
from setwise.lp.solution import Duals, Solution


def attach(problem: LinearProgram, solution: Solution, gradient: str | Gradient) -> Solution:
    """The solution with value, primal and dual attached to the problem's tensors."""
    if isinstance(gradient, str):
        _checks.one_of("gradient", gradient, GRADIENTS)
        gradient = GRADIENTS[gradient]()
    if not hasattr(gradient, "primal"):
        raise TypeError(
            f"Expected `gradient` to be a name or an object such as ImplicitGradient(), but got {gradient!r}."
        )
    fields = [getattr(problem, name) for name in FIELDS]
    operators = not all(isinstance(part, Tensor) for part in fields)
    # Without a graph to build, the factorization would only hold memory.
    if not (torch.is_grad_enabled() and (operators or problem.requires_grad)):
        return replace(solution, factor=None)
    function: type[torch.autograd.Function] = _Deferred

    def attached(part: Tensor, output: _Output) -> Tensor:
        if operators:  # what an operator holds is reached only by a graph that is made now
            built = output.build(problem, twice=True)
            return part + (built - built.detach()).to(part.dtype)
        return cast("Tensor", function.apply(part, output, problem, *fields))

    value = attached(solution.value, _Value(solution))
    point = solution.primal
    if not isinstance(gradient, ValueGradient):
        point = attached(point, _Primal(solution, gradient))
    duals = attached(torch.cat(solution.dual, -1), _Dual(solution))
    sizes = [part.shape[-1] for part in solution.dual]
    return replace(solution, value=value, primal=point, dual=Duals(*duals.split(sizes, -1)), factor=None)


@dataclass(frozen=True)
class _Output:
    solution: Solution

    def build(self, problem: LinearProgram, *, twice: bool) -> Tensor:
        """The output with a graph to a program; ``twice`` if its derivative will be differentiated."""
        raise NotImplementedError

    def pull(self, problem: LinearProgram, grad: Tensor, wanted: Collection[str]) -> dict[str, Tensor] | None:  # noqa: ARG002
        """Its first derivatives by the wanted fields, those that are not 0; None where only the graph gives them."""
        return None


@dataclass(frozen=True)
class _Value(_Output):
    def build(self, problem: LinearProgram, *, twice: bool) -> Tensor:
        x, duals = self.solution.primal, self.solution.dual
        if twice:
            basis = ActiveSet.of(problem, self.solution)
            x, duals = basis.attached_primal(), basis.attached_duals()
        return torch.where(self.solution.optimal, _lagrangian(problem, x, duals), 0.0)

    def pull(self, problem: LinearProgram, grad: Tensor, wanted: Collection[str]) -> dict[str, Tensor] | None:
        if not problem.is_dense:
            return None
        grad = torch.where(self.solution.optimal, grad, 0.0)
        weight = grad.unsqueeze(-1)
        result = _by_data(problem, self.solution, Duals(*(weight * part for part in self.solution.dual)), wanted)
        return result | {"c": weight * self.solution.primal, "offset": grad}


@dataclass(frozen=True)
class _Primal(_Output):
    gradient: Gradient

    def build(self, problem: LinearProgram, *, twice: bool) -> Tensor:  # noqa: ARG002 (the same either way)
        return self.gradient.primal(problem, self.solution)

    def pull(self, problem: LinearProgram, grad: Tensor, wanted: Collection[str]) -> dict[str, Tensor] | None:
        if not (isinstance(self.gradient, ImplicitGradient) and problem.is_dense):
            return None
        factor = self.solution.factor or ActiveSet.of(problem, self.solution)
        return _by_data(problem, self.solution, Duals(*(-part for part in factor.by_columns(grad))), wanted)


@dataclass(frozen=True)
class _Dual(_Output):
    def build(self, problem: LinearProgram, *, twice: bool) -> Tensor:  # noqa: ARG002
        return torch.cat(ActiveSet.of(problem, self.solution).attached_duals(), -1)


class _Deferred(torch.autograd.Function):
    """An output whose derivative is looked for in the backward pass."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, output: _Output, problem: LinearProgram, *fields: Tensor) -> Tensor:
        ctx.output, ctx.problem = output, problem
        # Saved by autograd, so that in-place changes of the fields before backward are noticed.
        ctx.save_for_backward(*fields)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        fields = dict(zip(FIELDS, ctx.saved_tensors, strict=True))
        wanted = [name for name, want in zip(FIELDS, ctx.needs_input_grad[3:], strict=True) if want]
        result = None
        if not torch.is_grad_enabled():
            result = ctx.output.pull(ctx.problem.replace(**fields), grad, wanted)
        if result is None:
            result = _through_graph(ctx.output, ctx.problem, fields, grad, wanted)
        return (
            None,
            None,
            None,
            *(_shaped(result.get(name), fields[name]) if name in wanted else None for name in FIELDS),
        )


def _through_graph(
    output: _Output, problem: LinearProgram, fields: dict[str, Tensor], grad: Tensor, wanted: list[str]
) -> dict[str, Tensor]:
    """The derivatives by the graph of the output, themselves differentiable where that is asked for."""
    # Inside backward the grad mode says whether the caller wants this derivative differentiated again.
    twice = torch.is_grad_enabled()
    if not twice:
        # New leaves: the graph built now ends here instead of reaching into the caller's.
        fields = {name: part.detach().requires_grad_(name in wanted) for name, part in fields.items()}
    with torch.enable_grad():
        built = output.build(problem.replace(**fields), twice=twice)
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


def _by_data(
    problem: LinearProgram, solution: Solution, multipliers: Duals, wanted: Collection[str]
) -> dict[str, Tensor]:
    """Derivatives of l'(A x - b) + l'(A_eq x - b_eq) + l'(lower - x) + l'(x - upper) by the data, x and l constant."""
    result = {
        "b": -multipliers.inequality,
        "b_eq": -multipliers.equality,
        "lower": multipliers.lower,
        "upper": -multipliers.upper,
    }
    for name, part in (("A", multipliers.inequality), ("A_eq", multipliers.equality)):
        if name in wanted:
            result[name] = _outer(part, solution.primal, shared=getattr(problem, name).dim() == 2)
    return result


def _outer(v: Tensor, x: Tensor, *, shared: bool) -> Tensor:
    """V x', summed over the batch where there is one matrix for all.  # shape: (*batch, m, n) or (m, n)."""
    x = x.to(v.dtype)
    if shared:
        count = v.shape[:-1].numel()  # there may be no rows, which leave no size to infer
        return v.reshape(count, v.shape[-1]).mT @ x.reshape(count, x.shape[-1])
    return v.unsqueeze(-1) * x.unsqueeze(-2)


def _lagrangian(problem: LinearProgram, x: Tensor, duals: Duals) -> Tensor:
    """c'x + offset + v'(A x - b) + w'(A_eq x - b_eq) + l'(lower - x) + u'(x - upper).  # shape: (*batch,)."""
    rows, equalities, lower, upper = constraints(problem, x)
    total = (problem.c * x).sum(-1) + problem.offset
    for multiplier, residual in zip(duals, (rows, equalities, lower, upper), strict=True):
        total = total + (multiplier * residual).sum(-1)
    return total
