"""Models of HiGHS: a matrix by its entries, programs over it, and one HiGHS object that solves them in turn."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise import _checks
from setwise.lp.operator import Matrix, is_csr
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.outcome import INFEASIBLE, OPTIMAL, UNBOUNDED, UNSOLVED
from setwise.lp.standard_form import Array

Options = dict[str, Any]

_USUAL: Options = {"presolve": "choose", "solver": "choose", "simplex_strategy": 1}
_ITERATIONS = tuple(f"{kind}_iteration_count" for kind in ("simplex", "ipm", "crossover", "pdlp"))


class Program(NamedTuple):
    """What changes from one program over a matrix to the next: min c'z s.t. low <= M z <= high, lower <= z <= upper."""

    c: Array  # shape: (n,)
    low: Array  # shape: (rows,)
    high: Array  # shape: (rows,)
    lower: Array  # shape: (n,)
    upper: Array  # shape: (n,)


class Rows(NamedTuple):
    """A sparse matrix as (row, column, value) triples, sorted by row, and its size."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: Array
    shape: tuple[int, int]

    @classmethod
    def of(cls, name: str, matrix: Matrix) -> Rows:
        """A dense or CSR matrix."""
        if not isinstance(matrix, Tensor):
            raise TypeError(
                f"Expected `{name}` to be a dense or sparse_csr tensor, but got {type(matrix).__name__}: HiGHS needs "
                f"the entries of the matrix. Call `dense()` on the program if it is small."
            )
        matrix = matrix.detach().cpu()
        if is_csr(matrix):
            starts, column, value = matrix.crow_indices().numpy(), matrix.col_indices().numpy(), matrix.values().numpy()
            row = np.repeat(np.arange(matrix.shape[0]), np.diff(starts))
            return cls(row, column, value.astype(np.float64), (matrix.shape[0], matrix.shape[1]))
        return cls.of_dense(matrix.numpy().astype(np.float64))

    @classmethod
    def of_dense(cls, matrix: Array) -> Rows:
        """The entries of an array that are not 0."""
        row, column = np.nonzero(matrix)
        return cls(row, column, matrix[row, column], (matrix.shape[0], matrix.shape[1]))

    def over(self, other: Rows) -> Rows:
        """The rows of another matrix below those of this one."""
        row = np.concatenate([self.row, other.row + self.shape[0]])
        column, value = np.concatenate([self.column, other.column]), np.concatenate([self.value, other.value])
        return Rows(row, column, value, (self.shape[0] + other.shape[0], self.shape[1]))

    def taken(self, keep: NDArray[np.bool_]) -> Rows:
        """Only the marked rows, numbered anew."""
        inside, size = keep[self.row], (int(keep.sum()), self.shape[1])
        return Rows((np.cumsum(keep) - 1)[self.row[inside]], self.column[inside], self.value[inside], size)


class Model:
    """One matrix at a time in HiGHS."""

    def __init__(self, highspy: Any, options: Options) -> None:
        self.highspy, self.options = highspy, options
        self.solver = highspy.Highs()
        for name, value in options.items():
            self._set(name, value)
        self.rows = Rows(np.zeros(0, int), np.zeros(0, int), np.zeros(0), (0, 0))
        self.now: Program | None = None
        # One count at a time costs less than all that HiGHS tells; the simplex method counts in the first.
        self.counts = _ITERATIONS[:1] if options["solver"] in ("simplex", "choose") else _ITERATIONS
        kinds = highspy.HighsModelStatus
        self.codes = {
            kinds.kOptimal: OPTIMAL,
            kinds.kModelEmpty: OPTIMAL,
            kinds.kInfeasible: INFEASIBLE,
            kinds.kUnbounded: UNBOUNDED,
            kinds.kIterationLimit: UNSOLVED,
            kinds.kTimeLimit: UNSOLVED,
        }

    def open(self, rows: Rows) -> None:
        """Take another matrix."""
        if rows is self.rows:
            return
        self.rows, self.now = rows, None
        self.places = np.arange(max(rows.shape), dtype=np.int32)
        small = np.abs(rows.value).min(initial=np.inf) < tol.HIGHS_SMALL_ENTRY
        self._set("small_matrix_value", tol.HIGHS_SMALLEST_ENTRY if small else tol.HIGHS_SMALL_ENTRY)

    def run(self, program: Program, attempt: Options, basis: Any = None) -> tuple[int | None, int]:
        """Solve a program; what it came to, None where HiGHS cannot tell, and the iterations."""
        self._load(program)
        # From the slack basis, without presolve: the shorter way for small programs, whatever was solved before.
        self.solver.clearSolver()
        if basis is not None:
            self.solver.setBasis(basis)
        for name, value in attempt.items():
            self._set(name, value)
        self.solver.run()
        for name in attempt:
            if name in _USUAL:  # the others are limits, which every attempt sets anew
                self._set(name, self.options.get(name, _USUAL[name]))
        steps = 0
        for name in self.counts:
            steps += max(0, self.solver.getInfoValue(name)[1])
        return self.codes.get(self.solver.getModelStatus()), steps

    def point(self) -> tuple[Array, Array]:
        """The point and the multipliers of the rows, 0 where there are none."""
        solution, (m, n) = self.solver.getSolution(), self.rows.shape
        x, y = np.array(solution.col_value, dtype=np.float64), np.array(solution.row_dual, dtype=np.float64)
        x = x if solution.value_valid and len(x) == n else np.zeros(n)
        y = y if solution.dual_valid and len(y) == m else np.zeros(m)
        return x, -y

    def basis(self, program: Program, x: Array, y: Array, inequalities: int) -> Any:
        """The basis at a point: active constraints are non-basic. HiGHS repairs one that is too large or too small."""
        kinds = self.highspy.HighsBasisStatus
        basis = self.highspy.HighsBasis()
        basis.valid, basis.alien = True, True
        low, high = x <= program.lower + tol.HIGHS_AT_BOUND, x >= program.upper - tol.HIGHS_AT_BOUND
        basis.col_status = [
            kinds.kLower if a else kinds.kUpper if b else kinds.kBasic for a, b in zip(low, high, strict=True)
        ]
        active = (y > tol.HIGHS_AT_BOUND) | (np.arange(len(y)) >= inequalities)
        basis.row_status = [kinds.kUpper if flag else kinds.kBasic for flag in active]
        return basis

    def _set(self, name: str, value: Any) -> None:
        if self.solver.setOptionValue(name, value) != self.highspy.HighsStatus.kOk:
            raise _checks.InputError(f"Expected settings that HiGHS accepts, but it refuses {name} = {value!r}.")

    def _load(self, program: Program) -> None:
        """Bring costs, sides and bounds up to date, and only those that differ."""
        now, solver, (m, n) = self.now, self.solver, self.rows.shape
        self.now = program
        if now is None:
            if solver.passModel(self._lp(program)) == self.highspy.HighsStatus.kError:
                raise _checks.InputError(
                    "Expected a program that HiGHS accepts: matrix entries below 1e15, sides below 1e20."
                )
            return
        solver.changeColsCost(n, self.places[:n], program.c)
        if not (now.lower is program.lower and now.upper is program.upper):
            solver.changeColsBounds(n, self.places[:n], program.lower, program.upper)
        if not (now.low is program.low and now.high is program.high):
            solver.changeRowsBounds(m, self.places[:m], program.low, program.high)

    def _lp(self, program: Program) -> Any:
        """The program in HiGHS's own structure."""
        lp, (m, n) = self.highspy.HighsLp(), self.rows.shape
        lp.num_col_, lp.num_row_ = n, m
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.c, program.lower, program.upper
        lp.row_lower_, lp.row_upper_ = program.low, program.high
        lp.a_matrix_.format_ = self.highspy.MatrixFormat.kRowwise
        lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = n, m
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.rows.row, minlength=m))])
        lp.a_matrix_.start_, lp.a_matrix_.index_ = starts.astype(np.int32), self.rows.column.astype(np.int32)
        lp.a_matrix_.value_ = self.rows.value
        return lp


def elastic_rows(program: Program, rows: Rows) -> Rows:
    """The matrix with a column for each side of a row that may be broken."""
    over, under = np.flatnonzero(np.isfinite(program.high)), np.flatnonzero(np.isfinite(program.low))
    row, column = np.concatenate([rows.row, over, under]), np.arange(len(over) + len(under)) + rows.shape[1]
    order = np.argsort(row, kind="stable")
    value = np.concatenate([rows.value, -np.ones(len(over)), np.ones(len(under))])
    columns = np.concatenate([rows.column, column])
    return Rows(row[order], columns[order], value[order], (rows.shape[0], rows.shape[1] + len(column)))


def elastic(program: Program) -> Program:
    """The least total violation of the rows."""
    extra = int(np.isfinite(program.high).sum() + np.isfinite(program.low).sum())
    zero, one = np.zeros(len(program.c)), np.ones(extra)
    lower, upper = np.concatenate([program.lower, 0 * one]), np.concatenate([program.upper, np.inf * one])
    return program._replace(c=np.concatenate([zero, one]), lower=lower, upper=upper)


def cone(program: Program) -> Program:
    """The least cost of directions of size 1 that keep every constraint."""
    low, high = (np.where(np.isfinite(side), 0.0, side) for side in (program.low, program.high))
    lower, upper = np.where(np.isfinite(program.lower), 0.0, -1.0), np.where(np.isfinite(program.upper), 0.0, 1.0)
    return Program(program.c, low, high, lower, upper)
