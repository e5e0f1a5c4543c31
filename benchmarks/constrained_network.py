"""The network trained under rate constraints beside candidates that are not, all at their best threshold under them.

Adult (groups: sex, race) and COMPAS (race, two large groups), the protected attributes no columns of the inputs. All
candidates are cross-fitted on the same five folds. "All" is what the best threshold under the constraints reaches on
the out-of-fold scores of all rows; where none meets them, the worst violation stands with a minus. "Half" is the mean
over four random halves and their complements: the threshold is found on one, and the rate and the worst violation are
those of the other.

    python benchmarks/constrained_network.py [--rows 10000] [--only adult] [--cases 0 1]
        [--out runs/constrained_network.jsonl]

A line of JSON for each result goes to the file. Prints a table. Ten minutes of one core with all rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from setwise import metrics
from setwise.app.candidates import Rows, candidates_of
from setwise.app.constrained import constrained_network, constrained_value
from setwise.app.cross_fit import cross_fit
from setwise.app.folds import make_folds
from setwise.app.table_constraints import Constraints, Groups, group_columns
from setwise.data import data_root, load_table
from setwise.lagrangian.constraints.thresholds import ThresholdProblem
from setwise.measures import Measure, parse

MODELS = ("logistic", "lightgbm", "lightgbm_measure", "network", "network_measure")
CASES = (
    ("adult", "precision@recall>=0.8", "tpr_difference[group=sex]<=0.02"),
    ("adult", "f1", "tpr_difference[group=sex]<=0.02"),
    ("adult", "accuracy", "tpr_difference[group=sex]<=0.02"),
    ("adult", "f1", "recall[group=race]>=0.8"),
    ("compas", "precision@recall>=0.7", "tpr_difference[group=race]<=0.02"),
    ("compas", "accuracy", "tpr_difference[group=race]<=0.02"),
    ("compas", "precision@recall>=0.7", "recall[group=race]>=0.7"),
)
COMPAS_DROP = ("sex", "race", "is_recid", "decile_score", "score_text", "v_decile_score", "days_b_screening_arrest")
SPLITS = 4


def read(name: str, most: int | None) -> tuple[Rows, dict[str, Groups]]:
    """Rows and their groups; a random part where there are more than asked for."""
    folder = data_root() / "tabular"
    if name == "adult":
        table = load_table(folder / "adult.csv.xz", target="income", drop=["sex", "race", "split", "fnlwgt"])
        keep = np.arange(len(table.labels))
    else:
        table = load_table(folder / "compas_two_years.csv.xz", target="two_year_recid", drop=list(COMPAS_DROP))
        keep = np.flatnonzero(np.isin(table.dropped["race"], ["African-American", "Caucasian"]))
    if most is not None and most < len(keep):
        keep = np.sort(np.random.default_rng(0).permutation(keep)[:most])
    groups = {}
    for column in ("sex", "race"):
        names, codes = np.unique(np.asarray(table.dropped[column])[keep], return_inverse=True)
        groups[column] = Groups(codes.astype(np.int64), tuple(map(str, names)))
    return Rows.of(table.inputs[keep], table.labels[keep]), groups


def judge(
    scores: NDArray[np.float64],
    labels: NDArray[np.int64],
    constraints: Constraints,
    codes: Mapping[str, NDArray[np.int64]],
    measure: Measure,
) -> dict[str, float]:
    """Values at the best threshold under the constraints, on all rows and on halves."""
    everything, own = np.arange(len(labels)), measure.subject_to
    value = constrained_value(constraints, codes, measure.maximize_threshold, own)

    def problem(rows: NDArray[np.int64]) -> ThresholdProblem:
        group = constraints.columns({name: torch.from_numpy(each[rows]) for name, each in codes.items()})
        part = torch.from_numpy(scores[rows]), torch.from_numpy(labels[rows])
        return ThresholdProblem(*part, constraints.with_own(own), group, None, maximize=measure.maximize_threshold)

    values, violations = [], []
    for seed in range(SPLITS):
        halves = np.array_split(np.random.default_rng(seed).permutation(everything), 2)
        for first, second in (halves, halves[::-1]):
            found = problem(second).at([float(problem(first).best().threshold)])[0]
            values.append(found.value)
            violations.append(max(0.0, float(found.violation.max())))
    return {
        "all": value(scores, labels, None, everything),
        "half": float(np.mean(values)),
        "violation": float(np.mean(violations)),
        "ap": float(metrics.average_precision(scores, labels)),
    }


def run(name: str, measure: str, text: str, most: int | None) -> list[dict[str, Any]]:
    """All candidates on one case."""
    rows, groups = read(name, most)
    columns = {column: groups[column] for column in group_columns([text])}
    constraints, codes = Constraints([text], columns), {column: each.codes for column, each in columns.items()}
    candidates = [*candidates_of(MODELS), constrained_network(constraints, codes)]
    found = cross_fit(rows, make_folds(rows.y), measure, candidates)
    case = {"table": name, "rows": len(rows.y), "measure": measure, "constraint": text}
    return [
        {**case, "model": fit.candidate.title, **judge(fit.logits, rows.y, constraints, codes, parse(measure))}
        | {"seconds": fit.seconds}
        for fit in found.values()
    ]


def main() -> None:
    """Run, write each result as it comes, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="at most so many of a table")
    parser.add_argument("--only", nargs="+", default=["adult", "compas"])
    parser.add_argument("--cases", nargs="+", type=int, default=list(range(len(CASES))))
    parser.add_argument("--out", type=Path, default=Path("runs/constrained_network.jsonl"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    print("| table | rows | measure | constraint | model | all | half | violation | AP | CPU s |")
    print("|---|---:|---|---|---|---:|---:|---:|---:|---:|", flush=True)
    with args.out.open("w", encoding="utf-8") as file:
        for name, measure, text in (CASES[k] for k in args.cases if CASES[k][0] in args.only):
            for row in run(name, measure, text, args.rows):
                file.write(json.dumps(row) + "\n")
                numbers = (f"{row[key]:.4f}" for key in ("all", "half", "violation", "ap"))
                cells = name, str(row["rows"]), measure, text, row["model"], *numbers, f"{row['seconds']:.1f}"
                print(f"| {' | '.join(cells)} |", flush=True)
            file.flush()


if __name__ == "__main__":
    main()
