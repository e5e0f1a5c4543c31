"""The rows of binary AUC."""

from __future__ import annotations

import sklearn.metrics

from setwise import functional, losses, metrics
from setwise.measures import auc_program
from support.exact_values import auc_exact
from support.oracles import pair_matrix
from support.spec import Case


def _auc(surrogate: str, margin: float) -> Case:
    hinge = surrogate == "hinge"
    settings = {"margin": margin, "surrogate": surrogate}
    return Case(
        name=f"auc-{surrogate}-{margin:g}",
        loss=losses.AUCLoss,
        functional=functional.auc_loss,
        settings=settings,
        oracle=pair_matrix,
        exact=auc_exact,
        exact_settings=settings,
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
        lower={"margin": 1.0},
        judge=sklearn.metrics.roc_auc_score,
        metric=metrics.auroc,
        curved=surrogate == "squared_hinge",
        convex=surrogate != "ramp",
        every_error_has_gradient=surrogate != "ramp",
        shift_invariant=True,
        brute_force_cases=200,
        names={"auc": {}, "auroc": {}},
    )


ROWS = [_auc("hinge", 1.0), _auc("hinge", 0.25), _auc("squared_hinge", 1.0), _auc("ramp", 0.5)]
