"""CVXPY: a parametrized linear program as a differentiable layer, called as the one of cvxpylayers.

A program written for cvxpylayers runs here after a change of the import::

    import cvxpy as cp
    from setwise.integrations.cvxpy import CvxpyLayer  # was: from cvxpylayers.torch import CvxpyLayer

    z, c, b = cp.Variable(3), cp.Parameter(3), cp.Parameter()
    problem = cp.Problem(cp.Minimize(c @ z), [cp.sum(z) == b, z >= 0, z <= 1])
    layer = CvxpyLayer(problem, parameters=[c, b], variables=[z])
    (solution,) = layer(cost, total)  # torch tensors of shapes (batch, 3) and (), say; solution: (batch, 3)
    solution.sum().backward()

CVXPY turns the problem once, when the layer is built, into min c'x s.t. A x + b in a cone, where every entry of A, b
and c is an affine function of the parameters (disciplined parametrized programming). The layer keeps these functions
as index and weight tensors, so a call is a gather, a solve by :func:`setwise.lp.solve` and another gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise._checks import InputError, extra, is_floating
from setwise.lp.layer import LPLayer
from setwise.lp.solution import Solution

if TYPE_CHECKING:
    from setwise.lp.gradients import Gradient
    from setwise.lp.solve import Solver

_CONES = {
    "soc": "second-order cones",
    "exp": "exponential cones",
    "psd": "semidefinite cones",
    "p3d": "power cones",
    "pnd": "power cones",
}
_Triples = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]  # target, source, weight of each term


class CvxpyLayer(nn.Module):
    """The optimal variables of a parametrized CVXPY linear program, as a function of its parameters.

    Rows that bound a single variable by something that depends on the parameters alone become bounds; an equality stays
    an equality. The gradient with respect to a symmetric parameter goes to its upper triangle, which is what CVXPY
    reads.

    Args:
        problem: A ``cvxpy.Problem``: linear (after CVXPY's transformations, so absolute values, maxima and norms 1 and
            infinity are fine), continuous, and disciplined in its parameters (``problem.is_dpp()``).
        parameters: All parameters of the problem, in the order of the tensors of a call.
        variables: The variables to return, in this order.
        solver: A solver of :mod:`setwise.lp`; None lets :func:`setwise.lp.solve` choose.
        gradient: How to differentiate, a name or an object, as in :func:`setwise.lp.solve`.
        tolerance: Largest residual and gap of a solution that counts as optimal.
        throw: Whether a program without an optimum raises :class:`setwise.lp.LPError`.
        warm_start: Whether a call starts from the solution of the call before, where the shapes agree.

    Raises:
        InputError: A problem of another kind, or parameters or variables that are not the problem's.
        ImportError: The extra ``cvxpy`` is not installed.
    """

    def __init__(
        self,
        problem: Any,
        parameters: Sequence[Any],
        variables: Sequence[Any],
        solver: Solver | None = None,
        *,
        gradient: str | Gradient = "implicit",
        tolerance: float = 1e-9,
        throw: bool = True,
        warm_start: bool = False,
    ) -> None:
        super().__init__()
        _check_problem(problem, parameters, variables)
        if isinstance(solver, str):
            raise TypeError(f"Expected `solver` to be None or a solver of setwise.lp, but got {solver!r}.")
        self.shapes = [tuple(parameter.shape) for parameter in parameters]
        self.program = LPLayer(solver, gradient=gradient, tolerance=tolerance, throw=throw, warm_start=warm_start)
        data, chain, _ = problem.get_problem_data("CLARABEL")
        canonical = data["param_prob"]
        _check_linear(canonical)
        sources = _parameter_places(parameters, canonical, chain)
        size = canonical.x.size
        cost = _cost(canonical, sources)
        rows = _Rows.read(canonical, sources)
        plain, lower, upper = _split_bounds(rows, size)
        self.c = _Affine(*cost, size=size)
        self.A, self.b = plain.side(size, plain.equal, plain.total, -1.0)  # A x + b >= 0 as (-A) x <= b
        self.A_eq, self.b_eq = plain.side(size, 0, plain.equal, 1.0)  # A x + b = 0 as A x = -b
        self.lower, self.upper = lower, upper
        self.returned = [tuple(variable.shape) for variable in variables]
        for k, variable in enumerate(variables):
            place = torch.as_tensor(_variable_places(variable, canonical, chain))
            self.register_buffer(f"place_{k}", place, persistent=False)

    @property
    def solution(self) -> Solution | None:
        """The solution of the canonical program in the last call, with its status; None before the first."""
        return self.program.solution

    def forward(self, *params: Tensor) -> tuple[Tensor, ...]:
        """Solve for the given parameters.

        Args:
            *params: A tensor for each parameter, in order: the parameter's shape after any batch dimensions, which
                broadcast; all float32 or all float64.

        Returns:
            A tensor for each variable, in order: its shape after the batch dimensions.

        Raises:
            InputError: A wrong number of tensors, or shapes that do not fit.
            LPError: A program has no optimum, and ``throw`` is set.
        """
        values = self._stack(params)  # shape: (*batch, all parameters + 1)
        size, batch = len(self.c.base), values.shape[:-1]
        A, A_eq = self.A(values), self.A_eq(values)
        z = self.program(
            self.c(values),
            A.unflatten(-1, (-1, size)) if A.shape[-1] else None,
            self.b(values) if A.shape[-1] else None,
            A_eq.unflatten(-1, (-1, size)) if A_eq.shape[-1] else None,
            self.b_eq(values) if A_eq.shape[-1] else None,
            self.lower(values),
            self.upper(values),
        ).expand(*batch, size)  # shape: (*batch, size)
        padded = nn.functional.pad(z, (0, 1))  # place `size` holds the zeros outside a variable's sparsity pattern
        places = (self.get_buffer(f"place_{k}") for k in range(len(self.returned)))
        return tuple(
            padded[..., place].reshape((*batch, *shape)) for place, shape in zip(places, self.returned, strict=True)
        )

    def _stack(self, params: tuple[Tensor, ...]) -> Tensor:
        """All parameters in one row, in their own order, with the constant 1 at the end."""
        if len(params) != len(self.shapes):
            raise InputError(f"Expected {len(self.shapes)} tensors, one per parameter, but got {len(params)}.")
        batches = []
        for k, (value, shape) in enumerate(zip(params, self.shapes, strict=True)):
            name = f"params[{k}]"
            is_floating(name, value)
            if value.dtype != params[0].dtype:
                raise TypeError(f"Expected `{name}` to be {params[0].dtype} as `params[0]`, but got {value.dtype}.")
            lead = value.dim() - len(shape)
            if lead < 0 or tuple(value.shape[lead:]) != shape:
                raise InputError(
                    f"Expected `{name}` to have the parameter's shape {shape} after any batch dimensions, "
                    f"but got {tuple(value.shape)}."
                )
            batches.append(value.shape[:lead])
        try:
            batch = torch.broadcast_shapes(*batches)
        except RuntimeError:
            told = ", ".join(str(tuple(b)) for b in batches)
            raise InputError(f"Expected the batch dimensions of `params` to broadcast, but got {told}.") from None
        like = params[0] if params else self.c.base
        flat = [x.reshape((*lead, -1)).expand((*batch, -1)) for x, lead in zip(params, batches, strict=True)]
        return torch.cat([*flat, like.new_ones(*batch, 1)], dim=-1)


class _Affine(nn.Module):
    """A vector whose entries are affine in the parameters: base + sum of weight * parameter.

    Nearly every entry depends on one number only, so the first term of each is a gather; the rest are added where
    there are any. A vector that depends on no parameter comes without batch dimensions.
    """

    base: Tensor  # shape: (size,)
    source: Tensor  # shape: (size,)
    weight: Tensor  # shape: (size,)
    more_target: Tensor
    more_source: Tensor
    more_weight: Tensor

    def __init__(
        self,
        target: NDArray[np.int64],
        source: NDArray[np.int64],
        weight: NDArray[np.float64],
        *,
        size: int,
        base: NDArray[np.float64] | None = None,
    ) -> None:
        super().__init__()
        constant = source < 0
        base = np.zeros(size) if base is None else base.copy()
        np.add.at(base, target[constant], weight[constant])
        target, source, weight = target[~constant], source[~constant], weight[~constant]
        self.parametric = bool(len(target))
        _, first = np.unique(target, return_index=True)
        more = np.ones(len(target), dtype=bool)
        more[first] = False
        sources, weights = np.zeros(size, dtype=np.int64), np.zeros(size)
        sources[target[first]], weights[target[first]] = source[first], weight[first]
        tensors = {
            "base": base,
            "source": sources,
            "weight": weights,
            "more_target": target[more],
            "more_source": source[more],
            "more_weight": weight[more],
        }
        for name, value in tensors.items():
            self.register_buffer(name, torch.as_tensor(value), persistent=False)

    def forward(self, values: Tensor) -> Tensor:
        """The vector for stacked parameters of shape (*batch, k); shape (*batch, size) or (size,)."""
        base = self.base.to(values)
        if not self.parametric:
            return base
        out = base + values.index_select(-1, self.source) * self.weight.to(values)
        if len(self.more_target):
            terms = values.index_select(-1, self.more_source) * self.more_weight.to(values)
            out = out.index_add(-1, self.more_target, terms)
        return out


class _Rows(NamedTuple):
    """Rows A x + b >= 0 (or = 0 for the first ones) as terms: row, column (``size`` for b), source, weight."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    source: NDArray[np.int64]
    weight: NDArray[np.float64]
    equal: int  # how many of the rows are equalities
    total: int  # how many rows

    @classmethod
    def read(cls, canonical: Any, sources: NDArray[np.int64]) -> _Rows:
        """The terms of CVXPY's map from the parameters to [A b], stacked by columns."""
        terms = canonical.A.tocoo()
        total = int(canonical.constr_size)
        keep = terms.data != 0
        place = terms.row[keep].astype(np.int64)
        source, weight = sources[terms.col[keep]], terms.data[keep].astype(np.float64)
        return cls(place % total, place // total, source, weight, int(canonical.cone_dims.zero), total)

    def keep(self, rows: NDArray[np.bool_]) -> _Rows:
        """Only some of the rows, numbered anew."""
        number = np.cumsum(rows) - 1
        kept = rows[self.row]
        equal = int(rows[: self.equal].sum())
        fields = (self.column[kept], self.source[kept], self.weight[kept])
        return _Rows(number[self.row[kept]], *fields, equal, int(rows.sum()))

    def side(self, size: int, start: int, stop: int, sign: float) -> tuple[_Affine, _Affine]:
        """Some of the rows as matrix, times the sign, and right side, times minus the sign."""
        inside = (self.row >= start) & (self.row < stop)
        row, column, source = self.row[inside] - start, self.column[inside], self.source[inside]
        weight = sign * self.weight[inside]
        right = column == size
        left = ~right
        A = _Affine(row[left] * size + column[left], source[left], weight[left], size=(stop - start) * size)
        return A, _Affine(row[right], source[right], -weight[right], size=stop - start)


def _split_bounds(rows: _Rows, size: int) -> tuple[_Rows, _Affine, _Affine]:
    """Take the rows a x_j + b >= 0 with a constant a out as bounds x_j >= -b/a (a > 0) or x_j <= -b/a (a < 0).

    A second bound of the same kind on a variable stays a row.
    """
    left = rows.column < size
    terms = np.bincount(rows.row[left], minlength=rows.total)
    free = np.bincount(rows.row[left & (rows.source >= 0)], minlength=rows.total) == 0
    single = (terms == 1) & free & (np.arange(rows.total) >= rows.equal)
    column, slope = np.zeros(rows.total, dtype=np.int64), np.ones(rows.total)
    column[rows.row[left]], slope[rows.row[left]] = rows.column[left], rows.weight[left]
    taken = np.zeros(rows.total, dtype=bool)
    bounds = []
    for sign in (1.0, -1.0):
        of_sign = np.flatnonzero(single & (np.sign(slope) == sign))
        _, first = np.unique(column[of_sign], return_index=True)
        chosen = np.zeros(rows.total, dtype=bool)
        chosen[of_sign[first]] = True
        base = np.full(size, -sign * np.inf)
        base[column[chosen]] = 0.0
        terms_of = ~left & chosen[rows.row]
        row = rows.row[terms_of]
        weight = -rows.weight[terms_of] / slope[row]
        bounds.append(_Affine(column[row], rows.source[terms_of], weight, size=size, base=base))
        taken |= chosen
    return rows.keep(~taken), bounds[0], bounds[1]


def _cost(canonical: Any, sources: NDArray[np.int64]) -> _Triples:
    """The terms of the cost; the last row of CVXPY's map is the constant of the objective, which moves no optimum."""
    terms = canonical.q.tocoo()
    inside = (terms.row < canonical.x.size) & (terms.data != 0)
    return terms.row[inside].astype(np.int64), sources[terms.col[inside]], terms.data[inside].astype(np.float64)


def _parameter_places(parameters: Sequence[Any], canonical: Any, chain: Any) -> NDArray[np.int64]:
    """For each column of CVXPY's maps, the place in the stacked tensors of a call; -1 for the constant column.

    CVXPY stacks by columns, torch by rows, and of a symmetric, diagonal or sparse parameter CVXPY keeps only a part.
    """
    lower_value = extra("cvxpy.reductions.cvx_attr2constr", "cvxpy").lower_value
    renamed = chain.compose_param_id_map()
    places = np.full(canonical.total_param_size + 1, -1, dtype=np.int64)
    start = 0
    for parameter in parameters:
        own = start + np.arange(parameter.size).reshape(parameter.shape)
        start += parameter.size
        kept = np.asarray(lower_value(parameter, own)).flatten(order="F")
        first = canonical.param_id_to_col.get(renamed.get(parameter.id, [parameter.id])[0])
        if first is not None:  # a parameter may drop out, as one that is multiplied by zero
            places[first : first + len(kept)] = kept
    return places


def _variable_places(variable: Any, canonical: Any, chain: Any) -> NDArray[np.int64]:
    """For each entry of a variable, in torch's order, its place in the canonical x; ``x.size`` for a constant zero."""
    recover = extra("cvxpy.reductions.cvx_attr2constr", "cvxpy").recover_value_for_leaf
    renamed = chain.compose_var_id_map().get(variable.id, [variable.id])[0]
    first = canonical.var_id_to_col[renamed]
    lowered = canonical.id_to_var[renamed]
    numbers = 1.0 + np.arange(lowered.size).reshape(lowered.shape, order="F")
    full = recover(variable, numbers, project=False)
    full = full.toarray() if hasattr(full, "toarray") else np.asarray(full)
    flat = full.reshape(-1).astype(np.int64)
    return np.asarray(np.where(flat > 0, first + flat - 1, canonical.x.size))


def _check_problem(problem: Any, parameters: Sequence[Any], variables: Sequence[Any]) -> None:
    """Refuse what is no problem of continuous variables, disciplined in just these parameters."""
    cp = extra("cvxpy", "cvxpy")
    if not isinstance(problem, cp.Problem):
        raise TypeError(f"Expected `problem` to be a cvxpy.Problem, but got {type(problem).__name__}.")
    for name, given in (("parameters", parameters), ("variables", variables)):
        if not isinstance(given, list | tuple):
            raise TypeError(f"Expected `{name}` to be a list or tuple, but got {type(given).__name__}.")
    if not problem.is_dcp():
        raise InputError("Expected `problem` to be a linear program, but it breaks CVXPY's rules of convexity.")
    if not problem.is_dpp():
        raise InputError(
            "Expected `problem` to be affine in its parameters (`problem.is_dpp()`), but it is not: a product of two "
            "parameters can be passed as one parameter."
        )
    if problem.is_mixed_integer():
        raise InputError("Expected `problem` to be a linear program, but it has integer or boolean variables.")
    own = {parameter.id: parameter for parameter in problem.parameters()}
    given_ids = [parameter.id for parameter in parameters]
    missing = [parameter.name() for key, parameter in own.items() if key not in given_ids]
    if missing or len(given_ids) != len(own) or set(given_ids) != set(own):
        told = f"it lacks {', '.join(missing)}" if missing else "some are repeated or belong to another problem"
        raise InputError(f"Expected `parameters` to be all parameters of `problem`, each once, but {told}.")
    known = {variable.id for variable in problem.variables()}
    strange = [str(variable) for variable in variables if variable.id not in known]
    if strange:
        raise InputError(f"Expected `variables` to be variables of `problem`, but it has no {', '.join(strange)}.")
    if any(leaf.is_complex() for leaf in (*problem.variables(), *problem.parameters())):
        raise InputError("Expected `problem` to be real, but it has complex variables or parameters.")


def _check_linear(canonical: Any) -> None:
    """Refuse what needs a quadratic term or a cone other than zero and the non-negative numbers."""
    found = ["a quadratic objective"] if canonical.P is not None and canonical.P.nnz else []
    dims = canonical.cone_dims
    found += sorted({name for key, name in _CONES.items() if getattr(dims, key, None)})
    if found:
        raise InputError(f"Expected `problem` to be a linear program, but it needs {' and '.join(found)}.")
