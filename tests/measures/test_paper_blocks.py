"""The papers' table of blocks (g, h, E, F, p, B, G, q), posed with ``from_general``, has the optimum of our programs.

The table is in docs/measures.md; the papers bound predictions on both sides, max(0, phi) <= Y <= min(1, 1 + phi), for
every sample, where ours bound positives from above and negatives from below. The optimum is the same.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from setwise import measures
from setwise.lp import LinearProgram, solve
from support.draws import draw, draw_classes
from support.exact_values import auc_exact, multiclass_auc_exact, point_exact
from support.highs import highs_solve


def ratio_blocks(scores: Tensor, c: Tensor, d: Tensor, b: Tensor, floor: Tensor | None = None) -> LinearProgram:
    """max c'z s.t. d'z + b t = 1 and the box times t; ``floor`` is a further row over (z, t), at most 0."""
    phi = torch.tanh(scores)
    n = len(phi)
    eye = torch.eye(n, dtype=phi.dtype)
    upper, lower = (1 + phi).clamp(max=1), phi.clamp(min=0)
    E, F = torch.cat([eye, -eye]), torch.cat([-upper, lower]).unsqueeze(1)
    if floor is not None:
        E, F = torch.cat([E, floor[:n].unsqueeze(0)]), torch.cat([F, floor[n:].unsqueeze(0)])
    return LinearProgram.from_general(
        g=c, h=torch.zeros(1, dtype=phi.dtype), E=E, F=F, p=torch.zeros(len(E), dtype=phi.dtype),
        B=d.unsqueeze(0), G=b.reshape(1, 1), q=torch.ones(1, dtype=phi.dtype),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(5))
def test_auc(seed: int) -> None:
    scores, labels, _ = draw(seed, size=12)
    gaps = (scores[labels == 1][:, None] - scores[labels == 0][None, :]).flatten()
    ones = torch.ones_like(gaps)
    program = LinearProgram.from_general(g=-ones, E=-torch.diag(ones), p=gaps - 0.1)
    exact = auc_exact(scores, labels, margin=0.1)
    assert highs_solve(program).value == pytest.approx(exact.item(), abs=1e-8)
    assert solve(measures.auc_program(scores, labels, margin=0.1)).value.item() == pytest.approx(exact.item(), abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_auc_mu(seed: int) -> None:
    scores, labels, _ = draw_classes(seed, size=12)
    # One row for each pair of samples of different classes, the first of the lower class. For the 0/1 partition the
    # papers' d = -2 times their difference has the wrong sign: the score of a pair is half of it.
    gaps = [
        (scores[i, labels[i]] - scores[j, labels[i]] + scores[j, labels[j]] - scores[i, labels[j]]) / 2
        for i in range(12)
        for j in range(12)
        if labels[i] < labels[j]
    ]
    gap = torch.stack(gaps)
    ones = torch.ones_like(gap)
    program = LinearProgram.from_general(g=-ones, E=-torch.diag(ones), p=gap - 0.1)
    exact = multiclass_auc_exact(scores, labels, kind="mu", scores="raw", average="sum", margin=0.1)
    assert highs_solve(program).value == pytest.approx(exact.item(), abs=1e-8)


@pytest.mark.parametrize("seed", range(10))
def test_f_score_f_beta_and_jaccard(seed: int) -> None:
    scores, labels, _ = draw(seed, size=14)
    y = labels.to(scores.dtype)
    ones, size = torch.ones_like(y), y.sum()
    box: dict[str, Any] = {"margin": 0.0, "link": "tanh"}
    for program, ours in (
        (ratio_blocks(scores, 2 * y, ones, size), measures.fbeta_program(scores, labels, **box)),
        (ratio_blocks(scores, 5 * y, ones, 4 * size), measures.fbeta_program(scores, labels, beta=2.0, **box)),
        (ratio_blocks(scores, y, 1 - y, size), measures.jaccard_program(scores, labels, **box)),
    ):
        best = -highs_solve(program).value
        solution = solve(ours)
        assert solution.value.item() == pytest.approx(1 - best, abs=1e-8)
        predicted = measures.predictions(solution)
        assert predicted.shape == scores.shape
        u, lower = (1 + scores.tanh()).clamp(max=1), scores.tanh().clamp(min=0)
        torch.testing.assert_close(predicted[labels == 1], u[labels == 1], atol=1e-7, rtol=0)
        torch.testing.assert_close(predicted[labels == 0], lower[labels == 0], atol=1e-7, rtol=0)


@pytest.mark.parametrize("seed", range(10))
def test_precision_at_recall_with_a_fixed_threshold(seed: int) -> None:
    scores, labels, _ = draw(seed, size=14)
    y = labels.to(scores.dtype)
    for recall in (0.2, 0.5, 0.8):
        floor = torch.cat([-y, recall * y.sum().reshape(1)])
        program = ratio_blocks(scores, y, torch.ones_like(y), torch.zeros(()).to(y), floor)
        result = highs_solve(program)
        exact = point_exact("precision@recall")(scores.tanh(), labels, recall=recall, margin=0.0, threshold=0.0).item()
        if result.status == "optimal":
            assert exact == pytest.approx(1 + result.value, abs=1e-8)
        else:  # without a threshold to move, the floor is reached or it is not
            assert result.status == "infeasible"
            assert exact == 1  # nothing is selected, at t = 0
