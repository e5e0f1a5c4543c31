"""Properties over sets that Hypothesis looks for: ties, repeated values, tiny sets, zero weights."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.draws import Draw, towards
from support.spec import Case

QUIET = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@st.composite
def sets(draw: st.DrawFn) -> tuple[Draw, Draw]:
    """Scores on a grid of quarters, so that ties and pairs exactly at a dyadic margin are common; 2 and 3 classes."""
    n = draw(st.integers(3, 12))
    quarters = draw(st.lists(st.integers(-12, 12), min_size=3 * n, max_size=3 * n))
    classes = draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    weights = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n, max_size=n))
    classes[0], classes[1], classes[2] = 0, 1, 2
    weights[0], weights[1], weights[2] = 1.0, 1.0, 1.0
    scores = torch.tensor(quarters, dtype=torch.float64).reshape(n, 3) / 4
    labels, weight = torch.tensor(classes), torch.tensor(weights, dtype=torch.float64)
    return Draw(scores[:, 0], (labels > 0).long(), weight), Draw(scores, labels, weight)


def pick(case: Case, both: tuple[Draw, Draw]) -> Draw:
    return both[case.layout == "classes"]


@QUIET
@given(sets())
def test_brute_force(case: Case, both: tuple[Draw, Draw]) -> None:
    one = pick(case, both)
    ours, theirs = one.scores.clone().requires_grad_(), one.scores.clone().requires_grad_()
    value = case.functional(ours, one.labels, weight=one.weight, **case.settings)
    expected = case.oracle(theirs, one.labels, one.weight, **case.settings)
    value.backward()
    expected.backward()
    assert value.item() == pytest.approx(expected.item(), abs=1e-12)
    if case.has_kink_convention:
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-12)


@QUIET
@given(sets(), st.integers(0, 1000))
def test_order_of_the_samples_does_not_matter(case: Case, both: tuple[Draw, Draw], seed: int) -> None:
    one = pick(case, both)
    places = torch.randperm(len(one.scores), generator=torch.Generator().manual_seed(seed))
    assert one.weight is not None
    value = case.functional(one.scores, one.labels, weight=one.weight, **case.settings)
    shuffled = case.functional(one.scores[places], one.labels[places], weight=one.weight[places], **case.settings)
    torch.testing.assert_close(value, shuffled, rtol=0, atol=1e-12)


@QUIET
@given(sets(), st.floats(0, 4))
def test_better_scores_never_cost_more(monotone_case: Case, both: tuple[Draw, Draw], step: float) -> None:
    case, one = monotone_case, pick(monotone_case, both)
    better = one.scores + step * towards(case, one.labels)
    before, after = (
        case.functional(scores, one.labels, weight=one.weight, **case.settings) for scores in (one.scores, better)
    )
    assert after <= before + 1e-12


@QUIET
@given(sets())
def test_a_small_step_along_the_negative_gradient_never_costs_more(
    descending_case: Case, both: tuple[Draw, Draw]
) -> None:
    case, one = descending_case, pick(descending_case, both)
    scores = one.scores.clone().requires_grad_()
    value = case.functional(scores, one.labels, weight=one.weight, **case.settings)
    value.backward()
    assert scores.grad is not None
    moved = one.scores - 1e-4 * scores.grad
    assert case.functional(moved, one.labels, weight=one.weight, **case.settings) <= value + 1e-12


@QUIET
@given(sets())
def test_the_loss_bounds_the_error_from_above(case_from_below: Case, both: tuple[Draw, Draw]) -> None:
    case, one = case_from_below, pick(case_from_below, both)
    assert case.lower is not None
    loss = case.value(one.scores, one.labels, one.weight, **case.lower).item()
    assert loss >= 1 - case.metric(one.scores, one.labels, weight=one.weight) - 1e-12


@QUIET
@given(sets())
def test_the_loss_bounds_the_error_from_below(case_from_above: Case, both: tuple[Draw, Draw]) -> None:
    case, one = case_from_above, pick(case_from_above, both)
    assert case.upper is not None
    loss = case.value(one.scores, one.labels, one.weight, **case.upper).item()
    assert loss <= 1 - case.metric(one.scores, one.labels, weight=one.weight) + 1e-12


@QUIET
@given(sets(), st.integers(0, 1000), st.floats(0, 1))
def test_it_is_convex_where_promised(convex_case: Case, both: tuple[Draw, Draw], seed: int, share: float) -> None:
    case, one = convex_case, pick(convex_case, both)
    other = torch.randn(one.scores.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    first, last, between = (
        case.value(scores, one.labels, one.weight)
        for scores in (one.scores, other, share * one.scores + (1 - share) * other)
    )
    assert between <= share * first + (1 - share) * last + 1e-12
