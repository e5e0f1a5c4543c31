"""Every measure scikit-learn has, against scikit-learn, to 1e-12."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference
import torch
from numpy.typing import NDArray

from metrics.judge_cases import Case, draw
from setwise import metrics

BLOCKS = [range(start, start + 25) for start in range(0, 225, 25)]  # fewer, larger tests run faster
CLOSE: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-12}


def predictions(case: Case, threshold: float) -> NDArray[np.bool_]:
    """What the caller's own ``scores >= threshold`` says, container by container."""
    scores = case.scores
    return np.asarray(np.asarray(scores) >= threshold if isinstance(scores, list) else scores >= threshold)


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_curves(seeds: range) -> None:
    for seed in seeds:
        case = draw(seed)
        roc = metrics.roc_curve(case.scores, case.labels, weight=case.weight)
        expected = reference.roc_curve(
            case.plain_labels, case.plain_scores, sample_weight=case.plain_weight, drop_intermediate=False
        )
        np.testing.assert_allclose(roc.fpr, expected[0], **CLOSE)
        np.testing.assert_allclose(roc.tpr, expected[1], **CLOSE)
        np.testing.assert_array_equal(roc.thresholds, expected[2])
        curve = metrics.precision_recall_curve(case.scores, case.labels, weight=case.weight)
        expected = reference.precision_recall_curve(
            case.plain_labels, case.plain_scores, sample_weight=case.plain_weight
        )
        np.testing.assert_allclose(curve.precision, expected[0], **CLOSE)
        np.testing.assert_allclose(curve.recall, expected[1], **CLOSE)
        np.testing.assert_array_equal(curve.thresholds, expected[2])


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_ranking(seeds: range) -> None:
    for seed in seeds:
        case = draw(seed)
        truth: dict[str, Any] = {
            "y_true": case.plain_labels,
            "y_score": case.plain_scores,
            "sample_weight": case.plain_weight,
        }
        found = metrics.auroc(case.scores, case.labels, weight=case.weight)
        assert type(found) is float
        assert found == pytest.approx(reference.roc_auc_score(**truth), abs=1e-12)
        found = metrics.average_precision(case.scores, case.labels, weight=case.weight)
        assert type(found) is float
        assert found == pytest.approx(reference.average_precision_score(**truth), abs=1e-12)
        for max_fpr in ((0.01, 0.2)[seed % 2], (0.5, 0.9, 1.0)[seed % 3]):
            found = metrics.partial_auroc(case.scores, case.labels, max_fpr=max_fpr, weight=case.weight)
            assert found == pytest.approx(reference.roc_auc_score(**truth, max_fpr=max_fpr), abs=1e-12)


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_counts_and_their_ratios(seeds: range) -> None:
    for seed in seeds:
        case = draw(seed)
        threshold = (0.0, 0.3, -1.0, float(case.plain_scores[0]))[seed % 4]
        options: dict[str, Any] = {"threshold": threshold, "weight": case.weight}
        truth: dict[str, Any] = {
            "y_true": case.plain_labels,
            "y_pred": predictions(case, threshold).astype(np.int64),
            "sample_weight": case.plain_weight,
        }
        ((tn, fp), (fn, tp)) = reference.confusion_matrix(**truth, labels=[0, 1])
        cells = metrics.confusion_counts(case.scores, case.labels, **options)
        assert cells == pytest.approx((tp, fp, fn, tn), abs=1e-12)
        found = metrics.accuracy(case.scores, case.labels, **options)
        assert found == pytest.approx(reference.accuracy_score(**truth), abs=1e-12)
        truth["zero_division"] = 0.0
        beta = (1.0, 0.0, 0.5, 2.0, np.inf)[seed % 5]
        found = metrics.fbeta(case.scores, case.labels, beta=beta, **options)
        assert found == pytest.approx(reference.fbeta_score(**truth, beta=beta), abs=1e-12)
        for ours, theirs in (
            (metrics.jaccard, reference.jaccard_score),
            (metrics.precision, reference.precision_score),
            (metrics.recall, reference.recall_score),
        ):
            assert ours(case.scores, case.labels, **options) == pytest.approx(theirs(**truth), abs=1e-12)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_large_set_in_every_precision(kind: type[np.floating[Any]], weighted: bool) -> None:
    rng = np.random.default_rng(7)
    labels = rng.random(200_000) < 0.05
    scores = (rng.normal(size=len(labels)) + labels).astype(kind)
    weight = rng.random(len(labels)) if weighted else None
    found = metrics.auroc(scores, labels, weight=weight)
    assert found == pytest.approx(reference.roc_auc_score(labels, scores, sample_weight=weight), abs=1e-12)
    found = metrics.average_precision(scores, labels, weight=weight)
    assert found == pytest.approx(reference.average_precision_score(labels, scores, sample_weight=weight), abs=1e-12)
    found = metrics.partial_auroc(scores, labels, weight=weight, max_fpr=0.05)
    assert found == pytest.approx(
        reference.roc_auc_score(labels, scores, sample_weight=weight, max_fpr=0.05), abs=1e-12
    )


@pytest.mark.parametrize("seeds", BLOCKS[:4], ids=str)
@pytest.mark.parametrize("max_fpr", [0.1, 0.37, 1.0])
def test_raw_partial_area_is_the_integral_of_the_curve(seeds: range, max_fpr: float) -> None:
    for seed in seeds:
        case = draw(seed)
        fpr, tpr, _ = reference.roc_curve(
            case.plain_labels, case.plain_scores, sample_weight=case.plain_weight, drop_intermediate=False
        )
        # The integral of min(max_fpr, .) pieces, segment by segment, each cut where it crosses max_fpr.
        expected = 0.0
        for (x0, y0), (x1, y1) in pairwise(zip(fpr, tpr, strict=True)):
            if x0 < max_fpr and x1 > x0:
                end = min(x1, max_fpr)
                y_end = y0 + (y1 - y0) * (end - x0) / (x1 - x0)
                expected += (end - x0) * (y0 + y_end) / 2
        found = metrics.partial_auroc(case.scores, case.labels, max_fpr=max_fpr, standardized=False, weight=case.weight)
        assert found == pytest.approx(expected, abs=1e-12)


def test_auc_is_the_share_of_ordered_pairs() -> None:
    rng = np.random.default_rng(3)
    scores, labels, weight = rng.integers(0, 6, 50), rng.integers(0, 2, 50), rng.integers(0, 4, 50)
    won = total = 0.0
    for i in np.flatnonzero(labels == 1):
        for j in np.flatnonzero(labels == 0):
            pair = float(weight[i] * weight[j])
            won += pair * (float(scores[i] > scores[j]) + float(scores[i] == scores[j]) / 2)
            total += pair
    assert metrics.auroc(scores, labels, weight=weight) == pytest.approx(won / total, abs=1e-14)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_very_small_and_large_weights(scale: float) -> None:
    scores, labels, weight = [3, 2, 1, 0], [1, 0, 1, 0], np.array([1.0, 2.0, 3.0, 4.0])
    for measure in (metrics.auroc, metrics.average_precision):
        assert measure(scores, labels, weight=scale * weight) == pytest.approx(measure(scores, labels, weight=weight))


def test_bfloat16_and_grad_tensors() -> None:
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(rng.integers(0, 2, 300))
    scores = torch.from_numpy(rng.normal(size=300)).bfloat16().requires_grad_()
    expected = reference.roc_auc_score(labels.numpy(), scores.detach().float().numpy())
    assert metrics.auroc(scores, labels) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_threshold_is_rounded_to_the_type_of_the_tensor(dtype: torch.dtype) -> None:
    scores = torch.tensor([0.7, 0.6], dtype=dtype)
    assert metrics.confusion_counts(scores, [1, 0], threshold=0.7).tp == int((scores >= 0.7).sum()) == 1


@pytest.mark.parametrize("scores", [np.zeros(2, np.float16), torch.zeros(2, dtype=torch.float16)])
def test_threshold_beyond_the_range_of_the_type(scores: Any) -> None:
    assert metrics.confusion_counts(scores, [1, 0], threshold=1e9) == (0, 0, 1, 1)
    assert metrics.confusion_counts(scores, [1, 0], threshold=-1e9) == (1, 1, 0, 0)
    assert metrics.confusion_counts(scores, [1, 0], threshold=float("inf")) == (0, 0, 1, 1)
