"""CPU seconds and memory of reading tables: ours beside pandas for CSV, beside pyarrow and pandas for Parquet.

    python benchmarks/read_tables.py            # 300,000 rows of 20 columns, and a table of texts
    python benchmarks/read_tables.py 30000      # fewer rows

Each reading runs in a process of its own, in turns; CPU seconds are the median of several, memory the peak over that of
the imports alone. Two times the CPU seconds are allowed, and three times the memory of pandas for CSV. The table of
texts (quoted commas, many different texts) is shown beside them.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from setwise_research.machine import cpu

ROWS, TURNS = 300_000, 3
MOST_CPU, MOST_MEMORY = 2.0, 3.0
_PANDAS = "import pandas, numpy, pyarrow, pyarrow.compute, pyarrow.csv, pyarrow.parquet"
_OURS = f"{_PANDAS}; from setwise.data import read_table"
_READERS = {
    "csv": ((_PANDAS, "pandas.read_csv({!r})"), (_OURS, "read_table({!r}, target='y')")),
    "parquet": (
        (_PANDAS, "pyarrow.parquet.read_table({!r}, use_threads=False).to_pandas()"),
        (_OURS, "read_table({!r}, target='y')"),
    ),
}
# Only what is read is timed. The peak so far, before and after, tells what reading adds; on Linux by VmHWM, since
# ru_maxrss of a new process starts at the peak of the process that made it.
_RUN = """
import pathlib, re, resource, sys, time
def peak():
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
{imports}
before = peak()
start = time.process_time()
table = {call}
seconds = time.process_time() - start
print(seconds, peak() - before)
"""


def mixed_table(rows: int) -> pd.DataFrame:
    """Twenty columns: floats, whole numbers, categories, a date, gaps, and a target."""
    generator = np.random.default_rng(0)
    columns: dict[str, object] = {f"f{k}": generator.normal(size=rows).round(4) for k in range(8)}
    columns |= {f"n{k}": generator.integers(0, 10 ** (k + 1), rows) for k in range(4)}
    columns |= {f"c{k}": generator.choice([f"kind {v}" for v in range(5 * (k + 1))], rows) for k in range(4)}
    start, days = np.datetime64("2020-01-01"), generator.integers(0, 1500, rows)
    columns["when"] = np.datetime_as_string(start + days.astype("timedelta64[D]"))
    for k in range(2):
        columns[f"g{k}"] = np.where(generator.random(rows) < 0.1, np.nan, generator.exponential(size=rows).round(3))
    columns["y"] = generator.integers(0, 2, rows)
    return pd.DataFrame(columns)


def text_table(rows: int) -> pd.DataFrame:
    """Six columns: names with commas, free texts that hardly repeat, categories, a number, and a target."""
    generator = np.random.default_rng(1)
    words = np.array([f"word{k}" for k in range(500)])
    picked = words[generator.integers(0, len(words), (rows, 6))]
    columns: dict[str, object] = {"note": [" ".join(row) for row in picked]}
    columns["name"] = [f"Smith{a}, John{b}" for a, b in generator.integers(0, 500, (rows, 2))]
    columns["city"] = generator.choice([f"City {k}, State" for k in range(100)], rows)
    columns["mail"] = [f"user{k}@mail.com" for k in generator.permutation(rows)]
    columns["x"] = generator.normal(size=rows).round(4)
    columns["y"] = generator.integers(0, 2, rows)
    return pd.DataFrame(columns)


def measure(imports: str, call: str) -> tuple[float, float]:
    """CPU seconds and bytes of one reading in a new process."""
    script = _RUN.format(imports=imports, call=call)
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 (our own script)
    seconds, size = ended.stdout.split()
    return float(seconds), float(size)


def compare(title: str, path: Path, kind: str) -> tuple[float, float]:
    """Ratios of CPU seconds and memory, ours to theirs; both readings take turns."""
    results: list[list[tuple[float, float]]] = [[], []]
    for _ in range(TURNS):
        for found, (imports, call) in zip(results, _READERS[kind], strict=True):
            found.append(measure(imports, call.format(str(path))))
    (cpu_of_theirs, size_of_theirs), (cpu_of_ours, size_of_ours) = (
        (statistics.median(each[0] for each in found), statistics.median(each[1] for each in found))
        for found in results
    )
    ratios = cpu_of_ours / cpu_of_theirs, size_of_ours / max(size_of_theirs, 1.0)
    print(
        f"{title:<16} {cpu_of_theirs:6.2f} s {size_of_theirs / 1e6:6.0f} MB   ours {cpu_of_ours:6.2f} s "
        f"{size_of_ours / 1e6:6.0f} MB   ratios {ratios[0]:.2f} and {ratios[1]:.2f}"
    )
    return ratios


def main() -> int:
    """Measure and print; 1 where a limit is passed."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    print(f"{cpu()}; {rows:,} rows; CPU seconds and memory of pandas (and pyarrow), and ours")
    with tempfile.TemporaryDirectory() as folder:
        kept = []
        for name, frame in (("mixed", mixed_table(rows)), ("texts", text_table(rows))):
            csv, parquet = Path(folder) / f"{name}.csv", Path(folder) / f"{name}.parquet"
            frame.to_csv(csv, index=False)
            frame.to_parquet(parquet, index=False)
            of_csv, of_parquet = compare(f"{name}, CSV", csv, "csv"), compare(f"{name}, Parquet", parquet, "parquet")
            within = of_csv[0] <= MOST_CPU and of_csv[1] <= MOST_MEMORY and of_parquet[0] <= MOST_CPU
            kept.append(within or name == "texts")
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
