"""Reading linear programs from MPS files, through the parser of HiGHS (extra ``lp``)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from setwise._checks import InputError, extra
from setwise.lp.problem import LinearProgram
from setwise.lp.solvers.highs_model import Rows
from setwise.lp.standard_form import Array

_SUFFIXES = (".mps", ".mps.gz")


def read_mps(path: str | os.PathLike[str], *, dense: bool = False, dtype: torch.dtype = torch.float64) -> LinearProgram:
    """Read a linear program from an ``.mps`` or ``.mps.gz`` file, fixed or free format.

    A row low <= a'z <= high becomes an equality where low = high; otherwise a'z <= high and -a'z <= -low, as far as
    these are finite: first all upper sides in the order of the file, then all lower sides. Rows without any side are
    dropped. A constant in the objective becomes ``offset``. A maximization is turned into the minimization of minus its
    objective, so its optimal value changes sign. Numbers of 1e20 and beyond count as infinite; a negative upper bound
    without a lower one leaves the lower bound at 0.

    Args:
        path: The file.
        dense: Whether the matrices are dense tensors; otherwise they are ``torch.sparse_csr``.
        dtype: float64 or float32.

    Returns:
        The program, without batch dimensions, on the CPU.

    Raises:
        FileNotFoundError: There is no such file.
        InputError: A file of another format, one that does not parse, or one with integer variables or a quadratic
            objective.
        ImportError: The extra ``lp`` is not installed.
    """
    file = Path(path)
    if not file.name.lower().endswith(_SUFFIXES):
        raise InputError(f"Expected `path` to end in {' or '.join(_SUFFIXES)}, but got {file.name!r}.")
    if not file.is_file():
        raise FileNotFoundError(f"Expected `path` to be an MPS file, but there is none at {str(file)!r}.")
    model = _parse(file)
    lp = model.lp_
    columns = int(lp.num_col_)
    if columns == 0:
        raise InputError(f"Expected `path` to hold a program with variables, but {file.name!r} has none.")
    sign = -1.0 if lp.sense_ == extra("highspy", "lp").ObjSense.kMaximize else 1.0
    (A, b), (A_eq, b_eq) = _split(lp)

    def vector(values: Any) -> Tensor:
        return torch.as_tensor(np.asarray(values, dtype=np.float64)).to(dtype)

    def matrix(rows: Rows, count: int) -> Tensor:
        ends = np.concatenate([[0], np.cumsum(np.bincount(rows.row, minlength=count))])
        starts, column, value = (torch.from_numpy(part) for part in (ends, rows.column, rows.value))
        sparse = torch.sparse_csr_tensor(starts, column, value, (count, columns), check_invariants=True).to(dtype)
        return sparse.to_dense() if dense else sparse

    return LinearProgram(
        vector(sign * np.asarray(lp.col_cost_)),
        matrix(A, len(b)),
        vector(b),
        matrix(A_eq, len(b_eq)),
        vector(b_eq),
        vector(lp.col_lower_),
        vector(lp.col_upper_),
        offset=sign * float(lp.offset_),
    )


def _parse(file: Path) -> Any:
    """The model as HiGHS reads it, once it is known to be a linear program."""
    highspy = extra("highspy", "lp")
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    if solver.readModel(str(file)) == highspy.HighsStatus.kError:
        raise InputError(f"Expected `path` to be a readable MPS file, but HiGHS cannot parse {file.name!r}.")
    model = solver.getModel()
    special = sum(kind != highspy.HighsVarType.kContinuous for kind in model.lp_.integrality_)
    if special:
        raise InputError(
            f"Expected `path` to hold a linear program, but {special} of {model.lp_.num_col_} variables in "
            f"{file.name!r} are integer or semi-continuous."
        )
    if model.hessian_.dim_:
        raise InputError(f"Expected `path` to hold a linear program, but {file.name!r} has a quadratic term.")
    return model


def _split(lp: Any) -> tuple[tuple[Rows, Array], tuple[Rows, Array]]:
    """The rows low <= a'z <= high of HiGHS as inequalities a'z <= b and as equalities, each with its sides."""
    low, high = (np.asarray(side, dtype=np.float64) for side in (lp.row_lower_, lp.row_upper_))
    # After reading, HiGHS holds the matrix by columns; sorting by row turns the triples round.
    column = np.repeat(np.arange(lp.num_col_), np.diff(np.asarray(lp.a_matrix_.start_)))
    row, value = np.asarray(lp.a_matrix_.index_, dtype=np.int64), np.asarray(lp.a_matrix_.value_, dtype=np.float64)
    order = np.lexsort((column, row))
    every, equal = Rows(row[order], column[order], value[order], (lp.num_row_, lp.num_col_)), low == high
    above, below = ~equal & np.isfinite(high), ~equal & np.isfinite(low)
    A = every.taken(above).over(every._replace(value=-every.value).taken(below))
    return (A, np.concatenate([high[above], -low[below]])), (every.taken(equal), high[equal])
