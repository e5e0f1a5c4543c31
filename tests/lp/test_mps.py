"""read_mps on small files written here and on the netlib collection."""

from __future__ import annotations

import csv
import gzip
import math
import os
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from setwise._checks import InputError
from setwise.lp import LinearProgram, read_mps
from support.highs import highs_solve

# max x + 2y - z - w + 3 with every kind of row, two ranges on each side of an equality, and every kind of bound.
SMALL = """NAME          SMALL
OBJSENSE
    MAX
ROWS
 N  COST
 N  EXTRA
 L  LIM1
 G  LIM2
 E  EQ
 E  ABOVE
 E  BELOW
 G  FLOOR
COLUMNS
    X         COST         1.0   LIM1         1.0
    X         LIM2         1.0   EXTRA        5.0
    Y         COST         2.0   LIM1         1.0
    Y         EQ          -1.0   ABOVE        1.0
    Y         BELOW        1.0
    Z         COST        -1.0   EQ           1.0
    W         COST        -1.0   LIM2         1.0
    W         FLOOR        1.0
RHS
    RHS       COST        -3.0
    RHS       LIM1         4.0   LIM2         1.0
    RHS       EQ           7.0   ABOVE        0.5
    RHS       BELOW        2.0   FLOOR       -8.0
RANGES
    RNG       LIM1         2.5   LIM2         3.0
    RNG       ABOVE        1.5   BELOW       -1.0
BOUNDS
 UP BND       X            4.0
 MI BND       Y
 UP BND       Y            1.75
 FR BND       Z
 LO BND       W           -5.0
 UP BND       W           -2.0
ENDATA
"""


def write(folder: Path, text: str, name: str = "small.mps") -> Path:
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def rows(program: LinearProgram, name: str) -> list[list[float]]:
    matrix: Tensor = getattr(program.dense(), name)
    numbers: list[list[float]] = matrix.tolist()
    return numbers


def test_every_kind_of_row_and_bound(tmp_path: Path) -> None:
    program = read_mps(write(tmp_path, SMALL))
    assert program.dtype == torch.float64
    assert program.c.tolist() == [-1.0, -2.0, 1.0, 1.0]  # a maximization, turned round
    assert program.offset == -3.0
    assert rows(program, "A") == [
        [1, 1, 0, 0],  # LIM1 <= 4
        [1, 0, 0, 1],  # LIM2 <= 1 + 3
        [0, 1, 0, 0],  # ABOVE <= 0.5 + 1.5
        [0, 1, 0, 0],  # BELOW <= 2
        [-1, -1, 0, 0],  # LIM1 >= 4 - 2.5
        [-1, 0, 0, -1],  # LIM2 >= 1
        [0, -1, 0, 0],  # ABOVE >= 0.5
        [0, -1, 0, 0],  # BELOW >= 2 - 1
        [0, 0, 0, -1],  # FLOOR >= -8
    ]
    assert program.b.tolist() == [4.0, 4.0, 2.0, 2.0, -1.5, -1.0, -0.5, -1.0, 8.0]
    assert rows(program, "A_eq") == [[0, -1, 1, 0]]
    assert program.b_eq.tolist() == [7.0]
    assert program.lower.tolist() == [0.0, -math.inf, -math.inf, -5.0]
    assert program.upper.tolist() == [4.0, 1.75, math.inf, -2.0]


def test_the_optimum_is_minus_the_maximum(tmp_path: Path) -> None:
    # By hand: w = -2 (LIM2: x >= 3) or w = 1 - x; z = 7 + y. So x + 2y - 7 - y - w + 3 = x + y - w - 4 with
    # x + y <= 4, x <= 4, y in [1, 1.75], w >= 1 - x, w in [-5, -2]: x = 3, y = 1, w = -2 gives 2.
    result = highs_solve(read_mps(write(tmp_path, SMALL)))
    assert result.status == "optimal"
    assert result.value == pytest.approx(-2.0)
    assert result.primal.tolist() == pytest.approx([3.0, 1.0, 8.0, -2.0])


def test_a_minimization_keeps_its_sign_and_constant(tmp_path: Path) -> None:
    program = read_mps(write(tmp_path, SMALL.replace("    MAX\n", "    MIN\n")))
    assert program.c.tolist() == [1.0, 2.0, -1.0, -1.0]
    assert program.offset == 3.0


def test_dense_and_sparse_hold_the_same_numbers(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    sparse, dense = read_mps(path), read_mps(path, dense=True)
    assert isinstance(sparse.A, Tensor)
    assert isinstance(dense.A, Tensor)
    assert sparse.A.layout == torch.sparse_csr
    assert dense.A.layout == torch.strided
    torch.testing.assert_close(sparse.dense().A, dense.A)
    torch.testing.assert_close(sparse.dense().A_eq, dense.A_eq)


@pytest.mark.parametrize("dense", [True, False])
def test_dtype(tmp_path: Path, dense: bool) -> None:
    program = read_mps(write(tmp_path, SMALL), dense=dense, dtype=torch.float32)
    assert program.dtype == torch.float32
    assert program.residuals(torch.ones(4)).inequality.dtype == torch.float32


@pytest.mark.parametrize("name", ["small.mps.gz", "SMALL.MPS"])
def test_compressed_and_upper_case_names(tmp_path: Path, name: str) -> None:
    assert read_mps(str(write(tmp_path, SMALL, name))).b.shape == (9,)


def test_numbers_beyond_1e20_are_infinite(tmp_path: Path) -> None:
    text = SMALL.replace("FLOOR       -8.0", "FLOOR       -1e30").replace("X            4.0", "X            1e25")
    program = read_mps(write(tmp_path, text))
    assert program.inequalities == 8  # FLOOR has no side left
    assert program.upper[0] == math.inf


def test_a_program_without_rows(tmp_path: Path) -> None:
    text = "NAME BOX\nROWS\n N COST\nCOLUMNS\n X COST -1\n Y COST 1\nRHS\nBOUNDS\n UP BND X 2\nENDATA\n"
    program = read_mps(write(tmp_path, text))
    assert (program.variables, program.inequalities, program.equalities) == (2, 0, 0)
    assert highs_solve(program).value == -2.0


def test_reading_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    read_mps(write(tmp_path, SMALL))
    assert capfd.readouterr().out == ""


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"`path`.*none\.mps"):
        read_mps(tmp_path / "none.mps")
    (tmp_path / "folder.mps").mkdir()
    with pytest.raises(FileNotFoundError, match="`path`"):
        read_mps(tmp_path / "folder.mps")


@pytest.mark.parametrize("name", ["small.lp", "small.txt", "small.gz", "mps"])
def test_other_formats_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(SMALL)
    with pytest.raises(InputError, match=r"`path` to end in .mps or .mps.gz"):
        read_mps(path)


@pytest.mark.parametrize("text", ["", "hello\nworld\n", SMALL[:400]])
def test_files_that_do_not_parse_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"cannot parse 'small\.mps'"):
        read_mps(write(tmp_path, text))


def test_a_broken_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.mps.gz"
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match="cannot parse"):
        read_mps(path)


def test_integer_variables_are_refused(tmp_path: Path) -> None:
    text = SMALL.replace("    Z  ", "    M1        'MARKER'     'INTORG'\n    Z  ", 1)
    text = text.replace("    W  ", "    M2        'MARKER'     'INTEND'\n    W  ", 1)
    with pytest.raises(InputError, match="1 of 4 variables"):
        read_mps(write(tmp_path, text))


def test_a_quadratic_objective_is_refused(tmp_path: Path) -> None:
    text = SMALL.replace("ENDATA", "QUADOBJ\n    X         X            -2.0\nENDATA")
    with pytest.raises(InputError, match="quadratic"):
        read_mps(write(tmp_path, text))


def test_a_program_without_variables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="variables"):
        read_mps(write(tmp_path, "NAME NONE\nROWS\n N COST\n L R\nCOLUMNS\nRHS\n RHS R 1\nENDATA\n"))


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(ImportError, match=r"setwise\[lp\]"):
        read_mps(write(tmp_path, SMALL))


def netlib() -> Path:
    return Path(os.environ.get("SETWISE_DATA") or Path.home() / ".cache" / "setwise") / "netlib"


def netlib_cases() -> list[tuple[str, str, float | None]]:
    """(name, set, optimum) of every program; none where the collection is not at hand."""
    table = netlib() / "optimal_values.csv"
    if not table.is_file():
        return []
    with table.open(newline="") as file:
        header, *lines = csv.reader(file)
    at = {name.split(" ")[0]: place for place, name in enumerate(header)}
    cells = [(line[at["name"]], line[at["set"]], line[at["optimum"]]) for line in lines]
    return [(name, kind, float(optimum) if optimum else None) for name, kind, optimum in cells]


CASES = netlib_cases()
absent = pytest.mark.skipif(not CASES, reason="the netlib collection is not here; get it with `make data`")


@pytest.mark.data
@absent
def test_the_collection_is_complete() -> None:
    files = {path.name.removesuffix(".mps.gz") for path in netlib().glob("*/*.mps.gz")}
    assert files == {name for name, _, _ in CASES}
    assert sum(kind == "feasible" for _, kind, _ in CASES) == 27
    assert sum(kind == "infeasible" for _, kind, _ in CASES) == 7


@pytest.mark.data
@absent
@pytest.mark.parametrize(("name", "kind", "optimum"), CASES or [("", "", None)])
def test_netlib(name: str, kind: str, optimum: float | None) -> None:
    program = read_mps(netlib() / kind / f"{name}.mps.gz")
    result = highs_solve(program)
    if kind == "infeasible":
        assert result.status == "infeasible"
        return
    assert result.status == "optimal"
    assert result.value == pytest.approx(optimum, rel=1e-6)
    scale = max(1.0, float(result.primal.abs().max()))
    assert program.objective(result.primal).item() == pytest.approx(optimum, rel=1e-6)
    assert program.residuals(result.primal).largest().item() < 1e-9 * scale
