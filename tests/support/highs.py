"""The oracle for linear programs: HiGHS's simplex method on one program, sharing no code with the package's solvers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import highspy
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from setwise.lp import LinearProgram

_STATUS = {
    highspy.HighsModelStatus.kOptimal: "optimal",
    highspy.HighsModelStatus.kInfeasible: "infeasible",
    highspy.HighsModelStatus.kUnbounded: "unbounded",
    highspy.HighsModelStatus.kUnboundedOrInfeasible: "unbounded_or_infeasible",
}


class HighsResult(NamedTuple):
    """What HiGHS says of one program; tensors in float64 on the CPU, NaN unless the status is "optimal".

    Duals belong to the Lagrangian c'z + v'(A z - b) + w'(A_eq z - b_eq): v >= 0, and the derivatives of the optimal
    value are -v in b and -w in b_eq.
    """

    status: str
    value: float
    primal: Tensor  # shape: (n,)
    dual_inequality: Tensor  # shape: (m,)
    dual_equality: Tensor  # shape: (equalities,)


# Tried one after the other until HiGHS is sure; 4 is its primal simplex method.
_ATTEMPTS: tuple[dict[str, int | str], ...] = (
    {"presolve": "on"},
    {"presolve": "off"},
    {"presolve": "off", "simplex_strategy": 4},
)


def highs_solve(problem: LinearProgram, *, tolerance: float = 1e-10) -> HighsResult:
    """Solve one program without batch dimensions whose matrices are dense or CSR.

    ``tolerance`` bounds primal and dual infeasibility (HiGHS's least is 1e-10). "unbounded_or_infeasible" is left only
    where no variant of the simplex method can tell which; anything less than these four statuses is a RuntimeError.
    """
    if problem.batch_shape:
        message = f"Expected a single program, but got a batch of shape {tuple(problem.batch_shape)}."
        raise ValueError(message)
    model = _model(problem)
    unclear = None
    for attempt in _ATTEMPTS:
        solver = _solver(model, tolerance, attempt)
        status = _STATUS.get(solver.getModelStatus())
        if status in ("optimal", "infeasible", "unbounded"):
            return _result(solver, status, problem)
        unclear = unclear or status
    if unclear is None:
        message = f"HiGHS ended with: {solver.modelStatusToString(solver.getModelStatus())}."
        raise RuntimeError(message)
    return _result(solver, unclear, problem)


def _solver(model: Any, tolerance: float, attempt: dict[str, int | str]) -> Any:
    """HiGHS after its run on the model."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    options: dict[str, bool | int | float | str] = {
        "output_flag": False,
        "threads": 1,
        "solver": "simplex",
        "primal_feasibility_tolerance": tolerance,
        "dual_feasibility_tolerance": tolerance,
    }
    if np.any(np.abs(model.a_matrix_.value_) < 1e-9):
        options["small_matrix_value"] = 1e-12  # HiGHS would drop such entries
    for name, value in (options | attempt).items():
        if solver.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            message = f"HiGHS refuses the option {name} = {value}."
            raise ValueError(message)
    if solver.passModel(model) == highspy.HighsStatus.kError:
        message = "HiGHS refuses the program: are there numbers beyond 1e15?"
        raise RuntimeError(message)
    solver.run()
    return solver


def _model(problem: LinearProgram) -> Any:
    starts, index, value = _rows(problem.A)
    starts_eq, index_eq, value_eq = _rows(problem.A_eq)
    b, b_eq = _numpy(problem.b), _numpy(problem.b_eq)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = problem.variables, len(b) + len(b_eq)
    model.col_cost_ = _numpy(problem.c)
    model.col_lower_, model.col_upper_ = _numpy(problem.lower), _numpy(problem.upper)
    model.row_lower_ = np.concatenate([np.full(len(b), -highspy.kHighsInf), b_eq])
    model.row_upper_ = np.concatenate([b, b_eq])
    model.offset_ = float(problem.offset)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.num_col_, model.a_matrix_.num_row_ = model.num_col_, model.num_row_
    model.a_matrix_.start_ = np.concatenate([starts, starts[-1] + starts_eq[1:]])
    model.a_matrix_.index_ = np.concatenate([index, index_eq])
    model.a_matrix_.value_ = np.concatenate([value, value_eq])
    return model


def _rows(matrix: object) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """The nonzeros of a matrix by rows: where each row starts, columns and values."""
    if not isinstance(matrix, Tensor):
        message = f"Expected a dense or CSR matrix, but got {type(matrix).__name__}; call `dense()` first."
        raise TypeError(message)
    array = _numpy(matrix.detach().to_dense() if matrix.layout == torch.sparse_csr else matrix)
    row, column = np.nonzero(array)
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=array.shape[0]))])
    return starts.astype(np.int32), column.astype(np.int32), array[row, column]


def _numpy(tensor: Tensor) -> NDArray[np.float64]:
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=np.float64)


def _result(solver: Any, status: str, problem: LinearProgram) -> HighsResult:
    m, equalities, n = problem.inequalities, problem.equalities, problem.variables
    if status != "optimal":
        nan = [torch.full((size,), torch.nan, dtype=torch.float64) for size in (n, m, equalities)]
        return HighsResult(status, float("nan"), *nan)
    solution = solver.getSolution()
    # HiGHS's row duals are the derivatives of the value in the right-hand side: minus ours.
    dual = -torch.tensor(list(solution.row_dual), dtype=torch.float64)
    primal = torch.tensor(list(solution.col_value), dtype=torch.float64)
    return HighsResult(status, float(solver.getInfo().objective_function_value), primal, dual[:m], dual[m:])
