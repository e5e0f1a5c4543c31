"""What every entry point accepts and refuses, what it says when undefined, and what the judge may import."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import setwise.metrics
from setwise import metrics
from setwise._checks import InputError
from setwise.metrics import UndefinedMetricWarning
from setwise.metrics._inputs import read_sample
from setwise.metrics._ranked import rank

ENTRY_POINTS: dict[str, Callable[..., Any]] = {
    "roc_curve": metrics.roc_curve,
    "precision_recall_curve": metrics.precision_recall_curve,
    "auroc": metrics.auroc,
    "partial_auroc": lambda s, y, weight=None: metrics.partial_auroc(s, y, max_fpr=0.5, weight=weight),
    "average_precision": metrics.average_precision,
    "confusion_counts": metrics.confusion_counts,
    "fbeta": metrics.fbeta,
    "jaccard": metrics.jaccard,
    "precision": metrics.precision,
    "recall": metrics.recall,
    "accuracy": metrics.accuracy,
    "balanced_accuracy": metrics.balanced_accuracy,
    "specificity": metrics.specificity,
    "dice": metrics.dice,
    "mcc": metrics.mcc,
    "g_mean": metrics.g_mean,
    "kappa": metrics.kappa,
    "tversky": lambda s, y, weight=None: metrics.tversky(s, y, alpha=0.3, beta=0.7, weight=weight),
    "ratio": lambda s, y, weight=None: metrics.ratio(
        s, y, numerator=(1, 0, 0, 1), denominator=(1, 2, 1, 1), weight=weight
    ),
    "count_measure": metrics.count_measure(lambda tp, fp, fn, tn: tp - 2 * fp - fn + 3 * tn),
    "precision_at_k": lambda s, y, weight=None: metrics.precision_at_k(s, y, k=0.5, weight=weight),
    "precision_at_recall": lambda s, y, weight=None: metrics.precision_at_recall(s, y, recall=0.5, weight=weight),
    "recall_at_precision": lambda s, y, weight=None: metrics.recall_at_precision(s, y, precision=0.5, weight=weight),
    "tpr_at_fpr": lambda s, y, weight=None: metrics.tpr_at_fpr(s, y, fpr=0.5, weight=weight),
    "fpr_at_tpr": lambda s, y, weight=None: metrics.fpr_at_tpr(s, y, tpr=0.5, weight=weight),
    "choose_threshold": metrics.choose_threshold,
    "bootstrap_interval": lambda s, y, weight=None: metrics.bootstrap_interval("auc", s, y, weight=weight, resamples=3),
}

BAD: dict[str, tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = {
    "empty": (([], []), {}, InputError, "`scores`.*at least one value"),
    "lengths": (([1.0, 2.0], [1]), {}, InputError, "`labels` to have as many values as `scores`, 2, but got 1"),
    "column": (([[1.0], [2.0]], [0, 1]), {}, InputError, r"`scores` to be one-dimensional.*\(2, 1\).*reshape"),
    "column of labels": (([1.0, 2.0], torch.ones(2, 1)), {}, InputError, "`labels` to be one-dimensional"),
    "a number": ((1.0, 1), {}, InputError, "`scores` to be one-dimensional"),
    "ragged": (([[1.0], [2.0, 3.0]], [0, 1]), {}, InputError, "`scores` to be one-dimensional.*ragged"),
    "nan": (([1.0, np.nan], [0, 1]), {}, InputError, "`scores` to be finite"),
    "infinity": ((torch.tensor([1.0, torch.inf]), [0, 1]), {}, InputError, "`scores` to be finite"),
    "label 2": (([1.0, 2.0], [0, 2]), {}, InputError, "`labels` to hold only 0 and 1.*2"),
    "label -1": (([1.0, 2.0], [-1, 1]), {}, InputError, "labels > 0"),
    "label 0.5": (([1.0, 2.0], [0.5, 1]), {}, InputError, "`labels` to hold only 0 and 1"),
    "label nan": (([1.0, 2.0], [np.nan, 1]), {}, InputError, "`labels` to hold only 0 and 1"),
    "strings": ((["a", "b"], [0, 1]), {}, TypeError, "`scores` to hold numbers"),
    "string labels": (([1.0, 2.0], ["no", "yes"]), {}, TypeError, "`labels` to hold numbers"),
    "none": ((None, [0, 1]), {}, TypeError, "`scores` to hold numbers"),
    "complex": ((torch.ones(2, dtype=torch.complex64), [0, 1]), {}, TypeError, "`scores`"),
    "negative weight": (([1.0, 2.0], [0, 1]), {"weight": [1, -1]}, InputError, "`weight` to be non-negative"),
    "nan weight": (([1.0, 2.0], [0, 1]), {"weight": [1, np.nan]}, InputError, "`weight` to be finite"),
    "zero weight": (([1.0, 2.0], [0, 1]), {"weight": [0, 0]}, InputError, "`weight`.*above zero"),
    "weight length": (([1.0, 2.0], [0, 1]), {"weight": [1]}, InputError, "`weight` to have as many values"),
}


@pytest.mark.parametrize("name", ENTRY_POINTS)
@pytest.mark.parametrize("bad", BAD)
def test_refuses(name: str, bad: str) -> None:
    arguments, options, error, message = BAD[bad]
    with pytest.raises(error, match=message):
        ENTRY_POINTS[name](*arguments, **options)


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_accepts_every_container_and_type_alike(name: str) -> None:
    measure = ENTRY_POINTS[name]
    scores, labels, weight = [2.0, -1.0, 0.5, 0.0, 0.5], [1, 0, 1, 0, 0], [1.0, 2.0, 0.0, 1.0, 3.0]
    expected = measure(scores, labels, weight=weight)
    for s in (np.array(scores, np.float16), np.array(scores, ">f4"), torch.tensor(scores, requires_grad=True)):
        for y in (np.array(labels, bool), np.array(labels, np.uint16), torch.tensor(labels).float(), tuple(labels)):
            for w in (np.array(weight, np.float32), torch.tensor(weight)):
                assert_same(measure(s, y, weight=w), expected)


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_zero_weight_is_absence(name: str) -> None:
    measure = ENTRY_POINTS[name]
    scores, labels, weight = [2.0, -1.0, 0.5, 9.0, 0.25], [1, 0, 1, 0, 0], [1.0, 2.0, 1.5, 0.0, 3.0]
    keep = [0, 1, 2, 4]
    without = measure([scores[i] for i in keep], [labels[i] for i in keep], weight=[weight[i] for i in keep])
    assert_same(measure(scores, labels, weight=weight), without)


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_inputs_are_left_alone(name: str) -> None:
    scores, labels, weight = np.array([2.0, -0.0, 1.0], np.float32), np.array([1, 0, 0]), np.array([1.0, 2.0, 0.0])
    copies = scores.copy(), labels.copy(), weight.copy()
    ENTRY_POINTS[name](scores, labels)
    ENTRY_POINTS[name](scores, labels, weight=weight)
    for value, copy in zip((scores, labels, weight), copies, strict=True):
        assert value.tobytes() == copy.tobytes()


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(found, tuple):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    else:
        assert found == expected


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("weight", [None, [1.0, 1.0, 2.0]])
def test_minus_zero_ties_with_zero(kind: type[np.floating[Any]], weight: list[float] | None) -> None:
    ranked = rank(read_sample(np.array([0.0, -0.0, 1.0], kind), [1, 0, 1], weight))
    assert ranked.thresholds.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("weight", [None, np.ones(8)])
def test_float32_keys_keep_the_order_of_extreme_scores(weight: Any) -> None:
    tiny, huge = np.float32(1e-45), np.finfo(np.float32).max
    scores = np.array(
        [tiny, -huge, huge, -tiny, 1.0, -1.0, 0.0, np.nextafter(np.float32(1), np.float32(2))], np.float32
    )
    ranked = rank(read_sample(scores, [0, 1] * 4, weight))
    np.testing.assert_array_equal(ranked.thresholds, np.sort(scores.astype(np.float64))[::-1])


ALL_NEGATIVE, ALL_POSITIVE = ([0.3, 0.1, 0.2], [0, 0, 0]), ([0.3, 0.1, 0.2], [1, 1, 1])


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        ("auroc", ALL_NEGATIVE, np.nan),
        ("auroc", ALL_POSITIVE, np.nan),
        ("partial_auroc", ALL_NEGATIVE, np.nan),
        ("partial_auroc", ALL_POSITIVE, np.nan),
        ("average_precision", ALL_NEGATIVE, 0.0),
        ("precision_at_recall", ALL_NEGATIVE, np.nan),
        ("recall_at_precision", ALL_NEGATIVE, np.nan),
        ("tpr_at_fpr", ALL_NEGATIVE, np.nan),
        ("tpr_at_fpr", ALL_POSITIVE, np.nan),
        ("fpr_at_tpr", ALL_NEGATIVE, np.nan),
        ("fpr_at_tpr", ALL_POSITIVE, np.nan),
    ],
)
def test_undefined_values_warn(name: str, data: tuple[list[float], list[int]], value: float) -> None:
    with pytest.warns(UndefinedMetricWarning) as caught:
        found = ENTRY_POINTS[name](*data)
    assert len(caught) == 1
    np.testing.assert_equal(found, value)
    # A class that is there with weight zero only is not there.
    scores, labels = [*data[0], 0.15], [*data[1], 1 - data[1][0]]
    with pytest.warns(UndefinedMetricWarning):
        np.testing.assert_equal(ENTRY_POINTS[name](scores, labels, weight=[1, 1, 1, 0]), value)


def test_the_warning_points_at_the_caller() -> None:
    with pytest.warns(UndefinedMetricWarning) as caught:
        metrics.auroc(*ALL_NEGATIVE)
    assert caught[0].filename == __file__


def test_one_class_where_defined() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metrics.average_precision(*ALL_POSITIVE) == 1.0
        assert metrics.precision_at_recall(*ALL_POSITIVE, recall=1.0) == 1.0
        assert metrics.recall_at_precision(*ALL_POSITIVE, precision=1.0) == 1.0
        assert metrics.accuracy(*ALL_NEGATIVE, threshold=5.0) == 1.0
        for ratio in (metrics.fbeta, metrics.jaccard, metrics.precision, metrics.recall):
            assert ratio(*ALL_NEGATIVE, threshold=5.0) == 0.0  # 0/0
        assert metrics.auroc([1.0, 1.0], [0, 1]) == 0.5


def test_one_class_curves() -> None:
    with pytest.warns(UndefinedMetricWarning, match="no positive"):
        roc = metrics.roc_curve(*ALL_NEGATIVE)
    assert np.isnan(roc.tpr).all()
    np.testing.assert_allclose(roc.fpr, [0, 1 / 3, 2 / 3, 1])
    with pytest.warns(UndefinedMetricWarning, match="no negative"):
        roc = metrics.roc_curve(*ALL_POSITIVE)
    assert np.isnan(roc.fpr).all()
    with pytest.warns(UndefinedMetricWarning, match="no positive"):
        curve = metrics.precision_recall_curve(*ALL_NEGATIVE)
    assert curve.precision.tolist() == [0, 0, 0, 1]
    assert curve.recall.tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("measure", "option", "accepted", "refused"),
    [
        (metrics.partial_auroc, "max_fpr", (1e-3, 1, 1.0), (0.0, 1.1, -0.1, float("nan"))),
        (metrics.precision_at_k, "k", (1, 3, 0.5, np.int32(2)), (0, 4, 1.5, float("nan"))),
        (metrics.precision_at_recall, "recall", (0, 0.5, 1), (-0.1, 1.1, float("nan"))),
        (metrics.recall_at_precision, "precision", (0, 0.5, 1), (-0.1, 1.1, float("nan"))),
        (metrics.tpr_at_fpr, "fpr", (0, 0.5, 1), (-0.1, 1.1, float("nan"))),
        (metrics.fpr_at_tpr, "tpr", (0, 0.5, 1), (-0.1, 1.1, float("nan"))),
        (metrics.fbeta, "beta", (0, 2, float("inf")), (-1.0, float("nan"))),
        (metrics.fbeta, "threshold", (-1, 0.5, float("inf"), np.float32(1)), (float("nan"),)),
    ],
)
def test_settings(
    measure: Callable[..., float], option: str, accepted: tuple[float, ...], refused: tuple[float, ...]
) -> None:
    for value in accepted:
        assert 0 <= measure([1.0, 2.0, 0.0], [0, 1, 1], **{option: value}) <= 1
    for value in refused:
        with pytest.raises(InputError, match=f"`{option}`"):
            measure([1.0, 2.0, 0.0], [0, 1, 1], **{option: value})
    with pytest.raises(TypeError, match=f"`{option}`"):
        measure([1.0, 2.0, 0.0], [0, 1, 1], **{option: "0.5"})


def test_the_judge_stands_on_the_checks_alone() -> None:
    allowed = ("setwise", "setwise._checks", "setwise._types", "setwise.metrics")
    for path in Path(setwise.metrics.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("setwise"):
                module = node.module or ""
                assert module in allowed or module.startswith("setwise.metrics."), (path.name, module)
                if module == "setwise":
                    assert {alias.name for alias in node.names} <= {"_checks"}, path.name
