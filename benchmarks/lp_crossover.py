"""Where the default solver should change: `Interior` beside `HiGHS` by size, density and batch.

Random feasible, bounded programs of n variables and n / 2 or 2 n rows, of which a share of the entries is not 0. Each
cell is (entries / n^2): (time of Interior / time of HiGHS), above 1 where HiGHS is the faster one.

    python benchmarks/lp_crossover.py
"""

from __future__ import annotations

import numpy as np
import torch

from harness import interleave, one_thread
from setwise import lp

BATCHES, SIZES, DENSITIES, HEIGHTS = (1, 8), (15, 30, 60, 120, 240), (1.0, 0.3, 0.1, 0.05, 0.02), (0.5, 2.0)
REPETITIONS = 5


def draw(batch: int, n: int, m: int, density: float) -> lp.LinearProgram:
    """Feasible by a point with slack; bounds keep it bounded."""
    g = np.random.default_rng(0)
    A = g.normal(size=(batch, m, n)) * (g.random((batch, m, n)) < density)
    b = np.einsum("bmn,bn->bm", A, g.random((batch, n))) + 0.1 + g.random((batch, m))
    c = g.random((batch, n)) - np.einsum("bmn,bm->bn", A, g.random((batch, m))) / m**0.5
    return lp.LinearProgram(torch.from_numpy(c), torch.from_numpy(A), torch.from_numpy(b), upper=2.0)


def main() -> None:
    """A line for each batch and size."""
    one_thread()
    for batch in BATCHES:
        for n in SIZES:
            cells = []
            for density in DENSITIES:
                for height in HEIGHTS:
                    program = draw(batch, n, int(height * n), density)
                    share = float(torch.as_tensor(program.A).count_nonzero()) / (batch * n * n)
                    times = interleave(
                        {
                            "inside": lambda p=program: lambda: lp.solve(p, lp.Interior()),  # type: ignore[misc]
                            "highs": lambda p=program: lambda: lp.solve(p, lp.HiGHS()),  # type: ignore[misc]
                        },
                        REPETITIONS,
                    )
                    cells.append(f"{share:.2f}: {times['inside'].ms / times['highs'].ms:.2f}")
            print(f"batch {batch}, n = {n:<4}", "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
