"""The choice of a threshold against a loop over every threshold with the measures written out again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference
import torch

from metrics.judge_cases import Case, draw
from setwise import metrics
from setwise._checks import InputError

BLOCKS = [range(start, start + 20) for start in range(0, 200, 20)]  # fewer, larger tests run faster

Cells = tuple[float, float, float, float]


def over(top: float, bottom: float) -> float:
    return top / bottom if bottom else 0.0


ORACLES: dict[str, Callable[[Cells], float]] = {
    "precision": lambda c: over(c[0], c[0] + c[1]),
    "recall": lambda c: over(c[0], c[0] + c[2]),
    "tpr": lambda c: over(c[0], c[0] + c[2]),
    "fpr": lambda c: over(c[1], c[1] + c[3]),
    "fnr": lambda c: over(c[2], c[0] + c[2]),
    "specificity": lambda c: over(c[3], c[1] + c[3]),
    "accuracy": lambda c: (c[0] + c[3]) / sum(c),
    "balanced_accuracy": lambda c: over(c[0], c[0] + c[2]) / 2 + over(c[3], c[1] + c[3]) / 2,
    "kappa": lambda c: over(
        2 * (c[0] * c[3] - c[1] * c[2]), (c[0] + c[1]) * (c[1] + c[3]) + (c[0] + c[2]) * (c[2] + c[3])
    ),
    "tversky(0.3,0.7)": lambda c: over(c[0], c[0] + 0.3 * c[1] + 0.7 * c[2]),
    "f2": lambda c: over(5 * c[0], 5 * c[0] + c[1] + 4 * c[2]),
    "dice": lambda c: over(2 * c[0], 2 * c[0] + c[1] + c[2]),
    "iou": lambda c: over(c[0], c[0] + c[1] + c[2]),
    "f1": lambda c: over(2 * c[0], 2 * c[0] + c[1] + c[2]),
    "fbeta(2)": lambda c: over(5 * c[0], 5 * c[0] + c[1] + 4 * c[2]),
    "jaccard": lambda c: over(c[0], c[0] + c[1] + c[2]),
    "positive_rate": lambda c: (c[0] + c[1]) / sum(c),
    "youden": lambda c: over(c[0], c[0] + c[2]) - over(c[1], c[1] + c[3]),
    "g_mean": lambda c: math.sqrt(over(c[0], c[0] + c[2]) * over(c[3], c[1] + c[3])),
    "mcc": lambda c: over(
        c[0] * c[3] - c[1] * c[2],
        math.sqrt((c[0] + c[1]) * (c[0] + c[2]) * (c[3] + c[1]) * (c[3] + c[2])),
    ),
}
TO_MAXIMIZE = [name for name in ORACLES if name not in ("fpr", "fnr")]


def all_points(case: Case) -> Iterator[tuple[float, Cells]]:
    """Every threshold from the highest with its (tp, fp, fn, tn)."""
    scores, labels = case.plain_scores.astype(np.float64), case.plain_labels
    weight = np.ones(len(labels)) if case.plain_weight is None else case.plain_weight
    for threshold in [np.inf, *sorted(set(scores[weight > 0]), reverse=True)]:
        said = scores >= threshold
        yield (
            float(threshold),
            (
                math.fsum(weight[said & (labels == 1)]),
                math.fsum(weight[said & (labels == 0)]),
                math.fsum(weight[~said & (labels == 1)]),
                math.fsum(weight[~said & (labels == 0)]),
            ),
        )


def expected_choice(
    case: Case, maximize: str, floors: dict[str, float], ceilings: dict[str, float]
) -> tuple[float, float, bool]:
    """Threshold, value and feasibility, by the documented rule."""
    rows = []
    for threshold, cells in all_points(case):
        missing = [level - ORACLES[name](cells) for name, level in floors.items()]
        missing += [ORACLES[name](cells) - level for name, level in ceilings.items()]
        worst = max([0.0, *missing])
        rows.append((worst if worst > 1e-11 else 0.0, ORACLES[maximize](cells), threshold))
    least = min(row[0] for row in rows)
    allowed = [row for row in rows if row[0] <= least + 1e-11]
    best = max(row[1] for row in allowed)
    threshold = max(row[2] for row in allowed if row[1] >= best - 1e-11)
    return threshold, best, least == 0


@pytest.mark.parametrize("maximize", TO_MAXIMIZE)
@pytest.mark.parametrize("seeds", BLOCKS[:1], ids=str)
def test_unconstrained(maximize: str, seeds: range) -> None:
    for seed in seeds:
        case = draw(seed, sizes=(2, 3, 5, 12, 40))
        choice = metrics.choose_threshold(case.scores, case.labels, maximize=maximize, weight=case.weight)
        threshold, value, _ = expected_choice(case, maximize, {}, {})
        assert choice.threshold == threshold
        assert choice.value == pytest.approx(value, abs=1e-12)
        assert choice.feasible


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_constrained(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        case = draw(seed, sizes=(2, 3, 5, 12, 40))
        maximize = str(rng.choice(TO_MAXIMIZE))
        floor, ceiling = (
            str(rng.choice(["recall", "precision", "f1", "mcc"])),
            str(rng.choice(["fpr", "positive_rate"])),
        )
        low, high = round(float(rng.random()), 2), round(float(rng.random()), 2)
        choice = metrics.choose_threshold(
            case.scores,
            case.labels,
            maximize=maximize,
            subject_to=[f"{floor} >= {low}", f"{ceiling}<={high}"],
            weight=case.weight,
        )
        threshold, value, feasible = expected_choice(case, maximize, {floor: low}, {ceiling: high})
        assert (choice.threshold, choice.feasible) == (threshold, feasible)
        assert choice.value == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("seeds", BLOCKS[:3], ids=str)
def test_what_is_reported_is_what_the_threshold_does(seeds: range) -> None:
    for seed in seeds:
        case = draw(seed)
        choice = metrics.choose_threshold(case.scores, case.labels, weight=case.weight, subject_to="recall>=0.5")
        assert choice.threshold in [np.inf, *case.plain_scores.astype(np.float64)]
        options: dict[str, Any] = {"threshold": choice.threshold, "weight": case.weight}
        assert choice.counts == pytest.approx(metrics.confusion_counts(case.scores, case.labels, **options), abs=1e-12)
        said = (case.plain_scores.astype(np.float64) >= choice.threshold).astype(int)
        truth: dict[str, Any] = {"y_true": case.plain_labels, "y_pred": said, "sample_weight": case.plain_weight}
        assert set(choice.achieved) == {"precision", "recall", "fpr", "f1", "accuracy", "positive_rate"}
        expected = {
            "precision": reference.precision_score(**truth, zero_division=0.0),
            "recall": reference.recall_score(**truth),
            "fpr": 1 - reference.recall_score(**truth, pos_label=0),
            "f1": reference.f1_score(**truth, zero_division=0.0),
            "accuracy": reference.accuracy_score(**truth),
            "positive_rate": np.average(said, weights=case.plain_weight),
        }
        assert choice.achieved == pytest.approx(expected, abs=1e-12)
        assert choice.value == choice.achieved["f1"]


def test_counts_are_whole_without_weights() -> None:
    choice = metrics.choose_threshold(torch.tensor([2.0, 1.0]), torch.tensor([1, 0]))
    assert str(choice.counts) == "Counts(tp=1, fp=0, fn=0, tn=1)"


def test_of_equal_thresholds_the_highest() -> None:
    # f1 is 2/3 at 3 (1 of 2 found) and again at 0 (2 of 2 found, 2 false alarms).
    choice = metrics.choose_threshold([3.0, 2.0, 1.0, 0.0], [1, 0, 0, 1])
    assert (choice.threshold, choice.value) == (3.0, 2 / 3)
    assert metrics.choose_threshold([1.0, 0.0], [0, 0]).threshold == np.inf


def test_a_level_is_met_in_spite_of_rounding() -> None:
    weight = [0.1] * 10
    choice = metrics.choose_threshold(
        np.arange(10.0), [1] * 10, maximize="specificity", subject_to="recall>=0.9", weight=weight
    )
    assert choice.feasible
    assert choice.threshold == 1.0


def test_messages() -> None:
    scores, labels = [4.0, 3.0, 2.0, 1.0], [0, 1, 0, 1]
    message = metrics.choose_threshold(scores, labels).message
    assert message == "The best threshold gives f1 = 0.666667 at threshold 1."
    message = metrics.choose_threshold(scores, labels, maximize="precision", subject_to="recall>=0.9").message
    assert message == "The best threshold with recall>=0.9 on these rows gives precision = 0.5 at threshold 1."
    choice = metrics.choose_threshold(scores, labels, maximize="recall", subject_to="precision>=0.8")
    assert not choice.feasible
    assert choice.threshold == 1.0
    assert "No threshold reaches precision>=0.8: the highest precision is 0.5, at threshold 3." in choice.message
    choice = metrics.choose_threshold(scores, labels, subject_to=["recall>=0.9", "fpr<=0.1"])
    assert not choice.feasible
    assert "No threshold meets recall>=0.9 and fpr<=0.1 together" in choice.message
    assert f"at threshold {choice.threshold:g}" in choice.message


def test_a_function_to_maximize() -> None:
    scores, labels = [4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0]

    def profit(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        return 10 * tp - 4 * fp - fn + 0 * tn

    choice = metrics.choose_threshold(scores, labels, maximize=profit)
    assert (choice.threshold, choice.value) == (2.0, 16.0)
    assert "profit = 16" in choice.message


def test_a_function_that_is_nan_somewhere_is_passed_over_there() -> None:
    scores, labels = [4.0, 3.0], [1, 0]
    choice = metrics.choose_threshold(scores, labels, maximize=lambda tp, fp, fn, tn: tp / (tp + fp) + 0 * (fn + tn))
    assert (choice.threshold, choice.value) == (4.0, 1.0)
    with pytest.raises(InputError, match=r"`maximize`.*NaN at all 3"):
        metrics.choose_threshold(scores, labels, maximize=lambda tp, fp, fn, tn: (tp + fp + fn + tn) * np.nan)
    with pytest.raises(InputError, match=r"`maximize`.*shape \(3,\), but got \(\)"):
        metrics.choose_threshold(scores, labels, maximize=lambda tp, fp, fn, tn: (tp + fp + fn + tn).sum())


@pytest.mark.parametrize(
    "text", ["recall", "recall>0.9", "recall=0.9", "recall>=", "recall>=high", ">=0.5", "speed>=1", "0.9<=recall", ""]
)
def test_bad_constraints_list_what_is_understood(text: str) -> None:
    with pytest.raises(InputError, match=r"`subject_to`.*'recall>=0.9'.*positive_rate.*but got"):
        metrics.choose_threshold([1.0, 0.0], [1, 0], subject_to=text)
    with pytest.raises(InputError, match="`subject_to`"):
        metrics.choose_threshold([1.0, 0.0], [1, 0], subject_to=["recall>=0.5", text])


def test_bad_settings() -> None:
    with pytest.raises(TypeError, match="`subject_to`"):
        metrics.choose_threshold([1.0, 0.0], [1, 0], subject_to=0.9)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`subject_to` to be a string, but got float"):
        metrics.choose_threshold([1.0, 0.0], [1, 0], subject_to=[0.9])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="`maximize` to be a string"):
        metrics.choose_threshold([1.0, 0.0], [1, 0], maximize=2)  # type: ignore[arg-type]
    for name in ("fpr", "speed", "fbeta", "fbeta(x)"):
        with pytest.raises(InputError, match=r"`maximize` to be one of precision.*fbeta"):
            metrics.choose_threshold([1.0, 0.0], [1, 0], maximize=name)


def test_no_constraints_at_all() -> None:
    scores, labels = [4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0]
    assert metrics.choose_threshold(scores, labels, subject_to=[]) == metrics.choose_threshold(scores, labels)


@pytest.mark.parametrize("labels", [[0, 0, 0], [1, 1, 1]])
def test_one_class_does_not_crash(labels: list[int]) -> None:
    for maximize in TO_MAXIMIZE:
        choice = metrics.choose_threshold([3.0, 2.0, 1.0], labels, maximize=maximize, subject_to="recall>=0.9")
        assert choice.feasible == (labels[0] == 1)
        assert math.isfinite(choice.value)


def test_the_choice_is_frozen() -> None:
    choice = metrics.choose_threshold([1.0, 0.0], [1, 0])
    with pytest.raises(dataclasses.FrozenInstanceError):
        choice.threshold = 0.0  # type: ignore[misc]
