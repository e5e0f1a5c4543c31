"""`setwise.report.evaluate`: the same figures as the measures themselves, thresholds and what is certain of them."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

from setwise import metrics
from setwise._checks import InputError
from setwise._types import Floats
from setwise.metrics import bootstrap
from setwise.report import Evaluation, evaluate
from setwise.report.evaluation import ConstraintCheck

N = 1200


def make(n: int = N, share: float = 0.15, seed: int = 0) -> tuple[Floats, NDArray[np.bool_]]:
    generator = np.random.default_rng(seed)
    positive = generator.random(n) < share
    return 1 / (1 + np.exp(3 - 1.5 * (generator.normal(size=n) + 2 * positive))), positive


SCORES, LABELS = make()
OTHER = np.clip(SCORES + np.random.default_rng(5).normal(size=N) * 0.1, 0, 1)
SEX = np.where(np.random.default_rng(6).random(N) < 0.4, "F", "M")


def quick(*arguments: object, **options: object) -> Evaluation:
    return evaluate(*arguments, **({"resamples": 60} | options))  # type: ignore[arg-type]


def value(evaluation: Evaluation, key: str, column: int = 0) -> metrics.Interval:
    return next(row.interval for row in evaluation.columns[column].measures if row.key == key)


@pytest.fixture(scope="module")
def both() -> Evaluation:
    return evaluate({"p": SCORES, "q": OTHER}, LABELS, subject_to="recall>=0.8", group={"sex": SEX}, resamples=200)


@pytest.mark.parametrize("weighted", [False, True])
def test_estimates_are_those_of_the_measures(weighted: bool) -> None:
    weight = np.random.default_rng(1).uniform(0.2, 2, N) if weighted else None
    found = quick(SCORES, LABELS, threshold=0.3, weight=weight, measure=["tpr@fpr<=0.05", "fbeta(2)", "kappa"])
    options = {} if weight is None else {"weight": weight}
    for key in ("tpr@fpr<=0.05", "auroc", "average_precision"):
        assert value(found, key).estimate == pytest.approx(metrics.metric_by_name(key)(SCORES, LABELS, **options))
    for key in ("recall", "precision", "specificity", "accuracy", "f1", "mcc", "fbeta(2)", "kappa"):
        expected = metrics.metric_by_name(key)(SCORES, LABELS, threshold=0.3, **options)
        assert value(found, key).estimate == pytest.approx(expected), key
    assert value(found, "brier").estimate == pytest.approx(np.average((SCORES - LABELS) ** 2, weights=weight))
    assert found.measure == "tpr@fpr<=0.05" == found.columns[0].measures[0].key
    assert tuple(found.columns[0].decision.counts) == pytest.approx(
        tuple(metrics.confusion_counts(SCORES, LABELS, threshold=0.3, **options))
    )


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]),
        ([0.9, 0.8, 0.2, 0.1], [0, 0, 1, 1]),
        ([0.5, 0.5, 0.5, 0.5], [0, 1, 0, 1]),
        ([0.1, 0.9], [0, 1]),
        ([-3.0, 5.0, 1e6, 2.0, 0.0], [0, 1, 0, 1, 0]),
    ],
)
def test_intervals_stay_in_range(scores: list[float], labels: list[int]) -> None:
    found = quick(scores, labels)
    for row in (*found.columns[0].measures, *found.columns[0].decision.rates):
        if math.isnan(row.interval.low):
            continue
        low = -1 if row.key == "mcc" else 0
        high = math.inf if row.key == "log_loss" else 1
        assert low <= row.interval.low <= row.interval.high <= high, row
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["rows"] == len(labels)


def test_many_rows_agree_with_the_plain_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = make(10_000)
    blocks = evaluate(scores, labels, threshold=0.3, resamples=600)
    monkeypatch.setattr(bootstrap, "EXACT_ROWS", 10_000)
    plain = evaluate(scores, labels, threshold=0.3, resamples=300)
    for row in plain.columns[0].measures:
        other = value(blocks, row.key)
        assert other.estimate == row.interval.estimate
        width = row.interval.high - row.interval.low
        assert (other.low, other.high) == pytest.approx((row.interval.low, row.interval.high), abs=0.2 * width), row.key


def test_intervals_follow_seed_and_confidence() -> None:
    first, again, other = (quick(SCORES, LABELS, threshold=0.3, seed=seed) for seed in (0, 0, 1))
    assert first.to_dict() == again.to_dict()
    assert value(first, "auroc") != value(other, "auroc")
    wide = quick(SCORES, LABELS, threshold=0.3, confidence=0.999)
    for key in ("recall", "auroc"):
        assert value(wide, key).low < value(first, key).low < value(first, key).high < value(wide, key).high


def test_a_given_threshold_has_plain_bounds() -> None:
    found = quick(SCORES, LABELS, threshold=0.1, subject_to=["recall>=0.8", "fpr<=0.001"]).columns[0].decision
    counts = metrics.confusion_counts(SCORES, LABELS, threshold=0.1)
    assert (found.how, found.choice, found.same_rows, found.threshold) == ("given", None, False, 0.1)
    recall, fpr = found.checks
    assert recall.bound == metrics.rate_bound(int(counts.tp), int(counts.tp + counts.fn))
    assert recall.holds is True
    assert fpr.bound == metrics.rate_bound(int(counts.fp), int(counts.fp + counts.tn), side="upper")
    assert fpr.holds is False
    assert "misses" in fpr.reason


def test_a_threshold_for_each_column() -> None:
    named = quick({"p": SCORES, "q": OTHER}, LABELS, threshold={"q": 0.2, "p": 0.1})
    listed = quick({"p": SCORES, "q": OTHER}, LABELS, threshold=[0.1, 0.2])
    for found in (named, listed):
        assert [column.decision.threshold for column in found.columns] == [0.1, 0.2]


def test_the_rows_themselves_certify() -> None:
    found = quick(SCORES, LABELS, subject_to="recall>=0.8").columns[0].decision
    choice = metrics.choose_threshold(SCORES, LABELS, maximize="precision", subject_to="recall>=0.8", confidence=0.95)
    assert (found.how, found.same_rows, found.threshold) == ("certified", True, choice.threshold)
    (check,) = found.checks
    assert (check.bound, check.holds, check.source) == (choice.bounds[0].bound, True, "certificate")


def test_too_few_positives_are_said() -> None:
    scores, labels = make(80)
    found = quick(scores, labels, subject_to="recall>=0.9")
    decision = found.columns[0].decision
    assert decision.how == "not certified"
    assert decision.checks[0].holds is None
    assert math.isnan(decision.checks[0].bound)
    assert decision.checks[0].needed == 29
    assert any(
        re.search(r"\d+ positives cannot certify recall >= 0.9 at 95 %; 29 can", text) for text in found.headline
    )


def test_calibration_rows_certify_and_these_verify() -> None:
    scores, labels = make(seed=3)
    found = quick(SCORES, LABELS, subject_to="recall>=0.8", calibration=(scores, labels))
    decision = found.columns[0].decision
    choice = metrics.choose_threshold(scores, labels, maximize="precision", subject_to="recall>=0.8", confidence=0.95)
    assert (decision.threshold, decision.how, decision.same_rows) == (choice.threshold, "certified", False)
    counts = metrics.confusion_counts(SCORES, LABELS, threshold=decision.threshold)
    assert decision.checks[0].bound == metrics.rate_bound(int(counts.tp), int(counts.tp + counts.fn))
    assert decision.checks[0].source == "evaluation"
    assert any("certified on the calibration rows" in text for text in found.headline)
    assert "calibration rows" in found.facts


@pytest.mark.parametrize(
    ("constraints", "maximize"),
    [
        (None, "f1"),
        ("recall>=0.8", "precision"),
        ("precision>=0.5", "recall"),
        ("top_k<=100", "recall"),
        (["recall>=0.8", "precision>=0.2"], "f1"),
        ("cost(10,1)<=2", "-cost(10,1)"),
    ],
)
def test_what_is_maximized_follows_the_constraints(constraints: str | list[str] | None, maximize: str) -> None:
    found = quick(SCORES, LABELS, subject_to=constraints)
    assert found.maximize == found.columns[0].decision.maximize == maximize
    assert found.columns[0].decision.how == ("certified" if constraints else "chosen")
    assert quick(SCORES, LABELS, subject_to=constraints, maximize="mcc").maximize == "mcc"


def test_groups(both: Evaluation) -> None:
    column = both.columns[0]
    checks = column.decision.checks
    assert [(check.column, check.group) for check in checks] == [(None, None), ("sex", "F"), ("sex", "M")]
    assert all(check.holds for check in checks)
    assert checks[0].bound == min(check.bound for check in checks[1:])
    assert checks[0].estimate == pytest.approx(column.decision.rate("recall").estimate)
    for row in column.groups:
        mask = np.asarray(row.value == SEX)
        counts = metrics.confusion_counts(SCORES[mask], LABELS[mask], threshold=column.decision.threshold)
        assert (row.rows, row.positives, row.counts) == (mask.sum(), LABELS[mask].sum(), counts)
        recall = next(rate.interval for rate in row.rates if rate.key == "recall")
        successes, trials = int(counts.tp), int(counts.tp + counts.fn)
        assert recall.low == metrics.rate_bound(successes, trials, confidence=0.975)
        assert recall.high == metrics.rate_bound(successes, trials, confidence=0.975, side="upper")


def test_overlapping_columns_of_groups() -> None:
    age = np.arange(N) % 3
    found = quick(SCORES, LABELS, subject_to="recall>=0.7", group={"sex": SEX, "age": age})
    decision = found.columns[0].decision
    assert [(check.column, check.group) for check in decision.checks[1:]] == [
        ("sex", "F"),
        ("sex", "M"),
        ("age", "0"),
        ("age", "1"),
        ("age", "2"),
    ]
    alone = [
        metrics.choose_threshold(
            SCORES, LABELS, maximize="specificity", subject_to="recall>=0.7", group=group, confidence=0.95
        ).threshold
        for group in (SEX, age)
    ]
    assert decision.how == "certified"
    assert decision.threshold <= min(alone)
    with pytest.raises(InputError, match="one `group` column beside a budget"):
        quick(SCORES, LABELS, subject_to="top_k<=100", group={"sex": SEX, "age": age})


def test_weights_of_one_change_nothing_but_certainty() -> None:
    plain = quick(SCORES, LABELS, threshold=0.2, subject_to="recall>=0.5")
    ones = quick(SCORES, LABELS, threshold=0.2, subject_to="recall>=0.5", weight=np.ones(N))
    assert value(ones, "auroc").estimate == pytest.approx(value(plain, "auroc").estimate)
    assert value(ones, "recall").low == pytest.approx(value(plain, "recall").low, abs=0.03)
    assert plain.columns[0].decision.checks[0].holds is True
    assert ones.columns[0].decision.checks[0].holds is None
    bounded = quick(SCORES, LABELS, threshold=0.2, subject_to="recall>=0.5", weight=np.ones(N), max_weight=1.0)
    assert bounded.columns[0].decision.checks[0].holds is True


def test_rows_of_weight_zero_are_left_out() -> None:
    weight = np.where(np.arange(N) < 900, 1.0, 0.0)
    group = np.where(np.arange(N) < 900, SEX, "gone")
    found = quick(SCORES, LABELS, threshold=0.2, weight=weight, group=group, subject_to="recall>=0.1", max_weight=1.0)
    assert all(check.holds for check in found.columns[0].decision.checks)
    assert [row.value for row in found.columns[0].groups] == ["F", "M"]
    assert (found.rows, found.positives) == (900, int(LABELS[:900].sum()))
    assert sum(row.rows for row in found.columns[0].groups) == 900


def test_columns_are_compared_in_pairs(both: Evaluation) -> None:
    row = next(row for row in both.comparisons if row.key == "auroc")
    assert (row.first, row.second) == ("p", "q")
    assert row.comparison.difference == pytest.approx(metrics.auroc(SCORES, LABELS) - metrics.auroc(OTHER, LABELS))
    expected = metrics.paired_comparison("auroc", SCORES, OTHER, LABELS, resamples=400)
    width = expected.high - expected.low
    assert (row.comparison.low, row.comparison.high) == pytest.approx((expected.low, expected.high), abs=0.3 * width)
    same = quick({"a": SCORES, "b": SCORES}, LABELS, threshold=0.2)
    assert {(row.comparison.difference, row.comparison.p_value) for row in same.comparisons} == {(0.0, 1.0)}


def test_calibration_of_probabilities() -> None:
    found = quick(SCORES, LABELS, threshold=0.2).columns[0].calibration
    assert found is not None
    share = LABELS.mean()
    assert found.base_rate_brier == pytest.approx(share * (1 - share))
    assert sum(bin_.rows for bin_ in found.bins) == N
    assert len(found.bins) == 10
    for bin_ in found.bins:
        inside = (bin_.low <= SCORES) & (bin_.high >= SCORES)
        assert inside.sum() == bin_.rows
        assert bin_.positive_share.estimate == pytest.approx(LABELS[inside].mean())
        assert bin_.positive_share.low <= bin_.positive_share.estimate <= bin_.positive_share.high
        assert bin_.mean_score == pytest.approx(SCORES[inside].mean())


def test_scores_that_are_no_probabilities() -> None:
    found = quick(SCORES * 20 - 10, LABELS)
    assert found.columns[0].calibration is None
    assert not {"brier", "log_loss"} & {row.key for row in found.columns[0].measures}
    assert any("no probabilities" in text for text in found.headline)


@pytest.mark.parametrize("n", [50, 5000])
def test_the_curve_is_exact_where_it_has_points(n: int) -> None:
    scores, labels = make(n)
    found = quick(scores, labels, threshold=0.2).columns[0].curve
    assert len(found.thresholds) <= 1001
    assert found.thresholds[0] == np.inf
    assert (np.diff(found.thresholds) < 0).all()
    for k in range(0, len(found.thresholds), 37):
        counts = metrics.confusion_counts(scores, labels, threshold=found.thresholds[k])
        assert (found.tp[k], found.fp[k]) == (counts.tp, counts.fp)
    assert (found.tp[-1], found.fp[-1]) == (labels.sum(), (~labels).sum())


def requirement(found: Evaluation) -> ConstraintCheck:
    assert len(found.requirements) == 1
    return found.requirements[0]


def test_requirements() -> None:
    # At the threshold given, by plain bounds.
    given = requirement(quick(SCORES, LABELS, threshold=0.1, require="recall>=0.8"))
    assert (given.holds, given.source) == (True, "evaluation")
    assert requirement(quick(SCORES, LABELS, threshold=0.9, require="recall>=0.8")).holds is False
    # At the threshold certified for it.
    own = quick(SCORES, LABELS, require="recall>=0.8")
    assert own.subject_to == ("recall>=0.8",)
    assert (requirement(own).holds, requirement(own).source) == (True, "certificate")
    # At the threshold certified for another one: monotone rates have a certificate of their own.
    other = requirement(quick(SCORES, LABELS, subject_to="recall>=0.9", require="recall>=0.8"))
    assert (other.holds, other.source) == (True, "certificate")
    assert 0.8 <= other.bound < other.estimate
    assert requirement(quick(SCORES, LABELS, subject_to="recall>=0.9", require="fpr<=0.9")).holds is True
    assert requirement(quick(SCORES, LABELS, subject_to="recall>=0.9", require="fpr<=0.01")).holds is False
    # Precision has none, unless it is asked for.
    unsure = requirement(quick(SCORES, LABELS, subject_to="recall>=0.9", require="precision>=0.1"))
    assert unsure.holds is None
    assert "subject_to" in unsure.reason
    sure = quick(SCORES, LABELS, subject_to=["recall>=0.7", "precision>=0.1"], require="precision>=0.1")
    assert requirement(sure).holds is True
    # On calibration rows it is fixed beforehand.
    scores, labels = make(seed=3)
    fixed = quick(SCORES, LABELS, subject_to="recall>=0.9", require="precision>=0.1", calibration=(scores, labels))
    assert (requirement(fixed).holds, requirement(fixed).source) == (True, "evaluation")
    assert len(quick(SCORES, LABELS, require="recall>=0.7", group=SEX).requirements) == 3


def test_headline_in_the_readers_words(both: Evaluation) -> None:
    first, second, *rest = both.headline
    assert re.fullmatch(
        r"At the certified threshold [\d.]+: recall 0\.\d+ \(asked at least 0\.8: holds with 95 % confidence, lower "
        r"bound 0\.8\d+\), precision 0\.\d+\.",
        first,
    )
    assert re.fullmatch(r"Of 1,000 cases \d+ are flagged, \d+ of them rightly; \d+ (is|are) missed\.", second)
    assert any("every group of sex" in text for text in rest)
    assert any("p beside q" in text for text in rest)
    assert any("chosen on the rows that it is evaluated on" in text for text in rest)


def test_rare_positives_are_said_of_more_cases() -> None:
    scores, labels = make(20_000, 0.002)
    assert re.match(r"Of 10,000 cases", quick(scores, labels, threshold=0.5).headline[1])


def test_it_prints_as_a_table(both: Evaluation) -> None:
    text = str(both)
    assert both.headline[0] in text
    for word in ("AUROC", "average precision", "MCC", "Brier score", "p - q", "sex = F", "positives"):
        assert word in text


def test_to_dict_has_no_rows_and_no_nan(both: Evaluation) -> None:
    read = json.loads(json.dumps(both.to_dict(), allow_nan=False))
    assert read["columns"][0]["decision"]["checks"][0]["holds"] is True
    assert "scores" not in read["columns"][0]
    assert read["headline"] == both.headline


@pytest.mark.parametrize(
    "labels",
    [
        LABELS.astype(int),
        LABELS.astype(float),
        LABELS.tolist(),
        torch.from_numpy(LABELS),
        np.where(LABELS, "yes", "no"),
        np.where(LABELS, 1, -1),
        np.where(LABELS, "fraud", "ok"),
        pd.Series(np.where(LABELS, "fraud", "ok")),
        pd.Series(np.where(LABELS, "fraud", "ok")).astype("category"),
    ],
)
def test_labels_of_any_two_values(labels: object) -> None:
    found = quick(SCORES, labels, threshold=0.3)
    assert found.labels.tolist() == LABELS.tolist()


def test_the_positive_class_can_be_named() -> None:
    names = np.where(LABELS, "fraud", "ok")
    found = quick(SCORES, names, positive="ok", threshold=0.3)
    assert (found.positive, found.negative) == ("ok", "fraud")
    assert found.positives == (~LABELS).sum()


@pytest.mark.parametrize(
    "scores",
    [
        np.stack([SCORES, OTHER], axis=1),
        pd.DataFrame({"p": SCORES, "q": OTHER}),
        {"p": torch.from_numpy(SCORES), "q": OTHER.tolist()},
    ],
)
def test_columns_of_any_kind(scores: object) -> None:
    found = quick(scores, LABELS, threshold=0.3, names=["p", "q"], group=pd.Series(SEX, name="sex"))
    assert [column.name for column in found.columns] == ["p", "q"]
    assert value(found, "auroc", 1).estimate == pytest.approx(metrics.auroc(OTHER, LABELS))
    assert found.groups[0].name == "sex"


WRONG: dict[str, tuple[tuple[object, ...], dict[str, object], str]] = {
    "lengths": ((SCORES, LABELS[:-1]), {}, r"one label for each of 1200"),
    "nan": ((np.append(SCORES[:-1], np.nan), LABELS), {}, r"`scores` to be finite"),
    "text": ((["a"] * N, LABELS), {}, r"to hold numbers"),
    "three classes": ((SCORES, np.arange(N) % 3), {}, r"two classes.*3 values"),
    "one class": ((SCORES, np.ones(N)), {}, r"two classes, but every row is '1'"),
    "missing labels": ((SCORES, [None, *LABELS[1:].astype(object)]), {}, r"some are missing"),
    "positive": ((SCORES, LABELS), {"positive": "fraud"}, r"`positive` to be one of"),
    "predict_proba": ((np.stack([1 - SCORES, SCORES], 1), LABELS), {}, r"scores\[:, 1\]"),
    "names": ((SCORES, LABELS), {"names": ["a", "b"]}, r"`names` to be 1 different"),
    "measure": ((SCORES, LABELS), {"measure": "aurok"}, r"Did you mean 'auroc'"),
    "classes": ((SCORES, LABELS), {"measure": "f1[macro]"}, r"two classes"),
    "constraint": ((SCORES, LABELS), {"subject_to": "recall=0.9"}, r"`subject_to`"),
    "maximize": ((SCORES, LABELS), {"maximize": "f-one"}, r"`maximize`"),
    "confidence": ((SCORES, LABELS), {"confidence": 95}, r"`confidence` to be in \(0, 1\)"),
    "threshold": ((SCORES, LABELS), {"threshold": float("nan")}, r"`threshold`"),
    "thresholds": ((SCORES, LABELS), {"threshold": [0.1, 0.2]}, r"`threshold` to be one number or 1"),
    "threshold names": ((SCORES, LABELS), {"threshold": {"p": 0.1}}, r"one for each of \['score'\]"),
    "weight": ((SCORES, LABELS), {"weight": -np.ones(N)}, r"`weight` to be non-negative"),
    "no weight": ((SCORES, LABELS), {"weight": np.zeros(N)}, r"above zero"),
    "max weight": ((SCORES, LABELS), {"weight": np.full(N, 2.0), "max_weight": 1.0}, r"at least the largest weight, 2"),
    "groups": ((SCORES, LABELS), {"group": np.arange(N)}, r"at most 50 values, but it holds 1200"),
    "group length": ((SCORES, LABELS), {"group": SEX[:-1]}, r"one value for each"),
    "both": ((SCORES, LABELS), {"threshold": 0.5, "calibration": (SCORES, LABELS)}, r"`threshold` or `calibration`"),
    "calibration": ((SCORES, LABELS), {"calibration": SCORES.tolist()}, r"to be \(scores, labels\)"),
    "calibration keys": ((SCORES, LABELS), {"calibration": {"score": SCORES}}, r"hold scores and labels"),
    "calibration classes": ((SCORES, LABELS), {"calibration": (SCORES, SEX)}, r"'False' and 'True'|positive"),
    "calibration group": ((SCORES, LABELS), {"group": SEX, "calibration": (SCORES, LABELS)}, r"'group' is not there"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls_say_what_to_do(case: str) -> None:
    arguments, options, message = WRONG[case]
    with pytest.raises((InputError, TypeError), match=message):
        quick(*arguments, **options)
