"""Measures of counts with several classes, several labels, maps, ignored targets, and counting by image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import torch
from torch import Tensor

from setwise import InputError, functional, losses, metrics

SCORES = {"fbeta": sklearn.metrics.f1_score, "jaccard": sklearn.metrics.jaccard_score}
LOSSES: dict[str, Any] = {"fbeta": losses.FBetaLoss, "jaccard": losses.JaccardLoss}


def far(*shape: int, seed: int) -> Tensor:
    """Normal scores with a standard deviation of 100."""
    return 100 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def classes(*shape: int, seed: int, count: int = 4) -> Tensor:
    """Class indices in which every class occurs."""
    labels = torch.randint(count, shape, generator=torch.Generator().manual_seed(seed))
    labels.view(-1)[:count] = torch.arange(count)
    return labels


@pytest.mark.parametrize("surrogate", ["hinge", "sigmoid"])
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none"])
@pytest.mark.parametrize("name", SCORES)
def test_far_from_the_kinks_several_classes_are_scikit_learn(name: str, average: str, surrogate: str) -> None:
    for seed in range(20):
        scores, labels = 1e6 * far(50, 4, seed=seed), classes(50, seed=seed + 100)
        loss = LOSSES[name](average=average, surrogate=surrogate)(scores, labels)
        expected = SCORES[name](labels, scores.argmax(1), average=None if average == "none" else average)
        np.testing.assert_allclose(1 - loss.numpy(), expected, atol=1e-6)
        ours = getattr(metrics, name)(scores, labels, average=average)
        np.testing.assert_allclose(ours, expected, atol=1e-12)


@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none"])
@pytest.mark.parametrize("name", SCORES)
def test_far_from_the_kinks_several_labels_are_scikit_learn(name: str, average: str) -> None:
    for seed in range(20):
        scores = 1e6 * far(40, 3, seed=seed)
        labels = (far(40, 3, seed=seed + 50) > 30).long()
        labels[0] = 1
        loss = LOSSES[name](average=average)(scores, labels)
        expected = SCORES[name](labels, scores > 0, average=None if average == "none" else average, zero_division=0)
        np.testing.assert_allclose(1 - loss.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("surrogate", ["hinge", "sigmoid"])
def test_each_class_is_the_binary_loss_of_its_signed_scores(surrogate: str) -> None:
    scores, labels = far(30, 3, seed=1) / 50, classes(30, seed=2, count=3)
    per_class = functional.fbeta_loss(scores, labels, average="none", surrogate=surrogate)
    for k in range(3):
        others = scores[:, [j for j in range(3) if j != k]]
        best = others.amax(1) if surrogate == "hinge" else others.logsumexp(1)
        alone = functional.fbeta_loss(scores[:, k] - best, labels == k, surrogate=surrogate)
        assert per_class[k].item() == pytest.approx(alone.item(), abs=1e-12)


def test_the_sigmoid_of_several_classes_is_soft_dice_on_the_softmax() -> None:
    maps, truth = far(2, 3, 5, 4, seed=1) / 50, classes(2, 5, 4, seed=3, count=3)
    p = maps.softmax(1)
    one_hot = torch.nn.functional.one_hot(truth, 3).permute(0, 3, 1, 2)
    dice = 2 * (p * one_hot).sum((0, 2, 3)) / (p.sum((0, 2, 3)) + one_hot.sum((0, 2, 3)))
    torch.testing.assert_close(functional.dice_loss(maps, truth, average="macro", surrogate="sigmoid"), 1 - dice.mean())


@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none"])
@pytest.mark.parametrize("several_labels", [False, True])
def test_ignored_targets_are_as_if_they_were_not_there(average: str, several_labels: bool) -> None:
    maps = far(2, 3, 6, 5, seed=4) / 60
    truth = classes(2, 6, 5, seed=5, count=3)
    kept = torch.rand(2, 6, 5, generator=torch.Generator().manual_seed(0)) < 0.7
    marked = torch.where(kept, truth, 255)
    flat = maps.movedim(1, -1)[kept]  # shape: (kept, 3)
    left = truth[kept]
    if several_labels:
        marked = torch.where(kept.unsqueeze(1), torch.nn.functional.one_hot(truth, 3).movedim(-1, 1), 255)
        left = torch.nn.functional.one_hot(left, 3)
    maps.requires_grad_()
    value = functional.jaccard_loss(maps, marked, average=average, ignore_index=255)
    torch.testing.assert_close(value, functional.jaccard_loss(flat, left, average=average))
    value.sum().backward()
    assert maps.grad is not None
    assert not maps.grad.movedim(1, -1)[~kept].any()
    assert maps.grad.any()


@pytest.mark.parametrize("average", ["binary", "micro", "macro", "none"])
def test_counting_by_image_is_the_mean_over_images(average: str) -> None:
    maps, truth = far(4, 3, 6, 5, seed=6) / 60, torch.stack([classes(6, 5, seed=7 + k, count=3) for k in range(4)])
    if average == "binary":
        truth = (maps.flip(0) > 0).long()
    alone = torch.stack([functional.fbeta_loss(maps[k : k + 1], truth[k : k + 1], average=average) for k in range(4)])
    together = functional.fbeta_loss(maps, truth, average=average, counting="image")
    torch.testing.assert_close(together, alone.mean(0))
    weight = torch.rand(truth.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    weighted = functional.fbeta_loss(maps, truth, average=average, counting="image", weight=weight)
    assert not torch.equal(weighted, together)


def test_an_image_or_class_without_positives_is_left_out() -> None:
    maps, truth = far(3, 2, 4, 4, seed=8) / 60, (far(3, 2, 4, 4, seed=9) > 0).long()
    truth[1] = 0
    maps.requires_grad_()
    value = functional.fbeta_loss(maps, truth, counting="image")
    torch.testing.assert_close(value, functional.fbeta_loss(maps[[0, 2]], truth[[0, 2]], counting="image"))
    value.backward()
    assert maps.grad is not None
    assert not maps.grad[1].any()
    labels = torch.tensor([0, 0, 2, 2])
    scores = torch.randn(4, 3, generator=torch.Generator().manual_seed(1), requires_grad=True)
    macro = functional.fbeta_loss(scores, labels, average="macro")
    per_class = functional.fbeta_loss(scores, labels, average="none")
    torch.testing.assert_close(macro, per_class[[0, 2]].mean())
    assert per_class[1] == 0


def test_nothing_to_measure_in_any_class() -> None:
    module = losses.JaccardLoss(average="macro", ignore_index=-1)
    scores = torch.randn(2, 3, 4, 4, requires_grad=True)
    value = module(scores, torch.full((2, 4, 4), -1))
    value.backward()
    assert value.item() == 0
    assert scores.grad is not None
    assert not scores.grad.any()
    assert module.undefined_batches.item() == 1
    assert losses.JaccardLoss(average="none")(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("surrogate", ["hinge", "sigmoid"])
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none"])
def test_gradients_under_every_transform(average: str, surrogate: str) -> None:
    scores, labels = far(6, 3, seed=10) / 300, classes(6, seed=11, count=3)

    def loss(s: Tensor) -> Tensor:
        return functional.fbeta_loss(s, labels, average=average, surrogate=surrogate, margin=0.5).sum()

    if surrogate == "sigmoid":
        assert torch.autograd.gradcheck(loss, (scores.clone().requires_grad_(),), check_forward_ad=True)
    eager = scores.clone().requires_grad_()
    loss(eager).backward()
    torch.testing.assert_close(torch.func.grad(loss)(scores), eager.grad)
    stacked = torch.stack([scores, 2 * scores])
    torch.testing.assert_close(torch.func.vmap(loss)(stacked), torch.stack([loss(scores), loss(2 * scores)]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_maps(dtype: torch.dtype) -> None:
    maps, truth = (far(2, 3, 6, 5, seed=4) / 60).to(dtype).requires_grad_(), classes(2, 6, 5, seed=5, count=3)
    value = functional.dice_loss(maps, truth, average="macro")
    value.backward()
    assert value.dtype == torch.float32
    assert maps.grad is not None
    assert maps.grad.dtype == dtype
    torch.testing.assert_close(value, functional.dice_loss(maps.detach().float(), truth, average="macro"))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"average": "binary"}, InputError, "`target`.*class indices.*'macro'"),
        ({"input": torch.zeros(5)}, InputError, r"`input`.*\(N, C, ...\).*\(5,\)"),
        ({"target": torch.zeros(4, dtype=torch.long)}, InputError, r"`target`.*\(5,\).*\(5, 3\).*\(4,\)"),
        ({"target": torch.tensor([0, 1, 3, 0, 0])}, InputError, "`target`.*0 to 2.*3.*`ignore_index`"),
        ({"target": torch.tensor([0, 1, -1, 0, 0])}, InputError, "`target`.*0 to 2.*-1"),
        ({"target": torch.zeros(5)}, TypeError, "`target`.*class indices.*float32"),
        ({"target": torch.full((5, 3), 2)}, InputError, "`target`.*0 and 1.*2"),
        ({"input": torch.zeros(5, 1)}, InputError, "`input`.*2 classes"),
        ({"weight": torch.ones(5, 3)}, InputError, r"`weight`.*\(5,\).*\(5, 3\)"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    call = {"input": torch.zeros(5, 3), "target": torch.zeros(5, dtype=torch.long), "average": "macro", **arguments}
    with pytest.raises(error, match=message):
        functional.fbeta_loss(**call)


def test_what_a_users_function_gives_is_looked_at() -> None:
    scores, labels = torch.randn(6, 3), classes(6, seed=0, count=3)
    with pytest.raises(InputError, match=r"`measure`.*shape.*\(3,\).*\(\)"):
        functional.measure_loss(scores, labels, measure=lambda *counts: counts[0].sum(), average="macro")
    with pytest.raises(InputError, match=r"`measure`.*float"):
        functional.measure_loss(scores[:, 0], labels == 0, measure=lambda *_: 0.5)


def test_any_ratio_is_the_best_of_four_corners() -> None:
    generator = torch.Generator().manual_seed(0)
    moved = 0
    for _ in range(200):
        scores = torch.randn(12, generator=generator, dtype=torch.float64)
        labels = torch.randint(2, (12,), generator=generator)
        labels[0], labels[1] = 0, 1
        top, bottom = torch.rand(2, 4, generator=generator, dtype=torch.float64).tolist()
        upper = torch.where(labels == 1, scores.clamp(0, 1), 1.0)
        lower = torch.where(labels == 1, 0.0, (1 + scores).clamp(0, 1))
        values = []
        for high, low in ((upper, lower), (upper, upper), (lower, lower), (lower, upper)):
            y = torch.where(labels == 1, high, low)
            counts = [(y * labels).sum(), (y * (1 - labels)).sum(), ((1 - y) * labels).sum()]
            counts.append(((1 - y) * (1 - labels)).sum())
            values.append(
                sum(a * n for a, n in zip(top, counts, strict=True))
                / sum(b * n for b, n in zip(bottom, counts, strict=True))
            )
        best = max(values)
        moved += bool(best > values[0])
        loss = functional.ratio_loss(scores, labels, numerator=top, denominator=bottom)
        assert loss.item() == pytest.approx(1 - float(best), abs=1e-12)
    assert moved > 50  # not always the corner of F-score
