"""Areas by a grid of operating points: the exact area, the error against it and against the hard measure, names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from setwise import InputError, functional, measures, metrics
from setwise.measures import OperatingCurveLoss, operating_curve_area, operating_curve_program
from support.draws import draw, stack
from support.exact_values import operating_curve_exact

CASES = [(kind, surrogate) for kind in ("roc", "pr") for surrogate in ("hinge", "ramp")]


@pytest.mark.parametrize(("kind", "surrogate"), CASES)
def test_the_exact_area_is_the_limit_of_ever_finer_grids(kind: str, surrogate: str) -> None:
    for seed in range(6):
        scores, labels, weight = draw(seed, ties=seed % 2 == 0, weighted=seed % 3 == 0)
        options: dict[str, Any] = {"kind": kind, "surrogate": surrogate, "weight": weight, "margin": 0.7}
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        area = operating_curve_area(ours, labels, **options)
        grid = operating_curve_exact(theirs, labels, points=200_000, **options)
        assert area.item() == pytest.approx(grid.item(), rel=1e-4, abs=1e-5)
        area.backward()
        grid.backward()
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-2, atol=1e-3)
    scores, labels, weight = draw(3, size=9, weighted=True)
    scores.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda s: operating_curve_area(s, labels, kind=kind, surrogate=surrogate, weight=weight), (scores,)
    )
    sets = stack([draw(seed, size=11, weighted=True) for seed in range(3)])
    together = operating_curve_area(sets[0], sets[1], kind=kind, surrogate=surrogate, weight=sets[2])
    singles = [
        operating_curve_area(s, y, kind=kind, surrogate=surrogate, weight=w) for s, y, w in zip(*sets, strict=True)
    ]
    torch.testing.assert_close(together, torch.stack(singles))
    assert operating_curve_area(torch.randn(4), torch.ones(4), kind=kind).item() == 0


def hard_set() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(4000, generator=generator) < 0.2).long()
    return torch.randn(4000, generator=generator, dtype=torch.float64) + 1.5 * labels, labels


def test_the_grids_error_against_the_hard_measure_falls_with_its_points() -> None:
    scores, labels = hard_set()
    hard: dict[str, Any] = {"surrogate": "ramp", "margin": 1e-6}
    auroc = 1 - float(roc_auc_score(labels, scores))
    assert operating_curve_area(scores, labels, **hard).item() == pytest.approx(auroc, abs=1e-9)
    precision = 1 - metrics.average_precision(scores, labels)
    area = operating_curve_area(scores, labels, kind="pr", **hard).item()
    assert area == pytest.approx(precision, abs=1e-3)  # steps of the recall are counted by their ends there
    errors = {
        kind: [
            abs(operating_curve_exact(scores, labels, kind=kind, points=points, **hard).item() - exact)
            for points in (5, 10, 100, 1000, 10_000)
        ]
        for kind, exact in (("roc", auroc), ("pr", area))
    }
    for points, error in zip((5, 10, 100, 1000, 10_000), errors["roc"], strict=True):
        assert error <= 1 / (2 * points)
    # as in the module's table
    assert errors["roc"] == pytest.approx([1.0e-2, 2.1e-3, 2.6e-5, 2.7e-6, 2.5e-6], rel=0.05)
    assert errors["pr"] == pytest.approx([4.3e-4, 3.0e-3, 3.4e-4, 3.4e-5, 8.3e-7], rel=0.05)


def test_the_grids_error_against_the_soft_area_falls_with_its_points() -> None:
    scores, labels = hard_set()
    table = {"roc": [2.9e-2, 1.3e-2, 9.7e-4, 9.0e-5], "pr": [2.7e-3, 8.4e-4, 3.5e-5, 6.9e-7]}
    for kind, expected in table.items():
        area = operating_curve_area(scores, labels, kind=kind).item()
        errors = [
            abs(operating_curve_exact(scores, labels, kind=kind, points=points).item() - area)
            for points in (5, 10, 100, 1000)
        ]
        assert errors == pytest.approx(expected, rel=0.05)


def test_margin_1_bounds_the_hard_area_up_to_the_grid() -> None:
    for seed in range(100):
        scores, labels, weight = draw(seed, ties=seed % 2 == 0, weighted=seed % 3 == 0)
        points = 5 + seed
        loss = functional.operating_curve_loss(scores, labels, points=points, weight=weight).item()
        # the hard curve of the grid: the best rate of any threshold at each level
        levels = [(place + 0.5) / points for place in range(points)]
        rates = [metrics.tpr_at_fpr(scores, labels, fpr=level, weight=weight) for level in levels]
        assert loss >= 1 - sum(rates) / points - 1e-9


@pytest.mark.parametrize("kind", ["roc", "pr"])
def test_minimizing_free_scores_reaches_0(kind: str) -> None:
    for seed in range(5):
        scores, labels, _ = draw(seed, size=16)
        free = scores.clone().requires_grad_()
        steps = torch.optim.Adam([free], lr=0.5)
        module = OperatingCurveLoss(kind, points=10)
        for _ in range(300):
            steps.zero_grad()
            loss = module(free, labels)
            if loss.item() == 0:
                break
            loss.backward()
            steps.step()
        assert module(free, labels).item() < 1e-6


@pytest.mark.parametrize(("name", "kind"), [("auc(7)", "roc"), ("AUROC (7)", "roc"), ("ap(7)", "pr")])
def test_has_a_name(name: str, kind: str) -> None:
    scores, labels, _ = draw(0, size=30)
    measure = measures.parse(name)
    assert torch.equal(
        measure.loss()(scores, labels), functional.operating_curve_loss(scores, labels, kind=kind, points=7)
    )
    area = metrics.auroc if kind == "roc" else metrics.average_precision
    assert measure.metric(scores, labels) == area(scores, labels)
    assert measure.program is not None
    assert torch.equal(
        measure.program(scores, labels).c, operating_curve_program(scores, labels, kind=kind, points=7).c
    )


@pytest.mark.parametrize(
    ("name", "message"), [("auc(0)", "`points`"), ("ap(2.5)", "`points`"), ("auc(2,3)", "`measure`")]
)
def test_a_wrong_name_is_refused(name: str, message: str) -> None:
    with pytest.raises((InputError, TypeError), match=message):
        measures.parse(name)
