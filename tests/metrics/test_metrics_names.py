from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from setwise import metrics
from setwise._checks import InputError

RNG = np.random.default_rng(5)
LABELS = RNG.integers(0, 2, 60)
SCORES = np.round(RNG.normal(size=60) + LABELS, 1)
WEIGHT = RNG.random(60)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("auroc", "auc", " AUROC "), metrics.auroc),
        (("average_precision", "ap"), metrics.average_precision),
        (("f1", "dice", "fbeta(1)"), metrics.fbeta),
        (("fbeta(2)", "fbeta( 2.0 )"), lambda s, y, **w: metrics.fbeta(s, y, beta=2, **w)),
        (("fbeta(.5)", "fbeta(5e-1)"), lambda s, y, **w: metrics.fbeta(s, y, beta=0.5, **w)),
        (("jaccard", "iou"), metrics.jaccard),
        (("accuracy",), metrics.accuracy),
        (("precision",), metrics.precision),
        (("recall",), metrics.recall),
        (
            ("precision@recall>=0.9", "Precision @ Recall >= .9"),
            lambda s, y, **w: metrics.precision_at_recall(s, y, recall=0.9, **w),
        ),
        (("recall@precision>=0.6",), lambda s, y, **w: metrics.recall_at_precision(s, y, precision=0.6, **w)),
        (("tpr@fpr<=0.2",), lambda s, y, **w: metrics.tpr_at_fpr(s, y, fpr=0.2, **w)),
        (("fpr@tpr>=0.95",), lambda s, y, **w: metrics.fpr_at_tpr(s, y, tpr=0.95, **w)),
        (("partial_auroc(0.1)",), lambda s, y, **w: metrics.partial_auroc(s, y, max_fpr=0.1, **w)),
    ],
)
def test_a_name_is_its_function(names: tuple[str, ...], expected: Callable[..., float]) -> None:
    for name in names:
        metric = metrics.metric_by_name(name)
        assert metric(SCORES, LABELS) == expected(SCORES, LABELS)
        assert metric(SCORES, LABELS, weight=WEIGHT) == expected(SCORES, LABELS, weight=WEIGHT)


@pytest.mark.parametrize(
    "name",
    ["", "auroc2", "fbeta", "fbeta()", "fbeta(two)", "auroc(1)", "precision@recall<=0.9", "recall@fpr>=0.1", "@"],
)
def test_unknown_names_list_the_known_forms(name: str) -> None:
    with pytest.raises(InputError, match=r"auroc .*fbeta\(2\).*precision@recall>=0\.9.*but got"):
        metrics.metric_by_name(name)


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("precision@recall>=1.5", "recall"),
        ("tpr@fpr<=-0.1", "fpr"),
        ("fbeta(-1)", "beta"),
        ("partial_auroc(0)", "max_fpr"),
        ("partial_auroc(2)", "max_fpr"),
    ],
)
def test_levels_are_checked_when_the_name_is_read(name: str, argument: str) -> None:
    with pytest.raises(InputError, match=f"`{argument}`"):
        metrics.metric_by_name(name)


def test_only_strings() -> None:
    with pytest.raises(TypeError, match="`name` to be a string, but got int"):
        metrics.metric_by_name(3)  # type: ignore[arg-type]
