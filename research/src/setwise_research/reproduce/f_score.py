"""F1-score: cross-entropy, with the threshold at 0.5 and with a tuned one, beside losses of F1 itself.

F1 has a local optimum at which everything is predicted positive, 2 p / (1 + p) for a share p of positives (66.7 % where
both classes are as frequent), and the papers report solvers that end there. The share of the test set that is called
positive at 0.5 is a column of the table, so that one sees who does. Table 4 of the 2020 version.

The program's own gradient is zero where a box has closed (a positive with a score below 0). That is what a general
solver gives, so it is what the rows of cvxpylayers and qpth train on; ``lp`` is the same value by :class:`FBetaLoss`,
which keeps the slope there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from setwise.losses import FBetaLoss
from setwise.measures import parse
from setwise.metrics import choose_threshold
from setwise_research.baselines import weighted_cross_entropy
from setwise_research.reproduce.entry import Table
from setwise_research.reproduce.learners import Method, of_lagrangian, of_loss, of_recipe
from setwise_research.reproduce.peers import RIDGE, ProgramLoss, adversarial_f1, by_cvxpylayers, by_qpth

ALL_POSITIVE = 0.95  # share predicted positive from which on a run counts as stuck there


def best_f1(scores: Any, labels: Any, *, weight: Any = None) -> float:
    """F1 at its best threshold, by which the validation set is judged; at 0.5 it may be 0 where few are positive."""
    return choose_threshold(scores, labels, maximize="f1", weight=weight).value


def _stuck(records: Sequence[Mapping[str, Any]]) -> str:
    """Which runs ended where everything is positive."""
    counts: dict[str, list[bool]] = {}
    for record in records:
        if record["metrics"]:
            stuck = record["metrics"]["positive_at_half"] >= ALL_POSITIVE
            counts.setdefault(f"{TABLE.methods[record['method']].title} at {record['level']:g} %", []).append(stuck)
    found = [f"{name} ({sum(runs)} of {len(runs)})" for name, runs in counts.items() if any(runs)]
    if not found:
        return "No run ended where everything is predicted positive."
    return f"Runs that call at least {100 * ALL_POSITIVE:g} % positive at 0.5: {', '.join(found)}."


def _needing(package: str, key: str, title: str, make: Callable[[], nn.Module], **settings: Any) -> Method:
    return of_loss(key, title, lambda _: make(), needs=package, **settings)


METHODS = (
    of_loss("cross_entropy", "Cross-entropy", lambda _: nn.BCEWithLogitsLoss()),
    of_loss("weighted_cross_entropy", "Weighted cross-entropy", weighted_cross_entropy),
    of_loss("soft_f1", "Soft F1", lambda _: FBetaLoss(surrogate="sigmoid"), surrogate="sigmoid"),
    of_loss("lp", "LP of F1 alone", lambda _: FBetaLoss(), surrogate="hinge"),
    of_lagrangian("eban", "Eban's Lagrangian", "f1"),
    _needing(
        "cvxpylayers", "cvxpylayers", "LP by cvxpylayers (SCS)", lambda: ProgramLoss(by_cvxpylayers), solver="SCS"
    ),
    _needing("qpth", "qpth", "LP by qpth", lambda: ProgramLoss(by_qpth), ridge=RIDGE),
    _needing("ap_perf", "ap_perf", "AP-Perf", adversarial_f1),
    of_recipe("f1", "Ours (Recipe)"),
)

TABLE = Table(
    measure=replace(parse("f1"), metric=best_f1),
    methods={method.key: method for method in METHODS},
    columns={
        "f1": "F1, tuned threshold",
        "f1_at_half": "F1 at 0.5",
        "positive_at_half": "Share predicted positive at 0.5",
        "auroc": "AUROC",
    },
    baseline="cross_entropy",
    note=_stuck,
)
