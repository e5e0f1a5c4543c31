from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from setwise import metrics, parse
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
        (("f2", "F2", "f2.0"), lambda s, y, **w: metrics.fbeta(s, y, beta=2, **w)),
        (("f0.5", "f.5"), lambda s, y, **w: metrics.fbeta(s, y, beta=0.5, **w)),
        (("dice",), metrics.dice),
        (("tversky(0.3,0.7)", "Tversky( .3, .7 )"), lambda s, y, **w: metrics.tversky(s, y, alpha=0.3, beta=0.7, **w)),
        (("mcc",), metrics.mcc),
        (("g_mean",), metrics.g_mean),
        (("kappa", "kappa[binary]"), metrics.kappa),
        (("balanced_accuracy",), metrics.balanced_accuracy),
        (("specificity",), metrics.specificity),
        (("precision@k=10", "precision @ k = 10"), lambda s, y, **w: metrics.precision_at_k(s, y, k=10, **w)),
        (("precision@k=0.1", "precision@k=1e-1"), lambda s, y, **w: metrics.precision_at_k(s, y, k=0.1, **w)),
        (
            ("pauc@fpr<=0.3", "pauc(0.3)", "partial_auroc@fpr<=.3"),
            lambda s, y, **w: metrics.partial_auroc(s, y, max_fpr=0.3, **w),
        ),
        (
            ("pauc@fpr<=0.3,tpr>=0.5", "pauc @ tpr >= 0.5, fpr <= 0.3"),
            lambda s, y, **w: metrics.partial_auroc(s, y, max_fpr=0.3, min_tpr=0.5, **w),
        ),
        (("pauc@tpr>=0.5",), lambda s, y, **w: metrics.partial_auroc(s, y, max_fpr=1, min_tpr=0.5, **w)),
        (("partial_auroc(0.1)",), lambda s, y, **w: metrics.partial_auroc(s, y, max_fpr=0.1, **w)),
    ],
)
def test_a_name_is_its_function(names: tuple[str, ...], expected: Callable[..., float]) -> None:
    for name in names:
        metric = metrics.metric_by_name(name)
        assert metric(SCORES, LABELS) == expected(SCORES, LABELS)
        assert metric(SCORES, LABELS, weight=WEIGHT) == expected(SCORES, LABELS, weight=WEIGHT)


MANY_LABELS = RNG.integers(0, 3, 60)
MANY_SCORES = np.round(RNG.normal(size=(60, 3)) + np.eye(3)[MANY_LABELS], 1)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("auc_ova", "auc[ova]", "auroc[ova]", "auc_ova[macro]", "AUC[OVA, softmax]"), metrics.multiclass_auroc),
        (
            ("auc_ova[weighted]", "auc[ova,weighted]"),
            lambda s, y, **w: metrics.multiclass_auroc(s, y, average="weighted", **w),
        ),
        (("auc_ova[none]",), lambda s, y, **w: metrics.multiclass_auroc(s, y, average="none", **w)),
        (("auc_mu", "auc[mu]", "auc_mu[pair]"), metrics.auc_mu),
        (
            ("auc_mu[sum,raw]", "auc[mu,raw,sum]"),
            lambda s, y, **w: metrics.auc_mu(s, y, average="sum", link="raw", **w),
        ),
        (("jaccard[macro]", "iou[ macro ]"), lambda s, y, **w: metrics.jaccard(s, y, average="macro", **w)),
        (("f1[micro]",), lambda s, y, **w: metrics.fbeta(s, y, average="micro", **w)),
        (
            ("f2[weighted]", "fbeta(2)[weighted]"),
            lambda s, y, **w: metrics.fbeta(s, y, beta=2, average="weighted", **w),
        ),
        (("dice[none,batch]", "dice[none]"), lambda s, y, **w: metrics.dice(s, y, average="none", **w)),
        (("mcc[macro]",), lambda s, y, **w: metrics.mcc(s, y, average="macro", **w)),
        (
            ("tversky(1,2)[macro]",),
            lambda s, y, **w: metrics.tversky(s, y, alpha=1, beta=2, average="macro", **w),
        ),
    ],
)
def test_names_for_several_classes(names: tuple[str, ...], expected: Callable[..., Any]) -> None:
    for name in names:
        metric: Callable[..., Any] = metrics.metric_by_name(name)
        np.testing.assert_array_equal(metric(MANY_SCORES, MANY_LABELS), expected(MANY_SCORES, MANY_LABELS))
        np.testing.assert_array_equal(
            metric(MANY_SCORES, MANY_LABELS, weight=WEIGHT), expected(MANY_SCORES, MANY_LABELS, weight=WEIGHT)
        )


def test_names_for_maps_and_other_thresholds() -> None:
    scores, labels = RNG.normal(size=(4, 3, 5, 5)), RNG.integers(0, 3, (4, 5, 5))
    expected = metrics.jaccard(scores, labels, average="macro", counting="image")
    assert metrics.metric_by_name("iou[macro,image]")(scores, labels) == expected
    assert metrics.metric_by_name("iou[image, macro]")(scores, labels) == expected
    assert metrics.metric_by_name("f1")(SCORES, LABELS, threshold=0.5) == metrics.fbeta(SCORES, LABELS, threshold=0.5)


UNKNOWN = [
    "",
    "auroc2",
    "fbeta",
    "fbeta()",
    "fbeta(two)",
    "fbeta(1,2)",
    "auroc(1)",
    "auc[macro]",
    "auc_mu[macro]",
    "auc_ova[pair]",
    "ap[macro]",
    "jaccard[mean]",
    "jaccard[macro,micro]",
    "jaccard[]",
    "jaccard[macro",
    "tversky",
    "tversky(0.3)",
    "mcc(1)",
    "precision@recall<=0.9",
    "recall@fpr>=0.1",
    "recall@k=10",
    "precision@k>=10",
    "precision@recall>=0.9,k=3",
    "pauc",
    "pauc@",
    "pauc@fpr<=0.1,fpr<=0.2",
    "pauc@fpr>=0.1",
    "@",
]


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_names_list_the_known_forms(name: str) -> None:
    with pytest.raises(InputError, match=r"auroc .*fbeta\(2\).*precision@recall>=0\.9.*but got"):
        metrics.metric_by_name(name)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("jacard", "jaccard"),
        ("kapa", "kappa"),
        ("acuracy", "accuracy"),
        ("precison@recall>=0.9", "precision@recall>=0.9"),
        ("f1[marco]", "f1[macro]"),
        ("auc_nu", "auc_mu"),
        ("pauc@fpr<0.1", "pauc@fpr<=0.1"),
        ("tversky(0.3)", "tversky(0.3,0.7)"),
    ],
)
def test_unknown_names_get_the_nearest(name: str, near: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"Did you mean {near!r}?")):
        metrics.metric_by_name(name)


def test_a_name_like_no_other_gets_no_hint() -> None:
    with pytest.raises(InputError, match=r"but got 'zzzzzz'\.$"):
        metrics.metric_by_name("zzzzzz")


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("precision@recall>=1.5", "recall"),
        ("tpr@fpr<=-0.1", "fpr"),
        ("fbeta(-1)", "beta"),
        ("partial_auroc(0)", "max_fpr"),
        ("partial_auroc(2)", "max_fpr"),
        ("pauc@fpr<=2", "max_fpr"),
        ("pauc@fpr<=0.5,tpr>=1", "min_tpr"),
        ("tversky(-1,1)", "alpha"),
        ("tversky(1,-1)", "beta"),
        ("precision@k=0", "k"),
        ("precision@k=1.5", "k"),
    ],
)
def test_levels_are_checked_when_the_name_is_read(name: str, argument: str) -> None:
    with pytest.raises(InputError, match=f"`{argument}`"):
        metrics.metric_by_name(name)


def test_only_strings() -> None:
    with pytest.raises(TypeError, match="`name` to be a string, but got int"):
        metrics.metric_by_name(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (("roc_auc", "roc_auc_score", " ROC_AUC ", "auc_roc"), "auc"),
        (("auprc", "pr_auc", "average_precision_score"), "ap"),
        (("f1_score",), "f1"),
        (("fbeta_score(2)",), "fbeta(2)"),
        (("jaccard_score", "jaccard_index"), "iou"),
        (("matthews_corrcoef",), "mcc"),
        (("cohen_kappa_score",), "kappa"),
        (("accuracy_score", "acc"), "accuracy"),
        (("balanced_accuracy_score",), "balanced_accuracy"),
        (("sensitivity", "tpr", "recall_score"), "recall"),
        (("tnr",), "specificity"),
        (("ppv", "precision_score"), "precision"),
        (("recall@fpr<=0.2", "sensitivity@specificity>=0.8", "tpr@tnr>=.8"), "tpr@fpr<=0.2"),
        (("fpr@recall>=0.95", "fpr@sensitivity>=0.95"), "fpr@tpr>=0.95"),
        (("ppv@tpr>=0.9",), "precision@recall>=0.9"),
        (("tpr@ppv>=0.6",), "recall@precision>=0.6"),
        (("partial_auc@specificity>=0.7", "pauc@fpr<=0.3"), "pauc(0.3)"),
    ],
)
def test_common_names_are_read_in_both_places(names: tuple[str, ...], short: str) -> None:
    for name in names:
        assert metrics.metric_by_name(name)(SCORES, LABELS) == metrics.metric_by_name(short)(SCORES, LABELS)
        assert parse(name).title == parse(short).title
        assert parse(name).metric(SCORES, LABELS) == parse(short).metric(SCORES, LABELS)
        assert parse(parse(name).name).name == parse(name).name


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (("auc_ovr", "auc[ovr]", "roc_auc_ovr", "ovr", "roc_auc[ovr]"), "auc_ova"),
        (("roc_auc_ovr_weighted", "auc[ovr,weighted]"), "auc_ova[weighted]"),
        (("f1_macro", "f1_score[macro]"), "f1[macro]"),
        (("jaccard_weighted", "iou_weighted"), "iou[weighted]"),
        (("miou", "mean_iou", "iou_macro"), "iou[macro]"),
    ],
)
def test_common_names_for_several_classes(names: tuple[str, ...], short: str) -> None:
    expected = metrics.metric_by_name(short)(MANY_SCORES, MANY_LABELS)
    for name in names:
        assert metrics.metric_by_name(name)(MANY_SCORES, MANY_LABELS) == expected
        assert parse(name).metric(MANY_SCORES, MANY_LABELS) == expected
        assert parse(name).layout == "classes"


TYPOS = {
    "rocauc": "roc_auc",
    "auc-roc": "auc_roc",
    "acu": "auc",
    "f1score": "f1_score",
    "f-1": "f1",
    "fbeta": "fbeta(2)",
    "f_beta(3)": "fbeta(3)",
    "f1_maco": "f1[macro]",
    "f1[marco]": "f1[macro]",
    "precison": "precision",
    "recal": "recall",
    "sens": "sensitivity",
    "specifity": "specificity",
    "avg_precision": "average_precision",
    "mathews_corrcoef": "matthews_corrcoef",
    "ballanced_accuracy": "balanced_accuracy",
    "balanced_acc": "balanced_accuracy",
    "gmeans": "g_mean",
    "cohens_kappa": "cohen_kappa",
    "jaccard-index": "jaccard_index",
    "dice_loss": "dice",
    "tversky": "tversky(0.3,0.7)",
    "aucmu": "auc_mu",
    "roc_auc_ovo": "auc_mu",
    "auc_macro": "auc_ova",
    "ap@": "ap",
    "pauc": "pauc@fpr<=0.1",
    "pauc@": "pauc@fpr<=0.1",
    "fpr": "fpr@tpr>=0.95",
    "preicision@recall>=.9": "precision@recall>=.9",
    "precision_at_recall>=0.8": "precision@recall>=0.8",
    "precision@recall": "precision@recall>=0.9",
    "precision@recall>0.95": "precision@recall>=0.95",
    "precision@recall=0.7": "precision@recall>=0.7",
    "precision@recall>=85%": "precision@recall>=0.85",
    "precision@0.9": "precision@recall>=0.9",
    "precision@100": "precision@k=100",
    "p@k=20": "precision@k=20",
    "r@p>=0.7": "recall@precision>=0.7",
    "tpr@fpr<0.05": "tpr@fpr<=0.05",
    "tpr@fpr": "tpr@fpr<=0.05",
    "recall@fpr<.01": "recall@fpr<=.01",
}


@pytest.mark.parametrize("typo", TYPOS)
@pytest.mark.parametrize("read", [metrics.metric_by_name, parse])
def test_what_was_meant_comes_first_and_is_known(read: Callable[[str], object], typo: str) -> None:
    with pytest.raises(InputError) as caught:
        read(typo)
    assert str(caught.value).startswith(f"Did you mean {TYPOS[typo]!r}? Expected ")
    assert str(caught.value).endswith(f"but got {typo!r}.")
    read(TYPOS[typo])


@pytest.mark.parametrize("name", ["zzzzzz", "brier", "@", "hinge", "(2)", "[macro]"])
def test_nothing_is_guessed_far_away(name: str) -> None:
    for read in (metrics.metric_by_name, parse):
        with pytest.raises(InputError, match=r"^Expected"):
            read(name)
