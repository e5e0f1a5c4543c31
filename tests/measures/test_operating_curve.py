"""Areas by a grid of operating points: point by point, program, exact area, error against the hard measure."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from setwise import InputError, functional, measures, metrics
from setwise.measures import OperatingCurveLoss, operating_curve_area, operating_curve_program
from support.draws import draw, stack
from support.exact_values import operating_curve_exact
from support.highs import highs_solve

CASES = [(kind, surrogate) for kind in ("roc", "pr") for surrogate in ("hinge", "ramp")]


def point_by_point(
    scores: Tensor, labels: Tensor, weight: Tensor | None, kind: str, points: int, **options: Any
) -> Tensor:
    total = torch.zeros((), dtype=scores.dtype)
    for place in range(points):
        level = (place + 0.5) / points
        if kind == "roc":
            total = total + functional.tpr_at_fpr_loss(scores, labels, fpr=level, weight=weight, **options)
        else:
            total = total + functional.precision_at_recall_loss(
                scores, labels, recall=level, at="floor", weight=weight, **options
            )
    return total / points


@pytest.mark.parametrize(("kind", "surrogate"), CASES)
def test_the_grid_is_the_mean_of_its_points(kind: str, surrogate: str) -> None:
    for seed in range(30):
        scores, labels, weight = draw(seed, ties=seed % 2 == 0, weighted=seed % 3 != 0)
        options: dict[str, Any] = {"margin": [1.0, 0.5][seed % 2], "surrogate": surrogate}
        points = [1, 2, 7, 20][seed % 4]
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        value = functional.operating_curve_loss(ours, labels, kind=kind, points=points, weight=weight, **options)
        expected = point_by_point(theirs, labels, weight, kind, points, **options)
        value.backward()
        expected.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-12, abs=1e-12)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("kind", "surrogate"), CASES)
def test_a_batch_and_vmap_are_the_stack_of_singles(kind: str, surrogate: str) -> None:
    sets = [draw(seed, size=17, ties=seed % 2 == 0, weighted=True) for seed in range(6)]
    scores, labels, weight = stack(sets)
    module = OperatingCurveLoss(kind, points=9, surrogate=surrogate)
    singles, gradients = [], []
    for one, label, w in sets:
        leaf = one.clone().requires_grad_()
        value = module(leaf, label, w)
        gradients.append(torch.autograd.grad(value, leaf)[0])
        singles.append(value.detach())
    together = operating_curve_exact(scores, labels, kind=kind, points=9, surrogate=surrogate, weight=weight)
    torch.testing.assert_close(together, torch.stack(singles), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.func.vmap(module)(scores, labels, weight), together)
    mapped = torch.func.vmap(torch.func.grad(module))(scores, labels, weight)
    torch.testing.assert_close(mapped, torch.stack(gradients), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("kind", "surrogate"), CASES)
def test_derivatives_of_both_orders(kind: str, surrogate: str) -> None:
    scores, labels, weight = draw(1, size=9, weighted=True)
    module = OperatingCurveLoss(kind, points=5, surrogate=surrogate)

    def loss(s: Tensor) -> Tensor:
        value: Tensor = module(s, labels, weight)
        return value

    scores.requires_grad_()
    assert torch.autograd.gradcheck(loss, (scores,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(loss, (scores,))
    hessian = torch.func.hessian(loss)(scores.detach())
    expected = torch.autograd.functional.hessian(
        lambda s: point_by_point(s, labels, weight, kind, 5, surrogate=surrogate), scores.detach()
    )
    torch.testing.assert_close(hessian, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["pr"])
def test_compiles_to_one_graph(kind: str) -> None:
    torch.compiler.reset()
    module = OperatingCurveLoss(kind, points=6)
    compiled: Callable[..., Tensor] = torch.compile(module, fullgraph=True, backend="aot_eager")
    scores, labels, weight = draw(4, size=33, ties=True, weighted=True, dtype=torch.float32)
    eager, traced = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    expected, value = module(eager, labels, weight), compiled(traced, labels, weight)
    expected.backward()
    value.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(traced.grad, eager.grad)


@pytest.mark.parametrize("kind", ["roc", "pr"])
def test_program_by_highs_is_the_exact_value(kind: str) -> None:
    for seed in range(8):
        scores, labels, weight = draw(seed, size=10, ties=seed % 2 == 0, weighted=seed % 3 == 0)
        options: dict[str, Any] = {"points": 1 + seed % 4, "margin": 0.5 + seed % 2}
        program = operating_curve_program(scores, labels, kind=kind, weight=weight, **options)
        solution = highs_solve(program)
        assert solution.status == "optimal"
        exact = operating_curve_exact(scores, labels, kind=kind, weight=weight, **options)
        assert exact.item() == pytest.approx(solution.value, rel=1e-9, abs=1e-9)


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
    for seed in range(20):
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


@pytest.mark.parametrize(("kind", "surrogate"), CASES)
def test_degenerate_sets_and_numbers(kind: str, surrogate: str) -> None:
    module = OperatingCurveLoss(kind, points=4, surrogate=surrogate)
    for size, label in ((0, 0), (1, 1), (3, 1), (3, 0)):
        scores = torch.randn(size, requires_grad=True)
        value = module(scores, torch.full((size,), label))
        value.backward()
        assert value.item() == 0
        assert scores.grad is not None
        assert not scores.grad.any()
    assert module.undefined_batches.item() == 4
    labels = torch.tensor([0, 1, 1, 0])
    for scale in (1e-30, 1e30):
        scores = (scale * torch.tensor([1.0, -2.0, 3.0, 0.5])).requires_grad_()
        value = module(scores, labels)
        value.backward()
        assert value.isfinite()
        assert scores.grad is not None
        assert scores.grad.isfinite().all()
    assert module(torch.tensor([-1e3, 1e3, 1e3, -1e3]), labels).item() == 0
    assert module.undefined_batches.item() == 4
    bad = torch.tensor([0.1, float("nan"), 2.0, 0.3])
    with pytest.raises(InputError, match="`input`"):
        module(bad, labels)
    module.check_values = False
    assert module(bad, labels).isnan()
    half = torch.tensor([0.5, 1.5, -1.0, 0.25], dtype=torch.bfloat16, requires_grad=True)
    value = module(half, labels)
    value.backward()
    assert value.dtype == torch.float32
    assert half.grad is not None
    assert half.grad.dtype == torch.bfloat16


def test_every_option_matters_and_bad_ones_are_refused() -> None:
    scores, labels, weight = draw(0, size=30, weighted=True)
    base = functional.operating_curve_loss(scores, labels)
    others: dict[str, Any] = {"kind": "pr", "points": 7, "margin": 0.5, "surrogate": "ramp"}
    for name, other in others.items():
        changed = functional.operating_curve_loss(scores, labels, **{name: other})
        assert not torch.equal(base, changed), name
        module = OperatingCurveLoss(**{name: other})
        assert torch.equal(module(scores, labels), changed)
        assert f"{name}={other!r}" in repr(module)
    assert not torch.equal(base, functional.operating_curve_loss(scores, labels, weight=weight))
    assert set(inspect.signature(OperatingCurveLoss).parameters) == {*others, "check_values", "process_group"}
    bad: list[tuple[dict[str, Any], str]] = [
        ({"kind": "auc"}, "`kind`"),
        ({"points": 0}, "`points`"),
        ({"points": 2.5}, "`points`"),
        ({"margin": -1.0}, "`margin`"),
        ({"margin": 0.0, "surrogate": "ramp"}, "`margin`"),
        ({"surrogate": "logistic"}, "`surrogate`"),
    ]
    for options, message in bad:
        for face in (OperatingCurveLoss, lambda **kw: functional.operating_curve_loss(scores, labels, **kw)):
            with pytest.raises((InputError, TypeError), match=message):
                face(**options)
        if "surrogate" not in options:
            with pytest.raises((InputError, TypeError), match=message):
                measures.operating_curve_program(scores, labels, **options)


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
