"""The main job from a table to a model: what is reported, what each option does, and that nothing is scored unseen."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.app import constrained
from setwise.app.candidates import CANDIDATES, Candidate, Rows
from setwise.app.constrained import CONSTRAINED
from setwise.app.cross_fit import Event
from setwise.app.ensemble import STACK
from setwise.app.model_file import TableModel
from setwise.app.run_folder import RunFolder
from setwise.app.scorers import Scorer
from setwise.app.settings import TrainSettings
from setwise.app.table_problem import load_table_problem
from setwise.app.training import Work, train, train_table
from setwise.measures import Measure
from support.runs import StopAfter, Stopped

pytest.importorskip("lightgbm")
pytest.importorskip("sklearn")

Table = dict[str, Any]
OPTIONS: dict[str, Any] = {"target": "y", "progress": False, "folds": 3, "models": "logistic"}
ROWS = 240


def table(rows: int = ROWS, seed: int = 0) -> Table:
    """Two columns of numbers and a category; the labels follow "x"."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    return {
        "x": x,
        "noise": rng.normal(size=rows),
        "kind": rng.choice(["a", "b"], rows),
        "y": (x + 0.7 * rng.normal(size=rows) > 0.3).astype(int),
    }


def fit(data: Any, **changes: Any) -> TableModel:
    model = train(data, **(OPTIONS | changes))
    assert isinstance(model, TableModel)
    return model


def saved(model: TableModel, folder: Path) -> bytes:
    return model.save(folder / "model.safetensors").read_bytes()


def certified(model: TableModel) -> bool:
    found = model.report().certificate
    return found is not None and bool(found["certified"])


def said(model: TableModel) -> str:
    return "\n".join(model.report().headline)


# ---------------------------------------------------------------- what is reported


@pytest.fixture(scope="module")
def both() -> TableModel:
    return fit(table(300), models=["logistic", "lightgbm"], measure="ap")


def test_what_is_shipped_comes_first_then_the_measure_then_the_threshold(both: TableModel) -> None:
    report = both.report()
    assert report.headline[0].startswith("Shipped: ")
    assert re.match(r"Average precision on new rows: 0\.\d+ \[0\.\d+, 0\.\d+\], 95% interval\.", report.headline[1])
    assert re.match(r"Predicted positive from probability 0\.\d+ on \(out of fold: recall", report.headline[-1])
    text = str(report)
    order = ["table: y is '1' or not", "Shipped: ", "Predicted positive", "Candidate ", "Column "]
    assert sorted(order, key=text.index) == order
    assert report.threshold == both.threshold


def test_every_candidate_and_the_stack_stand_in_the_table(both: TableModel) -> None:
    rows = both.report().candidates
    assert [row.name for row in rows] == ["logistic", "lightgbm", STACK]
    (shipped,) = (row for row in rows if "shipped" in row.notes)
    assert shipped.difference is None
    assert both.about["chosen"] == shipped.name
    for row in rows:
        assert 0 <= row.value.low <= row.value.estimate <= row.value.high <= 1
        assert (row.difference is None) == (row is shipped)
    assert all(row.seconds > 0 for row in rows if row.name != STACK)
    heads, cells = both.report().candidate_table()
    assert heads[1] == "Average precision [95 %]"
    assert [line[0] for line in cells] == ["logistic regression", "LightGBM", "stack of 2 candidates"]


def test_columns_that_matter_come_first(both: TableModel) -> None:
    columns = both.report().columns
    assert columns[0].column == "x"
    assert {row.column for row in columns} == {"x", "noise", "kind"}
    assert columns[0].drop > 0.1 > abs(columns[1].drop)
    assert any("carries" in remark for remark in both.report().remarks)


def test_few_positives_claim_nothing_for_new_rows() -> None:
    model = fit(table(120))
    assert "too few to claim a figure for new rows" in said(model)
    assert "on new rows" not in said(model)


def test_the_folder_holds_what_was_returned(tmp_path: Path) -> None:
    data = pd.DataFrame(table())
    data.to_csv(tmp_path / "bank.csv", index=False)
    out = tmp_path / "run"
    model = fit(tmp_path / "bank.csv", out=out)
    assert {path.name for path in out.iterdir()} == {
        *("settings.json", "fits", "model.safetensors", "results.json", "report.html", ".lock")
    }
    assert {path.name for path in (out / "fits").iterdir()} == {f"logistic-{k}.safetensors" for k in range(3)}
    stored = TableModel.load(out)
    np.testing.assert_array_equal(stored.predict_proba(data), model.predict_proba(data))
    assert stored.about == model.about
    results = json.loads((out / "results.json").read_text())
    assert results["report"] == json.loads(json.dumps(model.report().to_dict()))
    assert results["settings"]["models"] == ["logistic"]
    assert {"setwise", "torch", "numpy", "python"} <= results["about"]["versions"].keys()
    assert str(tmp_path) not in json.dumps(results["about"]), "a model tells no paths"
    page = (out / "report.html").read_text()
    assert html.escape(model.report().headline[0]) in page
    assert "Columns that matter" in page


@pytest.mark.parametrize(("values", "kind"), [([0, 1], "i"), ([False, True], "b"), (["no", "yes"], "U")])
def test_predictions_are_values_of_the_target(values: list[Any], kind: str) -> None:
    data = pd.DataFrame(table(150))
    data["y"] = [values[k] for k in data["y"]]
    model = fit(data)
    found = model.predict(data)
    assert found.dtype.kind == kind
    assert set(found.tolist()) == set(values)
    assert (found == data["y"].to_numpy()).mean() > 0.75
    np.testing.assert_array_equal(found == values[1], model.score(model.encoding.encode(data)) >= model.score_threshold)


# ---------------------------------------------------------------- candidates and time


def test_a_time_limit_names_what_it_leaves_out_and_ships_the_rest(tmp_path: Path) -> None:
    data, out = table(150), tmp_path / "run"
    model = fit(data, models=None, time_limit=1e-9, out=out)
    assert [row.name for row in model.report().candidates] == ["logistic"]
    left = {name for name in CANDIDATES for remark in model.report().remarks if f": {name} was left out." in remark}
    assert left == set(CANDIDATES) - {"logistic"}
    assert "3 of 3 folds had not begun after 1e-09 s: network was left out." in str(model.report())


def test_a_resumed_run_fits_what_the_time_limit_has_left_out(tmp_path: Path) -> None:
    data, out = table(150), tmp_path / "run"
    options: dict[str, Any] = {"models": ["logistic", "lightgbm"], "out": out}
    fit(data, time_limit=1e-9, **options)
    model = fit(data, resume=True, **options)
    assert [row.name for row in model.report().candidates] == ["logistic", "lightgbm", STACK]
    assert not any("left out" in remark for remark in model.report().remarks)
    assert saved(model, tmp_path) == saved(fit(data, models=["logistic", "lightgbm"]), tmp_path)


def test_models_by_name_in_any_order_from_the_simplest_on() -> None:
    model = fit(table(150), models=["lightgbm", "linear_measure"])
    assert [row.name for row in model.report().candidates] == ["linear_measure", "lightgbm", STACK]
    assert ["on the measure" in row.notes for row in model.report().candidates] == [True, False, False]


def test_a_candidate_alone_needs_no_stack() -> None:
    model = fit(table(150), models="lightgbm")
    assert model.ensemble.stack is None
    assert {name: len(own) for name, own in model.ensemble.members.items()} == {"lightgbm": 3}


# ---------------------------------------------------------------- nothing is scored by what has seen it


def test_what_memorizes_noise_is_not_believed() -> None:
    rng = np.random.default_rng(0)
    data = {"a": rng.normal(size=ROWS), "b": rng.normal(size=ROWS), "y": rng.permutation(np.arange(ROWS) % 2)}
    model = fit(data, models="extra_trees")
    (row,) = model.report().candidates
    assert 0.35 < row.value.estimate < 0.65
    seen = model.predict_proba(data)[:, 1]
    order = seen[data["y"] == 1][:, None] > seen[data["y"] == 0]
    assert order.mean() > 0.95, "in sample it looks perfect"


class Seen:
    """The rows that each fit has seen, in the order of the fits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[Rows] = []
        original = Candidate.fit

        def spy(candidate: Candidate, rows: Rows, measure: str | Measure, *, seed: int) -> Scorer:
            self.rows.append(rows)
            return original(candidate, rows, measure, seed=seed)

        monkeypatch.setattr(Candidate, "fit", spy)


def test_with_a_time_column_no_row_is_scored_by_a_model_that_saw_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    data = table() | {"day": rng.permutation(np.arange(ROWS) // 4)}  # four rows a day, in no order
    seen = Seen(monkeypatch)
    model = fit(data, time_column="day", use=["day"], workers=1)  # as an input too, so that fits show what they saw
    settings = TrainSettings(target="y", time_column="day", use=("day",), folds=3)
    folds = load_table_problem(data, settings).folds(settings)
    assert len(seen.rows) == len(folds) + 1
    place = model.encoding.columns.index("day")
    scored = np.zeros(ROWS, bool)
    for rows, held in zip(seen.rows[:-1], folds.held, strict=True):
        assert rows.x[:, place].max() < data["day"][held].min()
        scored |= held
    assert scored.sum() == ROWS - len(seen.rows[0].y), "the first block is never held out"
    np.testing.assert_array_equal(np.sort(seen.rows[-1].x[:, place]), np.sort(data["day"]))
    assert {name: len(own) for name, own in model.ensemble.members.items()} == {"logistic": 1}
    assert "refitted to all rows" in said(model)


def test_a_time_column_is_no_input_unless_asked_for() -> None:
    data = table() | {"day": np.arange(ROWS)}
    assert "day" not in fit(data, time_column="day").encoding.names
    floored = fit(data, time_column="day", subject_to="recall>=0.5")
    assert "what changes with time is not covered" in said(floored)


def test_what_drifts_is_judged_on_later_rows_alone() -> None:
    data = table(300) | {"day": np.arange(300)}
    data["y"] = np.where(np.arange(300) < 225, data["y"], 1 - data["y"])  # the meaning turns over at the end
    stratified, in_time = fit(data, folds=3), fit(data, folds=3, time_column="day")
    assert in_time.report().candidates[0].value.estimate < stratified.report().candidates[0].value.estimate - 0.05


def patients(count: int = 60, rows: int = 4) -> Table:
    """Several rows of each patient, whose outcome a number tells that says nothing of other patients."""
    rng = np.random.default_rng(0)
    number, y = rng.permutation(count), rng.permutation(np.arange(count) % 2)
    who = np.repeat(np.arange(count), rows)
    return {
        "number": number[who] + 0.1 * rng.random(count * rows),
        "noise": rng.normal(size=count * rows),
        "patient": [f"P{k}" for k in who],
        "y": y[who],
    }


def test_rows_of_a_patient_stay_in_one_fold(monkeypatch: pytest.MonkeyPatch) -> None:
    data = patients()
    leaking = fit(data, models="extra_trees", drop=["patient"])
    assert leaking.report().candidates[0].value.estimate > 0.8, "other rows of the patient were seen"
    seen = Seen(monkeypatch)
    model = fit(data, models="extra_trees", group_folds="patient", workers=1)
    assert model.report().candidates[0].value.estimate < 0.7
    assert "patient" not in model.encoding.names
    place = model.encoding.columns.index("number")
    for rows in seen.rows:
        assert set(np.unique(np.floor(rows.x[:, place]), return_counts=True)[1]) == {4}


# ---------------------------------------------------------------- weights


def test_a_weight_of_two_is_near_to_the_row_twice() -> None:
    data = table(300)
    heavy = (data["x"] < 0) & (data["y"] == 1)
    weights = np.where(heavy, 4, 1)
    weighted = fit(data | {"w": weights}, weight="w")
    twice = fit({name: np.repeat(column, weights) for name, column in data.items()})
    plain = fit(data)
    found = [each.predict_proba(data)[:, 1] for each in (weighted, twice, plain)]
    assert np.abs(found[0] - found[1]).mean() < 0.04
    assert np.abs(found[0] - found[2]).mean() > 0.08
    values = [each.report().candidates[0].value.estimate for each in (weighted, twice, plain)]
    assert abs(values[0] - values[1]) < 0.03 < abs(values[0] - values[2])
    assert "w" not in weighted.encoding.names


def test_rows_of_no_weight_do_not_count() -> None:
    data = table(300)
    wrong = {name: column.copy() for name, column in data.items()} | {"w": np.where(np.arange(300) < 200, 1.0, 0.0)}
    wrong["y"][200:] = 1 - wrong["y"][200:]
    model = fit(wrong, weight="w")
    few = fit({name: column[:200] for name, column in data.items()})
    assert np.abs(model.predict_proba(data) - few.predict_proba(data)).mean() < 0.03
    assert abs(model.report().candidates[0].value.estimate - few.report().candidates[0].value.estimate) < 0.05


def test_the_scale_of_weights_does_not_matter() -> None:
    data = table() | {"w": np.random.default_rng(1).integers(1, 5, ROWS)}
    one = fit(data, weight="w")
    other = fit(data | {"w": data["w"] * 8}, weight="w")
    np.testing.assert_allclose(one.predict_proba(data), other.predict_proba(data), atol=1e-6)
    np.testing.assert_allclose(one.threshold, other.threshold, atol=1e-6)


def test_weights_are_certified_under_a_bound_of_them_alone() -> None:
    data = table(300) | {"w": np.random.default_rng(1).uniform(0.5, 2, 300)}
    options: dict[str, Any] = {"weight": "w", "subject_to": "recall>=0.5"}
    bounded, free = fit(data, max_weight=2, **options), fit(data, **options)
    assert certified(bounded)
    assert "recall >= 0.5 holds with 95 % confidence" in said(bounded)
    assert not certified(free)
    assert "holds with" not in said(free)
    with pytest.raises(InputError, match="`max_weight`"):
        fit(data, max_weight=1, **options)


# ---------------------------------------------------------------- test rows, groups, constraints


def test_rows_of_a_test_set_are_only_evaluated() -> None:
    data = table(300) | {"part": np.where(np.arange(300) < 220, "train", "test")}
    model = fit(data, split="part")
    assert re.search(r"On 80 test rows of the table's own: AUROC 0\.\d+ \[", said(model))
    assert "part" not in model.encoding.names
    assert model.about["rows"] == 220
    other = {name: column.copy() for name, column in data.items()}
    other["y"][220:] = 1 - other["y"][220:]
    other["x"][220:] += 1000.0
    changed = fit(other, split="part")
    assert changed.ensemble.tensors.keys() == model.ensemble.tensors.keys()
    for name, tensor in model.ensemble.tensors.items():
        assert (tensor == changed.ensemble.tensors[name]).all(), name
    assert (changed.score_threshold, changed.calibration) == (model.score_threshold, model.calibration)
    assert said(changed) != said(model)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["train", "test", "later"], "hold train and test.*'later'"),
        (["train", "train", "valid"], "hold train and test"),
    ],
)
def test_splits_that_cannot_be_used(parts: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit(table(150) | {"part": parts * 50}, split="part")


def test_test_rows_of_one_class() -> None:
    data = table(150)
    with pytest.raises(InputError, match="test rows to hold both classes"):
        fit(data | {"part": np.where((data["y"] == 1) & (data["x"] > 1), "test", "train")}, split="part")


def grouped(rows: int = 400) -> Table:
    """Positives of one group are harder to find than those of the other."""
    data = table(rows, seed=3)
    rng = np.random.default_rng(4)
    data["sex"] = rng.choice(["f", "m"], rows)
    data["x"] = data["x"] - np.where((data["sex"] == "f") & (data["y"] == 1), 0.8, 0.0)
    return data


def recalls(model: TableModel, data: Table) -> dict[str, float]:
    flagged = model.predict(data) == 1
    return {name: float(flagged[(data["sex"] == name) & (data["y"] == 1)].mean()) for name in ("f", "m")}


def test_a_floor_in_every_group_is_certified_in_every_group() -> None:
    data, new = grouped(), grouped(401)
    model = fit(data, subject_to="recall[group=sex]>=0.7", drop=["kind"])
    assert min(recalls(model, new).values()) >= 0.7
    free = fit(data, measure="f1", drop=["kind"])
    assert min(recalls(free, new).values()) < min(recalls(model, new).values())
    text = said(model)
    assert "recall[sex=f] >= 0.7 holds with 95 % confidence" in text
    assert "recall[sex=m] >= 0.7 holds with 95 % confidence" in text
    assert "under the constraints" in model.report().criterion
    assert "under the constraints" in str(model.report())


def test_constraints_by_group_bring_a_network_trained_under_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constrained, "_STEPS", 10)  # not how well it has learned, but that it is there
    data = grouped(200)
    options: dict[str, Any] = {"subject_to": "tpr_difference[group=sex]<=0.2", "folds": 2, "confidence": 0}
    model = fit(data, models=["logistic", CONSTRAINED], **options)
    assert [row.name for row in model.report().candidates] == ["logistic", CONSTRAINED, STACK]
    limited = fit(data, models=None, time_limit=1e-9, **options)
    assert any(CONSTRAINED in remark for remark in limited.report().remarks)
    with pytest.raises(InputError, match=f"constraints by group beside the candidate {CONSTRAINED}"):
        fit(data, models=[CONSTRAINED])


def test_without_confidence_nothing_is_certified_and_that_is_said() -> None:
    model = fit(table(), subject_to="recall>=0.8", confidence=0)
    assert "recall>=0.8: met on the rows of the table" in said(model)
    assert "not certified for new ones" in said(model)
    assert model.report().certificate is None


def test_a_floor_that_nothing_meets_predicts_nothing_positive_and_is_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=ROWS), "y": rng.permutation(np.arange(ROWS) % 2)}
    model = fit(data, subject_to="precision>=0.99")
    assert "holds with" not in said(model)
    stored = TableModel.load(model.save(tmp_path / "model.safetensors"))
    assert stored.threshold == model.threshold
    np.testing.assert_array_equal(stored.predict(data), model.predict(data))
    assert stored.threshold == math.inf
    assert "No row is predicted positive" in said(model)
    assert not model.predict(data).any()


# ---------------------------------------------------------------- the same every time


def test_neither_workers_nor_a_folder_nor_the_order_of_models_change_the_model(tmp_path: Path) -> None:
    data = table()
    names = ["logistic", "lightgbm", "extra_trees"]
    first = saved(fit(data, models=names, workers=1), tmp_path)
    assert saved(fit(data, models=names, workers=3, out=tmp_path / "run"), tmp_path) == first
    stored = (tmp_path / "run" / "model.safetensors").read_bytes()
    assert stored == first
    other = fit(data, models=names, workers=2, seed=1)
    assert saved(other, tmp_path) != first


def test_a_candidate_is_fitted_alike_whatever_stands_beside_it() -> None:
    data = table(150)
    alone, beside = fit(data, models="lightgbm"), fit(data, models=["logistic", "lightgbm"])
    (row,) = (each for each in beside.report().candidates if each.name == "lightgbm")
    assert row.value.estimate == pytest.approx(alone.report().candidates[0].value.estimate, abs=0.02)
    if "lightgbm" in beside.ensemble.members:
        first, second = (each.ensemble.members["lightgbm"][0].tensors["booster"] for each in (alone, beside))
        assert bytes(first.numpy()) == bytes(second.numpy())


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    data = table(200) | {"day": np.arange(200)}
    pd.DataFrame(data).to_csv(tmp_path / "bank.csv", index=False)
    return tmp_path / "bank.csv"


@pytest.mark.parametrize(
    ("options", "stop"),
    [
        ({"models": ("logistic", "lightgbm", "extra_trees")}, 5),
        ({"models": ("logistic", "network")}, 2),
        ({"models": ("logistic", "lightgbm"), "time_column": "day"}, 3),
    ],
)
def test_a_stopped_run_ends_with_the_same_model_to_the_last_bit(
    bank: Path, tmp_path: Path, options: dict[str, Any], stop: int
) -> None:
    settings = TrainSettings(data=str(bank), target="y", folds=3, **options)
    whole = train_table(settings.data, settings, Work(workers=2))
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(Stopped):
        train_table(settings.data, settings, Work(folder, workers=1, progress=StopAfter(stop)))
    events: list[Event] = []
    again = train_table(settings.data, settings, Work(folder, resume=True, workers=2, progress=events.append))
    kinds = [event.kind for event in events]
    assert "restored" in kinds
    assert "done" in kinds
    last = next(event for event in reversed(events) if event.kind in ("done", "restored"))
    assert last.done == last.total
    first, second = (model.save(tmp_path / "model.safetensors").read_bytes() for model in (whole, again))
    assert first == second
    kinds.clear()
    train_table(settings.data, settings, Work(folder, resume=True, progress=lambda event: kinds.append(event.kind)))
    assert set(kinds) == {"restored", "stage"}, "nothing is fitted twice"


def test_notes_are_said_once(bank: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(bank).assign(id=[f"K{k:05d}" for k in range(200)])
    frame.to_csv(bank, index=False)
    settings = TrainSettings(data=str(bank), target="y", folds=2, models=("logistic",))
    notes: list[str] = []
    folder = RunFolder(tmp_path / "run")
    train_table(settings.data, settings, Work(folder, notes=notes.append))
    assert any("'id' is left out" in note for note in notes)
    notes.clear()
    train_table(settings.data, settings, Work(folder, resume=True, notes=notes.append))
    assert notes == []


# ---------------------------------------------------------------- misuse


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "z"}, "no 'z' among x, noise"),
        ({"models": "logistics"}, "`models` among .*did you mean 'logistic'"),
        ({"measure": "auk"}, "auk"),
        ({"measure": 7}, "`measure`"),
        ({"subject_to": "recall>0.9"}, "recall>0.9"),
        ({"subject_to": "recall[group=sex]>=0.5"}, "no 'sex'"),
        ({"confidence": 1}, "`confidence`"),
        ({"weight": "w"}, "`weight`.*no 'w'"),
        ({"weight": "kind"}, "'kind'"),
        ({"weight": "noise"}, "'noise'"),
        ({"weight": "y"}, "another column than the target"),
        ({"weight": "x", "split": "x"}, "'x' is `weight` and `split`"),
        ({"drop": ["nose"]}, "`drop`.*did you mean 'noise'"),
        ({"drop": ["x", "noise", "kind"]}, "at least one column of inputs|no column"),
        ({"use": ["x"], "drop": ["x"]}, "`use` or in `drop`"),
        ({"time_column": "x", "group_folds": "kind"}, "`time_column` or `group_folds`"),
        ({"group_folds": "constant"}, "groups"),
        ({"time_column": "kind"}, "`time_column`.*'kind'"),
        ({"positive": 7}, "7"),
        ({"folds": 1}, "`folds`"),
        ({"seed": -1}, "`seed`"),
        ({"workers": 0}, "`workers`"),
        ({"time_limit": 0}, "`time_limit`"),
        ({"time_limit": math.nan}, "`time_limit`"),
        ({"max_weight": 0, "weight": "x"}, "`max_weight`"),
        ({"resume": True}, "`out` to name the folder"),
        ({"overwrite": True}, "`out` to name the folder"),
        ({"resume": True, "overwrite": True, "out": "run"}, "--resume or --overwrite"),
    ],
)
def test_misuse_is_refused_before_anything_is_fitted(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen = Seen(monkeypatch)
    data = table(80) | {"constant": ["one"] * 80}
    with pytest.raises((InputError, TypeError), match=message) as caught:
        fit(data, **({"out": "new"} | options if "resume" not in options and "overwrite" not in options else options))
    assert "Expected " in str(caught.value)
    assert "\n" not in str(caught.value)
    assert seen.rows == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("labels", "message"),
    [([0] * 80, "two values"), ([1, *[0] * 79], "at least 2 positives"), ([None] * 80, "two values|no value")],
)
def test_targets_that_cannot_be_learned(labels: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit(table(80) | {"y": labels})


def test_other_settings_are_not_gone_on_with(bank: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    fit(bank, out=out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for changes, name in (({"seed": 1}, "seed"), ({"models": "lightgbm"}, "models"), ({"measure": "ap"}, "measure")):
        with pytest.raises(InputError, match=f"`{name}` to be .* as when the run .* was started"):
            fit(bank, out=out, resume=True, **changes)
    with pytest.raises(InputError, match="--resume"):
        fit(bank, out=out)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    model = fit(bank, out=out, overwrite=True, seed=1)
    assert model.about["settings"]["seed"] == 1


def test_a_frame_is_gone_on_with_only_where_it_is_the_same(tmp_path: Path) -> None:
    data, out = table(150), tmp_path / "run"
    fit(data, out=out)
    assert fit(data, out=out, resume=True).about["rows"] == 150
    data["x"] = data["x"] + 1
    with pytest.raises(InputError, match="has changed"):
        fit(data, out=out, resume=True)


def columns() -> Iterator[tuple[str, NDArray[Any]]]:
    """Columns that carry no number to learn from as it is."""
    rng = np.random.default_rng(0)
    yield "constant", np.ones(150)
    yield "huge", rng.normal(size=150) * 1e30
    yield "tiny", rng.normal(size=150) * 1e-30
    yield "missing", np.where(rng.random(150) < 0.9, np.nan, 1.0)


@pytest.mark.parametrize(("name", "column"), list(columns()))
def test_odd_columns_do_no_harm(name: str, column: NDArray[Any]) -> None:
    model = fit(table(150) | {name: column}, models=["logistic", "lightgbm"])
    assert model.report().candidates[0].value.estimate > 0.75
    assert np.isfinite(model.predict_proba(table(20, seed=1) | {name: column[:20]})).all()
