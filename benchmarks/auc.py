"""AUCLoss beside binary cross-entropy and a sort: forward + backward, float32, checks on, one thread.

Fresh tensors every repetition, all in turns, medians of CPU time, ratios; the growth exponent over the sizes from
10,000 on; memory beyond the input and its gradient in a fresh process. Where NumPy sorts with AVX-512, the same again
in a process in which it may not: on AMD Zen 4 that sort is slow, and AUCLoss takes another one. The levels are the ones
the project holds itself to on every CPU.

    python benchmarks/auc.py [--sizes 256 65536 1000000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cases import binary, passes
from harness import Action, Case, apart, exponent, extra_megabytes, interleave, one_thread, without_avx512
from records import Part, Row, Table, Verdict
from setwise import AUCLoss

LEVELS = {64: 2.5, 256: 3.0, 1024: 3.0, 4096: 3.0, 65_536: 6.0, 1_000_000: 8.0, 10_000_000: 8.0}
LEVELS_AVX512 = LEVELS | {65_536: 8.0, 1_000_000: 12.0}  # NumPy's own sort may be slow there, as on AMD's Zen 4
SORT_LEVELS = {10_000_000: 5.0}
GROWTH = 1.1
GROWTH_FROM = 10_000
SIZES = sorted({*LEVELS, GROWTH_FROM})


def sorting(n: int) -> Case:
    """A sort of integers of 64 bits, which is what a sort of float32 scores with their positions amounts to."""

    def case() -> Action:
        keys = np.random.default_rng().integers(-(2**62), 2**62, n)
        return lambda: np.sort(keys)

    return case


def spent(n: int) -> float:
    """Megabytes of one pass beyond the input and its gradient."""
    loss = AUCLoss()
    loss(*binary(256)).backward()
    scores, target = binary(n)
    return extra_megabytes(lambda: loss(scores, target).backward()) - scores.nbytes / 2**20


def measured(sizes: Sequence[int]) -> dict[str, Any]:
    """The times by size and the ratios in this process, as JSON."""
    rows, verdicts = [], []
    kind, levels = ("with AVX-512", LEVELS_AVX512) if without_avx512() else ("without AVX-512", LEVELS)
    for n in sizes:
        losses = {"BCEWithLogitsLoss": torch.nn.BCEWithLogitsLoss(), "AUCLoss": AUCLoss()}
        cases = {name: passes(loss, n) for name, loss in losses.items()} | {"np.sort of int64": sorting(n)}
        times = interleave(cases, max(15, min(2000, 20_000_000 // n)), warm_up=3 if n < 2_000_000 else 1)
        bce, auc, plain = (timing.ms for timing in times.values())
        verdicts.append(Verdict(f"{kind}: AUCLoss / BCE, n = {n:,}", auc / bce, levels.get(n)))
        if n in SORT_LEVELS:
            verdicts.append(Verdict(f"{kind}: AUCLoss / np.sort of int64, n = {n:,}", auc / plain, SORT_LEVELS[n]))
        memory = {"AUCLoss": apart(spent)(n)} if n >= 65_536 else {}
        rows += [Row(name, f"{n:,}", n, timing.ms, memory.get(name)) for name, timing in times.items()]
    large = [(row.n, row.ms) for row in rows if row.method == "AUCLoss" and row.n and row.ms and row.n >= GROWTH_FROM]
    if len(large) > 1:
        growth = exponent(*zip(*large, strict=True))
        verdicts.append(Verdict(f"{kind}: growth exponent of AUCLoss", growth, GROWTH))
    table = Table(f"AUCLoss beside cross-entropy, NumPy {kind}", rows, memory_case=f"{max(sizes):,}")
    return Part([table], verdicts).as_json()


def part(sizes: Sequence[int] = SIZES) -> Part:
    """As NumPy sorts here, and where that is with AVX-512, without it in a process of its own."""
    found = [Part.from_json(measured(sizes))]
    if without_avx512():
        found.append(Part.from_json(apart(measured, without_avx512())(list(sizes))))
    return Part([table for each in found for table in each.tables], [v for each in found for v in each.verdicts])


def main() -> None:
    """Print the table, and keep it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    one_thread()
    found = part(args.sizes)
    print(f"\n{found.markdown()}")
    if args.json:
        args.json.write_text(json.dumps(found.as_json(), indent=1))


if __name__ == "__main__":
    main()
