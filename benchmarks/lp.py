"""Linear programs beside the peers: forward and backward, float64, one thread, in one process.

Random programs min c'z s.t. A z <= b, z >= 0, feasible, bounded, with one optimum, where A, b and c all require grad.
The methods take turns on the same numbers in fresh tensors; medians of CPU time, forward and backward apart; set-up
(the canonicalization of CVXPY, the structure of Moreau) is not timed. ``gap`` is the largest
|c'z - c'z*| / (1 + |c'z*|) of the batch; ``db error`` the median over the batch of the relative error of the gradient
with respect to b, against the exact inverse of the active rows, which HiGHS names. A method that needs long gets few
repetitions; a cell that would take more than a minute a repetition is left out ("-"). The levels are the ones the
project holds itself to. Warm starts along a training and a large program beside HiGHS: `lp_warm.py`.

    make bench
    .venv-bench/bin/python benchmarks/lp.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from harness import first_line, one_thread, peer
from setwise_research.machine import cpu

LIMIT = 60.0  # seconds that one repetition of a method may take
BUDGET = 10.0  # seconds after which a method gets no further repetition of a cell
REPETITIONS = 15
WARM_UP = 2
RIDGE = 1e-4  # qpth solves strictly convex programs only

Layer = Callable[[Tensor, Tensor, Tensor], Tensor]  # (c, A, b) with a leading batch dimension -> z


class Cell(NamedTuple):
    """One size: variables x rows, batch."""

    variables: int
    rows: int
    batch: int

    def __str__(self) -> str:
        return f"{self.variables}x{self.rows} batch {self.batch}"


CELLS = [Cell(*size, batch) for size in ((20, 60), (50, 200)) for batch in (1, 16, 64)] + [
    Cell(200, 1000, 1),
    Cell(200, 1000, 16),
]
QUICK = [Cell(20, 60, 1), Cell(20, 60, 16), Cell(50, 200, 16)]

# How many times faster than the fastest differentiable peer, forward + backward.
PEER_LEVELS = {Cell(20, 60, 1): 1.0, Cell(50, 200, 16): 6.0, Cell(50, 200, 64): 6.0, Cell(200, 1000, 16): 20.0}
HIGHS_LEVELS = {Cell(20, 60, 16): 1.0, Cell(50, 200, 16): 1.0, Cell(200, 1000, 16): 1.0}  # forward alone
BACKWARD_LEVELS = {Cell(200, 1000, 1): 0.15, Cell(200, 1000, 16): 0.15}  # share of the forward
ERROR_LEVEL = 1e-8  # of dz/db


@dataclass
class Record:
    """What one method did in one cell."""

    forward: list[float] = field(default_factory=list)
    backward: list[float] = field(default_factory=list)
    gap: float = float("nan")
    error: float = float("nan")
    failure: str = ""

    @property
    def spent(self) -> float:
        """Seconds over all repetitions."""
        return sum(self.forward) + sum(self.backward)

    def medians(self) -> tuple[float, float]:
        """Milliseconds of forward and backward; the first repetitions only warm up, where there are others."""
        skip = WARM_UP if len(self.forward) > WARM_UP else 0
        forward, backward = (np.median(x[skip:]) if x else np.nan for x in (self.forward, self.backward))
        return float(forward) * 1e3, float(backward) * 1e3

    def total(self) -> float:
        """Milliseconds of forward and backward together."""
        return sum(self.medians())

    def as_json(self) -> dict[str, float | str | None]:
        """The figures of the table, None where there is none."""
        forward, backward = self.medians()
        figures = {"forward_ms": forward, "backward_ms": backward, "gap": self.gap, "error": self.error}
        return {name: None if np.isnan(x) else x for name, x in figures.items()} | {"failure": self.failure or None}


def draw(cell: Cell, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """A batch of (c, A, b): feasible by a point z > 0 with slack, bounded by dual variables that are all positive."""
    generator = torch.Generator().manual_seed(seed)
    n, m, batch = cell

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    A = torch.randn(batch, m, n, generator=generator, dtype=torch.float64)
    b = (A @ uniform(batch, n, 1)).squeeze(-1) + 0.1 + uniform(batch, m)
    c = uniform(batch, n) - (A.mT @ uniform(batch, m, 1)).squeeze(-1) / m**0.5
    return c, A, b


# The methods: each takes a cell and gives a layer, or raises ImportError.


def with_setwise(cell: Cell) -> Layer:  # noqa: ARG001 (nothing to set up)
    """``setwise.lp.solve`` as it comes."""
    lp: Any = importlib.import_module("setwise.lp")

    return lambda c, A, b: lp.solve(lp.LinearProgram(c, A, b)).primal


@lru_cache(maxsize=4)
def rows_of_highs(m: int, n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Where the rows of a dense matrix start, and their columns."""
    return np.arange(m + 1, dtype=np.int32) * n, np.tile(np.arange(n, dtype=np.int32), m)


def passed_to_highs(c: Tensor, A: Tensor, b: Tensor, **options: Any) -> Any:
    """HiGHS on one thread with the program min c'z s.t. A z <= b, z >= 0, not yet run."""
    highspy: Any = peer("highspy")
    m, n = A.shape
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = n, m
    model.col_cost_ = c.numpy()
    model.col_lower_, model.col_upper_ = np.zeros(n), np.full(n, highspy.kHighsInf)
    model.row_lower_, model.row_upper_ = np.full(m, -highspy.kHighsInf), b.numpy()
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_ = rows_of_highs(m, n)
    model.a_matrix_.value_ = A.numpy().ravel()
    solver = highspy.Highs()
    for option, value in ({"output_flag": False, "threads": 1} | options).items():
        solver.setOptionValue(option, value)
    solver.passModel(model)
    return solver


def with_highs(cell: Cell) -> Layer:
    """HiGHS, one program after the other; forward only."""
    rows_of_highs(cell.rows, cell.variables)  # set-up, which is not timed

    def one(c: Tensor, A: Tensor, b: Tensor) -> list[float]:
        solver = passed_to_highs(c, A, b)
        solver.run()
        return list(solver.getSolution().col_value)

    def layer(c: Tensor, A: Tensor, b: Tensor) -> Tensor:
        rows = [one(*element) for element in zip(c.detach(), A.detach(), b.detach(), strict=True)]
        return torch.tensor(rows, dtype=torch.float64)

    return layer


def with_cvxpylayers(solver: str) -> Callable[[Cell], Layer]:
    """Layers of cvxpylayers: SCS or Clarabel differentiated by diffcp, or Moreau."""

    def prepare(cell: Cell) -> Layer:
        cp: Any = importlib.import_module("cvxpy")
        build = importlib.import_module("cvxpylayers.torch").CvxpyLayer
        n, m, _ = cell
        z, c, A, b, zero = cp.Variable(n), cp.Parameter(n), cp.Parameter((m, n)), cp.Parameter(m), cp.Parameter(n)
        # With Moreau the layer drops a plain `z >= 0` without a word; a parameter that is zero keeps it.
        problem = cp.Problem(cp.Minimize(c @ z), [A @ z <= b, z >= zero])
        options: dict[str, Any] = {"solve_method": solver, "n_jobs_forward": 1, "n_jobs_backward": 1}
        moreau = solver == "Moreau"
        built = build(
            problem, [c, A, b, zero], [z], solver="MOREAU" if moreau else None, solver_args={} if moreau else options
        )
        zeros = torch.zeros(n, dtype=torch.float64)
        return lambda c, A, b: built(c, A, b, zeros)[0]

    return prepare


def with_moreau(cell: Cell) -> Layer:
    """Moreau's own layer for torch; z >= 0 as its direct cone, which is a little faster than rows."""
    moreau: Any = importlib.import_module("moreau")
    build = importlib.import_module("moreau.torch").Solver
    n, m, batch = cell
    none = torch.zeros(0, dtype=torch.int64)
    positive = moreau.DirectConeSpec(kind="nonneg", indices=list(range(n)))
    solver = build(
        n,
        m,
        torch.zeros(n + 1, dtype=torch.int64),
        none,
        torch.arange(m + 1) * n,
        torch.arange(n).repeat(m),
        cones=moreau.Cones(num_nonneg_cones=m, dir_cones=[positive]),
        settings=moreau.Settings(device="cpu", batch_size=batch, enable_grad=True),
    )
    quadratic = torch.zeros(batch, 0, dtype=torch.float64)

    def layer(c: Tensor, A: Tensor, b: Tensor) -> Tensor:
        z: Tensor = solver.solve(quadratic, A.flatten(1), c, b).x
        return z.reshape(batch, n)

    return layer


def with_qpth(cell: Cell) -> Layer:
    """The QP solver qpth with a ridge in place of the quadratic term it needs."""
    build = importlib.import_module("qpth.qp").QPFunction
    n, _, batch = cell
    Q = RIDGE * torch.eye(n, dtype=torch.float64)
    bounds, zeros = -torch.eye(n, dtype=torch.float64).expand(batch, n, n), torch.zeros(batch, n, dtype=torch.float64)
    none = torch.zeros(0, dtype=torch.float64)

    def layer(c: Tensor, A: Tensor, b: Tensor) -> Tensor:
        solve = build(verbose=-1, check_Q_spd=False)
        z: Tensor = solve(Q, c, torch.cat([A, bounds], 1), torch.cat([b, zeros], 1), none, none)
        return z

    return layer


SETWISE, HIGHS = "setwise", "highspy"
METHODS: dict[str, Callable[[Cell], Layer]] = {
    HIGHS: with_highs,  # first: it names the active rows that all others are judged by
    SETWISE: with_setwise,
    "cvxpylayers SCS": with_cvxpylayers("SCS"),
    "cvxpylayers Clarabel": with_cvxpylayers("Clarabel"),
    "cvxpylayers Moreau": with_cvxpylayers("Moreau"),
    "moreau": with_moreau,
    "qpth": with_qpth,
}


class Exact(NamedTuple):
    """The optimum and the gradient with respect to b, from the active rows."""

    value: Tensor  # shape: (batch,)
    b: Tensor  # shape: (batch, m); nan where the vertex is degenerate


def exact(programs: tuple[Tensor, Tensor, Tensor], z: Tensor, upstream: Tensor) -> Exact:
    """At a vertex M z = r with n active rows of A z <= b and -z <= 0, so dL/dr = M^-T dL/dz, and 0 elsewhere."""
    c, A, b = programs
    n, m = c.shape[-1], b.shape[-1]
    rows = torch.cat([A, -torch.eye(n, dtype=A.dtype).expand(len(c), n, n)], 1)
    sides = torch.cat([b, torch.zeros_like(c)], 1)
    active = sides - (rows @ z.unsqueeze(-1)).squeeze(-1) < 1e-7
    value, gradient = torch.full((len(c),), torch.nan).double(), torch.full_like(sides, torch.nan)
    for k in range(len(c)):
        if int(active[k].sum()) == n:
            M = rows[k, active[k]]
            value[k] = c[k] @ torch.linalg.solve(M, sides[k, active[k]])
            gradient[k] = 0.0
            gradient[k, active[k]] = torch.linalg.solve(M.mT, upstream[k])
    return Exact(value, gradient[:, :m])


def turn(layer: Layer, programs: tuple[Tensor, ...], upstream: Tensor, record: Record) -> tuple[Tensor, Tensor | None]:
    """One forward and, where there is a graph, one backward pass on fresh tensors; z and the gradient of b."""
    c, A, b = (x.clone().requires_grad_() for x in programs)
    start = time.process_time()
    z = layer(c, A, b)
    record.forward.append(time.process_time() - start)
    if z.requires_grad:
        start = time.process_time()
        z.backward(upstream)
        record.backward.append(time.process_time() - start)
    return z.detach(), b.grad


def judge(record: Record, truth: Exact, c: Tensor, z: Tensor, gradient: Tensor | None) -> None:
    """Note gap and error of a method's first answer."""
    record.gap = float(((c * z).sum(-1) - truth.value).abs().div(1 + truth.value.abs()).max())
    if gradient is not None:
        record.error = float(((gradient - truth.b).norm(dim=-1) / truth.b.norm(dim=-1)).nanmedian())


def run_cell(cell: Cell, methods: list[str], skipped: set[str]) -> dict[str, Record]:
    """All methods on one size, in turns; ``skipped`` collects those that are too slow for a larger batch."""
    layers: dict[str, Layer] = {}
    records = {name: Record() for name in methods if name not in skipped}
    truth: Exact | None = None
    for repetition in range(REPETITIONS + WARM_UP):
        programs = draw(cell, seed=1000 * cell.variables + repetition)
        upstream = torch.randn(cell.batch, cell.variables, generator=torch.Generator().manual_seed(repetition)).double()
        for name, record in records.items():
            if record.spent > BUDGET or record.failure:
                continue
            try:
                if name not in layers:
                    layers[name] = METHODS[name](cell)
                z, gradient = turn(layers[name], programs, upstream, record)
            except Exception as error:  # noqa: BLE001 (a method that gives up is part of the result)
                record.failure = first_line(error)
                continue
            if repetition == 0:
                if name == HIGHS:
                    truth = exact(programs, z, upstream)
                if truth is not None:
                    judge(record, truth, programs[0], z, gradient)
    return records


def too_slow(records: dict[str, Record], cell: Cell, following: Cell) -> set[str]:
    """The methods of which one repetition at the next batch of the same size would take longer than the limit."""
    growth = following.batch / cell.batch
    return {name for name, record in records.items() if record.total() / 1e3 * growth > LIMIT}


def installed(names: list[str]) -> list[str]:
    """The methods that can be run here; a line for each that cannot."""
    found, tiny = [], Cell(2, 6, 1)
    for name in names:
        try:
            turn(METHODS[name](tiny), draw(tiny, seed=0), torch.ones(1, 2, dtype=torch.float64), Record())
        except Exception as error:  # noqa: BLE001 (whatever a peer raises, the others can still run)
            print(f"{name} is left out: {first_line(error)}")
        else:
            found.append(name)
    return found


def number(value: float, form: str = ".1f") -> str:
    """A number for the table, or a dash."""
    return "-" if np.isnan(value) else format(value, form)


def verdicts(cell: Cell, records: dict[str, Record]) -> list[dict[str, Any]]:
    """Each ratio of setwise in this cell, beside its level where there is one."""
    ours = records.get(SETWISE)
    if ours is None:
        return []
    forward, backward = ours.medians()
    rows: list[dict[str, Any]] = []

    def add(what: str, value: float, level: float | None, *, least: bool) -> None:
        met = None if level is None else bool(value >= level if least else value <= level)
        rows.append(
            {"what": what, "value": None if np.isnan(value) else value, "level": level, "least": least, "met": met}
        )

    peers = {name: record.total() for name, record in records.items() if record.backward and name != SETWISE}
    if peers:
        best = min(peers, key=lambda name: peers[name])
        add(f"times faster than {best}", peers[best] / ours.total(), PEER_LEVELS.get(cell), least=True)
    if HIGHS in records:
        highs = records[HIGHS].medians()[0]
        add("times faster than highspy, forward", highs / forward, HIGHS_LEVELS.get(cell), least=True)
    add("backward / forward", backward / forward, BACKWARD_LEVELS.get(cell), least=False)
    add("error of dz/db", ours.error, ERROR_LEVEL, least=False)
    return rows


def show(cell: Cell, methods: list[str], records: dict[str, Record], judged: list[dict[str, Any]]) -> None:
    """Print one cell: the table of the methods, then the ratios beside their levels."""
    print(f"\n{cell!s:<24}{'forward ms':>12}{'backward ms':>12}{'both ms':>10}{'gap':>10}{'db error':>10}{'runs':>6}")
    for name in methods:
        record = records.get(name, Record())
        forward, backward = record.medians()
        print(
            f"  {name:<22}{number(forward):>12}{number(backward):>12}{number(record.total()):>10}"
            f"{number(record.gap, '.0e'):>10}{number(record.error, '.0e'):>10}{len(record.forward):>6}"
        )
        if record.failure:
            print(f"    gave up: {record.failure}")
    for row in judged:
        value = "-" if row["value"] is None else format(row["value"], ".2f" if row["value"] > 0.01 else ".0e")
        told = ""
        if row["level"] is not None:
            side, end = "least" if row["least"] else "most", "met" if row["met"] else "NOT MET"
            told = f"(level: at {side} {row['level']:.2g}; {end})"
        print(f"  {row['what']:<46}{value:>8}  {told}")


def main() -> None:
    """Print the tables cell by cell, and keep them as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three small cells only")
    parser.add_argument("--cells", nargs="+", metavar="NxMxB", help="such as 50x200x16 (variables x rows x batch)")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    one_thread()
    warnings.simplefilter("ignore")  # the peers warn of their own internals
    cells = [Cell(*map(int, text.split("x"))) for text in args.cells or []] or (QUICK if args.quick else CELLS)
    methods = installed(args.methods)
    kept = []
    skipped: set[str] = set()
    for position, cell in enumerate(cells):
        records = run_cell(cell, methods, skipped)
        judged = verdicts(cell, records)
        show(cell, methods, records, judged)
        rows = {name: record.as_json() for name, record in records.items()}
        kept.append({"cell": cell._asdict(), "methods": rows, "verdicts": judged})
        following = cells[position + 1] if position + 1 < len(cells) else None
        same = following is not None and following[:2] == cell[:2]
        skipped = skipped | too_slow(records, cell, following) if following is not None and same else set()
        if args.json:  # after every cell, so that a run cut short leaves what it has
            args.json.write_text(
                json.dumps({"threads": 1, "cpu": cpu(), "torch": torch.__version__, "cells": kept}, indent=2)
            )


if __name__ == "__main__":
    main()
