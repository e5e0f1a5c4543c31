from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, recall_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from setwise import InputError
from setwise.app import MulticlassModel, TableClassifier, TableDataWarning, TableModel, load_model, train
from setwise.app.classifier_table import Parts, frame_of_inputs, joined, target_values, training_table

X, Y = make_classification(
    300, 5, n_informative=3, n_redundant=0, weights=[0.7], class_sep=2, flip_y=0.05, random_state=0
)
QUICK: dict[str, Any] = {"models": "logistic", "folds": 3}

CHECKS = """
import warnings
from sklearn.utils.estimator_checks import check_estimator
from setwise.app import TableClassifier
warnings.simplefilter("ignore")
results = check_estimator(TableClassifier({settings}), on_fail=None, on_skip=None)
others = [r for r in results if r["status"] != "passed"]
print(len(results), *[(r["check_name"], r["status"], r["exception"]) for r in others])
"""


def run_all_checks(settings: str) -> None:
    # one of the checks is skipped unless this is set before scipy is imported
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    code = CHECKS.format(settings=settings)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    count, _, rest = run.stdout.strip().partition(" ")
    assert int(count) > 50
    assert rest == ""


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Numbers with gaps, categories, dates and a row number."""
    random, n = np.random.default_rng(0), 400
    x, job = random.normal(size=n), random.choice(["clerk", "smith", "baker"], n).astype(object)
    sick = np.where(x + (job == "smith") + random.normal(size=n) > 1, "yes", "no")
    job[::17] = None
    return pd.DataFrame(
        {
            "number": np.arange(n) + 5000,
            "x": np.where(random.random(n) < 0.1, np.nan, x),
            "job": job,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 300, n), "D"),
            "sex": random.choice(["f", "m"], n),
            "sick": sick,
        },
        index=np.arange(n) * 3,
    )


def test_all_of_scikit_learns_checks_pass_and_none_is_skipped() -> None:
    run_all_checks("models=['logistic'], folds=2")


@pytest.mark.slow
def test_they_pass_at_default_settings() -> None:
    run_all_checks("")


@pytest.mark.parametrize("subject_to", [None, "recall>=0.7"])
def test_an_array_gives_the_model_of_train_to_the_last_bit(subject_to: str | None) -> None:
    settings: dict[str, Any] = {"subject_to": subject_to, "models": ["logistic", "extra_trees"], "folds": 2}
    ours = TableClassifier("ap", **settings, random_state=3).fit(X, Y)
    names = [f"x{k}" for k in range(5)]
    frame = pd.DataFrame(X, columns=names).assign(y=Y)
    other = train(frame, target="y", measure="ap", **settings, seed=3, use=names, progress=False)
    assert np.array_equal(ours.model_.apply(frame).scores, other.apply(frame).scores)
    assert np.array_equal(ours.predict_proba(X), other.predict_proba(frame))
    if subject_to is not None:  # otherwise nothing is asked of decisions, and the more probable class is predicted
        assert isinstance(other, TableModel)
        assert ours.threshold_ == other.threshold
        assert np.array_equal(ours.predict(X), other.predict(frame))


def test_a_frame_gives_the_model_of_train_too_and_says_what_was_left_out(table: pd.DataFrame) -> None:
    inputs, sick = table.drop(columns="sick"), table["sick"]
    model = TableClassifier("ap", **QUICK, subject_to="recall>=0.7")
    with pytest.warns(TableDataWarning, match=r"Column 'number' is left out: a number for every row"):
        model.fit(inputs, sick)
    other = train(table, target="sick", measure="ap", **QUICK, subject_to="recall>=0.7", progress=False)
    assert np.array_equal(model.model_.apply(inputs).scores, other.apply(inputs).scores)
    assert np.array_equal(model.predict(inputs), other.predict(inputs))
    assert model.feature_names_in_.tolist() == ["number", "x", "job", "day", "sex"]
    assert model.n_features_in_ == 5
    assert model.model_.encoding.names == ("x", "job", "day", "sex")
    assert str(model.report()).startswith("table: sick is 'yes' or not")


def test_frames_of_pandas_and_polars_are_one(table: pd.DataFrame) -> None:
    inputs, sick = table.drop(columns=["sick", "number"]), table["sick"].to_numpy()
    one = TableClassifier(**QUICK).fit(inputs, sick)
    other = TableClassifier(**QUICK).fit(pl.from_pandas(inputs), pl.Series("sick", sick))
    assert np.array_equal(one.predict_proba(inputs), other.predict_proba(pl.from_pandas(inputs)))
    assert np.array_equal(one.predict_proba(inputs), one.predict_proba(pl.from_pandas(inputs)))
    assert other.feature_names_in_.tolist() == inputs.columns.tolist()


def test_every_column_of_an_array_is_an_input_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    x = np.column_stack([X[:, 0], np.arange(len(X)) + 1000, np.ones(len(X))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = TableClassifier(**QUICK).fit(x, Y)
    assert model.model_.encoding.names == ("x0", "x1")  # but a constant one, which says nothing
    assert model.notes_ == ("Column 'x2' is left out: 1 in every row.",)
    assert capfd.readouterr() == ("", "")


def test_a_leak_is_a_warning_without_words_for_the_command() -> None:
    x = np.column_stack([X[:, 0], Y])
    with pytest.warns(TableDataWarning, match="'x1' alone separates the classes") as said:
        TableClassifier(**QUICK).fit(x, Y)
    assert not any("--" in str(each.message) for each in said)
    assert all(each.filename == __file__ for each in said)


def test_missing_numbers_and_texts_in_an_array() -> None:
    gaps = X.copy()
    gaps[::7, 0] = np.nan
    model = TableClassifier(**QUICK).fit(gaps, Y)
    assert "x0=(missing)" in model.model_.encoding.columns
    assert model.score(gaps, Y) > 0.75
    mixed = gaps.astype(object)
    mixed[:, 1] = np.where(X[:, 1] > 0, "high", "low")
    model = TableClassifier(**QUICK).fit(mixed, Y)
    assert {"x1=high", "x1=low"} <= set(model.model_.encoding.columns)
    assert model.predict_proba(mixed[:3]).shape == (3, 2)


@pytest.mark.parametrize(
    "classes",
    [("no", "yes"), (False, True), (-1, 1), (3.0, 4.0), ("NA", "na"), ("Yes", "yes"), ("1", "1.0"), ("", "x")],
)
def test_predictions_are_of_the_type_of_the_labels(classes: tuple[Any, Any]) -> None:
    y = np.array(classes)[Y]
    model = TableClassifier(**QUICK).fit(X, y)
    predicted = model.predict(X)
    assert model.classes_.tolist() == list(classes)
    assert predicted.dtype == y.dtype
    assert accuracy_score(Y, predicted == classes[1]) > 0.8
    assert accuracy_score(Y, model.predict_proba(X)[:, 1] > 0.5) > 0.8


def test_labels_as_categories_of_a_series() -> None:
    y = pd.Series(np.where(Y, "b", "a"), name="kind").astype("category")
    assert set(TableClassifier(**QUICK).fit(X, y).predict(X)) == {"a", "b"}


@pytest.mark.parametrize("subject_to", [None, "recall>=0.8"])
def test_the_positive_class_may_be_the_first(subject_to: str | None) -> None:
    model = TableClassifier(**QUICK, subject_to=subject_to, positive=0).fit(X, Y)
    turned = TableClassifier(**QUICK, subject_to=subject_to).fit(X, 1 - Y)
    assert model.classes_.tolist() == [0, 1]
    assert np.array_equal(model.predict_proba(X), turned.predict_proba(X)[:, ::-1])
    assert np.array_equal(model.predict(X), 1 - turned.predict(X))
    scores = model.decision_function(X)
    assert np.array_equal(model.predict(X), (scores > 0).astype(int))
    assert np.array_equal(np.argsort(model.predict_proba(X)[:, 1]), np.argsort(scores))
    assert np.array_equal(model.model_.predict(frame_of_inputs(X)), model.predict(X))


def test_decisions_are_those_of_the_score_threshold() -> None:
    model = TableClassifier(**QUICK, subject_to="precision>=0.7").fit(X, Y)
    raw = model.model_.apply(frame_of_inputs(X)).scores
    assert np.array_equal(model.predict(X) == 1, raw >= model.model_.score_threshold)
    assert model.decision_function(X) == pytest.approx(raw - model.model_.score_threshold)
    assert model.threshold_ == model.model_.threshold


def test_without_a_wish_for_decisions_the_more_probable_class_is_predicted() -> None:
    model = TableClassifier("auc", **QUICK).fit(X, Y)
    assert model.threshold_ == pytest.approx(0.5)
    assert np.array_equal(model.predict(X), model.predict_proba(X).argmax(axis=1))
    assert "Predicted positive from probability 0.5 on" in str(model.report())
    other = TableClassifier("f1", **QUICK).fit(X, Y)
    assert other.threshold_ != pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(("threshold", "label"), [(np.inf, 0), (-np.finfo(np.float64).max, 1)])
def test_scores_rank_where_all_rows_are_of_one_class(threshold: float, label: int) -> None:
    model = TableClassifier(**QUICK).fit(X, Y)
    usual = model.decision_function(X)
    object.__setattr__(model.model_, "score_threshold", threshold)
    scores = model.decision_function(X)
    assert np.isfinite(scores).all()
    assert np.array_equal(np.argsort(scores), np.argsort(usual))
    assert (model.predict(X) == label).all()


def test_a_floor_is_certified() -> None:
    x, y = make_classification(3000, 5, n_informative=3, flip_y=0.1, random_state=1)
    model = TableClassifier("ap", **QUICK, subject_to="recall>=0.9").fit(x[:1500], y[:1500])
    certificate = model.report().certificate
    assert certificate is not None
    assert certificate["certified"]
    assert recall_score(y[1500:], model.predict(x[1500:])) >= 0.9
    seen = TableClassifier("ap", **QUICK, subject_to="recall>=0.9", confidence=0).fit(x[:1500], y[:1500])
    assert seen.report().certificate is None
    assert seen.threshold_ > model.threshold_


def test_a_floor_that_too_few_rows_can_certify_is_a_warning() -> None:
    with pytest.warns(TableDataWarning, match="Too few rows to certify"):
        model = TableClassifier(**QUICK, subject_to="recall>=0.999").fit(X, Y)
    certificate = model.report().certificate
    assert certificate is not None
    assert not certificate["certified"]


def test_constraints_by_group(table: pd.DataFrame) -> None:
    inputs, sick = table[["x", "sex"]], table["sick"]
    asked = TableClassifier(**QUICK, subject_to="recall[group=sex]>=0.5")
    within = asked.fit(inputs, sick)
    said = " ".join(within.report().headline)
    assert "recall[sex=f] >= 0.5 holds" in said
    assert "recall[sex=m] >= 0.5 holds" in said
    for groups in ({"sex": inputs["sex"].to_numpy()}, inputs[["sex"]]):
        beside = clone(asked).fit(inputs[["x"]], sick, groups=groups)
        assert beside.model_.encoding.names == ("x",)
        assert "recall[sex=f] >= 0.5 holds" in " ".join(beside.report().headline)
        assert beside.predict(inputs[["x"]]).shape == (400,)
    named = TableClassifier(**QUICK).fit(inputs, sick, groups="sex")
    assert named.model_.about["settings"]["group"] == ["sex"]
    scores = cross_val_score(asked, inputs[["x"]], sick, params={"groups": inputs[["sex"]]}, cv=2, scoring="roc_auc")
    assert scores.min() > 0.7


def test_folds_by_patient_and_in_order_of_time(table: pd.DataFrame) -> None:
    x, sick, patient = table[["x"]].fillna(0) + np.arange(400)[:, None] / 1e4, table["sick"], np.arange(400) // 4
    names = {"target": "sick", "measure": "auc", **QUICK, "progress": False}
    bound = TableClassifier(**QUICK).fit(x, sick, group_folds=patient)
    other = train(x.assign(group_folds=patient, sick=sick), group_folds="group_folds", **names)
    assert np.array_equal(bound.predict_proba(x), other.predict_proba(x))
    timed = TableClassifier(**QUICK).fit(x, sick, time=table["day"])
    other = train(x.assign(time=table["day"], sick=sick), time_column="time", **names)
    assert np.array_equal(timed.predict_proba(x), other.predict_proba(x))
    assert not np.array_equal(timed.predict_proba(x), bound.predict_proba(x))


SPECIES = np.where(X[:, 0] > 1, 2, Y)  # three classes


@pytest.mark.parametrize("classes", [(0, 1, 2), ("10", "9", "nine"), (-1.0, 3.0, 20.0), ("A", "a", "b")])
def test_several_classes(classes: tuple[Any, Any, Any]) -> None:
    y = np.array(classes)[SPECIES]
    model = TableClassifier(**QUICK).fit(X, y)
    probability, scores = model.predict_proba(X), model.decision_function(X)
    assert model.classes_.tolist() == list(classes)
    assert model.predict(X).dtype == y.dtype
    assert probability.sum(axis=1) == pytest.approx(np.ones(len(X)))
    assert np.array_equal(model.predict(X), model.classes_[probability.argmax(axis=1)])
    assert np.array_equal(scores.argmax(axis=1), probability.argmax(axis=1))
    assert model.score(X, y) > 0.8
    assert isinstance(model.model_, MulticlassModel)
    assert model.threshold_ is None


def test_several_classes_give_the_model_of_train(tmp_path: Path) -> None:
    model = TableClassifier("ap", **QUICK).fit(X, SPECIES)
    frame = frame_of_inputs(X)
    other = train(frame.assign(y=SPECIES), target="y", measure="ap", **QUICK, use=[*frame.columns], progress=False)
    assert np.array_equal(model.predict_proba(X), other.predict_proba(frame))
    stored = load_model(model.model_.save(tmp_path / "model.safetensors"))
    assert np.array_equal(stored.predict(frame), model.predict(X))
    assert "3 classes" in str(model.report())


def test_more_numbers_than_a_quantity_has_are_classes() -> None:
    y = np.arange(len(X)) % 25
    x = np.column_stack([X, y == 3, y])
    model = TableClassifier(**QUICK | {"folds": 2}).fit(x, y)
    assert model.classes_.tolist() == list(range(25))
    assert model.predict_proba(x).shape == (300, 25)
    with pytest.raises(InputError, match="Expected `y` to hold at most 50 classes, but it holds 60"):
        TableClassifier(**QUICK).fit(X, np.arange(len(X)) % 60)


@pytest.mark.parametrize("settings", [{"subject_to": "recall>=0.8"}, {"positive": 1}, {"max_weight": 2}])
def test_what_is_about_two_classes_is_refused_with_three(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"Expected `{next(iter(settings))}` only with two classes"):
        TableClassifier(**QUICK, **settings).fit(X, SPECIES)


def test_the_order_of_rows_does_not_matter_to_weights_of_several_classes() -> None:
    order, weight = np.random.default_rng(0).permutation(len(X)), np.arange(len(X)) % 4
    model = TableClassifier(**QUICK)
    one = clone(model).fit(X, SPECIES, weight).predict_proba(X)
    assert np.array_equal(one, clone(model).fit(X[order], SPECIES[order], weight[order]).predict_proba(X))
    repeated = clone(model).fit(X.repeat(weight, axis=0), SPECIES.repeat(weight)).predict_proba(X)
    assert np.array_equal(one, repeated)


def test_a_weight_counts_copies_whatever_the_order_of_the_rows() -> None:
    random = np.random.default_rng(0)
    x, y, order = X[:120], Y[:120], random.permutation(120)
    times = random.integers(0, 4, 120)
    model = TableClassifier("auc", models=["logistic", "lightgbm"], folds=2)
    copied = clone(model).fit(x.repeat(times, axis=0), y.repeat(times))
    weighted = clone(model).fit(x[order], y[order], sample_weight=times[order])
    assert np.array_equal(copied.predict_proba(X), weighted.predict_proba(X))
    assert not np.array_equal(copied.predict_proba(X), clone(model).fit(x, y).predict_proba(X))


def test_a_row_much_heavier_than_the_others_is_in_every_fold() -> None:
    weight = np.ones(20)
    weight[3] = 12
    frame, shared = joined(frame_of_inputs(X[:20]), Y[:20], weight, folds=3)
    assert shared is not None
    assert sorted(shared) == [1] * 19 + [4] * 3
    assert len(frame.drop_duplicates()) == 20
    model = TableClassifier(**QUICK).fit(X, Y, np.where(np.arange(len(X)) < 30, 12.0, 1.0))
    assert not any("repeat" in note for note in model.notes_)  # of the pieces nobody is told


def test_rows_that_come_very_often_and_those_that_a_certificate_counts_stay_apart() -> None:
    frame, label = frame_of_inputs(np.repeat(X[:20], 6, axis=0)), np.repeat(Y[:20], 6)
    assert joined(frame, label, None, folds=3)[0] is frame
    assert len(joined(frame[:60], label[:60], np.ones(60), folds=3)[0]) == 10
    parts = Parts.of(None, None, None, 40)
    twice, y = frame_of_inputs(np.repeat(X[:20], 2, axis=0)), np.repeat(Y[:20], 2)
    apart, _ = training_table(twice, y, None, parts, target_name="y", folds=3, counts_draws=True)
    together, roles = training_table(twice, y, None, parts, target_name="y", folds=3, counts_draws=False)
    assert (len(apart), len(together)) == (40, 20)
    assert "weight" not in roles  # every row came twice, so all weigh the same
    model = TableClassifier(**QUICK, subject_to="recall>=0.6").fit(X.repeat(2, axis=0), Y.repeat(2))
    assert model.model_.about["rows"] == 600


def test_rows_that_differ_beside_the_inputs_are_not_joined() -> None:
    inputs, y = frame_of_inputs(np.zeros((4, 1))), np.array([0, 1, 0, 1])
    parts = Parts.of({"site": ["a", "a", "b", "b"]}, None, None, 4)
    table, _ = training_table(inputs, y, None, parts, target_name="x0", folds=3, counts_draws=False)
    assert len(table) == 4
    assert set(table.columns) == {"x0", "site", "x0_"}


def test_a_single_row_of_a_class_that_came_twice_is_in_two_folds() -> None:
    frame, weight = joined(
        frame_of_inputs(np.array([[1.0], [2.0], [3.0], [3.0]])), np.array([0, 0, 1, 1]), None, folds=3
    )
    assert weight is not None
    assert sorted(zip(frame["x0"], weight, strict=True)) == [(1, 1), (2, 1), (3, 1), (3, 1)]


def test_rows_of_weight_zero_are_as_if_they_were_not_there() -> None:
    weight = (np.arange(len(X)) % 3 > 0).astype(float)
    kept = weight > 0
    strange = np.where(kept, Y, 7)  # a class of no weight is none
    model = TableClassifier(**QUICK).fit(X, strange, weight)
    assert model.classes_.tolist() == [0, 1]
    other = TableClassifier(**QUICK).fit(X[kept], Y[kept], np.ones(kept.sum()))
    assert np.array_equal(model.predict_proba(X), other.predict_proba(X))


def test_weights_are_certified_with_a_bound_alone() -> None:
    weight = np.random.default_rng(0).integers(1, 3, len(X)).astype(float)
    bare = TableClassifier(**QUICK, subject_to="recall>=0.6").fit(X, Y, weight).report().certificate
    sure = TableClassifier(**QUICK, subject_to="recall>=0.6", max_weight=2).fit(X, Y, weight).report().certificate
    assert bare is not None
    assert sure is not None
    assert not bare["certified"]
    assert sure["certified"]
    with pytest.raises(InputError, match="Expected `max_weight` to be at least every weight"):
        TableClassifier(**QUICK, subject_to="recall>=0.6", max_weight=1.5).fit(X, Y, weight)
    twice = TableClassifier(**QUICK, max_weight=2).fit(X.repeat(2, axis=0), Y.repeat(2), weight.repeat(2))
    assert twice.model_.about["rows"] >= 300  # joined rows are heavier than the bound, and nothing is certified


def test_it_goes_wherever_a_classifier_goes(table: pd.DataFrame) -> None:
    inputs, sick = table.drop(columns=["sick", "number"]), table["sick"]
    quick = TableClassifier(**QUICK)
    assert cross_val_score(quick, inputs, sick, cv=2, scoring="roc_auc").min() > 0.7
    weight = np.random.default_rng(0).integers(0, 3, len(sick))
    weighed = cross_validate(quick, inputs, sick, params={"sample_weight": weight}, cv=2, scoring="roc_auc")
    plain = cross_validate(quick, inputs, sick, cv=2, scoring="roc_auc")
    assert weighed["test_score"].min() > 0.7
    assert not np.array_equal(weighed["test_score"], plain["test_score"])
    search = GridSearchCV(quick, {"folds": np.array([2, 3]), "measure": ["auc", "ap"]}, cv=2).fit(inputs, sick)
    assert search.best_score_ > 0.7
    piped = make_pipeline(make_column_transformer((StandardScaler(), ["x"]), remainder="passthrough"), clone(quick))
    piped.set_output(transform="pandas").fit(inputs, sick)
    assert piped.score(inputs, sick) > 0.7
    assert CalibratedClassifierCV(clone(quick), cv=2).fit(X, Y).score(X, Y) > 0.8


def test_a_copy_and_a_file_predict_the_same(table: pd.DataFrame, tmp_path: Path) -> None:
    inputs = table.drop(columns=["sick", "number"])
    model = TableClassifier(models=["logistic", "lightgbm", "extra_trees", "network"], folds=2)
    model.fit(inputs, table["sick"])
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 (our own)
    assert np.array_equal(again.predict_proba(inputs), model.predict_proba(inputs))
    stored = TableModel.load(model.model_.save(tmp_path / "model.safetensors"))
    assert np.array_equal(stored.predict(inputs), model.predict(inputs))
    assert clone(model).get_params() == model.get_params()


def test_the_seed_decides_alone() -> None:
    settings: dict[str, Any] = {"models": ["extra_trees"], "folds": 2}

    def fitted(**other: Any) -> NDArray[Any]:
        return np.asarray(TableClassifier(**settings, **other).fit(X, Y).predict_proba(X))

    assert np.array_equal(fitted(), fitted(random_state=0))
    assert np.array_equal(fitted(n_jobs=2), fitted(n_jobs=1))
    assert not np.array_equal(fitted(), fitted(random_state=1))
    assert np.array_equal(fitted(random_state=np.int64(1)), fitted(random_state=1))
    states = [np.random.RandomState(4) for _ in range(2)]
    assert np.array_equal(fitted(random_state=states[0]), fitted(random_state=states[1]))
    assert not np.array_equal(fitted(random_state=None), fitted(random_state=None))


def test_fits_side_by_side_are_as_many_as_joblib_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from setwise.app import classifier, training

    seen: list[int] = []

    def watched(*given: Any, **named: Any) -> Any:
        seen.append(given[2].side_by_side)
        return actual(*given, **named)

    actual = training.train_table
    monkeypatch.setattr(classifier, "train_table", watched)
    TableClassifier(**QUICK).fit(X, Y)
    TableClassifier(**QUICK, n_jobs=3).fit(X, Y)
    TableClassifier(**QUICK, n_jobs=-1).fit(X, Y)
    with joblib.parallel_config(n_jobs=4):
        TableClassifier(**QUICK).fit(X, Y)
    assert seen == [1, 3, joblib.cpu_count(), 4]


def test_a_time_limit_leaves_candidates_out() -> None:
    model = TableClassifier(models=["logistic", "lightgbm"], folds=2, time_limit=1e-6).fit(X, Y)
    assert any("LightGBM" in remark or "lightgbm" in remark for remark in model.report().remarks)


def test_names_of_columns_are_checked(table: pd.DataFrame) -> None:
    inputs = table[["x", "sex"]]
    model = TableClassifier(**QUICK).fit(inputs, table["sick"])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(inputs[["sex", "x"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        found = model.predict_proba(inputs.to_numpy(dtype=object))
    assert found == pytest.approx(model.predict_proba(inputs))
    with pytest.raises(ValueError, match="2 features"):
        TableClassifier(**QUICK).fit(X[:, :2], Y).predict(X)
    other = TableClassifier(**QUICK).fit(X, Y)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        assert np.array_equal(other.predict(pd.DataFrame(X, columns=list("abcde"))), other.predict(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"measure": "auk"}, r"Did you mean 'auc'\? Expected `measure`"),
        ({"measure": 3}, "Expected `measure` to be a text, but got int"),
        ({"models": ["logistik"]}, r"Expected `models` among .* \(did you mean 'logistic'\?\)"),
        ({"folds": 1}, "Expected `folds` to be an integer of at least 2"),
        ({"random_state": -1}, "Expected `random_state` to be at least 0"),
        ({"positive": 2}, r"Expected `positive` to be a class of `y`, \[0, 1\], but got 2"),
        ({"subject_to": "recal>=0.9"}, "Expected a constraint to be a rate"),
        ({"subject_to": "recall[group=sex]>=0.9"}, "Expected `subject_to` to be a column, but there is no 'sex'"),
        ({"confidence": 1.0}, r"Expected `confidence` to be in \[0, 1\)"),
        ({"max_weight": -1}, r"Expected `max_weight` to be in \(0"),
        ({"time_limit": 0}, r"Expected `time_limit` to be in \(0"),
    ],
)
def test_wrong_settings_are_named_by_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, TypeError), match=message):
        TableClassifier(**{**QUICK, **settings}).fit(X, Y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": np.zeros(len(X))}, "Expected `y` to hold at least two classes, but it holds one class, 0.0"),
        ({"y": Y[:5]}, "inconsistent numbers of samples"),
        ({"y": X[:, 0]}, "Unknown label type"),
        ({"y": np.arange(len(X)) == 0}, "at least 2 positives"),
        ({"X": np.where(X > 2, np.inf, X)}, "Input X contains infinity"),
        ({"X": pd.DataFrame(np.where(X > 2, np.inf, X))}, "hold finite numbers|inf"),
        ({"X": np.full(X.shape, {}, dtype=object)}, "must be a string or a real number, not 'dict'"),
        ({"X": X[0]}, "Expected 2D array, got 1D array"),
        ({"sample_weight": np.zeros(len(X))}, "zero"),
        ({"sample_weight": -np.ones(len(X))}, "Negative values in data passed to `sample_weight`"),
        ({"sample_weight": np.ones(3)}, "sample_weight"),
        ({"groups": {"sex": ["f"]}}, r"Expected `groups\['sex'\]` to hold one value for each of the 300 rows of `X`"),
        ({"groups": {"x1": Y}}, "Expected `groups` to have other names than the columns of `X`, but both have 'x1'"),
        ({"groups": "x7"}, r"Expected `groups` to be a column, but there is no 'x7' among x0, "),
        ({"groups": Y}, "what keeps rows in one fold is `group_folds`"),
        ({"group_folds": Y[:9]}, "Expected `group_folds` to hold one value for each of the 300 rows"),
        ({"time": np.array([["2024"]])}, "Expected `time` to hold one value for each of the 300 rows"),
        ({"time": Y, "group_folds": Y}, "Expected `group_folds` or `time`, but got both"),
    ],
)
def test_wrong_data_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        TableClassifier(**QUICK).fit(**{"X": X, "y": Y, **given})


def test_what_is_not_fitted_says_so() -> None:
    for use in (TableClassifier().predict, TableClassifier().predict_proba, TableClassifier().decision_function):
        with pytest.raises(NotFittedError):
            use(X)
    with pytest.raises(NotFittedError):
        TableClassifier().report()


def test_classes_whose_names_a_table_would_read_as_one() -> None:
    assert target_values(np.array(["a", "b"])).tolist() == ["a", "b"]
    assert target_values(np.array(["Yes", "yes"])).tolist() == ["class 0", "class 1"]
    assert target_values(np.array([0, 1])).tolist() == [0, 1]


def test_it_is_no_worse_than_logistic_regression_where_that_is_right() -> None:
    x, y = make_classification(600, 6, n_informative=4, flip_y=0.1, random_state=2)
    model = TableClassifier("auc", **QUICK).fit(x[:300], y[:300])
    plain = LogisticRegression().fit(x[:300], y[:300])
    assert model.score(x[300:], y[300:]) > plain.score(x[300:], y[300:]) - 0.03
