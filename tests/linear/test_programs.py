"""Programs with the scorer as a variable: their optimum by our solver and by HiGHS, and what they say of the scorer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from setwise import lp, metrics
from setwise._checks import InputError
from setwise.linear import auc_scorer_program, f_scorer_program, svm_scorer_program
from support.highs import highs_solve
from support.linear_problems import KINDS, draw, pairs, tensor


@pytest.mark.parametrize("kind", KINDS)
def test_our_solver_agrees_with_highs(kind: str) -> None:
    X, y, weight = (tensor(part) for part in draw(kind))
    assert X is not None
    assert y is not None
    for program in (
        svm_scorer_program(X, y, l1=0.01, weight=weight),
        f_scorer_program(X, y, l1=0.01),
    ):
        theirs = highs_solve(program).value
        assert float(lp.solve(program).value) == pytest.approx(theirs, rel=1e-7)


def test_auc_program_is_the_mean_hinge_of_the_pairs() -> None:
    X, y, weight = draw("weights")
    program = auc_scorer_program(*(torch.from_numpy(part) for part in (X, y)), l1=0.1, weight=tensor(weight))
    differences, share = pairs(X, y, weight)
    w = np.asarray([0.5, -1.0, 0.0, 2.0])
    slack = np.maximum(1 - differences @ w, 0.0)
    z = torch.from_numpy(np.concatenate([np.maximum(w, 0), np.maximum(-w, 0), slack]))
    assert float(program.residuals(z).largest()) <= 1e-12
    assert float(program.objective(z)) == pytest.approx(share @ slack + 0.1 * np.abs(w).sum())


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["random", "separable"])
def test_value_of_the_f_program_bounds_the_measure(kind: str, beta: float) -> None:
    X, y, _ = draw(kind)
    solved = lp.solve(f_scorer_program(torch.from_numpy(X), torch.from_numpy(y), beta=beta))
    z, d = solved.primal.numpy(), X.shape[1]
    scores = X @ (z[:d] - z[d : 2 * d]) + z[2 * d]
    measured = metrics.fbeta(scores, y, beta=beta, threshold=0.0)
    assert measured >= (1 + beta**2) / (1 + float(solved.value)) - 1e-9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": torch.tensor([1, 1, 1])}, "both classes"),
        ({"y": torch.tensor([1, 0])}, "one label for each"),
        ({"y": torch.tensor([1, 0, 2])}, "y"),
        ({"X": torch.ones(3, dtype=torch.float64)}, "shape"),
        ({"l1": -1.0}, "l1"),
        ({"margin": -1.0}, "margin"),
        ({"weight": torch.ones(2)}, "weight"),
        ({"weight": torch.tensor([0.0, 1.0, 1.0])}, "both classes"),
    ],
)
def test_refuses(changes: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {
        "X": torch.eye(3, dtype=torch.float64),
        "y": torch.tensor([1, 0, 0]),
        "l1": 0.1,
        "weight": None,
    }
    with pytest.raises(InputError, match=message):
        auc_scorer_program(**(settings | changes))
