"""CPU seconds and memory of ``setwise evaluate``: a million rows, two columns of scores, one of groups.

    python benchmarks/evaluate_scale.py            # 1,000,000 rows
    python benchmarks/evaluate_scale.py 100000     # fewer

The command runs in a process of its own, from reading the CSV to writing the page. At most 20 CPU seconds and 1 GB are
allowed, and a page of 500 kB.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROWS = 1_000_000
MOST_SECONDS, MOST_BYTES, MOST_PAGE = 20.0, 1e9, 500_000
UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


def write_table(path: Path, rows: int) -> None:
    """Scores of two models as probabilities with six digits, 3 % positives, two groups."""
    generator = np.random.default_rng(0)
    positive = generator.random(rows) < 0.03
    latent = generator.normal(size=rows) + 2 * positive
    sex = np.where(generator.random(rows) < 0.45, "F", "M")
    p, q = (1 / (1 + np.exp(4.5 - 1.3 * (latent + noise * generator.normal(size=rows)))) for noise in (0.2, 0.5))
    with path.open("w", encoding="utf-8") as file:
        file.write("p,q,sex,fraud\n")
        file.writelines(
            f"{a:.6f},{b:.6f},{c},{d}\n" for a, b, c, d in zip(p, q, sex, np.where(positive, "yes", "no"), strict=True)
        )


def main() -> int:
    """Run the command and print what it took; 1 where that is above the limits."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as folder:
        table, page = Path(folder) / "scores.csv", Path(folder) / "report.html"
        write_table(table, rows)
        arguments = ["--score", "p", "--score", "q", "--target", "fraud", "--group", "sex"]
        arguments += ["--subject-to", "recall>=0.8", "--out", str(page), "--json", str(page.with_suffix(".json"))]
        code = f"import sys; from setwise.cli.app import run; sys.exit(run({['evaluate', str(table), *arguments]!r}))"
        start = time.perf_counter()
        ended = subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL)  # noqa: S603 (our own command)
        wall = time.perf_counter() - start
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds, memory = used.ru_utime + used.ru_stime, used.ru_maxrss * UNIT
        size = page.stat().st_size if page.exists() else 0
    print(f"{rows:,} rows, exit code {ended.returncode}: {seconds:.1f} CPU s ({wall:.1f} s), {memory / 1e6:.0f} MB")
    print(f"page: {size / 1e3:.0f} kB")
    kept = seconds <= MOST_SECONDS and memory <= MOST_BYTES and 0 < size <= MOST_PAGE and ended.returncode == 0
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
