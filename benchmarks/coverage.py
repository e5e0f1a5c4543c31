"""Do certified thresholds keep their promise? Simulation on populations whose rates are known exactly.

Calibration cases are drawn from normal mixtures (:mod:`populations`): continuous scores, scores rounded to a lattice
(most are tied), and a mixture with false alarms at the top, whose precision is not monotone. A threshold is chosen with
`choose_threshold(..., confidence=0.95)`, and the population's rate at this threshold says whether the constraint holds.
Constraints "out of reach" are missed by the population everywhere, if only just: each certificate is an error.

    python benchmarks/coverage.py [--draws 2000] [--processes 1] [--only precision cost] [--positives 12 29]
        [--out docs/results/coverage.csv] [--markdown coverage.md]

A line for each cell as it ends; cells that stand in the file already are kept. Exit code 1 where more draws than 5 %
and 3.5 standard errors are certified and violated, where anything is certified with fewer rows than it needs, or where
fewer than 80 % of draws are certified though the margin is wide. About an hour of one core.
"""

from __future__ import annotations

import argparse
import csv
import math
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from populations import Draw, Population, population
from setwise.metrics import ThresholdChoice, choose_threshold
from setwise.metrics.constraints import read_constraints, read_rate

CONFIDENCE = 0.95
KINDS = ("continuous", "tied", "mixture")
POSITIVES = (12, 28, 29, 50, 80, 300, 2000)
NAIVE_DRAWS = 500  # a share of about one half needs no more
WIDE = 0.8  # certified share where the margin is wide
ERRORS = 3.5  # standard errors above 5 %
GROUPS = 4


@dataclass(frozen=True)
class Case:
    """What is asked of a threshold, and from how many positives on the answer should be a certificate.

    Attributes:
        name: In the table.
        subject_to: The constraints; ``{best}`` stands for the best value of the rate that the population allows.
        maximize: The objective.
        wide: From so many positives on the margin is wide, for each kind of scores; None: never.
        exact: Whether the number of positives is exact, or that of cases.
        change: Turns the population into the one of this case.
        out_of_reach: A factor on the best value, which makes the level one that no threshold meets.
        options: Further arguments: weights, groups.
    """

    name: str
    subject_to: str
    maximize: str
    wide: tuple[int, int, int] | None
    exact: bool = False
    change: Callable[[Population], Population] | None = None
    out_of_reach: float = 0.0
    options: frozenset[str] = field(default_factory=frozenset)


CASES = (
    Case("recall >= 0.8", "recall>=0.8", "precision", (28, 28, 28), exact=True),
    Case("recall >= 0.9", "recall>=0.9", "precision", (29, 29, 29), exact=True),
    Case("FPR <= 0.05", "fpr<=0.05", "recall", (28, 28, 28), exact=True),
    Case("precision >= 0.5", "precision>=0.5", "recall", (50, 50, 80)),
    Case("recall >= 0.8 and precision >= 0.5", "recall>=0.8,precision>=0.5", "f1", (300, 300, 2000)),
    Case(
        "recall >= 0.8 in each of 4 groups",
        "recall>=0.8",
        "precision",
        (80, 80, 80),
        exact=True,
        change=Population.with_groups,
        options=frozenset({"group"}),
    ),
    Case(
        "the same, a threshold for each",
        "recall>=0.8",
        "precision",
        (80, 80, 80),
        exact=True,
        change=Population.with_groups,
        options=frozenset({"group", "per_group"}),
    ),
    Case("positive rate <= 0.2", "positive_rate<=0.2", "recall", (12, 12, 12)),
    Case("top_k <= 150/1000", "top_k<=150/1000", "recall", (12, 12, 12)),
    Case("cost(5,1) <= 0.5", "cost(5,1)<=0.5", "-cost(5,1)", (300, 300, 2000)),
    Case("F1 >= 0.5", "f1>=0.5", "f1", (300, 300, 300)),
    Case(
        "recall >= 0.8, weighted",
        "recall>=0.8",
        "precision",
        (80, 80, 80),
        exact=True,
        change=Population.with_weights,
        options=frozenset({"weight"}),
    ),
    Case(
        "precision, out of reach",
        "precision>={best}",
        "recall",
        None,
        change=Population.without_information,
        out_of_reach=1.02,
    ),
    Case("F1, out of reach", "f1>={best}", "f1", None, out_of_reach=1.01),
    Case("cost, out of reach", "cost(5,1)<={best}", "-cost(5,1)", None, out_of_reach=0.98),
)


@dataclass
class Cell:
    """One line of the table; shares are of all draws."""

    scores: str
    case: str
    positives: int
    draws: int
    certified: float
    violated: float
    limit: float
    naive_holds: float
    objective: float
    wide: bool
    too_few: int  # certified with fewer rows than needed

    @property
    def failures(self) -> list[str]:
        """What of the promise is not kept."""
        found = []
        if self.violated > self.limit:
            found.append(f"certified and violated in {self.violated:.2%}, more than {self.limit:.2%}")
        if self.too_few:
            found.append(f"{self.too_few} draws certified with fewer rows than needed")
        if self.wide and self.certified < WIDE:
            found.append(f"certified in {self.certified:.1%} only, though the margin is wide")
        return found


def simulate(kind: str, case: Case, positives: int, draws: int) -> Cell:
    """All draws of one cell."""
    people = population(kind)
    if case.change is not None:
        people = case.change(people)
    text = case.subject_to.format(best=f"{_best(people, case) * case.out_of_reach:.17g}")
    rng = np.random.default_rng([positives, KINDS.index(kind), [each.name for each in CASES].index(case.name)])
    certified = violated = too_few = held = 0
    objectives = []
    for number in range(draws):
        draw = people.draw(rng, positives, exact=case.exact)
        options = _options(case, draw)
        choice = choose_threshold(
            draw.scores, draw.labels, maximize=case.maximize, subject_to=text, confidence=CONFIDENCE, **options
        )
        if choice.certified:
            certified += 1
            violated += not _holds(people, case, text, choice.threshold)
            too_few += _too_few(text, draw, case)
            objectives.append(float(read_rate("maximize", case.maximize, to_maximize=True)(*_all(people, choice))))
        if number < NAIVE_DRAWS:
            options.pop("max_weight", None)
            naive = choose_threshold(draw.scores, draw.labels, maximize=case.maximize, subject_to=text, **options)
            held += _holds(people, case, text, naive.threshold)
    delta = 1 - CONFIDENCE
    return Cell(
        scores=kind,
        case=case.name,
        positives=positives,
        draws=draws,
        certified=certified / draws,
        violated=violated / draws,
        limit=round(delta + ERRORS * math.sqrt(delta * (1 - delta) / draws), 6),
        naive_holds=held / min(draws, NAIVE_DRAWS),
        objective=float(np.mean(objectives)) if objectives else math.nan,
        wide=case.wide is not None and positives >= case.wide[KINDS.index(kind)],
        too_few=too_few,
    )


def _options(case: Case, draw: Draw) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if "group" in case.options:
        options["group"] = draw.group
    if "per_group" in case.options:
        options["per_group"] = True
    if "weight" in case.options:
        options |= {"weight": draw.weight, "max_weight": 3.0}
    return options


def _best(people: Population, case: Case) -> float:
    """The best value that any threshold gives the constrained rate."""
    if not case.out_of_reach:
        return math.nan
    constraint = read_constraints(case.subject_to.format(best="0.5"))[0]
    rates = [float(constraint.rate(*people.counts(t))) for t in np.arange(-512, 513) / 128]
    return max(rates) if constraint.sign == ">=" else min(rates)


def _holds(people: Population, case: Case, text: str, threshold: Any) -> bool:
    """Whether the population meets all constraints, in all groups."""
    every: Iterable[int | None] = range(GROUPS) if "group" in case.options else (None,)
    for group in every:
        own = threshold[group] if isinstance(threshold, dict) else threshold
        counts = people.counts(own, group, weighted="weight" in case.options)
        for constraint in read_constraints(text):
            rate = float(constraint.rate(*counts))
            # The populations' rates are exact to rounding.
            short = constraint.level - rate if constraint.sign == ">=" else rate - constraint.level
            if short > 1e-12:
                return False
    return True


def _all(people: Population, choice: ThresholdChoice) -> NDArray[np.float64]:
    """The population's (tp, fp, fn, tn) at the chosen threshold or thresholds."""
    if isinstance(choice.threshold, dict):
        return np.asarray(sum(people.counts(own, group) for group, own in choice.threshold.items()))
    return people.counts(choice.threshold)


def _too_few(text: str, draw: Draw, case: Case) -> bool:
    """Whether the draw has fewer rows than the fewest that can certify it: level^n <= delta, counted anew here."""
    constraints = read_constraints(text)
    delta = (1 - CONFIDENCE) / len(constraints)
    if "per_group" in case.options:
        delta /= GROUPS
    smallest = [(draw.labels[draw.group == group] > 0).sum() for group in np.unique(draw.group)]
    for constraint in constraints:
        match constraint.name:
            case "recall":
                rows, share = min(smallest), constraint.level
            case "fpr":
                rows, share = int((draw.labels == 0).sum()), 1 - constraint.level
            case "positive_rate" | "top_k":
                rows, share = len(draw.labels), 1 - constraint.level
            case "precision":
                rows, share = len(draw.labels), constraint.level
            case _:
                continue
        if share**rows > delta * (1 + 1e-9):
            return True
    return False


def _work(job: tuple[str, Case, int, int]) -> Cell:
    torch.set_num_threads(1)
    return simulate(*job)


def read(path: Path) -> list[Cell]:
    """The cells of a file, none where there is none."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [Cell(**{key: _value(key, text) for key, text in row.items()}) for row in csv.DictReader(file)]


def _value(column: str, text: str) -> Any:
    kind = next(str(each.type) for each in fields(Cell) if each.name == column)
    return text == "True" if kind == "bool" else {"str": str, "int": int, "float": float}[kind](text)


def write(path: Path, cells: Sequence[Cell]) -> None:
    """One line for each cell, in the order of the cases."""
    names = [case.name for case in CASES]
    ordered = sorted(cells, key=lambda cell: (names.index(cell.case), KINDS.index(cell.scores), cell.positives))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Cell)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in asdict(cell).items()}
            for cell in ordered
        )


def markdown(cells: Sequence[Cell]) -> str:
    """Certified / certified and violated, in percent: the least and the largest of the three kinds of scores."""
    sizes = sorted({cell.positives for cell in cells})
    lines = [
        f"| positives | {' | '.join(f'{size:,}' for size in sizes)} | naive holds |",
        "|---" * (len(sizes) + 2) + "|",
    ]
    for case in CASES:
        entries = []
        for size in sizes:
            here = [cell for cell in cells if cell.case == case.name and cell.positives == size]
            least, worst = (
                (min(each.certified for each in here), max(each.violated for each in here)) if here else (0, 0)
            )
            entries.append(f"{100 * least:.0f} / {100 * worst:.1f}" if here else "")
        naive = [cell.naive_holds for cell in cells if cell.case == case.name]
        span = f"{100 * min(naive):.0f} to {100 * max(naive):.0f}" if naive else ""
        lines.append(f"| {case.name} | {' | '.join(entries)} | {span} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the cells that are missing; 1 where the promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the names of cases")
    parser.add_argument("--positives", nargs="*", type=int, default=list(POSITIVES))
    parser.add_argument("--out", type=Path, default=Path("docs/results/coverage.csv"))
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    cells = read(options.out)
    done = {(cell.scores, cell.case, cell.positives, cell.draws) for cell in cells}
    jobs = [
        (kind, case, size, options.draws)
        for size in options.positives
        for case in CASES
        for kind in KINDS
        if any(part in case.name for part in options.only) and (kind, case.name, size, options.draws) not in done
    ]
    with multiprocessing.Pool(options.processes) as pool:
        for cell in pool.imap(_work, jobs):
            cells = [each for each in cells if (each.scores, each.case, each.positives) != _key(cell)] + [cell]
            write(options.out, cells)
            print(
                f"{cell.positives:5d} {cell.scores:10s} {cell.case:35s} certified {cell.certified:6.1%}  violated "
                f"{cell.violated:6.2%} (limit {cell.limit:.2%})  naive holds {cell.naive_holds:4.0%}  "
                f"objective {cell.objective:.4f}  {'; '.join(cell.failures)}",
                flush=True,
            )
    if options.markdown:
        options.markdown.write_text(markdown(cells), encoding="utf-8")
    failures = [f"{cell.scores}, {cell.case}, {cell.positives}: {text}" for cell in cells for text in cell.failures]
    print("\n".join(failures) or "The promise is kept in every cell.")
    return 1 if failures else 0


def _key(cell: Cell) -> tuple[str, str, int]:
    return cell.scores, cell.case, cell.positives


if __name__ == "__main__":
    sys.exit(main())
