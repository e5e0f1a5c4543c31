"""Values and gradients at an operating point: brute force, programs, bounds, limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import precision_recall_curve, roc_curve
from torch import Tensor

from setwise import functional, measures, metrics
from setwise.lp import LinearProgram
from support.draws import draw, stack
from support.exact_values import point_exact
from support.highs import HighsResult, highs_solve
from support.point_oracles import point_oracle

# Of each kind: its function's name, its level's name, levels to try, and other options to try.
KINDS: dict[str, tuple[str, str, list[float], list[dict[str, Any]]]] = {
    "precision@recall": ("precision_at_recall", "recall", [0.8, 0.5, 1.0, 0.25], [{}, {"at": "floor"}, {}]),
    "recall@precision": ("recall_at_precision", "precision", [0.3, 0.5, 0.75], [{}]),
    "tpr@fpr": ("tpr_at_fpr", "fpr", [0.1, 0.5, 0.25], [{}]),
    "fpr@tpr": ("fpr_at_tpr", "tpr", [0.9, 1.0, 0.5], [{}]),
    "precision@k": ("precision_at_k", "k", [5, 0.3, 1, 100, 0.5], [{}]),
}
CLASSES = {
    "precision@recall": "PrecisionAtRecallLoss",
    "recall@precision": "RecallAtPrecisionLoss",
    "tpr@fpr": "TPRAtFPRLoss",
    "fpr@tpr": "FPRAtTPRLoss",
    "precision@k": "PrecisionAtKLoss",
}
FIXED = [kind for kind in KINDS if kind != "precision@k"]


def loss_of(kind: str, scores: Tensor, labels: Tensor, level: float, **options: Any) -> Tensor:
    name, argument, _, _ = KINDS[kind]
    value: Tensor = getattr(functional, name + "_loss")(scores, labels, **{argument: level}, **options)
    return value


def exact_of(kind: str, scores: Tensor, labels: Tensor, level: float, **options: Any) -> Tensor:
    return point_exact(kind)(scores, labels, **{KINDS[kind][1]: level}, **options)


def program_of(kind: str, scores: Tensor, labels: Tensor, level: float, **options: Any) -> LinearProgram:
    name, argument, _, _ = KINDS[kind]
    program: LinearProgram = getattr(measures, name + "_program")(scores, labels, **{argument: level}, **options)
    return program


def setting(kind: str, seed: int, surrogate: str = "hinge") -> tuple[float, dict[str, Any]]:
    """A level and options that change with the seed."""
    _, _, levels, others = KINDS[kind]
    margins = [1.0, 0.5, 0.25] if surrogate == "ramp" else [1.0, 0.5, 0.0]
    link = "sigmoid" if seed % 4 == 3 else "identity"
    return levels[seed % len(levels)], {"margin": margins[seed % 3], "link": link, **others[seed // 3 % len(others)]}


@pytest.mark.parametrize("surrogate", ["hinge", "ramp"])
@pytest.mark.parametrize("kind", KINDS)
def test_value_and_gradient_are_those_of_brute_force(kind: str, surrogate: str) -> None:
    for seed in range(200 if surrogate == "hinge" else 60):
        scores, labels, weight = draw(seed, ties=seed % 2 == 0, weighted=seed % 3 != 0)
        level, options = setting(kind, seed, surrogate)
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        value = loss_of(kind, ours, labels, level, weight=weight, surrogate=surrogate, **options)
        expected = point_oracle(theirs, labels, weight, kind=kind, level=level, surrogate=surrogate, **options)
        value.backward()
        expected.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-10, abs=1e-10)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("surrogate", ["hinge", "ramp"])
@pytest.mark.parametrize("kind", FIXED)
def test_a_fixed_threshold_is_the_closed_form(kind: str, surrogate: str) -> None:
    reached = 0
    for seed in range(60):
        scores, labels, weight = draw(seed, ties=seed % 2 == 0, weighted=seed % 3 != 0)
        level, options = setting(kind, seed, surrogate)
        options |= {"threshold": 0.25 * (seed % 9) - 1, "surrogate": surrogate}
        options.pop("at", None)
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        value = loss_of(kind, ours, labels, level, weight=weight, **options)
        expected = point_oracle(theirs, labels, weight, kind=kind, level=level, **options)
        value.backward()
        expected.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-10, abs=1e-10)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-10)
        reached += value.item() < 1
    assert 0 < reached < 60  # both sides were seen


@pytest.mark.parametrize("surrogate", ["hinge", "ramp"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_the_stack_of_singles(kind: str, surrogate: str) -> None:
    sets = [draw(seed, size=17, ties=seed % 2 == 0, weighted=True) for seed in range(6)]
    scores, labels, weight = (part.reshape(2, 3, 17) for part in stack(sets))
    scores.requires_grad_()
    for trial in range(5):
        level, options = setting(kind, trial, surrogate)
        options["surrogate"] = surrogate
        together = exact_of(kind, scores, labels, level, weight=weight, **options)
        assert together.shape == (2, 3)
        (gradient,) = torch.autograd.grad(together.sum(), scores)
        for place, (one, label, w) in enumerate(sets):
            single = one.clone().requires_grad_()
            value = exact_of(kind, single, label, level, weight=w, **options)
            value.backward()
            torch.testing.assert_close(together[divmod(place, 3)], value, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(gradient[divmod(place, 3)], single.grad, rtol=1e-12, atol=1e-12)


def lagrangian_gradient(program: LinearProgram, solution: HighsResult, scores: Tensor) -> Tensor:
    """How the program's value changes with the scores, by its solution and duals."""
    z, v, w = solution.primal, solution.dual_inequality, solution.dual_equality
    assert isinstance(program.A, Tensor)
    assert isinstance(program.A_eq, Tensor)
    value = program.c @ z + v @ (program.A @ z - program.b) + w @ (program.A_eq @ z - program.b_eq)
    return torch.autograd.grad(value, scores)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_program_by_highs_is_the_exact_value_and_its_duals_the_gradient(kind: str) -> None:
    for seed in range(30):
        scores, labels, weight = draw(seed, size=20, ties=seed % 5 == 0, weighted=seed % 3 == 0)
        level, options = setting(kind, seed)
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        program = program_of(kind, theirs, labels, level, weight=weight, **options)
        solution = highs_solve(program)
        assert solution.status == "optimal"
        exact = exact_of(kind, ours, labels, level, weight=weight, **options)
        assert exact.item() == pytest.approx(solution.value, rel=1e-9, abs=1e-9)
        if seed % 5:  # with ties the duals are not unique
            exact.backward()
            expected = lagrangian_gradient(program, solution, theirs)
            torch.testing.assert_close(ours.grad, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kind", FIXED)
def test_program_with_a_fixed_threshold(kind: str) -> None:
    statuses = set()
    for seed in range(30):
        scores, labels, weight = draw(seed, size=12, weighted=seed % 3 == 0)
        level, options = setting(kind, seed)
        options["threshold"] = seed / 5 - 3
        options.pop("at", None)
        solution = highs_solve(program_of(kind, scores, labels, level, weight=weight, **options))
        exact = exact_of(kind, scores, labels, level, weight=weight, **options)
        statuses.add(solution.status)
        value = solution.value if solution.status == "optimal" else float("inf")
        assert exact.item() == pytest.approx(value, rel=1e-9, abs=1e-9)
    # programs with a scale t always have an optimum, if need be at t = 0
    assert statuses == ({"optimal"} if "precision" in kind else {"optimal", "infeasible"})


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
        for kind, (_, argument, levels, _) in KINDS.items():
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
    _, argument, levels, _ = KINDS[kind]
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
