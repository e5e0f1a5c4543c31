"""Measures of the four counts with two classes, against scikit-learn or their formula written out again."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference
from numpy.typing import NDArray

from metrics.judge_cases import Case, draw
from setwise import metrics
from setwise._checks import InputError
from setwise.metrics import UndefinedMetricWarning

BLOCKS = [range(start, start + 25) for start in range(0, 100, 25)]  # fewer, larger tests run faster


def truth_of(case: Case, threshold: float) -> dict[str, Any]:
    """Arguments of scikit-learn's functions; what the caller's own ``scores >= threshold`` says."""
    scores = np.asarray(case.scores) if isinstance(case.scores, list) else case.scores
    return {
        "y1": case.plain_labels,
        "y2": np.asarray(scores >= threshold).astype(np.int64),
        "sample_weight": case.plain_weight,
    }


def cells_of(truth: dict[str, Any]) -> tuple[float, float, float, float]:
    ((tn, fp), (fn, tp)) = reference.confusion_matrix(
        truth["y1"], truth["y2"], sample_weight=truth["sample_weight"], labels=[0, 1]
    )
    return float(tp), float(fp), float(fn), float(tn)


def over(top: float, bottom: float) -> float:
    return top / bottom if bottom else 0.0


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
@pytest.mark.filterwarnings("ignore")  # scikit-learn's, and ours, for kappa on one class
def test_against_scikit_learn(seeds: range) -> None:
    for seed in seeds:
        case = draw(seed)
        threshold = (0.0, 0.3, -1.0, float(case.plain_scores[0]))[seed % 4]
        options: dict[str, Any] = {"threshold": threshold, "weight": case.weight}
        truth = truth_of(case, threshold)
        y_true, y_pred, weight = truth["y1"], truth["y2"], truth["sample_weight"]
        pairs: list[tuple[Any, Callable[..., float]]] = [
            (metrics.mcc, reference.matthews_corrcoef),
            (metrics.kappa, reference.cohen_kappa_score),
            (metrics.balanced_accuracy, reference.balanced_accuracy_score),
            (metrics.dice, lambda *y, **w: reference.f1_score(*y, zero_division=0.0, **w)),
            (metrics.specificity, lambda *y, **w: reference.recall_score(*y, pos_label=0, zero_division=0.0, **w)),
        ]
        for ours, theirs in pairs:
            found = ours(case.scores, case.labels, **options)
            assert type(found) is float
            expected = theirs(y_true, y_pred, sample_weight=weight)
            assert found == pytest.approx(expected, abs=1e-12, nan_ok=True), ours


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_against_the_formula(seeds: range) -> None:
    for seed in seeds:
        case = draw(seed)
        threshold = (0.0, 0.3, -1.0, float(case.plain_scores[0]))[seed % 4]
        options: dict[str, Any] = {"threshold": threshold, "weight": case.weight}
        tp, fp, fn, tn = cells_of(truth_of(case, threshold))
        found = metrics.g_mean(case.scores, case.labels, **options)
        assert found == pytest.approx(math.sqrt(over(tp, tp + fn) * over(tn, tn + fp)), abs=1e-12)
        alpha, beta = ((0.3, 0.7), (1, 1), (0, 2.5), (0, 0))[seed % 4]
        found = metrics.tversky(case.scores, case.labels, alpha=alpha, beta=beta, **options)
        assert found == pytest.approx(over(tp, tp + alpha * fp + beta * fn), abs=1e-12)
        above, below = (2.0, -1.0, 0.0, 0.5), [1, 0.5, 3, 0.25]
        found = metrics.ratio(case.scores, case.labels, numerator=above, denominator=below, **options)
        bottom = tp + 0.5 * fp + 3 * fn + 0.25 * tn
        assert found == pytest.approx((2 * tp - fp + 0.5 * tn) / bottom, abs=1e-12)
        profit = metrics.count_measure(lambda tp, fp, fn, tn: 10 * tp - 4 * fp - fn + 0.5 * tn)
        expected = 10 * tp - 4 * fp - fn + 0.5 * tn
        assert profit(case.scores, case.labels, **options) == pytest.approx(expected, rel=1e-12, abs=1e-10)


def test_tversky_is_dice_and_jaccard_at_their_settings() -> None:
    case = draw(3)
    scores, labels = case.scores, case.labels
    assert metrics.tversky(scores, labels, alpha=1, beta=1) == metrics.jaccard(scores, labels)
    assert metrics.tversky(scores, labels, alpha=0.5, beta=0.5) == pytest.approx(metrics.dice(scores, labels))
    # alpha is the price of false positives, beta that of false negatives
    assert metrics.tversky([1.0, 1.0], [1, 0], alpha=3, beta=0) == 0.25
    assert metrics.tversky([1.0, -1.0], [1, 1], alpha=0, beta=3) == 0.25


@pytest.mark.parametrize("scale", [1e-200, 1e200])
@pytest.mark.parametrize("measure", [metrics.mcc, metrics.kappa, metrics.g_mean, metrics.balanced_accuracy])
def test_very_small_and_large_weights(measure: Callable[..., float], scale: float) -> None:
    scores, labels, weight = [3, 2, 1, -1, -2], [1, 0, 1, 0, 1], np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert measure(scores, labels, weight=scale * weight) == pytest.approx(measure(scores, labels, weight=weight))


SILENT: list[Callable[..., float]] = [
    metrics.mcc,
    metrics.g_mean,
    metrics.balanced_accuracy,
    metrics.dice,
    metrics.specificity,
    metrics.precision,
    metrics.recall,
    metrics.jaccard,
]


@pytest.mark.parametrize("measure", SILENT)
def test_one_class_is_silent_and_finite(measure: Callable[..., float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for labels in ([0, 0], [1, 1]):
            for scores in ([-1.0, -2.0], [1.0, -1.0], [1.0, 2.0]):
                assert math.isfinite(measure(scores, labels))


def test_undefined_values_are_what_the_caller_says() -> None:
    for measure in (metrics.precision, metrics.dice, metrics.mcc, metrics.jaccard):
        assert measure([-1.0, -2.0], [0, 0]) == 0.0
        assert measure([-1.0, -2.0], [0, 0], zero_division=1.0) == 1.0
        assert math.isnan(measure([-1.0, -2.0], [0, 0], zero_division=math.nan))
        assert measure([1.0, -2.0, -1.0], [1, 0, 1], zero_division=1.0) == measure([1.0, -2.0, -1.0], [1, 0, 1])


def test_kappa_of_one_class_is_nan_with_a_warning() -> None:
    with pytest.warns(UndefinedMetricWarning, match="kappa is undefined") as caught:
        assert math.isnan(metrics.kappa([-1.0, -2.0], [0, 0]))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metrics.kappa([-1.0, -2.0], [0, 0], zero_division=0.0) == 0.0
        assert metrics.kappa([-1.0, 2.0], [0, 0]) == 0.0


def test_balanced_accuracy_of_one_class_is_the_recall_of_that_class() -> None:
    assert metrics.balanced_accuracy([1.0, -1.0, -2.0, 3.0], [1, 1, 1, 1]) == 0.5
    assert metrics.balanced_accuracy([1.0, -1.0, -2.0, -3.0], [0, 0, 0, 0]) == 0.75


def test_count_measure_keeps_the_name_of_its_function() -> None:
    def utility(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        """What it is worth."""
        return tp - fp - fn + tn

    measure: Any = metrics.count_measure(utility)
    assert (measure.__name__, measure.__doc__) == ("utility", "What it is worth.")
    assert [*inspect.signature(measure).parameters][:3] == ["scores", "labels", "threshold"]
    assert [*inspect.signature(metrics.mcc).parameters][-1] == "weight"


def test_count_measure_undefined() -> None:
    def odds(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        return (tp * tn) / (fp * fn)

    assert metrics.count_measure(odds)([-1.0, -2.0], [0, 0]) == 0.0
    assert metrics.count_measure(odds, zero_division=7.0)([-1.0, -2.0], [0, 0]) == 7.0
    with pytest.warns(UndefinedMetricWarning, match="odds is undefined"):
        assert math.isnan(metrics.count_measure(odds, zero_division=math.nan)([-1.0, -2.0], [0, 0]))


def test_count_measure_refuses() -> None:
    with pytest.raises(TypeError, match="`function` to be a function of"):
        metrics.count_measure("mcc")  # type: ignore[arg-type]
    total = metrics.count_measure(lambda tp, fp, fn, tn: (tp + fp + fn + tn).sum())
    with pytest.raises(
        InputError, match=r"`function` to return one value for each table, shape \(1, 1\), but got \(\)"
    ):
        total([1.0, -1.0], [0, 1])


@pytest.mark.parametrize(
    ("measure", "settings", "accepted", "option", "refused"),
    [
        (metrics.tversky, {"beta": 1.0}, (0, 0.5, 7), "alpha", (-0.1, math.inf, math.nan)),
        (metrics.tversky, {"alpha": 1.0}, (0, 0.5, 7), "beta", (-0.1, math.inf, math.nan)),
        (metrics.ratio, {"denominator": (1, 1, 1, 0)}, ([1, 0, 0, 0], np.ones(4)), "numerator", ((1, 2), 3, "1000")),
        (
            metrics.ratio,
            {"numerator": (1, 0, 0, 0)},
            ((1, 1, 1, 1),),
            "denominator",
            ((0, 0, 0, 0), (1, 1, 1, math.nan), (1,) * 5),
        ),
        (metrics.mcc, {}, (0.0, 1, -1.0, math.nan), "zero_division", ()),
    ],
)
def test_settings(
    measure: Callable[..., float], settings: dict[str, Any], accepted: Any, option: str, refused: tuple[Any, ...]
) -> None:
    scores, labels = [1.0, 2.0, -1.0], [0, 1, 1]
    for value in accepted:
        assert math.isfinite(measure(scores, labels, **settings, **{option: value}))
    for value in refused:
        with pytest.raises((InputError, TypeError), match=f"`{option}`"):
            measure(scores, labels, **settings, **{option: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"average": "samples"}, "`average` to be one of 'binary', 'micro'.*'samples'"),
        ({"counting": "pixel"}, "`counting` to be one of 'batch', 'image'"),
        ({"counting": "image"}, r"`scores` to hold maps of several images.*\(2,\)"),
        ({"average": "macro"}, r"`scores` to be of shape \(N, C\).*'macro'.*\(2,\)"),
        ({"ignore_index": 1.5}, "`ignore_index` to be an integer"),
        ({"zero_division": "warn"}, "`zero_division` to be a number"),
        ({"treshold": 1.0}, "treshold"),
    ],
)
@pytest.mark.parametrize("measure", [metrics.jaccard, metrics.kappa, metrics.fbeta])
def test_refused_options(measure: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, TypeError), match=message):
        measure([1.0, -1.0], [1, 0], **options)


def test_binary_maps_are_counted_together_or_by_image() -> None:
    rng = np.random.default_rng(4)
    labels: NDArray[np.int64] = rng.integers(0, 2, (3, 4, 5))
    labels[2] = 0
    scores, weight = rng.normal(size=labels.shape), rng.random(labels.shape)
    scores[2] = -1.0  # nothing there and nothing said: the Jaccard index of the third image is undefined
    flat = metrics.jaccard(scores.reshape(-1), labels.reshape(-1), weight=weight.reshape(-1))
    assert metrics.jaccard(scores, labels, weight=weight) == pytest.approx(flat, abs=1e-14)
    single = [
        metrics.jaccard(s.reshape(-1), y.reshape(-1), weight=w.reshape(-1))
        for s, y, w in zip(scores[:2], labels[:2], weight[:2], strict=True)
    ]
    found = metrics.jaccard(scores, labels, weight=weight, counting="image")
    assert found == pytest.approx(np.mean(single), abs=1e-14)
    labels[1, 0] = 255
    kept = labels != 255
    found = metrics.jaccard(scores, labels, weight=weight, ignore_index=255)
    assert found == pytest.approx(metrics.jaccard(scores[kept], labels[kept], weight=weight[kept]), abs=1e-14)


def test_ignored_labels_of_a_vector() -> None:
    scores, labels = [2.0, 1.0, -1.0, 3.0], [1, 0, 1, -100]
    assert metrics.precision(scores, labels, ignore_index=-100) == 0.5
    with pytest.raises(InputError, match="`labels` to hold only 0 and 1"):
        metrics.precision(scores, labels)
    assert metrics.precision(scores, [-100] * 4, ignore_index=-100) == 0.0
    assert metrics.accuracy(scores, [-100] * 4, ignore_index=-100, zero_division=1.0) == 1.0
