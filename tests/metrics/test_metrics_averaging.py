"""Several classes, several labels and maps, against scikit-learn's ``average=`` and a loop over images."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference
import torch
from numpy.typing import NDArray

from setwise import metrics
from setwise._checks import InputError
from setwise.metrics import UndefinedMetricWarning

BLOCKS = [range(start, start + 10) for start in range(0, 100, 10)]
AVERAGES = ("micro", "macro", "weighted", "none")


def assert_scikit_learns(
    scores: Any, labels: Any, ours: dict[str, Any], truth: dict[str, Any], zero_division: float | None = None
) -> None:
    """Precision, recall, F and Jaccard by every average; scikit-learn's first three come of one call."""
    filled = 0.0 if zero_division is None else zero_division
    for average in AVERAGES:
        options: dict[str, Any] = {**ours, "average": average, "zero_division": zero_division}
        theirs: dict[str, Any] = {**truth, "average": None if average == "none" else average, "zero_division": filled}
        precision, recall, f2, _ = reference.precision_recall_fscore_support(**theirs, beta=2)
        close: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-12, "err_msg": average}
        np.testing.assert_allclose(metrics.precision(scores, labels, **options), precision, **close)
        np.testing.assert_allclose(metrics.recall(scores, labels, **options), recall, **close)
        np.testing.assert_allclose(metrics.fbeta(scores, labels, beta=2, **options), f2, **close)
        if not math.isnan(filled):  # which its Jaccard index does not take
            expected = reference.jaccard_score(**theirs)
            np.testing.assert_allclose(metrics.jaccard(scores, labels, **options), expected, **close)


def draw_classes(seed: int) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float64] | None, int]:
    """Scores (N, C) with ties, labels (N,) that may miss classes, weights with zeros or none."""
    rng = np.random.default_rng(seed)
    n, classes = int(rng.choice([1, 3, 12, 80])), int(rng.choice([2, 3, 7]))
    labels = rng.integers(0, rng.integers(1, classes + 1), n)
    scores = rng.normal(size=(n, classes)) + 1.5 * np.eye(classes)[labels] * (rng.random() < 0.7)
    if rng.random() < 0.6:
        scores = np.round(scores)
    scores[:, rng.integers(classes)] -= 5.0 * (rng.random() < 0.5)  # a class that is never predicted
    weight = None
    if rng.random() < 0.6:
        weight = rng.choice([0.0, 0.1, 1.0, 3.0], size=n)
        weight[0] = 1.25
    return scores.astype(str(rng.choice(["float32", "float64"]))), labels, weight, classes


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_classes_against_scikit_learn(seeds: range) -> None:
    for seed in seeds:
        scores, labels, weight, classes = draw_classes(seed)
        truth = {"y_true": labels, "y_pred": scores.argmax(axis=1), "sample_weight": weight, "labels": range(classes)}
        assert_scikit_learns(scores, labels, {"weight": weight}, truth, (None, None, 1.0, math.nan)[seed % 4])


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_labels_against_scikit_learn(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n, classes = int(rng.choice([2, 12, 80])), int(rng.choice([2, 5]))
        labels = (rng.random((n, classes)) < rng.choice([0.0, 0.2, 0.6])).astype(np.int64)
        scores = np.round(rng.normal(size=(n, classes)) + labels)
        weight = rng.choice([0.1, 1.0, 3.0], size=n) if rng.random() < 0.5 else None
        threshold = float(rng.choice([0.0, 0.5, 1.0]))
        truth = {"y_true": labels, "y_pred": (scores >= threshold).astype(np.int64), "sample_weight": weight}
        wide = None if weight is None else np.repeat(weight[:, None], classes, axis=1)
        assert_scikit_learns(scores, labels, {"weight": wide, "threshold": threshold}, truth)


ALL: dict[str, Callable[..., Any]] = {
    "precision": metrics.precision,
    "recall": metrics.recall,
    "specificity": metrics.specificity,
    "accuracy": metrics.accuracy,
    "balanced_accuracy": metrics.balanced_accuracy,
    "jaccard": metrics.jaccard,
    "dice": metrics.dice,
    "mcc": metrics.mcc,
    "g_mean": metrics.g_mean,
    "kappa": partial(metrics.kappa, zero_division=0.0),
    "fbeta": partial(metrics.fbeta, beta=0.5),
    "tversky": partial(metrics.tversky, alpha=0.3, beta=0.7),
    "ratio": partial(metrics.ratio, numerator=(1, 0, 0, 2), denominator=(2, 1, 1, 3)),
    "count_measure": metrics.count_measure(lambda tp, fp, fn, tn: tp / (tp + fp) - fn / (fn + tn)),
}


@pytest.mark.parametrize("name", ALL)
def test_every_measure_is_that_of_each_class_against_the_rest(name: str) -> None:
    measure = ALL[name]
    for seed in range(20):
        scores, labels, weight, classes = draw_classes(seed)
        said = scores.argmax(axis=1)
        one_by_one = [measure(np.where(said == k, 1.0, -1.0), labels == k, weight=weight) for k in range(classes)]
        found = measure(scores, labels, weight=weight, average="none")
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, one_by_one, rtol=1e-12, atol=1e-12)
        assert measure(scores, labels, weight=weight, average="macro") == pytest.approx(np.mean(one_by_one), abs=1e-12)
        support = np.bincount(labels, weight, classes)
        expected = np.average(one_by_one, weights=support)
        assert measure(scores, labels, weight=weight, average="weighted") == pytest.approx(expected, abs=1e-12)
        pooled = measure(
            np.concatenate([np.where(said == k, 1.0, -1.0) for k in range(classes)]),
            np.concatenate([labels == k for k in range(classes)]),
            weight=None if weight is None else np.tile(weight, classes),
        )
        assert measure(scores, labels, weight=weight, average="micro") == pytest.approx(pooled, rel=1e-12, abs=1e-12)


def test_scikit_learns_multi_class_accuracies() -> None:
    scores, labels, _, _ = draw_classes(8)
    said = scores.argmax(axis=1)
    assert metrics.recall(scores, labels, average="micro") == pytest.approx(reference.accuracy_score(labels, said))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = reference.balanced_accuracy_score(labels, said)
    assert metrics.recall(scores, labels, average="macro", zero_division=math.nan) == pytest.approx(expected)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("counting", ["batch", "image"])
def test_maps(name: str, counting: str) -> None:
    measure = ALL[name]
    for seed in range(8):
        rng = np.random.default_rng(seed)
        images, classes = int(rng.integers(1, 5)), 3
        labels = rng.integers(0, rng.integers(1, classes + 1, (images, 1, 1)), (images, 4, 3))
        scores = np.moveaxis(np.round(rng.normal(size=(*labels.shape, classes)) + np.eye(classes)[labels]), -1, 1)
        labels[rng.random(labels.shape) < 0.3] = 255
        labels[0, 0, 0] = 0
        weight = rng.choice([0.0, 0.5, 2.0], size=labels.shape) if seed % 2 else None
        if weight is not None:
            weight[0, 0, 0] = 1.0
        rows = np.moveaxis(scores, 1, -1)

        def of_some(
            which: slice,
            average: str,
            labels: Any = labels,
            weight: Any = weight,
            rows: Any = rows,
            classes: int = classes,
        ) -> NDArray[np.float64]:
            """NaN where undefined."""
            kept = (labels[which] != 255) & (True if weight is None else weight[which] > 0)
            if not kept.any():
                return np.full(1 if average == "micro" else classes, np.nan)
            mass = None if weight is None else weight[which][kept]
            found = measure(
                rows[which][kept], labels[which][kept], weight=mass, average=average, zero_division=math.nan
            )
            return np.atleast_1d(found)

        each = [slice(i, i + 1) for i in range(images)] if counting == "image" else [slice(None)]
        for average in AVERAGES:
            values = np.array([of_some(which, "micro" if average == "micro" else "none") for which in each])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a class that is nowhere
                by_class = np.nan_to_num(np.nanmean(values, axis=0))
            kept = (labels != 255) * (np.ones(labels.shape) if weight is None else weight)
            support = np.bincount(np.where(labels == 255, 0, labels).reshape(-1), kept.reshape(-1), classes)
            expected: Any = by_class
            if average != "none":
                expected = np.average(by_class, weights=support if average == "weighted" else None)
            found = measure(scores, labels, weight=weight, average=average, counting=counting, ignore_index=255)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12, err_msg=f"{seed} {average}")


def test_label_maps_by_image() -> None:
    rng = np.random.default_rng(2)
    labels, scores = rng.integers(0, 2, (3, 2, 4, 4)), rng.normal(size=(3, 2, 4, 4))
    weight = rng.random(labels.shape)
    labels[0, 1, 0, 0] = -1
    by_image = []
    for s, y, w in zip(scores, labels, weight, strict=True):
        kept = [y[k] != -1 for k in range(2)]
        by_image.append([metrics.dice(s[k][kept[k]], y[k][kept[k]], weight=w[k][kept[k]]) for k in range(2)])
    options: dict[str, Any] = {"weight": weight, "ignore_index": -1, "counting": "image"}
    found = metrics.dice(scores, labels, average="none", **options)
    np.testing.assert_allclose(found, np.mean(by_image, axis=0), rtol=1e-12)
    assert metrics.dice(scores, labels, average="macro", **options) == pytest.approx(np.mean(by_image), rel=1e-12)


def test_a_class_of_rounding_only_is_no_class() -> None:
    # All are predicted to be of class 0, which so has no true negatives, whatever the rounding of the sums of weights.
    rng = np.random.default_rng(1)
    weight = rng.random(1000)
    scores = np.tile([1.0, 0.0, -1.0], (1000, 1))
    for order in range(5):
        labels = np.zeros(1000, int)
        labels[:order] = 1
        found = metrics.mcc(scores, labels, average="none", weight=weight, zero_division=math.nan)
        assert np.isnan(found).all()


def test_ties_go_to_the_first_class() -> None:
    assert metrics.recall([[1.0, 1.0, 0.0]], [0], average="none").tolist() == [1.0, 0.0, 0.0]
    assert metrics.precision([[1.0, 1.0, 0.0]], [1], average="none").tolist() == [0.0, 0.0, 0.0]


def test_kappa_leaves_absent_classes_out_and_warns_when_none_is_left() -> None:
    scores, labels = [[1.0, 0.0, -9.0], [0.0, 1.0, -9.0], [0.0, 1.0, -9.0]], [0, 1, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metrics.kappa(scores, labels, average="macro") == pytest.approx(0.4)
    with pytest.warns(UndefinedMetricWarning, match="kappa"):
        found = metrics.kappa(scores, labels, average="none")
    np.testing.assert_allclose(found, [0.4, 0.4, np.nan])
    with pytest.warns(UndefinedMetricWarning, match="kappa"):
        assert math.isnan(metrics.kappa(scores[:1], [0], average="macro"))


def test_containers_and_types() -> None:
    scores, labels, weight = [[2.0, 1.0], [0.0, 1.0], [3.0, 1.0]], [0, 1, 1], [1.0, 2.0, 0.5]
    expected = metrics.jaccard(scores, labels, average="macro", weight=weight)
    for s in (np.array(scores, np.float16), torch.tensor(scores, requires_grad=True), torch.tensor(scores).bfloat16()):
        for y in (
            np.array(labels, np.uint8),
            torch.tensor(labels),
            np.array(labels, np.float32),
            np.array(labels, bool),
        ):
            for w in (torch.tensor(weight), np.array(weight, np.float32), tuple(weight)):
                assert metrics.jaccard(s, y, average="macro", weight=w) == pytest.approx(expected, abs=1e-15)
    marks = np.eye(2)[labels]
    tensor = torch.tensor(scores, dtype=torch.float16)
    assert metrics.recall(tensor, marks, average="micro", threshold=1.0) == pytest.approx(1.0)
    tenth = torch.tensor([[0.7, 0.1]], dtype=torch.bfloat16)  # bfloat16's 0.7 is above 0.7's own rounding elsewhere
    assert metrics.recall(tenth, [[1, 0]], average="none", threshold=0.7).tolist() == [1.0, 0.0]


BAD: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "class beyond": ([[1.0, 2.0]], [2], {}, "`labels` to hold class indices from 0 to 1.*holds 2"),
    "class below": ([[1.0, 2.0]], [-1], {}, "`labels` to hold class indices from 0 to 1.*holds -1"),
    "half class": ([[1.0, 2.0]], [0.5], {}, "`labels` to hold class indices.*no whole numbers"),
    "nan class": ([[1.0, 2.0]], [np.nan], {}, "`labels` to hold class indices"),
    "one column": ([[1.0], [2.0]], [0, 0], {}, r"`scores` to have at least 2 classes.*\(2, 1\)"),
    "lengths": ([[1.0, 2.0]], [0, 1], {}, r"`labels` to be of shape \(1,\).*or \(1, 2\).*but got \(2,\)"),
    "marks": ([[1.0, 2.0]], [[0, 2]], {}, "`labels` to hold only 0 and 1"),
    "nan": ([[1.0, np.nan]], [0], {}, "`scores` to be finite.*0, 1"),
    "weight shape": ([[1.0, 2.0]], [[0, 1]], {"weight": [1.0]}, r"`weight` to have the shape of `labels`, \(1, 2\)"),
    "weight length": ([[1.0, 2.0]], [0], {"weight": [1.0, 2.0]}, "`weight` to have as many values"),
    "weight below": ([[1.0, 2.0]], [0], {"weight": [-1.0]}, "`weight` to be non-negative"),
    "weight zero": ([[1.0, 2.0]], [0], {"weight": [0.0]}, "`weight`.*above zero"),
    "no images": ([[1.0, 2.0]], [0], {"counting": "image"}, "`scores` to hold maps"),
    "empty": (np.zeros((0, 3)), np.zeros(0), {}, "`scores` to hold at least one"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("measure", [metrics.mcc, metrics.fbeta])
def test_refuses(measure: Any, bad: str) -> None:
    scores, labels, options, message = BAD[bad]
    with pytest.raises(InputError, match=message):
        measure(scores, labels, average="macro", **options)


def test_binary_says_which_average_to_take() -> None:
    with pytest.raises(InputError, match=r"`scores` to be one-dimensional.*average='macro'"):
        metrics.jaccard([[1.0, 2.0], [3.0, 4.0]], [0, 1])


def test_inputs_are_left_alone() -> None:
    scores, labels, weight = np.array([[1.0, -0.0], [2.0, 3.0]]), np.array([0, 255]), np.array([1.0, 0.0])
    copies = scores.copy(), labels.copy(), weight.copy()
    metrics.dice(scores, labels, average="macro", weight=weight, ignore_index=255)
    for value, copy in zip((scores, labels, weight), copies, strict=True):
        assert value.tobytes() == copy.tobytes()
