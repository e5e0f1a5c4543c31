"""Partial AUC beyond what every row of the table goes through: the whole curve, and descent on both sides."""

from __future__ import annotations

import pytest
import torch

from setwise import InputError
from setwise.measures.auc import auc_loss
from setwise.measures.partial_auc import partial_auc_loss, partial_auc_program
from support.draws import draw

PARTS = [(0.3, 0.0), (1.0, 0.4), (0.25, 0.5), (0.01, 0.99), (1.0, 0.0)]


def test_the_whole_curve_is_the_auc_loss() -> None:
    for seed in range(20):
        scores, labels, weight = draw(seed, ties=True, weighted=seed % 2 == 0)
        whole = partial_auc_loss(scores, labels, max_fpr=1.0, weight=weight)
        assert torch.equal(whole, auc_loss(scores, labels, weight=weight))


@pytest.mark.parametrize(("max_fpr", "min_tpr"), PARTS[:4])
def test_free_scores_reach_the_optimum(max_fpr: float, min_tpr: float) -> None:
    for seed in range(2):
        scores, labels, _ = draw(seed, size=12)
        free = scores.clone().requires_grad_()
        steps = torch.optim.Adam([free], lr=0.3)
        for _ in range(150):
            steps.zero_grad()
            value = partial_auc_loss(free, labels, max_fpr=max_fpr, min_tpr=min_tpr)
            value.backward()
            steps.step()
        hard = partial_auc_loss(
            free.detach(), labels, max_fpr=max_fpr, min_tpr=min_tpr, surrogate="ramp", margin=1e-6
        ).item()
        assert hard == 0
        assert value.item() < 0.2


def test_the_program_is_of_one_set() -> None:
    scores, labels, _ = draw(0, size=4)
    with pytest.raises(InputError, match=r"`scores`.*shape"):
        partial_auc_program(scores.reshape(2, 2), labels.reshape(2, 2), max_fpr=0.5)
