"""Operating points beyond what every row of the table goes through: what is certified, bounds, limits at any level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import precision_recall_curve, roc_curve
from torch import Tensor

from setwise import functional, measures, metrics
from support.draws import draw
from support.exact_values import point_exact

# Of each kind: its function's name, its level's name, and levels to try.
KINDS: dict[str, tuple[str, str, list[float]]] = {
    "precision@recall": ("precision_at_recall", "recall", [0.8, 0.5, 1.0, 0.25]),
    "recall@precision": ("recall_at_precision", "precision", [0.3, 0.5, 0.75]),
    "tpr@fpr": ("tpr_at_fpr", "fpr", [0.1, 0.5, 0.25]),
    "fpr@tpr": ("fpr_at_tpr", "tpr", [0.9, 1.0, 0.5]),
    "precision@k": ("precision_at_k", "k", [5, 0.3, 1, 100, 0.5]),
}
CLASSES = {
    "precision@recall": "PrecisionAtRecallLoss",
    "recall@precision": "RecallAtPrecisionLoss",
    "tpr@fpr": "TPRAtFPRLoss",
    "fpr@tpr": "FPRAtTPRLoss",
    "precision@k": "PrecisionAtKLoss",
}


def loss_of(kind: str, scores: Tensor, labels: Tensor, level: float, **options: Any) -> Tensor:
    name, argument, _ = KINDS[kind]
    value: Tensor = getattr(functional, name + "_loss")(scores, labels, **{argument: level}, **options)
    return value


def exact_of(kind: str, scores: Tensor, labels: Tensor, level: float, **options: Any) -> Tensor:
    return point_exact(kind)(scores, labels, **{KINDS[kind][1]: level}, **options)


def test_the_floor_is_slack_in_many_sets_and_the_optimum_is_never_worse() -> None:
    slack = 0
    for seed in range(100):
        scores, labels, _ = draw(seed, size=30)
        optimum, floor = (
            functional.precision_at_recall_loss(scores, labels, recall=0.8, at=at) for at in ("optimum", "floor")
        )
        assert optimum <= floor + 1e-12
        slack += bool(optimum < floor - 1e-9)
    assert 20 < slack < 80


def hard(scores: Tensor, labels: Tensor, weight: Tensor | None, threshold: float) -> tuple[float, float, float]:
    """Precision, recall and false positive rate of ``score > threshold``."""
    w = torch.ones_like(scores) if weight is None else weight
    said, positive = scores > threshold, labels == 1
    tp, fp = float(w[said & positive].sum()), float(w[said & ~positive].sum())
    return tp / (tp + fp) if tp + fp else 1.0, tp / float(w[positive].sum()), fp / float(w[~positive].sum())


@pytest.mark.parametrize(
    ("surrogate", "link", "cases"), [("hinge", "identity", 2000), ("ramp", "identity", 500), ("hinge", "sigmoid", 1000)]
)
def test_the_hard_rates_are_certified_in_2000_cases(surrogate: str, link: str, cases: int) -> None:
    generator = torch.Generator().manual_seed(3)
    for seed in range(cases // len(KINDS)):
        scores, labels, weight = draw(seed, ties=seed % 2 == 0, weighted=seed % 3 == 0)
        scores = scores * float(10 ** (2 * torch.rand((), generator=generator) - 1))
        for kind, (_, argument, levels) in KINDS.items():
            level = levels[seed % len(levels)]
            margin = 1.0 if surrogate == "hinge" else 0.1 + seed % 3
            loss = getattr(measures, CLASSES[kind])(**{argument: level}, margin=margin, surrogate=surrogate, link=link)
            value = loss(scores, labels, weight).item()
            point = loss.point
            assert point is not None
            precision, recall, fpr = hard(scores, labels, weight, point.threshold)
            if kind == "precision@k":
                total = len(scores) if weight is None else float(weight.sum())
                assert point.reached is (level <= total)
                size = level if level < 1 or level <= total else 1.0
                judge = metrics.precision_at_k(scores, labels, k=size, weight=weight) if point.reached else 1.0
                assert judge >= point.value - 1e-9
                continue
            if kind == "precision@recall":
                assert precision >= point.value - 1e-9
                assert recall >= level - 1e-9
            elif kind == "tpr@fpr":
                assert recall >= point.value - 1e-9
                assert fpr <= level + 1e-9
            elif kind == "fpr@tpr":
                assert fpr <= point.value + 1e-9
                assert recall >= level - 1e-9
            elif point.reached:
                assert precision >= level - 1e-9
                assert recall >= point.value - 1e-9
            judge = getattr(metrics, KINDS[kind][0])(scores, labels, weight=weight, **{argument: level})
            assert value >= (judge if kind == "fpr@tpr" else 1 - judge) - 1e-9


@pytest.mark.parametrize("link", ["identity", "sigmoid"])
@pytest.mark.parametrize("kind", KINDS)
def test_margin_0_is_a_bound_from_the_other_side(kind: str, link: str) -> None:
    _, argument, levels = KINDS[kind]
    for seed in range(200):
        scores, labels, weight = draw(seed, ties=seed % 2 == 0, weighted=seed % 3 == 0)
        if link == "identity":
            scores = scores / (scores.max() - scores.min()).clamp(min=1)  # no further than 1 from the threshold
        else:
            scores = scores * 10 ** (seed % 5 - 2)  # any
        level = levels[seed % len(levels)]
        if level == 100:
            continue
        if kind == "precision@k" and level == 5 and (len(scores) if weight is None else float(weight.sum())) < 5:
            continue
        judge = getattr(metrics, KINDS[kind][0])(scores, labels, weight=weight, **{argument: level})
        value = loss_of(kind, scores, labels, level, margin=0.0, link=link, weight=weight).item()
        if kind == "recall@precision":  # a level out of reach costs more than 1
            assert exact_of(kind, scores, labels, level, margin=0.0, link=link, weight=weight).item() == min(value, 1)
            value = min(value, 1)
        assert value <= (judge if kind == "fpr@tpr" else 1 - judge) + 1e-9


def test_thresholds_are_in_units_of_the_scores_whatever_the_link() -> None:
    scores, labels = torch.tensor([3.0, 1.0, 0.0, -2.0]), torch.tensor([1, 1, 0, 0])

    def threshold(loss: measures.PrecisionAtRecallLoss | measures.FPRAtTPRLoss | measures.TPRAtFPRLoss) -> float:
        loss(scores, labels)
        assert loss.point is not None
        return loss.point.threshold

    assert 0 <= threshold(measures.PrecisionAtRecallLoss(recall=1.0, margin=0.0, link="sigmoid")) <= 1
    assert threshold(measures.FPRAtTPRLoss(tpr=1.0, margin=1.0, link="sigmoid")) == -float("inf")  # select all
    assert threshold(measures.TPRAtFPRLoss(fpr=0.1, margin=1.0, link="sigmoid")) == float("inf")
    given = measures.FPRAtTPRLoss(tpr=0.5, margin=0.1, threshold=0.5, link="sigmoid")
    assert threshold(given) == pytest.approx(0.5, abs=1e-12)


def sklearn_judge(kind: str, labels: Tensor, scores: Tensor, level: float) -> float:
    if kind in ("precision@recall", "recall@precision"):
        precision, recall, _ = precision_recall_curve(labels, scores)
        precision, recall = precision[:-1], recall[:-1]
        if kind == "precision@recall":
            return float(precision[recall >= level - 1e-9].max())
        return float(recall[precision >= level - 1e-9].max(initial=0.0))
    if kind == "precision@k":
        size = round(level if level >= 1 else level * len(scores))
        return float(labels[scores.argsort(descending=True)[:size]].double().mean())
    fpr, tpr, _ = roc_curve(labels, scores, drop_intermediate=False)
    return float(tpr[fpr <= level + 1e-9].max()) if kind == "tpr@fpr" else float(fpr[tpr >= level - 1e-9].min())


@pytest.mark.parametrize("kind", KINDS)
def test_narrow_ramps_give_the_hard_measure_of_scikit_learn(kind: str) -> None:
    levels = {"precision@k": [1, 3, 0.5]}.get(kind, KINDS[kind][2])
    for seed in range(100):
        generator = np.random.default_rng(seed)
        n = 2 * int(generator.integers(3, 40))
        scores = torch.from_numpy(generator.permutation(n) * 0.1)
        labels = torch.from_numpy(generator.integers(0, 2, n))
        labels[0], labels[1] = 0, 1
        level = levels[seed % len(levels)]
        judge = sklearn_judge(kind, labels, scores, level)
        value = loss_of(kind, scores, labels, level, margin=1e-3, surrogate="ramp").item()
        if kind == "recall@precision" and judge == 0:
            assert value > 1  # what no threshold reaches costs more
        else:
            assert value == pytest.approx(judge if kind == "fpr@tpr" else 1 - judge, abs=1e-6)
