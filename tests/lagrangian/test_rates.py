"""Constraints on rates: their text, their rows by decisions against the judge's rates, their surrogates and errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from setwise import InputError, metrics
from setwise.lagrangian import RateConstraint
from setwise.lagrangian.constraints import confusion, presets

Sample = tuple[Tensor, Tensor, Tensor, Tensor]


def draw(seed: int, n: int = 60, groups: int = 2) -> Sample:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, generator=generator)
    labels = (torch.rand(n, generator=generator) < 0.4).long()
    group = torch.randint(groups, (n,), generator=generator)
    labels[: 2 * groups] = torch.arange(2 * groups) % 2
    group[: 2 * groups] = torch.arange(2 * groups) // 2
    return scores, labels, group, torch.rand(n, generator=generator) + 0.1


def judged(name: str, scores: Tensor, labels: Tensor, weight: Tensor | None = None, threshold: float = 0.0) -> float:
    """The rate by the counts of the independent judge."""
    tp, fp, fn, tn = metrics.confusion_counts(scores, labels, threshold=threshold, weight=weight)
    n = tp + fp + fn + tn
    return {
        "recall": lambda: tp / (tp + fn),
        "tpr": lambda: tp / (tp + fn),
        "fnr": lambda: fn / (tp + fn),
        "fpr": lambda: fp / (fp + tn),
        "tnr": lambda: tn / (fp + tn),
        "specificity": lambda: tn / (fp + tn),
        "positive_rate": lambda: (tp + fp) / n,
        "accuracy": lambda: (tp + tn) / n,
        "error": lambda: (fp + fn) / n,
        "precision": lambda: tp / (tp + fp),
        "f1": lambda: 2 * tp / (2 * tp + fp + fn),
        "jaccard": lambda: tp / (tp + fp + fn),
    }[name]()


FIXED = [name for name, rate in confusion.RATES.items() if rate.fixed and name != "churn"]
NOT_FIXED = ["precision", "f1", "jaccard"]


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_fixed_denominators_are_the_judges_rate_less_the_level(name: str, weighted: bool) -> None:
    scores, labels, _, weight = draw(1)
    w = weight if weighted else None
    rate = judged(name, scores, labels, w, 0.3)
    floor = RateConstraint(name, lower=0.7).true(scores, labels, weight=w, threshold=0.3)
    ceiling = RateConstraint(name, upper=0.2).true(scores, labels, weight=w, threshold=0.3)
    assert floor.item() == pytest.approx(0.7 - rate, abs=1e-7)
    assert ceiling.item() == pytest.approx(rate - 0.2, abs=1e-7)


@pytest.mark.parametrize("name", NOT_FIXED)
@pytest.mark.parametrize("level", [0.2, 0.5, 0.8])
def test_rows_of_other_denominators_have_the_sign_of_the_violation(name: str, level: float) -> None:
    for seed in range(10):
        scores, labels, *_ = draw(seed)
        row = RateConstraint(name, lower=level).true(scores, labels).item()
        assert (row <= 0) == (judged(name, scores, labels) >= level)


def test_precision_is_the_linear_form_over_n() -> None:
    scores, labels, *_ = draw(2)
    tp, fp, fn, tn = metrics.confusion_counts(scores, labels)
    row = RateConstraint.parse("precision>=0.6").true(scores, labels).item()
    assert row == pytest.approx((0.6 * (tp + fp) - tp) / (tp + fp + fn + tn))


@pytest.mark.parametrize("name", [*FIXED, *NOT_FIXED])
def test_values_and_standard_errors(name: str) -> None:
    scores, labels, *_ = draw(3, n=400)
    values = RateConstraint(name, upper=0.5).rate_values(scores, labels)
    assert values.value.item() == pytest.approx(judged(name, scores, labels))
    assert values.violation.item() == pytest.approx(judged(name, scores, labels) - 0.5)
    generator = np.random.default_rng(0)
    draws = [generator.integers(400, size=400) for _ in range(400)]
    spread = np.std([judged(name, scores[index], labels[index]) for index in draws])
    assert values.standard_error.item() == pytest.approx(float(spread), rel=0.15)


def test_standard_error_of_a_difference_is_that_of_two_proportions() -> None:
    scores, labels, group, _ = draw(4, n=500)
    values = presets.equal_tpr(0.1).rate_values(scores, labels, group)
    parts = [(labels == 1) & (group == k) for k in (0, 1)]
    tpr = [float((scores[part] >= 0).double().mean()) for part in parts]
    expected = math.sqrt(sum(r * (1 - r) / int(part.sum()) for r, part in zip(tpr, parts, strict=True)))
    assert values.standard_error.tolist() == pytest.approx([expected, expected])
    assert values.value.tolist() == pytest.approx([tpr[0] - tpr[1], tpr[1] - tpr[0]])


def test_pairs_and_overall_with_three_groups() -> None:
    scores, labels, group, _ = draw(5, n=300, groups=3)
    r = [judged("fpr", scores[group == k], labels[group == k]) for k in range(3)]
    everyone = judged("fpr", scores, labels)
    pairs = presets.equal_rate("fpr", 0.1).true(scores, labels, group)
    expected = [r[a] - r[b] - 0.1 for a in range(3) for b in range(3) if a != b]
    assert pairs.tolist() == pytest.approx(expected)
    assert float(pairs.max()) == pytest.approx(max(r) - min(r) - 0.1)
    overall = presets.equal_rate("fpr", 0.1, against="overall").true(scores, labels, group)
    assert overall.tolist() == pytest.approx([x - 0.1 for k in range(3) for x in (r[k] - everyone, everyone - r[k])])


def test_every_group_and_one_group() -> None:
    scores, labels, group, _ = draw(6)
    by_group = [0.8 - judged("recall", scores[group == k], labels[group == k]) for k in (0, 1)]
    columns = {"sex": group}
    assert RateConstraint.parse("recall[group=sex]>=0.8").true(scores, labels, columns).tolist() == pytest.approx(
        by_group
    )
    one = RateConstraint.parse("recall[sex=1]>=0.8").true(scores, labels, columns)
    assert one.tolist() == pytest.approx(by_group[1:])


def test_equalized_odds_is_both_differences() -> None:
    scores, labels, group, _ = draw(7)
    both = presets.equalized_odds(0.05).true(scores, labels, group)
    apart = [presets.equal_rate(name, 0.05).true(scores, labels, group) for name in ("tpr", "fpr")]
    assert both.tolist() == torch.cat(apart).tolist()


def test_churn_counts_decisions_that_differ_from_the_reference() -> None:
    scores, labels, _, _ = draw(8)
    old = (torch.arange(60) % 3 == 0).long()
    row = presets.churn_at_most(0.1, reference="old").true(scores, labels, {"old": old})
    assert row.item() == pytest.approx(float(((scores >= 0).long() != old).double().mean()) - 0.1)


def test_near_reference_takes_a_number_or_scores() -> None:
    scores, labels, *_ = draw(9)
    r = judged("recall", scores, labels, threshold=0.2)
    by_scores = presets.near_reference("recall", scores, 0.05, labels=labels, threshold=0.2)
    assert by_scores == presets.near_reference("recall", r, 0.05)
    assert (by_scores.lower, by_scores.upper) == pytest.approx((r - 0.05, r + 0.05))
    assert bool((by_scores.true(scores, labels, threshold=0.2) < 0).all())
    assert presets.near_reference("tnr", 0.99, 0.05).upper == 1.0


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("recall>=0.9", presets.recall_at_least(0.9)),
        ("Recall >= 0.9", presets.recall_at_least(0.9)),
        ("precision>=.5", presets.precision_at_least(0.5)),
        ("fpr <= 5e-2", presets.fpr_at_most(0.05)),
        ("positive_rate<=0.1", presets.positive_rate_at_most(0.1)),
        ("recall[group=sex]>=0.8", presets.recall_at_least(0.8, group="sex")),
        ("recall[sex=1]>=0.8", RateConstraint("recall", lower=0.8, group="sex", member=1)),
        ("tpr_difference[group=sex]<=0.02", presets.equal_tpr(0.02, group="sex")),
        ("equal_opportunity[group=sex]<=0.02", presets.equal_tpr(0.02, group="sex")),
        ("tpr_difference<=0.02", presets.equal_tpr(0.02)),
        ("tnr_difference[group=S,against=overall]<=0.1", presets.equal_rate("tnr", 0.1, group="S", against="overall")),
        ("equalized_odds[group=sex]<=0.02", presets.equalized_odds(0.02, group="sex")),
        ("demographic_parity[group=race]<=0.05", presets.demographic_parity(0.05, group="race")),
        ("churn[reference=old]<=0.03", presets.churn_at_most(0.03, reference="old")),
        ("churn<=0.03", presets.churn_at_most(0.03)),
        ("recall=0.9±0.05", RateConstraint("recall", lower=0.85, upper=0.9500000000000001)),
        ("recall=0.98+-0.05", RateConstraint("recall", lower=0.9299999999999999, upper=1.0)),
    ],
)  # fmt: skip
def test_text_and_named_constructors_agree(text: str, constraint: RateConstraint) -> None:
    parsed = RateConstraint.parse(text)
    assert parsed == constraint
    again = RateConstraint.parse(str(parsed))
    assert again.rows(2) == parsed.rows(2) or "±" in str(parsed)


@pytest.mark.parametrize(
    "text",
    [
        "recall", "recall>0.9", "recall=0.9", "recal>=0.9", "recall>=high", "recall[sex]>=0.9", "recall[sex=male]>=0.9",
        "recall[group=sex,group=race]>=0.9", "equalized_odds>=0.1", "recall>=0.9±0.1", "precision_difference<=0.1",
        "recall>=1.5", "recall[]]>=0.9", "tpr_difference[sex=1]<=0.1", "recall[reference=old]>=0.1",
    ],
)  # fmt: skip
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="Expected"):
        RateConstraint.parse(text)


@pytest.mark.parametrize(
    "arguments",
    [
        {"rate": "auc", "lower": 0.5},
        {"rate": (), "lower": 0.5},
        {"rate": "recall"},
        {"rate": "recall", "lower": -0.1},
        {"rate": "recall", "lower": 0.8, "upper": 0.7},
        {"rate": "recall", "lower": 0.8, "member": 1},
        {"rate": "recall", "lower": 0.8, "group": "g", "member": -1},
        {"rate": "recall", "upper": 0.8, "difference": True},
        {"rate": "recall", "lower": 0.8, "difference": True, "group": "g"},
        {"rate": "f1", "upper": 0.8, "difference": True, "group": "g"},
        {"rate": "churn", "upper": 0.8},
        {"rate": "recall", "upper": 0.8, "against": "nobody"},
    ],
)
def test_other_settings_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="Expected"):
        RateConstraint(**arguments)


def test_a_number_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="`lower`"):
        RateConstraint("recall", lower="0.9")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="string"):
        RateConstraint.parse(0.9)  # type: ignore[arg-type]


EVERY: list[Callable[[], RateConstraint]] = [
    lambda: presets.recall_at_least(0.9),
    lambda: presets.fpr_at_most(0.1),
    lambda: RateConstraint.parse("accuracy=0.8±0.1"),
    lambda: presets.precision_at_least(0.6),
    lambda: RateConstraint("f1", lower=0.5),
    lambda: presets.equalized_odds(0.02),
    lambda: presets.demographic_parity(0.02, against="overall"),
    lambda: presets.recall_at_least(0.7, group="group"),
]


@pytest.mark.parametrize("make", EVERY)
@pytest.mark.parametrize("kind", ["hinge", "logistic"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), threshold=st.floats(-2, 2))
def test_convex_surrogates_are_bounds(
    make: Callable[[], RateConstraint], kind: str, seed: int, threshold: float
) -> None:
    scores, labels, group, weight = draw(seed)
    constraint = make()
    bound = constraint.surrogate(scores.double(), labels, group, weight, threshold=threshold, kind=kind)
    true = constraint.true(scores.double(), labels, group, weight, threshold=threshold)
    assert bool((bound >= true - 1e-6).all())


@pytest.mark.parametrize("make", EVERY)
def test_a_steep_sigmoid_is_the_rate(make: Callable[[], RateConstraint]) -> None:
    scores, labels, group, weight = draw(11)
    constraint = make()
    near = constraint.surrogate(1e6 * scores, labels, group, weight, kind="sigmoid")
    assert near.tolist() == pytest.approx(constraint.true(scores, labels, group, weight).tolist(), abs=1e-6)


@pytest.mark.parametrize("kind", ["hinge", "logistic", "sigmoid"])
@pytest.mark.parametrize("make", EVERY)
def test_gradients(make: Callable[[], RateConstraint], kind: str) -> None:
    scores, labels, group, weight = draw(12, n=20)
    theta = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    s = scores.double().requires_grad_()
    constraint = make()
    assert torch.autograd.gradcheck(
        lambda s, theta: constraint.surrogate(s, labels, group, weight, threshold=theta, kind=kind), (s, theta)
    )


def test_both_directions_of_a_difference_pull_both_ways() -> None:
    scores, labels, group, _ = draw(13)
    s = scores.clone().requires_grad_()
    up, _ = presets.equal_tpr(0.0).surrogate(s, labels, group)
    (gradient,) = torch.autograd.grad(up, s)
    first, second = (gradient[(labels == 1) & (group == k)] for k in (0, 1))
    assert bool((first >= 0).all())
    assert bool((second <= 0).all())
    assert bool((gradient[labels == 0] == 0).all())
    assert float(first.sum()) > 0 > float(second.sum())


def test_rows_without_samples_are_zero_and_not_nan() -> None:
    scores = torch.randn(6, requires_grad=True)
    labels, group = torch.tensor([0, 0, 0, 1, 0, 1]), torch.tensor([0, 0, 0, 1, 1, 1])
    constraint = presets.equal_tpr(0.02)
    assert constraint.true(scores, labels, group).tolist() == [0.0, 0.0]
    surrogate = constraint.surrogate(scores, labels, group)
    surrogate.sum().backward()
    assert surrogate.tolist() == [0.0, 0.0]
    assert scores.grad is not None
    assert scores.grad.tolist() == [0.0] * 6
    values = constraint.rate_values(scores, labels, group)
    assert bool(values.value.isnan().all())
    assert values.violation.tolist() == [0.0, 0.0]


def test_nothing_predicted_has_no_precision_and_breaks_no_floor_of_it() -> None:
    values = presets.precision_at_least(0.5).rate_values(torch.tensor([-1.0, -2.0]), torch.tensor([1, 0]))
    assert math.isnan(values.value.item())
    assert values.violation.item() == 0.0


def test_low_precision_scores_are_widened() -> None:
    scores, labels, group, _ = draw(14)
    wide = presets.equalized_odds(0.1).surrogate(scores.bfloat16().float(), labels, group)
    assert torch.equal(presets.equalized_odds(0.1).surrogate(scores.bfloat16(), labels, group), wide)


def test_bad_inputs_name_the_argument() -> None:
    scores, labels, group, weight = draw(15)
    constraint = presets.equal_tpr(0.1, group="sex")
    with pytest.raises(InputError, match="`group` to be given"):
        constraint.true(scores, labels)
    with pytest.raises(InputError, match="column 'sex', but it has race"):
        constraint.true(scores, labels, {"race": group})
    with pytest.raises(InputError, match="group\\['sex'\\]` to have the same shape"):
        constraint.true(scores, labels, group[:-1])
    with pytest.raises(TypeError, match="whole numbers"):
        constraint.true(scores, labels, group.float())
    with pytest.raises(InputError, match=r"0 to \.\.\., but got -1"):
        constraint.true(scores, labels, group - 1)
    with pytest.raises(TypeError, match="`group`"):
        constraint.true(scores, labels, {"sex": [0] * 60})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="`labels`"):
        constraint.true(scores, labels + 1, group)
    with pytest.raises(InputError, match="`scores` to be finite"):
        constraint.true(scores * math.nan, labels, group)
    with pytest.raises(InputError, match="`weight` to be non-negative"):
        constraint.true(scores, labels, group, -weight)
    with pytest.raises(TypeError, match="`scores`"):
        constraint.true(labels, labels, group)
    with pytest.raises(InputError, match="`kind`"):
        constraint.surrogate(scores, labels, group, kind="step")
    with pytest.raises(InputError, match="`threshold`"):
        constraint.true(scores, labels, group, threshold=torch.zeros(3))
    with pytest.raises(InputError, match="`old` to hold"):
        presets.churn_at_most(0.1, reference="old").true(scores, labels, {"old": group + 1})
    with pytest.raises(InputError, match="`labels` beside"):
        presets.near_reference("recall", scores, 0.1)
    with pytest.raises(InputError, match="defined"):
        presets.near_reference("recall", scores, 0.1, labels=torch.zeros(60))
    with pytest.raises(InputError, match="`reference`"):
        presets.near_reference("recall", 1.2, 0.1)


def test_a_threshold_for_each_sample() -> None:
    scores, labels, group, _ = draw(16)
    own = torch.tensor([0.0, 0.5])[group]
    moved = presets.equal_tpr(0.1).true(scores - own, labels, group)
    assert torch.equal(presets.equal_tpr(0.1).true(scores, labels, group, threshold=own), moved)
