"""Certified thresholds beside MAPIE's `BinaryClassificationController`, on populations whose rates are known.

Both get the same calibration draws, the same constraint, confidence 0.95 and the same objective: precision under a
floor of recall, recall under a floor of precision or a ceiling of the FPR. MAPIE tests its default 100 thresholds on
probabilities (here the true ones of the binormal model), by its default, Bonferroni-Holm, and by its fixed sequence.

    python benchmarks/certified_peers.py [--draws 300] [--positives 29 50 80 300 2000] [--only recall]
        [--out docs/results/certified_peers.csv]

Prints the shares of draws that each certifies and, over the draws that both certify, the mean of the objective in the
population, and how often what is certified does not hold there. Exit code 1 where ours is lower by more than two
standard errors of the paired difference, unless MAPIE's method violates more than it promises on such scores. About ten
minutes of one core; needs the environment of `make bench`.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from populations import population
from setwise.metrics import choose_threshold
from setwise.metrics.constraints import read_constraints, read_rate

BinaryClassificationController = import_module("mapie.risk_control").BinaryClassificationController  # no annotations

CONFIDENCE = 0.95
PREVALENCE = 0.25
KINDS = ("continuous", "tied", "mixture")
METHODS = ("bonferroni_holm", "fixed_sequence")
CASES = {  # constraint: MAPIE's risk, level, objective
    "recall>=0.9": ("recall", 0.9, "precision"),
    "recall>=0.8": ("recall", 0.8, "precision"),
    "precision>=0.5": ("precision", 0.5, "recall"),
    "precision>=0.57": ("precision", 0.57, "recall"),  # just above what the tied scores give at one threshold, 0.568
    "precision>=0.8": ("precision", 0.8, "recall"),
    "fpr<=0.05": ("fpr", 0.05, "recall"),
}
OFFSET = 2.0 - math.log(PREVALENCE / (1 - PREVALENCE))  # log-odds of the binormal model: 2 s - OFFSET


@dataclass
class Line:
    """One line of the table; means are over the draws that both certify."""

    constraint: str
    objective: str
    scores: str
    positives: int
    mapie_method: str
    draws: int
    certified: float
    mapie_certified: float
    both: int
    mean: float
    mapie_mean: float
    standard_error: float  # of the paired difference
    violated: float  # certified and violated, of all draws
    mapie_violated: float

    @property
    def behind(self) -> bool:
        """Whether ours is significantly lower."""
        return self.both > 1 and self.mean - self.mapie_mean < -max(2 * self.standard_error, 1e-9)

    @property
    def broken(self) -> bool:
        """Whether MAPIE certifies and violates more often than it promises, by 3.5 standard errors."""
        delta = 1 - CONFIDENCE
        return self.mapie_violated > delta + 3.5 * math.sqrt(delta * (1 - delta) / self.draws)


def mapie_threshold(probabilities: NDArray[np.float64], labels: NDArray[np.int64], text: str, method: str) -> float:
    """MAPIE's threshold as a score; NaN where it certifies none."""
    risk, level, objective = CASES[text]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing could be certified
        controller = BinaryClassificationController(
            lambda rows: rows,
            risk,
            level,
            confidence_level=CONFIDENCE,
            best_predict_param_choice=objective,
            fwer_method=method,
        )
        controller.calibrate(np.column_stack([1 - probabilities, probabilities]), labels)
    found = controller.best_predict_param
    if found is None:
        return math.nan
    return -math.inf if found <= 0 else (math.log(found / (1 - found)) + OFFSET) / 2


def compare(text: str, kind: str, positives: int, draws: int) -> list[Line]:
    """All draws, with each of MAPIE's methods."""
    people = population(kind, PREVALENCE)
    name = CASES[text][2]
    rate = read_rate("maximize", name)
    rng = np.random.default_rng([positives, KINDS.index(kind)])
    (constraint,) = read_constraints(text)

    def outcome(threshold: float) -> tuple[float, bool]:
        """The objective in the population, and whether the constraint is violated there; NaN: not certified."""
        if math.isnan(threshold):
            return math.nan, False
        counts = people.counts(threshold)
        found = float(constraint.rate(*counts))
        short = constraint.level - found if constraint.sign == ">=" else found - constraint.level
        return float(rate(*counts)), short > 1e-12

    ours: list[tuple[float, bool]] = []
    theirs: dict[str, list[tuple[float, bool]]] = {method: [] for method in METHODS}
    for _ in range(draws):
        draw = people.draw(rng, positives, exact=text.startswith("recall"))
        choice = choose_threshold(draw.scores, draw.labels, maximize=name, subject_to=text, confidence=CONFIDENCE)
        ours.append(outcome(choice.threshold if choice.certified else math.nan))
        probabilities = 1 / (1 + np.exp(OFFSET - 2 * draw.scores))
        for method in METHODS:
            theirs[method].append(outcome(mapie_threshold(probabilities, draw.labels, text, method)))
    own = np.asarray([value for value, _ in ours])
    lines = []
    for method in METHODS:
        other = np.asarray([value for value, _ in theirs[method]])
        both = ~np.isnan(own) & ~np.isnan(other)
        count = int(both.sum())
        lines.append(
            Line(
                constraint=text,
                objective=name,
                scores=kind,
                positives=positives,
                mapie_method=method,
                draws=draws,
                certified=float((~np.isnan(own)).mean()),
                mapie_certified=float((~np.isnan(other)).mean()),
                both=count,
                mean=float(own[both].mean()) if count else math.nan,
                mapie_mean=float(other[both].mean()) if count else math.nan,
                standard_error=float((own - other)[both].std(ddof=1) / math.sqrt(count)) if count > 1 else math.nan,
                violated=float(np.mean([missed for _, missed in ours])),
                mapie_violated=float(np.mean([missed for _, missed in theirs[method]])),
            )
        )
    return lines


def write(path: Path, lines: Sequence[Line]) -> None:
    """The table as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Line)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in asdict(line).items()}
            for line in lines
        )


def main() -> int:
    """Run all lines; 1 where ours is behind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--positives", nargs="*", type=int, default=[29, 50, 80, 300, 2000])
    parser.add_argument("--only", default="", help="a part of the constraint")
    parser.add_argument("--out", type=Path, default=Path("docs/results/certified_peers.csv"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines: list[Line] = []
    for positives in options.positives:
        for text in CASES:
            for kind in KINDS if options.only in text else ():
                found = compare(text, kind, positives, options.draws)
                lines += found
                write(options.out, lines)
                for line in found:
                    shares = f"certified {line.certified:4.0%}, MAPIE {line.mapie_certified:4.0%}"
                    means = f"{line.mean:.4f}, MAPIE {line.mapie_mean:.4f} (+- {line.standard_error:.4f})"
                    print(
                        f"{positives:5d} {kind:10s} {text:14s} {line.mapie_method:15s} {shares}; both {line.both}: "
                        f"{line.objective} {means}; violated {line.violated:.1%}, MAPIE {line.mapie_violated:.1%}"
                        f"{'  BEHIND' if line.behind else ''}",
                        flush=True,
                    )
    # A method that certifies what does not hold may well be ahead.
    broken = {(line.scores, line.positives, line.mapie_method) for line in lines if line.broken}
    for scores, positives, method in sorted(broken):
        print(f"MAPIE's {method} breaks its promise on {scores} scores, {positives} positives.")
    return int(any(line.behind and (line.scores, line.positives, line.mapie_method) not in broken for line in lines))


if __name__ == "__main__":
    sys.exit(main())
