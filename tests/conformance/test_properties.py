"""Properties over sets that Hypothesis looks for: ties, repeated values, tiny sets, zero weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.draws import Draw
from support.spec import Case

QUIET = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def sets(draw: st.DrawFn) -> Draw:
    """Scores on a grid of quarters, so that ties and pairs exactly at a dyadic margin are common."""
    n = draw(st.integers(2, 12))
    quarters = draw(st.lists(st.integers(-12, 12), min_size=n, max_size=n))
    labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    weights = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n, max_size=n))
    labels[0], labels[1] = 0, 1
    weights[0], weights[1] = 1.0, 1.0
    wide = torch.float64
    return Draw(torch.tensor(quarters, dtype=wide) / 4, torch.tensor(labels), torch.tensor(weights, dtype=wide))


@QUIET
@given(sets())
def test_brute_force(case: Case, one: Draw) -> None:
    ours, theirs = one.scores.clone().requires_grad_(), one.scores.clone().requires_grad_()
    value = case.functional(ours, one.labels, weight=one.weight, **case.settings)
    expected = case.oracle(theirs, one.labels, one.weight, **case.settings)
    value.backward()
    expected.backward()
    assert value.item() == pytest.approx(expected.item(), abs=1e-12)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-12)


@QUIET
@given(sets(), st.integers(0, 1000))
def test_order_of_the_samples_does_not_matter(case: Case, one: Draw, seed: int) -> None:
    places = torch.randperm(len(one.scores), generator=torch.Generator().manual_seed(seed))
    assert one.weight is not None
    value = case.functional(one.scores, one.labels, weight=one.weight, **case.settings)
    shuffled = case.functional(one.scores[places], one.labels[places], weight=one.weight[places], **case.settings)
    torch.testing.assert_close(value, shuffled, rtol=0, atol=1e-12)


@QUIET
@given(sets(), st.floats(0, 4))
def test_better_scores_never_cost_more(case: Case, one: Draw, step: float) -> None:
    better = one.scores + step * (2 * one.labels - 1)
    before, after = (
        case.functional(scores, one.labels, weight=one.weight, **case.settings) for scores in (one.scores, better)
    )
    assert after <= before + 1e-12


@QUIET
@given(sets())
def test_a_small_step_along_the_negative_gradient_never_costs_more(case: Case, one: Draw) -> None:
    scores = one.scores.clone().requires_grad_()
    value = case.functional(scores, one.labels, weight=one.weight, **case.settings)
    value.backward()
    assert scores.grad is not None
    moved = one.scores - 1e-4 * scores.grad
    assert case.functional(moved, one.labels, weight=one.weight, **case.settings) <= value + 1e-12


@QUIET
@given(sets())
def test_with_margin_one_the_loss_bounds_the_error(case: Case, one: Draw) -> None:
    case = replace(case, settings={**case.settings, "margin": 1.0})
    loss = case.functional(one.scores, one.labels, weight=one.weight, **case.settings).item()
    assert loss >= 1 - case.metric(one.scores, one.labels, weight=one.weight) - 1e-12
