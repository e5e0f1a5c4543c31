"""Average precision beyond what every row of the table goes through: the bound, ties, and the want of a program."""

from __future__ import annotations

import pytest
import torch
from sklearn.metrics import average_precision_score

import setwise
from setwise import metrics
from setwise.measures.average_precision import (
    average_precision_loss,
)
from support.auc_oracles import precision_ratios
from support.draws import draw


def test_without_a_margin_it_is_no_bound() -> None:
    scores, labels = torch.tensor([0.0, 0.1]), torch.tensor([1, 0])
    assert average_precision_loss(scores, labels, margin=0.0).item() < 0.1 < 1 - average_precision_score(labels, scores)


def test_the_bound_holds_where_rounding_makes_the_shifted_scores_equal() -> None:
    # 1e-9 and 2e-9 are the same number once 1 is taken away in float32, but not the same score.
    scores, labels = torch.tensor([1e-9, 2e-9, 3e-9, 4e-9]), torch.tensor([1, 1, 0, 1])
    loss = average_precision_loss(scores, labels, margin=1.0)
    expected = precision_ratios(scores.double(), labels, margin=1.0)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert loss.item() >= 1 - average_precision_score(labels, scores)


def test_hard_limit_with_ties_is_scikit_learn() -> None:
    for seed in range(100):
        scores, labels, weight = draw(seed, ties=True, weighted=seed % 2 == 0)
        value = average_precision_loss(scores, labels, margin=1e-3, surrogate="ramp", weight=weight).item()
        assert 1 - value == pytest.approx(average_precision_score(labels, scores, sample_weight=weight), abs=1e-9)
        assert 1 - value == pytest.approx(metrics.average_precision(scores, labels, weight=weight), abs=1e-9)


def test_positives_swap_without_a_step_and_a_tie_of_them_costs_less() -> None:
    scores, labels = torch.tensor([0.0, 0.0, 0.4, -1.0], dtype=torch.float64), torch.tensor([1, 1, 0, 0])
    step = torch.tensor([1e-9, 0.0, 0.0, 0.0], dtype=torch.float64)
    before, tie, after = (average_precision_loss(scores + s, labels).item() for s in (-step, 0 * step, step))
    assert before == pytest.approx(after, abs=1e-8)
    assert tie < before - 0.05


def test_value_stays_between_0_and_1_at_every_scale() -> None:
    for scale in (1e-30, 1.0, 1e6, 1e30):
        scores, labels, _ = draw(10, dtype=torch.float32)
        scores = (scores * scale).double().requires_grad_()
        value = average_precision_loss(scores, labels)
        value.backward()
        assert 0 <= value.item() <= 1 + 1e-12
        assert scores.grad is not None
        assert scores.grad.isfinite().all()


def test_it_has_no_program_and_says_so() -> None:
    module = setwise.measures.average_precision
    assert not hasattr(module, "average_precision_program")
    assert module.__doc__ is not None
    assert "no linear program" in module.__doc__
