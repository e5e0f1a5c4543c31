"""CPU seconds of linear scorers on the AUC hinge beside scikit-learn's ``LogisticRegression``, dense and sparse.

    python benchmarks/linear_speed.py [--quick] [--file FILE]

Dense: 100,000 x 100 normal features, 20 % positives by a noisy linear score. Sparse: 50,000 x 20,000, about 60 words
per row drawn by Zipf's law, TF-IDF with rows of length 1. Both on one thread, medians of three runs, one line each:
seconds, their ratio to logistic regression at its defaults, and the objective with the bound on its error. At most 5
times the seconds of logistic regression are allowed on the dense data, and 10 times on the sparse.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness import one_thread
from setwise.linear import fit_auc_hinge, fit_auc_squared_hinge
from setwise_research.machine import cpu

L2 = (1e-3, 1e-4)
RUNS = 3
ALLOWED = {"dense": 5.0, "sparse": 10.0}


def dense(rows: int, columns: int) -> tuple[Any, Any]:
    """Normal features."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, columns))
    return X, labels(X @ rng.standard_normal(columns), 1.0, rng)


def sparse(rows: int, columns: int, words: int = 60) -> tuple[Any, Any]:
    """TF-IDF of random words."""
    from scipy.sparse import csr_matrix, diags

    rng = np.random.default_rng(0)
    frequency = np.cumsum(1 / (np.arange(columns) + 20.0))
    word = np.searchsorted(frequency / frequency[-1], rng.random(rows * words)).clip(0, columns - 1)
    X = csr_matrix((np.ones(rows * words), (np.repeat(np.arange(rows), words), word)), shape=(rows, columns))
    X.sum_duplicates()
    documents = np.bincount(X.indices, minlength=columns)
    X.data = (1 + np.log(X.data)) * (np.log((1 + rows) / (1 + documents)) + 1)[X.indices]
    X = csr_matrix(diags(1 / np.sqrt(np.asarray(X.multiply(X).sum(1)).ravel())) @ X)
    return X, labels(X @ (rng.standard_normal(columns) * (rng.random(columns) < 0.1)), 0.7, rng)


def labels(score: Any, noise: float, rng: np.random.Generator) -> Any:
    """The upper fifth of standardized scores with noise."""
    noisy = score / score.std() + noise * rng.standard_normal(len(score))
    return (noisy > np.quantile(noisy, 0.8)).astype(np.int64)


def seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    """The median CPU time, and the last result."""
    taken = []
    for _ in range(RUNS):
        start = time.process_time()
        result = action()
        taken.append(time.process_time() - start)
    return statistics.median(taken), result


def measure(name: str, X: Any, y: Any) -> list[dict[str, Any]]:
    """All methods on one data set."""
    from sklearn.linear_model import LogisticRegression

    base, model = seconds(lambda: LogisticRegression().fit(X, y))
    shared = {"data": name, "shape": list(X.shape)}
    rows = [shared | {"method": "LogisticRegression()", "seconds": base, "steps": int(model.n_iter_[0])}]
    for fit in (fit_auc_hinge, fit_auc_squared_hinge):
        for l2 in L2:
            taken, found = seconds(functools.partial(fit, X, y, l2=l2))
            rows.append(
                shared
                | {
                    "method": f"{fit.__name__}(l2={l2:g})",
                    "seconds": taken,
                    "ratio": taken / base,
                    "steps": found.evaluations,
                    "value": float(found.value),
                    "gap": float(found.gap),
                    "converged": bool(found.converged),
                }
            )
    return rows


def main() -> int:
    """Measure, print, store; 1 where a hinge takes longer than allowed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--file", type=Path)
    arguments = parser.parse_args()
    one_thread()
    part = 10 if arguments.quick else 1
    print(f"CPU: {cpu()}; one thread, medians of {RUNS}")
    rows = measure("dense", *dense(100_000 // part, 100)) + measure("sparse", *sparse(50_000 // part, 20_000))
    for row in rows:
        line = f"{row['data']:6} {row['shape'][0]:,} x {row['shape'][1]:,}  {row['method']:32} {row['seconds']:6.2f} s"
        if "ratio" in row:
            line += f"  {row['ratio']:5.2f} x  value {row['value']:.9f}  gap {row['gap']:.0e}"
        print(f"{line}  {row['steps']} steps")
    if arguments.file is not None:
        arguments.file.write_text(json.dumps({"cpu": cpu(), "threads": 1, "runs": RUNS, "rows": rows}, indent=2) + "\n")
    return int(any(row.get("ratio", 0.0) > ALLOWED[row["data"]] or not row.get("converged", True) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
