"""The table of measures: one row gives a measure the whole conformance battery."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sklearn.metrics
from torch import Tensor

from setwise import functional, losses, metrics
from setwise.lp import LinearProgram
from setwise.measures import auc_exact, auc_program
from support.oracles import pair_matrix


@dataclass(frozen=True)
class Case:
    """One measure with one choice of settings.

    Attributes:
        name: Shown as the test's id.
        loss: The module's class.
        functional: The loss as a function.
        settings: The options of both.
        oracle: The loss by brute force, ``oracle(scores, labels, weight, **settings)``, differentiable.
        exact: The program's optimum by structure, ``exact(scores, labels, weight=, **settings)``.
        program: The program, or None where these settings have none.
        program_settings: Its options.
        others: For every option another value that must change the loss.
        refused: Options that must be refused, each with a part of the message.
        limit: Options under which the loss is 1 - the hard measure on scores further apart than 0.01, or None.
        judge: The hard measure of scikit-learn, ``judge(labels, scores)``.
        metric: Ours.
        curved: Whether the second derivative is not zero.
        every_error_has_gradient: Whether a misranked or misclassified sample always keeps a gradient.
    """

    name: str
    loss: Callable[..., Any]
    functional: Callable[..., Tensor]
    settings: dict[str, Any]
    oracle: Callable[..., Tensor]
    exact: Callable[..., Tensor]
    program: Callable[..., LinearProgram] | None
    program_settings: dict[str, Any]
    others: dict[str, Any]
    refused: list[tuple[dict[str, Any], str]]
    limit: dict[str, Any] | None
    judge: Callable[..., float]
    metric: Callable[..., float]
    curved: bool = False
    every_error_has_gradient: bool = True
    names: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return self.name


def _auc(surrogate: str, margin: float) -> Case:
    hinge = surrogate == "hinge"
    return Case(
        name=f"auc-{surrogate}-{margin:g}",
        loss=losses.AUCLoss,
        functional=functional.auc_loss,
        settings={"margin": margin, "surrogate": surrogate},
        oracle=pair_matrix,
        exact=auc_exact,
        program=auc_program if hinge else None,
        program_settings={"margin": margin},
        others={
            "margin": 2 * margin,
            "surrogate": "squared_hinge" if hinge else "hinge",
            "reduction": "sum",
        },
        refused=[
            ({"margin": -0.5}, "`margin`"),
            ({"margin": float("nan")}, "`margin`"),
            ({"margin": float("inf")}, "`margin`"),
            ({"surrogate": "ramp", "margin": 0.0}, "`margin`"),
            ({"surrogate": "logistic"}, "`surrogate`"),
            ({"reduction": "none"}, "`reduction`"),
        ],
        limit={"margin": 1e-3, "surrogate": "ramp"} if surrogate == "ramp" else None,
        judge=sklearn.metrics.roc_auc_score,
        metric=metrics.auroc,
        curved=surrogate == "squared_hinge",
        every_error_has_gradient=surrogate != "ramp",
        names=["auc", "auroc"],
    )


CASES = [_auc("hinge", 1.0), _auc("hinge", 0.25), _auc("squared_hinge", 1.0), _auc("ramp", 0.5)]
