"""The linear programs of `lp.py` and `lp_warm.py` as parts of `run.py`: time, memory, errors, and the levels.

``value off by`` is the relative gap, ``gradient off by`` the error of dz/db; both are in float64.

    python benchmarks/run.py --only lp warm
"""

from __future__ import annotations

import math

import torch

from harness import apart, extra_megabytes, first_line
from lp import CELLS, METHODS, SETWISE, Cell, Record, draw, installed, run_cell, too_slow, turn, verdicts
from lp_warm import TRAJECTORIES, large, trajectory
from lp_warm import verdicts as judge
from records import Part, Row, Table, Verdict, script

MEMORY = Cell(50, 200, 16)


def spent(method: str, variables: int, rows: int, batch: int) -> float:
    """Megabytes of one forward and backward pass, in this process; set-up is before."""
    for cell in (Cell(2, 6, 1), Cell(variables, rows, batch)):
        layer = METHODS[method](cell)
        upstream = torch.ones(cell.batch, cell.variables, dtype=torch.float64)
        programs = draw(cell, seed=0)
        grown = extra_megabytes(lambda p=programs, f=layer, u=upstream: turn(f, p, u, Record()))  # type: ignore[misc]
    return grown


def megabytes(method: str, cell: Cell) -> float:
    """The same in a process of its own; nan where it fails."""
    try:
        return apart(spent, timeout=300)(method, *cell)
    except Exception as error:  # noqa: BLE001 (part of the result)
        print(f"  {method}: {first_line(error)}", flush=True)
        return math.nan


def part(cells: list[Cell] = CELLS) -> Part:
    """All methods that can be run here, cell by cell."""
    methods = installed(list(METHODS))
    rows: list[Row] = []
    judged: list[Verdict] = []
    skipped: set[str] = set()
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        records = run_cell(cell, methods, skipped)
        for name, record in records.items():
            forward, backward = record.medians()
            total = forward if math.isnan(backward) else forward + backward  # HiGHS goes forward only
            memory = megabytes(name, cell) if cell == MEMORY and not record.failure else math.nan
            rows.append(Row(name, str(cell), None, total, memory, record.gap, record.error, record.failure))
            print(f"  {cell}: {name}: {forward:.3g} + {backward:.3g} ms", flush=True)
        judged += [
            Verdict(f"{cell}: {row['what']}", row["value"], row["level"], row["least"])
            for row in verdicts(cell, records)
            if row["level"] is not None
        ]
        same = following is not None and following[:2] == cell[:2]
        skipped = skipped | too_slow(records, cell, following) if following is not None and same else set()
    about = "Forward + backward, float64, A, b and c all require grad; highspy goes forward only."
    table = Table("Linear programs, all data differentiable", rows, unit="", memory_case=str(MEMORY), about=about)
    return Part([table], judged)


def warm_part() -> Part:
    """Warm beside cold along a trajectory, and a large program beside the interior point method of HiGHS."""
    warm, big = [trajectory(cell) for cell in TRAJECTORIES], large()
    rows = []
    for one in warm:
        rows.append(Row("setwise, cold", str(one.cell), ms=one.cold_ms))
        rows.append(Row("setwise, warm", str(one.cell), None, one.warm_ms, None, one.points, one.gradients))
    rows.append(Row("setwise, cold", str(big.cell), None, big.ours_ms, megabytes(SETWISE, big.cell), big.gap))
    rows.append(Row("HiGHS, interior point", str(big.cell), ms=big.highs_ms))
    rows.append(Row("HiGHS, interior point without crossover", str(big.cell), ms=big.highs_alone_ms))
    about = (
        "Forward + backward along 50 steps of a training, each from the solution of the last or from none; the large "
        "program forward only. Warm is off from cold by so much; the large program from the optimum of HiGHS."
    )
    judged = [Verdict(row["what"], row["value"], row["level"], row["least"]) for row in judge(warm, big)]
    table = Table("Linear programs, warm starts and a large one", rows, unit="", memory_case=str(big.cell), about=about)
    return Part([table], judged)


if __name__ == "__main__":
    script(__doc__, part)
