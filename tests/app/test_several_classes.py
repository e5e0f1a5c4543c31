"""The main job with several classes: each against the others, one choice by the macro average, one model file."""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from setwise._checks import InputError
from setwise.app import MulticlassModel, TableModel, load_model, train
from setwise.app.candidates import Rows, candidates_of
from setwise.app.choice import choose_for_classes
from setwise.app.cross_fit import Event, OneAgainstRest, cross_fit_classes
from setwise.app.ensemble import STACK
from setwise.app.folds import make_folds
from setwise.app.importance import permutation_importance
from setwise.app.multiclass_model import probabilities
from setwise.app.predict import predict_file
from setwise.app.run_folder import RunFolder
from setwise.app.selected_value import Kind, nearest
from setwise.app.settings import TrainSettings
from setwise.app.table_problem import load_table_problem
from setwise.app.train_report import TrainReport
from setwise.app.training import Work, train_table
from setwise.data import TableEncoding, inspect, load_table, read_table
from setwise.measures import parse
from setwise.metrics import PlattScaling
from support.resealing import change_model

Change = Callable[[dict[str, Any], dict[str, Any]], object]


def iris(rows: int = 150) -> pd.DataFrame:
    """The flowers in random order, by their names."""
    found = load_iris(as_frame=True)
    frame = found.frame.rename(columns={"target": "species"})
    frame["species"] = found.target_names[frame["species"]]
    shuffled: pd.DataFrame = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    return shuffled[:rows]


def quick(frame: Any, **options: Any) -> Any:
    given: dict[str, Any] = {"models": ["logistic"], "progress": False, "workers": 1}
    return train(frame, **(given | options))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the flowers with two candidates."""
    folder = tmp_path_factory.mktemp("iris") / "run"
    iris().to_csv(folder.parent / "iris.csv", index=False)
    quick(folder.parent / "iris.csv", target="species", models=["logistic", "extra_trees"], out=folder)
    return folder


@pytest.fixture(scope="module")
def model(run: Path) -> MulticlassModel:
    found = load_model(run)
    assert isinstance(found, MulticlassModel)
    return found


# ---------------------------------------------------------------- how good it is


@pytest.mark.parametrize(("load", "rows"), [(load_iris, 150), (load_wine, 178), (load_digits, 500)])
def test_it_ranks_as_a_plain_logistic_regression_does(load: Callable[..., Any], rows: int) -> None:
    frame = load(as_frame=True).frame.sample(frac=1, random_state=1)[:rows].reset_index(drop=True)
    if load is load_digits:
        frame = frame[[*frame.columns[:-1:2], "target"]]
    x, y = frame.drop(columns="target"), frame["target"]
    cut = rows * 2 // 3
    found = quick(frame[:cut], folds=3)
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)).fit(x[:cut], y[:cut])
    ours, theirs = (
        roc_auc_score(y[cut:], p, multi_class="ovr")
        for p in (found.predict_proba(x[cut:]), plain.predict_proba(x[cut:]))
    )
    # One line in petal length and width cannot tell the middle flower from both others; the plain one is multinomial.
    assert ours > theirs - (0.06 if load is load_iris else 0.015)
    assert found.predict(x).dtype == np.int64
    assert (found.predict(x[cut:]) == y[cut:]).mean() > 0.7


def test_probabilities_sum_to_one_and_the_most_probable_class_is_predicted(model: MulticlassModel) -> None:
    frame = iris()
    found = model.predict_proba(frame)
    assert found.shape == (150, 3)
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(frame), model.classes_[found.argmax(axis=1)])
    told = model.apply(frame)
    np.testing.assert_array_equal(told.probabilities, found.max(axis=1))
    assert list(told.classes) == model.predict(frame).tolist()
    assert (model.predict(frame) == frame["species"]).mean() > 0.9


def test_probabilities_are_those_of_each_class_against_the_others_in_proportion() -> None:
    scores = np.array([[0.0, 1.0, -2.0], [-900.0, -899.0, -9e9]])
    single = 1 / (1 + np.exp(-2 * scores[0]))
    found = probabilities(scores, [PlattScaling(2.0, 0.0)] * 3)
    np.testing.assert_allclose(found[0], single / single.sum())
    np.testing.assert_allclose(found[1], [1 / (1 + np.e), np.e / (1 + np.e), 0])  # where all are 0, by the scores


def test_the_choice_is_by_the_macro_average_and_one_for_all() -> None:
    problem = load_table_problem(iris(), TrainSettings(models=("logistic", "extra_trees")))
    folds = problem.folds(TrainSettings())
    heads = cross_fit_classes(
        [OneAgainstRest(rows, title) for _, title, rows in problem.heads],
        folds,
        "auc",
        candidates_of(["logistic", "extra_trees"]),
    )
    choices = choose_for_classes(heads, problem.rows.y, parse("auc"), seed=0)
    assert len({choice.name for choice in choices}) == 1
    assert len({id(choice.selection) for choice in choices}) == 1
    for name, value in choices[0].selection.values.items():  # noqa: PD011 (of a mapping)
        areas = [roc_auc_score(choice.labels, choice.logits[name]) for choice in choices]
        assert value == pytest.approx(np.mean(areas))
    stacks = [choice.stack for choice in choices]
    assert all(stack is not None for stack in stacks)
    assert len({tuple(stack.weights) for stack in stacks if stack is not None}) == 3  # each class has its own
    if choices[0].name == STACK:
        assert all(choice.ensemble.stack is not None for choice in choices)


@pytest.mark.parametrize("measure", ["f1", "auc", "ap", "precision@recall>=0.8"])
def test_every_measure_is_averaged_over_the_classes(measure: str) -> None:
    report = quick(iris(), measure=measure, models=["logistic", "linear_measure"], folds=3).report()
    title = parse(measure).title
    assert report.criterion == f"Macro average of {title if title.isupper() else title[0].lower() + title[1:]}"
    assert report.measure == title
    assert [row.name for row in report.classes] == ["setosa", "versicolor", "virginica"]
    for row in report.classes:
        assert 0 <= row.value.low <= row.value.estimate <= row.value.high <= 1
        assert row.rows == 50
        assert row.recall > 0.5
    shipped = next(row for row in report.candidates if "shipped" in row.notes)
    assert shipped.value.low <= np.mean([row.value.estimate for row in report.classes]) <= shipped.value.high
    assert report.classes[0].value.low > 0.9  # told apart without an error, as far as 50 rows say
    assert any("predicts the most probable class" in text for text in report.remarks) == (measure == "f1")


def test_how_near_to_one_a_rate_is_told_to_be() -> None:
    assert nearest(Kind.THRESHOLD, 50) == 0.01
    assert nearest(Kind.AREA, 50, 4) == 0.5 / (4 * 2500)


def test_the_report_says_what_is_shipped_and_by_class(run: Path, model: MulticlassModel) -> None:
    text = str(model.report())
    lines = text.splitlines()
    assert lines[0] == "iris.csv: species, 3 classes"
    assert re.match(r"Shipped: .*, for each of 3 classes against the others", lines[2])
    assert lines[3].startswith("Macro average of AUROC: 50 rows of class 'setosa' are too few to claim a figure")
    assert "Logistic regression: 0." in text
    assert re.search(r"it is the right one in 9\d\.\d% of rows\.", text)
    assert re.search(r"Candidate +Macro average of AUROC \[95 %\] +shipped minus it +CPU s", text)
    assert re.search(
        r"Class +rows +AUROC against the others \[95 %\] +recall +precision\n-+\nsetosa +50 +1\.000 \[", text
    )
    assert "petal length (cm)" in text.split("Macro average of AUROC lost without it")[1]
    again = TrainReport.from_dict(json.loads(json.dumps(model.report().to_dict())))
    assert again == model.report() or str(again) == text
    seconds = json.loads((run / "results.json").read_text())["report"]["candidates"][0]["seconds"]
    assert seconds > 0  # of the fits of all classes


def test_a_column_that_numbers_the_classes_is_pointed_out() -> None:
    frame = iris()
    frame.insert(0, "copy", frame["species"].map({"setosa": 3, "versicolor": 1, "virginica": 2}).map("k{}".format))
    notes: list[str] = []
    settings = TrainSettings(target="species", models=("extra_trees",), folds=2)
    report = train_table(frame, settings, Work(workers=1, notes=notes.append)).report()
    assert any(note.startswith("Column 'copy' alone separates the classes") for note in notes)
    assert report.columns[0].column == "copy"
    assert report.columns[0].drop > 0.2


def test_importance_is_of_the_macro_average() -> None:
    random = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 60)
    x = random.normal(size=(180, 2)).astype(np.float32)
    x[:, 0] += 3 * (y == 2)
    rows = Rows.of(x, y, classes=3)
    folds = make_folds(y, names=("a", "b", "c"))

    def score(_: int, inputs: Any) -> Any:
        return np.stack([np.zeros(len(inputs)), np.zeros(len(inputs)), inputs[:, 0].astype(float)])

    found = {each.column: each for each in permutation_importance(rows, folds, score, {"a": [0], "b": [1]}, "auc")}
    assert found["b"].drop == 0
    assert found["a"].drop == pytest.approx((roc_auc_score(y == 2, x[:, 0]) - 0.5) / 3, abs=0.03)


# ---------------------------------------------------------------- files


def test_a_file_is_read_as_it_was_written(run: Path, model: MulticlassModel, tmp_path: Path) -> None:
    again = model.save(tmp_path / "again.safetensors")
    assert again.read_bytes() == (run / "model.safetensors").read_bytes()
    np.testing.assert_array_equal(load_model(again).predict_proba(iris()), model.predict_proba(iris()))
    with pytest.raises(InputError, match=r"two classes, but it is of 3: read it with setwise\.app\.load_model"):
        TableModel.load(again)
    with pytest.raises(FileNotFoundError, match="setwise train"):
        load_model(tmp_path / "none.safetensors")
    two = quick(iris(), positive="setosa", folds=2)
    assert isinstance(load_model(two.save(tmp_path / "two.safetensors")), TableModel)


def _less(name: str) -> Change:
    return lambda state, _: state.pop(name)


TAMPERED: dict[str, Change] = {
    "no heads": _less("heads"),
    "no classes": _less("classes"),
    "no report": _less("report"),
    "a head too few": lambda state, _: state["heads"].pop(),
    "heads are a number": lambda state, _: state.update(heads=3),
    "a head is a text": lambda state, _: state["heads"].__setitem__(0, "logistic"),
    "no calibration": lambda state, _: state["heads"][1].pop("calibration"),
    "other calibration": lambda state, _: state["heads"][1].update(calibration={"kind": "pickle"}),
    "other parts": lambda state, _: state["heads"][2]["parts"].update(members={"logistic": ["forest"]}),
    "other classes": lambda state, _: state.update(classes=["setosa", "versicolor", "rose"]),
    "a class twice": lambda state, _: (
        state["encoding"].update(further=["setosa"]),
        state.update(classes=["setosa", "versicolor", "setosa"]),
    ),
    "a class that is a number": lambda state, _: (
        state["encoding"].update(further=[3]),
        state.update(classes=["setosa", "versicolor", 3]),
    ),
    "51 classes": lambda state, _: (
        state["encoding"].update(further=[str(k) for k in range(49)]),
        state.update(classes=["setosa", "versicolor", *(str(k) for k in range(49))]),
    ),
    "no third class": lambda state, _: state["encoding"].pop("further"),
    "no second class": lambda state, _: state["encoding"].update(negative=None),
    "other types": lambda state, _: state.update(types="eval"),
    "a tensor of no class": lambda _, tensors: tensors.update({"3.x": next(iter(tensors.values())).clone()}),
    "a tensor of -0": lambda _, tensors: tensors.update({"-0.x": next(iter(tensors.values())).clone()}),
    "a tensor too few": lambda _, tensors: tensors.pop(next(iter(tensors))),
    "a table of classes that is a number": lambda state, _: state["report"].update(classes=5),
    "a class row without rows": lambda state, _: state["report"]["classes"][0].pop("rows"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_changed_file_is_refused_in_one_line(run: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.safetensors"
    shutil.copy(run / "model.safetensors", path)
    change_model(path, TAMPERED[name])
    with pytest.raises(InputError, match=r"model\.safetensors") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    assert "damaged" in str(caught.value)


def test_every_changed_byte_is_noticed(run: Path, tmp_path: Path) -> None:
    path, whole = tmp_path / "model.safetensors", (run / "model.safetensors").read_bytes()
    for place in itertools.chain(range(0, 200, 7), range(200, len(whole), max(1, len(whole) // 40))):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InputError, match=r"model\.safetensors"):
            load_model(path)


def test_an_encoding_carries_all_classes() -> None:
    table = read_table(iris(), target="species", several_classes=True)
    encoding = table.fit()
    assert encoding.classes == ("setosa", "versicolor", "virginica")
    assert TableEncoding.from_dict(json.loads(json.dumps(encoding.to_dict()))) == encoding
    np.testing.assert_array_equal(load_table(iris(), encoding=encoding).labels, table.labels)
    with pytest.raises(InputError, match=r"'setosa' or 'versicolor' or 'virginica', but it also holds 'rose'"):
        load_table(iris().replace("setosa", "rose"), encoding=encoding)
    with pytest.raises(InputError, match="`positive`"):  # elsewhere a table has two classes
        read_table(iris(), target="species")


def test_the_page_needs_no_network_and_escapes_names(run: Path, tmp_path: Path) -> None:
    page = (run / "report.html").read_text()
    assert "<script" not in page
    assert "script-src 'none'" in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    for text in ("Macro average of AUROC", "<h2>Candidates</h2>", "<h2>Classes</h2>", "Columns that matter"):
        assert text in page
    assert "from setwise.app import load_model" in page
    assert "target; classes: setosa, versicolor, virginica" in page
    report = quick(iris().replace("setosa", "<b>"), folds=2).report()
    made = report.write(tmp_path / "page.html").read_text()
    assert "&lt;b&gt;" in made
    assert "<b>" not in made
    with pytest.raises(InputError, match="read from a file"):
        load_model(run).report().write(tmp_path / "other.html")


# ---------------------------------------------------------------- runs


class Stop(BaseException):
    """Stands for a process that ends here."""


def test_a_stopped_run_goes_on_and_ends_with_the_same_bytes(run: Path, tmp_path: Path) -> None:
    settings = TrainSettings(data=str(run.parent / "iris.csv"), target="species", models=("logistic", "extra_trees"))
    seen: list[Event] = []

    def progress(event: Event) -> None:
        seen.append(event)
        if event.kind == "done" and event.done == 17:
            raise Stop

    with pytest.raises(Stop):
        train_table(settings.data, settings, Work(RunFolder(tmp_path / "run"), workers=1, progress=progress))
    stored = sorted(path.name for path in (tmp_path / "run" / "fits").glob("*.safetensors"))
    assert 17 <= len(stored) < 30  # one more may have begun
    assert stored[0] == "extra_trees-class0-0.safetensors"
    fits = [event for event in seen if event.kind != "stage"]
    assert {event.total for event in fits} == {30}
    assert fits[0].candidate == "logistic regression, species 'setosa'"
    first, second = (tmp_path / "run" / "fits" / f"logistic-class{k}-0.safetensors" for k in (0, 1))
    shutil.copy(first, second)  # a fit of another class
    damaged = tmp_path / "run" / "fits" / "logistic-class2-1.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    notes: list[str] = []
    seen.clear()
    work = Work(RunFolder(tmp_path / "run"), resume=True, workers=2, progress=seen.append, notes=notes.append)
    train_table(settings.data, settings, work)
    assert sum(event.kind == "restored" for event in seen) == len(stored) - 2
    assert len(notes) == 2
    assert all("fitted again" in note for note in notes)
    name = "model.safetensors"
    assert (tmp_path / "run" / name).read_bytes() == (run / name).read_bytes()


def test_workers_do_not_change_a_bit(run: Path, tmp_path: Path) -> None:
    made = quick(run.parent / "iris.csv", target="species", models=["logistic", "extra_trees"], workers=3)
    assert made.save(tmp_path / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_a_candidate_that_lacks_a_fit_of_one_class_is_left_out_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = iris(90)
    problem = load_table_problem(frame, TrainSettings())
    clock = [0.0]
    monkeypatch.setattr("setwise.app.cross_fit.time.monotonic", lambda: clock[0])

    def progress(event: Event) -> None:
        clock[0] += event.kind == "done" and event.done == 13

    found = cross_fit_classes(
        [OneAgainstRest(rows, title) for _, title, rows in problem.heads],
        problem.folds(TrainSettings(folds=3)),
        "auc",
        candidates_of(["logistic", "extra_trees"]),
        time_limit=0.5,
        progress=progress,
    )
    assert [list(each) for each in found] == [["logistic"]] * 3
    assert found[0].skipped == {"extra_trees": "5 of 9 fits had not begun after 0.5 s"}
    monkeypatch.undo()
    report = quick(frame, models=["logistic", "lightgbm"], time_limit=1e-9, folds=3).report()
    assert [row.name for row in report.candidates] == ["logistic"]
    assert report.remarks[0] == "9 of 9 fits had not begun after 1e-09 s: lightgbm was left out."


# ---------------------------------------------------------------- folds, weights, test rows


def test_stratified_folds_spread_every_class_and_a_rare_one_costs_the_others_nothing() -> None:
    y = np.repeat([0, 1, 2], [60, 40, 2])
    folds = make_folds(y, names="abc")
    assert len(folds) == 5
    for held in folds.held:
        assert np.bincount(y[held], minlength=3)[:2].tolist() == [12, 8]
        assert (y[~held] == 2).any()
    frame = iris()
    frame = pd.concat([frame[frame["species"] != "setosa"], frame[frame["species"] == "setosa"][:2]])
    model = quick(frame, models=["logistic", "lightgbm", "network"], folds=3)
    assert np.isfinite(model.predict_proba(frame)).all()
    assert model.report().classes[0].rows == 2


def test_groups_stay_together_and_time_goes_on() -> None:
    frame = iris()
    frame.insert(0, "who", np.arange(150) % 40)
    problem = load_table_problem(frame, TrainSettings(group_folds="who"))
    folds = problem.folds(TrainSettings())
    assert folds.kind == "groups"
    for held in folds.held:
        assert not set(frame["who"][held]) & set(frame["who"][~held])
        assert len(np.unique(problem.rows.y[held])) == 3
    assert isinstance(quick(frame, group_folds="who", folds=3), MulticlassModel)
    frame = frame.rename(columns={"who": "day"}).assign(day=np.arange(150))
    model = quick(frame, time_column="day")
    assert all(len(head.ensemble.members["logistic"]) == 1 for head in model.heads)  # refitted to all rows
    assert sum(row.rows for row in model.report().classes) == 125  # the first block is never held out
    assert "refitted to all rows" in model.report().headline[0]


def test_a_class_that_no_fold_can_learn_is_named() -> None:
    frame = iris()
    one = pd.concat([frame[frame["species"] != "setosa"], frame[frame["species"] == "setosa"][:1]])
    with pytest.raises(InputError, match=r"at least 2 rows of each class .* class 'setosa' of 'species' has 1"):
        quick(one)
    frame["w"] = (frame["species"] != "virginica").astype(float)
    frame = frame[["w", *[name for name in frame if name != "w"]]]
    with pytest.raises(InputError, match=r"class 'virginica' of 'species' has 0"):
        quick(frame, weight="w")
    frame["w"] = np.where(frame["species"] == "setosa", "only", np.arange(150).astype(str))
    with pytest.raises(InputError, match=r"at least 2 groups of each class .* class 'setosa' has 1"):
        quick(frame, group_folds="w")
    frame["w"] = np.where(frame["species"] == "setosa", 1000, 0) + np.arange(150)
    with pytest.raises(InputError, match=r"every class occurs before the last block, but 'setosa' does not"):
        quick(frame, time_column="w", folds=2)
    frame["w"] = np.where(frame["species"] == "setosa", -1000, 0) + np.arange(150)
    with pytest.raises(InputError, match=r"every class occurs after the first block, but 'setosa' does not"):
        quick(frame, time_column="w", folds=2)


def test_weights_count_rows() -> None:
    frame = iris()
    plain = quick(frame, folds=3)
    frame.insert(0, "w", 2.0)
    inputs = plain.encoding.encode(frame)
    np.testing.assert_allclose(quick(frame, weight="w", folds=3).score(inputs), plain.score(inputs), rtol=1e-3)
    frame["w"] = np.where(frame["species"] == "versicolor", 5.0, 0.5)
    heavy = quick(frame, weight="w", folds=3)
    assert heavy.predict_proba(frame)[:, 1].mean() > plain.predict_proba(frame)[:, 1].mean() + 0.1
    assert heavy.report().classes[1].recall >= plain.report().classes[1].recall


@pytest.mark.parametrize("measure", ["auc", "f1"])
def test_test_rows_are_only_evaluated(measure: str) -> None:
    frame = iris()
    frame.insert(0, "part", np.where(np.arange(150) % 3 == 0, "test", "train"))
    model, test = quick(frame, split="part", measure=measure, folds=3), frame[frame["part"] == "test"]
    assert model.about["rows"] == 100
    report = model.report()
    if measure == "auc":
        scores = model.score(model.encoding.encode(test))
        values = [roc_auc_score(test["species"] == name, scores[:, k]) for k, name in enumerate(model.classes_)]
    else:
        values = f1_score(test["species"], model.predict(test), average=None).tolist()
    assert [row.test for row in report.classes] == pytest.approx(values)
    line = next(text for text in report.headline if text.startswith("On 50 test rows of the table's own: macro"))
    found = re.search(r"(\d\.\d+) \[(\d\.\d+), (\d\.\d+)\], right in (\d+\.\d)% of rows", line)
    assert found is not None
    assert float(found[1]) == pytest.approx(np.mean(values), abs=6e-4)
    assert float(found[2]) <= float(found[1]) <= float(found[3])
    right = (model.predict(test) == test["species"]).mean()
    assert float(found[4]) == pytest.approx(100 * right, abs=0.06)
    assert "on test rows" in str(report)


# ---------------------------------------------------------------- names and types


def test_odd_names_of_classes_come_back(tmp_path: Path) -> None:
    names = {"setosa": "a,b", "versicolor": "<b>", "virginica": '=1+"2"'}
    frame = iris().replace(names)
    frame.loc[:4, "species"] = ""  # no value: left out
    notes: list[str] = []
    settings = TrainSettings(target="species", models=("logistic",), folds=2)
    model = train_table(frame, settings, Work(workers=1, notes=notes.append))
    assert any(note.startswith("5 of 150 rows have no value of the target") for note in notes)
    assert sorted(model.classes_.tolist()) == sorted(names.values())
    frame.to_csv(tmp_path / "new.csv", index=False)
    found = predict_file(model, tmp_path / "new.csv", tmp_path / "out.csv")
    read = pd.read_csv(tmp_path / "out.csv")
    assert list(read.columns) == ["row", "prediction", "probability", *(f"p({name})" for name in model.classes_)]
    assert set(read["prediction"]) == {"a,b", "<b>", "'" + names["virginica"]}  # no formula for a spreadsheet
    np.testing.assert_allclose(read.iloc[:, 3:].sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(read.iloc[:, 3:].max(axis=1), read["probability"])
    assert sum(found.counts.values()) == found.rows == 150
    predict_file(model, tmp_path / "new.csv", tmp_path / "out.parquet", keep=["species"])
    parquet = pd.read_parquet(tmp_path / "out.parquet")
    np.testing.assert_array_equal(parquet["prediction"], model.predict(frame))
    np.testing.assert_array_equal(parquet.iloc[:, -3:].to_numpy(), model.predict_proba(frame))
    with pytest.raises(InputError, match="`threshold` only with a model of two classes, but this one is of 3"):
        predict_file(model, tmp_path / "new.csv", tmp_path / "out.csv", threshold=0.5)
    with pytest.raises(InputError, match="`threshold` only with a model of two classes"):
        model.apply(frame, threshold=0.5)


@pytest.mark.parametrize("values", [[1, 2, 5], [1.5, -2.0, 10.0], ["10", "9", "x"]])
def test_predictions_are_of_the_targets_type(values: list[Any]) -> None:
    frame = iris()
    frame["species"] = [values[k] for k in frame["species"].map({"setosa": 0, "versicolor": 1, "virginica": 2})]
    model = quick(frame, folds=2)
    expected = sorted(values) if not isinstance(values[0], str) else ["9", "10", "x"]
    assert model.classes_.tolist() == expected
    assert model.predict(frame).dtype == np.asarray(values).dtype
    assert (model.predict(frame) == frame["species"].to_numpy()).mean() > 0.9


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"subject_to": "recall>=0.8"},
            r"`subject_to` with one class .* 'species' has 3 classes: name one .* `positive`",
        ),
        ({"group": "sepal length (cm)"}, r"`group` with one class"),
        ({"max_weight": 2.0}, r"`max_weight` with one class"),
        ({"models": ["network_constrained"]}, r"constraints by group"),
        ({"measure": "f1[macro]"}, r"one of two classes"),
        ({"positive": "rose"}, r"`positive` to be a value of 'species'"),
    ],
)
def test_what_is_about_one_class_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        quick(iris(), **options)


def test_quantities_and_many_names_are_no_classes() -> None:
    x = np.arange(600.0)
    with pytest.raises(InputError, match="looks like a quantity; add a column of two classes"):
        quick({"x": x, "y": np.arange(600) % 30})
    with pytest.raises(InputError, match="`positive` to name the positive value of the target 'y', since it has 51"):
        quick({"x": x, "y": [f"k{k % 51}" for k in range(600)]})
    assert len(read_table({"x": x, "y": [f"k{k % 50}" for k in range(600)]}, several_classes=True).classes) == 50
    assert quick(iris(), positive="setosa", folds=2).classes_.tolist() == ["not setosa", "setosa"]


def test_a_model_put_together_by_hand_is_checked(model: MulticlassModel) -> None:
    with pytest.raises(InputError, match="`heads` to be one for each of 3 classes"):
        MulticlassModel(model.encoding, model.heads[:2], "auc")
    with pytest.raises(InputError, match="has no report"):
        MulticlassModel(model.encoding, model.heads, "auc").report()
    assert math.isinf(model.report().threshold)


def test_inspection_counts_the_classes(run: Path) -> None:
    found = inspect(str(run.parent / "iris.csv"), subject_to="recall>=0.8", group=["sepal width (cm)"])
    assert found.summary == "150 rows, 3 classes of species: 'setosa' 50, 'versicolor' 50, 'virginica' 50."
    assert found.command.endswith("iris.csv --target species")
    warning = next(each for each in found.warnings if each.about == "target")
    assert "each is learned against the others" in warning.message
    assert "--positive setosa" in warning.message
    assert found.columns[-1].becomes == "target; 3 classes: 'setosa' 50, 'versicolor' 50, 'virginica' 50"
    ordered = inspect(iris().sort_values("species", ignore_index=True))
    assert any(each.message.startswith("The rows are sorted by the target") for each in ordered.warnings)
