"""AUC of several classes: one versus all against scikit-learn, AUC-mu against its definition pair by pair."""

from __future__ import annotations

import math
import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference
import torch
from numpy.typing import NDArray

from setwise import metrics
from setwise._checks import InputError
from setwise.metrics import UndefinedMetricWarning

BLOCKS = [range(start, start + 25) for start in range(0, 100, 25)]


def softmax(scores: NDArray[Any]) -> NDArray[np.float64]:
    powers = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True).astype(np.float64))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def draw_all_classes(
    seed: int, sizes: tuple[int, ...] = (10, 40, 150)
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float64] | None]:
    """Scores (N, C) with ties, every class present with a weight above zero."""
    rng = np.random.default_rng(seed)
    n, classes = int(rng.choice(sizes)), int(rng.choice([3, 4, 6]))
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    scores = rng.normal(size=(n, classes)) + rng.choice([0.0, 1.0, 3.0]) * np.eye(classes)[labels]
    if rng.random() < 0.5:
        scores = np.round(scores)
    weight = None
    if rng.random() < 0.6:
        weight = rng.choice([0.0, 0.5, 1.0, 3.0], size=n)
        weight[:classes] = 1.25
    order = rng.permutation(n)
    kind = str(rng.choice(["float32", "float64"]))
    return scores[order].astype(kind), labels[order], None if weight is None else weight[order]


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_one_versus_all_against_scikit_learn(seeds: range) -> None:
    for seed in seeds:
        scores, labels, weight = draw_all_classes(seed)
        for average in ("macro", "weighted"):
            options: dict[str, Any] = {"average": average, "weight": weight}
            truth: dict[str, Any] = {"average": average, "sample_weight": weight, "multi_class": "ovr"}
            share = softmax(scores)
            expected = reference.roc_auc_score(labels, share, **truth)
            found = metrics.multiclass_auroc(scores, labels, **options)
            assert type(found) is float
            assert found == pytest.approx(expected, abs=1e-12)
            assert metrics.multiclass_auroc(share, labels, link="raw", **options) == pytest.approx(expected, abs=1e-12)
        areas = metrics.multiclass_auroc(scores, labels, average="none", link="raw", weight=weight)
        single = [metrics.auroc(scores[:, k], labels == k, weight=weight) for k in range(scores.shape[1])]
        np.testing.assert_array_equal(areas, single)


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_several_labels_against_scikit_learn(seeds: range) -> None:
    for seed in seeds:
        scores, classes, weight = draw_all_classes(seed)
        rng = np.random.default_rng(seed)
        labels = (np.eye(scores.shape[1])[classes] + (rng.random(scores.shape) < 0.2) > 0).astype(np.int64)
        for average in ("macro", "weighted"):
            wide = None if weight is None else np.repeat(weight[:, None], scores.shape[1], axis=1)
            expected = reference.roc_auc_score(labels, scores, average=average, sample_weight=weight)
            found = metrics.multiclass_auroc(scores, labels, average=average, weight=wide)
            assert found == pytest.approx(expected, abs=1e-12)


def test_weights_of_single_labels() -> None:
    rng = np.random.default_rng(0)
    scores, labels, weight = rng.normal(size=(30, 2)), rng.integers(0, 2, (30, 2)), rng.integers(0, 3, (30, 2))
    expected = [metrics.auroc(scores[:, k], labels[:, k], weight=weight[:, k]) for k in range(2)]
    assert metrics.multiclass_auroc(scores, labels, average="none", weight=weight).tolist() == expected


def test_link_of_several_labels() -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(30, 3)), rng.integers(0, 2, (30, 3))
    plain = metrics.multiclass_auroc(scores, labels)
    assert plain == metrics.multiclass_auroc(scores, labels, link="raw")
    found = metrics.multiclass_auroc(scores, labels, link="softmax")
    assert found != plain
    assert found == metrics.multiclass_auroc(softmax(scores), labels)


def mu_by_definition(
    share: NDArray[np.float64],
    labels: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    partition: NDArray[np.float64] | None,
    average: str,
) -> float:
    """Kleiman and Page's sum, one pair of samples after the other."""
    classes = share.shape[1]
    mass = np.ones(len(labels)) if weight is None else weight
    costs = 1 - np.eye(classes) if partition is None else partition
    marks = np.eye(classes)
    values, sizes = [], []
    for k, m in combinations(range(classes), 2):
        v = costs[k] - costs[m]
        won = total = 0.0
        for a in np.flatnonzero(labels == k):
            for b in np.flatnonzero(labels == m):
                side = (v @ marks[k] - v @ marks[m]) * (np.sum(v * share[a]) - np.sum(v * share[b]))
                won += mass[a] * mass[b] * (1.0 if side > 1e-13 else 0.5 if side > -1e-13 else 0.0)
                total += mass[a] * mass[b]
        if total:
            values.append(won / total)
            sizes.append(total)
    return float(np.average(values, weights=sizes if average == "sum" else None))


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_auc_mu_against_its_definition(seeds: range) -> None:
    for seed in seeds:
        scores, labels, weight = draw_all_classes(seed, sizes=(8, 20))
        rng = np.random.default_rng(seed)
        partition = None
        if seed % 2:  # whole numbers, so that equal scores stay equal
            partition = rng.integers(0, 5, (scores.shape[1],) * 2).astype(np.float64)
            if seed % 4 == 1:
                np.fill_diagonal(partition, 0.0)
        options: dict[str, Any] = {"partition": partition, "average": ("pair", "sum")[seed % 3 == 0], "weight": weight}
        whole: Any = np.round(scores.astype(np.float64))
        expected = mu_by_definition(whole, labels, weight, partition, options["average"])
        assert metrics.auc_mu(whole, labels, link="raw", **options) == pytest.approx(expected, abs=1e-12)
        smooth = scores + rng.normal(size=scores.shape)  # no ties that only rounding decides
        expected = mu_by_definition(softmax(smooth), labels, weight, partition, options["average"])
        found = metrics.auc_mu(smooth, labels, **options)
        assert type(found) is float
        assert found == pytest.approx(expected, abs=1e-12)


def test_the_default_partition_is_one_off_the_diagonal() -> None:
    scores, labels, weight = draw_all_classes(2)
    classes = scores.shape[1]
    found = metrics.auc_mu(scores, labels, weight=weight, partition=1 - np.eye(classes))
    assert found == metrics.auc_mu(scores, labels, weight=weight)
    assert metrics.auc_mu(scores, labels, weight=weight, partition=7 * (1 - np.eye(classes))) == pytest.approx(found)


def test_auc_mu_of_two_classes_is_auc() -> None:
    rng = np.random.default_rng(1)
    scores, labels, weight = rng.normal(size=(50, 2)), rng.integers(0, 2, 50), rng.random(50)
    expected = metrics.auroc(scores[:, 1] - scores[:, 0], labels, weight=weight)
    for average in ("pair", "sum"):
        for link in ("raw", "softmax"):
            found = metrics.auc_mu(scores, labels, weight=weight, average=average, link=link)
            assert found == pytest.approx(expected, abs=1e-12)


def test_pairs_without_preference_count_half() -> None:
    scores, labels, _ = draw_all_classes(0)
    assert metrics.auc_mu(scores, labels, partition=np.zeros((scores.shape[1],) * 2)) == 0.5


def test_weights_are_repetitions_and_scale() -> None:
    scores, labels, _ = draw_all_classes(5)
    times = np.random.default_rng(5).integers(1, 4, len(labels))
    again = np.repeat(np.arange(len(labels)), times)
    for average in ("pair", "sum"):
        found = metrics.auc_mu(scores, labels, weight=times, average=average)
        repeated = metrics.auc_mu(scores[again], labels[again], average=average)
        assert found == pytest.approx(repeated, abs=1e-12)
        huge = metrics.auc_mu(scores, labels, weight=1e200 * times, average=average)
        assert found == pytest.approx(huge, abs=1e-12)


@pytest.mark.filterwarnings("error")
def test_equal_rows_tie_whatever_their_place() -> None:
    rng = np.random.default_rng(0)
    row = rng.normal(size=7)
    for n in (14, 21, 70):
        scores, labels = np.tile(row, (n, 1)), np.arange(n) % 7
        assert metrics.auc_mu(scores, labels, partition=rng.random((7, 7))) == 0.5
        assert metrics.multiclass_auroc(scores, labels) == 0.5


def test_absent_classes_are_left_out_with_a_warning() -> None:
    rng = np.random.default_rng(3)
    scores, labels = rng.normal(size=(40, 4)), rng.choice([0, 2, 3], 40)
    present = [0, 2, 3]
    with pytest.warns(UndefinedMetricWarning, match="Class 1 has no area") as caught:
        found = metrics.multiclass_auroc(scores, labels)
    assert caught[0].filename == __file__
    areas = [metrics.auroc(softmax(scores)[:, k], labels == k) for k in present]
    assert found == pytest.approx(np.mean(areas), abs=1e-14)
    with pytest.warns(UndefinedMetricWarning, match="Class 1"):
        by_class = metrics.multiclass_auroc(scores, labels, average="none")
    np.testing.assert_allclose(by_class[present], areas)
    assert math.isnan(by_class[1])
    with pytest.warns(UndefinedMetricWarning, match="Class 1 has no samples") as caught:
        found = metrics.auc_mu(scores, labels, link="raw")
    assert caught[0].filename == __file__
    smaller = metrics.auc_mu(scores[:, present], np.searchsorted(present, labels), link="raw")
    assert found == pytest.approx(smaller, abs=1e-14)
    # A class that is there with weight zero only is not there.
    labels[:5] = 1
    with pytest.warns(UndefinedMetricWarning, match="Class 1"):
        without = metrics.auc_mu(scores[5:], labels[5:], link="raw")
    with pytest.warns(UndefinedMetricWarning, match="Class 1"):
        assert metrics.auc_mu(scores, labels, link="raw", weight=labels != 1) == pytest.approx(without, abs=1e-14)


def test_one_class_only_is_nan_with_a_warning() -> None:
    scores, labels = [[1.0, 2.0, 3.0], [3.0, 1.0, 0.0]], [1, 1]
    with pytest.warns(UndefinedMetricWarning, match="Classes 0, 1, 2 have no area"):
        assert math.isnan(metrics.multiclass_auroc(scores, labels))
    with pytest.warns(UndefinedMetricWarning, match="AUC-mu is undefined: NaN"):
        assert math.isnan(metrics.auc_mu(scores, labels))
    with pytest.warns(UndefinedMetricWarning, match="Class 1 has no area"):
        assert metrics.multiclass_auroc([[1.0, 2.0], [3.0, 1.0]], [[0, 1], [1, 1]]) == 1.0
    with pytest.warns(UndefinedMetricWarning, match="Class 0 has no area"):
        metrics.multiclass_auroc([[1.0, 2.0], [3.0, 1.0]], [[0, 1], [1, 0]], weight=[[0, 1], [0, 1]])


def test_containers_and_types() -> None:
    scores, labels = [[2.0, 1.0, 0.0], [0.0, 1.0, -1.0], [1.0, 1.0, 3.0], [1.5, 0.0, 1.0]], [0, 1, 2, 1]
    mu, ova = metrics.auc_mu(scores, labels), metrics.multiclass_auroc(scores, labels)
    for s in (np.array(scores, np.float16), torch.tensor(scores, requires_grad=True), torch.tensor(scores).bfloat16()):
        for y in (np.array(labels, np.uint8), torch.tensor(labels), np.array(labels, np.float32)):
            assert metrics.auc_mu(s, y) == mu
            assert metrics.multiclass_auroc(s, y) == ova
    whole = np.array(scores, dtype=np.float64) * 2
    assert metrics.auc_mu(whole.astype(np.uint8) + 5, labels, link="raw") >= 0  # unsigned differences do not wrap
    rising = np.array([[0, 9], [1, 8], [5, 5], [9, 0]], np.uint8)
    assert metrics.auc_mu(rising, [1, 1, 0, 0], link="raw") == 1.0


BAD: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "vector": ([1.0, 2.0], [0, 1], {}, r"`scores` to be of shape \(N, C\).*\(2,\)"),
    "one column": ([[1.0], [2.0]], [0, 0], {}, "`scores`.*at least 2 classes"),
    "lengths": ([[1.0, 2.0]], [0, 1], {}, r"`labels` to be of shape \(1,\)"),
    "class beyond": ([[1.0, 2.0]], [2], {}, "`labels` to hold class indices from 0 to 1"),
    "nan": ([[1.0, np.nan]], [0], {}, "`scores` to be finite"),
    "link": ([[1.0, 2.0]], [0], {"link": "sigmoid"}, "`link` to be one of 'softmax', 'raw'"),
    "average": ([[1.0, 2.0]], [0], {"average": "micro"}, "`average` to be one of"),
    "weight": ([[1.0, 2.0]], [0], {"weight": [-1.0]}, "`weight` to be non-negative"),
    "weights": ([[1.0, 2.0]], [0], {"weight": [1.0, 1.0]}, "`weight` to have as many values"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("measure", [metrics.auc_mu, metrics.multiclass_auroc])
def test_refuses(measure: Any, bad: str) -> None:
    scores, labels, options, message = BAD[bad]
    with pytest.raises(InputError, match=message):
        measure(scores, labels, **options)


def test_refused_partitions() -> None:
    scores, labels = [[1.0, 2.0, 0.0], [3.0, 1.0, 0.0]], [1, 0]
    with pytest.raises(InputError, match=r"`partition` to be of shape \(3, 3\), but got \(2, 2\)"):
        metrics.auc_mu(scores, labels, partition=np.eye(2))
    with pytest.raises(InputError, match="`partition` to be finite"):
        metrics.auc_mu(scores, labels, partition=np.full((3, 3), np.nan))
    with pytest.raises(InputError, match=r"`labels` to be of shape \(2,\)"):
        metrics.auc_mu(scores, np.eye(3)[labels])


def test_no_warning_where_all_classes_are_present() -> None:
    scores, labels, weight = draw_all_classes(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics.auc_mu(scores, labels, weight=weight)
        metrics.multiclass_auroc(scores, labels, weight=weight)
