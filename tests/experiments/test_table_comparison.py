"""Comparisons on tables with everything a table can have: groups, weights, splits, dropped columns, constraints."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from setwise import metrics
from setwise._checks import InputError
from setwise.app.constraints import Constraints, Groups, check_text, group_columns, scored
from setwise.app.run_folder import RunFolder
from setwise.data import NumberCode
from setwise.experiments import comparison
from setwise.experiments.comparison import ComparisonSettings, compare, with_epochs
from setwise.experiments.problem import draw, draw_rows, load_problem
from setwise.experiments.rejudging import rejudge
from setwise.experiments.settings import read_settings

ROWS = 400


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers with gaps, a category, a group, weights, a split and a date."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, 2))
    group = generator.integers(0, 2, ROWS)
    label = x[:, 0] + 0.5 * group + 0.7 * generator.normal(size=ROWS) > 0.8
    job = generator.choice(["clerk", "smith", ""], ROWS)
    lines = ["a,b,job,sex,w,when,part,fraud"]
    for k in range(ROWS):
        gap = "" if k % 7 == 0 else f"{x[k, 1]:.4f}"
        part = ("train", "train", "val", "test")[k % 4]
        sex = ("Female", "Male")[group[k]]
        lines.append(f"{x[k, 0]:.4f},{gap},{job[k]},{sex},{k % 3},2024-01-{1 + k % 28:02d},{part},{int(label[k])}")
    path = tmp_path_factory.mktemp("data") / "bank.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def settings(csv: Path) -> ComparisonSettings:
    return ComparisonSettings(
        data=str(csv),
        target="fraud",
        drop=("when", "part", "w"),
        minority=None,
        seeds=2,
        epochs=3,
        batch_size=50,
        width=4,
    )


@pytest.fixture(scope="module")
def full(settings: ComparisonSettings, tmp_path_factory: pytest.TempPathFactory) -> tuple[ComparisonSettings, Path]:
    """A run with all of it."""
    everything = replace(
        settings,
        drop=("when",),
        split="part",
        weight="w",
        group=("sex",),
        subject_to=("recall[group=sex]>=0.6", "fpr[sex=Male]<=0.5"),
        measure="precision@recall>=0.7",
    )
    out = tmp_path_factory.mktemp("run") / "out"
    compare(everything, out)
    return everything, out


def results_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "results.json").read_text())
    return found


# ---------------------------------------------------------------- what is drawn


def test_medians_and_categories_come_from_the_training_rows(settings: ComparisonSettings) -> None:
    problem = load_problem(settings)
    rows, _ = draw_rows(problem, settings, 0)
    drawn = draw(problem, settings, 0)
    assert drawn.encoding is not None
    assert problem.table is not None
    values = problem.table.frame["b"].to_numpy()
    present = values[rows["train"]]
    code = next(code for code in drawn.encoding.features if code.name == "b")
    assert isinstance(code, NumberCode)
    assert code.median == float(np.nanmedian(present))
    assert code.median != float(np.nanmedian(values))
    assert set(drawn.encoding.columns) >= {"b=(missing)", "job=clerk", "job=(missing)", "sex=Female"}
    assert drawn.train.tensors[0].mean(dim=0).abs().max() < 1e-4


def test_columns_that_are_no_inputs(settings: ComparisonSettings) -> None:
    names = draw(
        load_problem(replace(settings, drop=("when", "part", "w", "sex"), group=("sex",))), settings, 0
    ).encoding
    assert names is not None
    assert {name.split("=")[0] for name in names.columns} == {"a", "b", "job"}
    weighted = replace(settings, drop=("when",), weight="w", split="part")
    names = draw(load_problem(weighted), weighted, 0).encoding
    assert names is not None
    assert {name.split("=")[0] for name in names.columns} == {"a", "b", "job", "sex"}


def test_a_split_column_is_kept_to_and_completed(settings: ComparisonSettings, csv: Path, tmp_path: Path) -> None:
    fixed = replace(settings, drop=("when", "w"), split="part")
    for seed in (0, 1):
        rows, record = draw_rows(load_problem(fixed), fixed, seed)
        assert {name: set(index % 4) for name, index in rows.items()} == {
            "train": {0, 1},
            "validation": {2},
            "test": {3},
        }
        assert record["test"]["size"] == ROWS // 4
    path = tmp_path / "two.csv"
    path.write_text(csv.read_text().replace(",val,", ",Train,"))
    two = replace(fixed, data=str(path))
    first, second = (draw_rows(load_problem(two), two, seed)[0] for seed in (0, 1))
    assert np.array_equal(first["test"], second["test"])
    assert not np.array_equal(first["validation"], second["validation"])
    assert len(first["validation"]) == ROWS * 3 // 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"split": "job"}, r"`split` column 'job' to hold train, validation and test.*'clerk'"),
        ({"weight": "a"}, r"`weight` column 'a' to hold numbers of at least 0, but row"),
        ({"weight": "wieght"}, r"`weight` to be a column.*'wieght'"),
        ({"group": ("a",)}, r"`group` column 'a' to hold at most 20 groups"),
        ({"group": ("sax",)}, r"`group` to be a column.*did you mean 'sex'"),
        ({"drop": ("when", "c")}, r"`drop` to be a column"),
        ({"drop": ("fraud",)}, r"`drop` to be another column than the target"),
        ({"use": ("c",)}, r"`use` to be a column"),
        ({"drop": ("when",)}, r"column 'part', which says train and test, to be named by --split or --drop"),
        ({"subject_to": ("recall[group=sax]>=0.8",)}, r"`subject_to` to be a column"),
        (
            {"subject_to": ("recall[sex=Other]>=0.8",)},
            r"a group of 'sex' \(Female, Male\).*'Other'",
        ),
        ({"subject_to": ("tpr_difference<=0.1",)}, r"--group to name the column.*there is none"),
    ],
)
def test_columns_that_cannot_be_used_are_refused_before_anything_is_written(
    settings: ComparisonSettings, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        compare(replace(settings, **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["target", "weight", "split", "group", "drop"])
def test_images_have_no_columns(name: str) -> None:
    value: Any = ("x",) if name in ("group", "drop") else "x"
    with pytest.raises(InputError, match=f"`{name}` only with a table"):
        load_problem(replace(ComparisonSettings(), **{name: value}))


# ---------------------------------------------------------------- what comes out


def test_weights_and_groups_reach_thresholds_measures_and_files(full: tuple[ComparisonSettings, Path]) -> None:
    settings, out = full
    for run in results_of(out)["runs"]:
        scores = RunFolder(out).scores(run["seed"], run["method"])
        test, labels, weights = (scores[f"test_{name}"] for name in ("scores", "labels", "weights"))
        assert set(np.unique(weights)) == {0.0, 1.0, 2.0}
        assert run["metrics"]["auroc"] == metrics.auroc(test, labels, weight=weights)
        assert run["metrics"]["auroc"] != metrics.auroc(test, labels)
        assert run["metrics"]["recall"] == metrics.recall(test, labels, threshold=run["threshold"], weight=weights)
        first = run["constraints"]["test"][0]
        assert first["constraint"] == "recall[sex=Female]>=0.6"
        of = scores["test_group_0"] == 0
        own = metrics.recall(test[of], labels[of], threshold=run["threshold"], weight=weights[of])
        assert first["value"] == pytest.approx(own)
    assert results_of(out)["groups"] == {"sex": ["Female", "Male"]}
    assert [row["constraint"] for row in run["constraints"]["test"]] == [
        "recall[sex=Female]>=0.6", "recall[sex=Male]>=0.6", "fpr[sex=Male]<=0.5", "recall>=0.7"
    ]  # fmt: skip
    assert rejudge(out).disagreements == []
    assert settings.measure == "precision@recall>=0.7"


def test_feasible_means_met_on_the_validation_set(full: tuple[ComparisonSettings, Path]) -> None:
    for run in results_of(full[1])["runs"]:
        worst = max(row["violation"] for row in run["constraints"]["validation"])
        recall = _validation_recall(full[1], run)
        assert run["feasible"] == (worst <= 1e-9 and recall >= 0.7 - 1e-9)


def _validation_recall(out: Path, run: dict[str, Any]) -> float:
    scores = RunFolder(out).scores(run["seed"], run["method"])
    arrays = (scores[f"validation_{name}"] for name in ("scores", "labels", "weights"))
    test, labels, weights = arrays
    return float(metrics.recall(test, labels, threshold=run["threshold"], weight=weights))


def test_constraints_change_the_measure_trained_network_only(
    settings: ComparisonSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "write_report", lambda *_: None)
    one = replace(settings, seeds=1, group=("sex",))
    plain = compare(one, tmp_path / "plain")
    bound = compare(replace(one, subject_to=("positive_rate[group=sex]<=0.1",)), tmp_path / "bound")
    losses = [[run["history"]["loss"] for run in results.runs] for results in (plain, bound)]
    assert losses[0][0] == losses[1][0]
    assert losses[0][1] != losses[1][1]
    assert plain.runs[0]["threshold"] != bound.runs[0]["threshold"], "but both thresholds have to meet them"
    assert len(bound.constraint_lines()) == 2
    assert "of 1 test set (certain in" in bound.constraint_lines()[0]
    assert plain.constraint_lines() == []


# ---------------------------------------------------------------- what is certified


def test_with_weights_nothing_is_certified_without_a_bound_of_them(full: tuple[ComparisonSettings, Path]) -> None:
    results = results_of(full[1])
    for run in results["runs"]:
        certificate = run["certificate"]
        assert certificate["certified"] is False
        assert certificate["confidence"] == 0.95
        assert [bound["constraint"] for bound in certificate["bounds"]] == [
            "recall[sex=Female]>=0.6", "recall[sex=Male]>=0.6", "fpr[sex=Male]<=0.5", "recall>=0.7"
        ]  # fmt: skip
        assert certificate["said"] == [
            "Not certified: weights can be certified only with `max_weight`, a bound on the weights of all cases."
        ]
    assert results["certificate"][0].startswith(
        "Thresholds certified at 95 % on calibration rows: 0 of 2 with cross-entropy"
    )
    bounded = rejudge(full[1], confidence=0)
    assert all("certificate" not in run for run in bounded.runs)


def test_a_floor_is_certified_on_rows_that_choose_nothing_else(
    settings: ComparisonSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "write_report", lambda *_: None)
    one = replace(settings, seeds=1, epochs=1, measure="precision@recall>=0.6", validation=0.5)
    results = compare(one, tmp_path / "out")
    run = results.runs[1]
    scores = RunFolder(tmp_path / "out").scores(0, run["method"])
    rows = scores["validation_calibration"]
    np.testing.assert_array_equal(scores["validation_selection"], ~rows)
    own, labels = scores["validation_scores"][rows], scores["validation_labels"][rows]
    rest, others = scores["validation_scores"][~rows], scores["validation_labels"][~rows]
    assert run["history"]["measure"] == [metrics.precision_at_recall(rest, others, recall=0.6)], "chooses the epoch"
    choice = metrics.choose_threshold(own, labels, maximize="precision", subject_to="recall>=0.6", confidence=0.95)
    assert choice.certified
    assert run["threshold"] == choice.threshold
    positives, bound = int(labels.sum()), choice.bounds[0].bound
    line = f"recall >= 0.6 holds with 95 % confidence (lower bound {bound:.3f}; {positives} calibration positives)."
    assert run["certificate"]["said"] == [line]
    summary = "1 of 1 with cross-entropy, 1 of 1 with precision at recall 0.6 loss."
    assert results.certificate_lines() == [f"Thresholds certified at 95 % on calibration rows: {summary}"]
    assert results_of(tmp_path / "out")["runs"][1]["certificate"]["certified"] is True
    assert rejudge(tmp_path / "out").disagreements == []
    again = rejudge(tmp_path / "out", subject_to="recall>=0.99")
    needed = f"{positives} positives cannot certify recall >= 0.99 at 95 %; 299 can"
    assert again.runs[1]["certificate"]["said"] == [f"Not certified: {needed}."]


def test_without_confidence_all_validation_rows_choose_the_epoch_and_the_threshold(
    settings: ComparisonSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "write_report", lambda *_: None)
    one = replace(settings, seeds=1, epochs=1, measure="precision@recall>=0.6", validation=0.5, confidence=0)
    results = compare(one, tmp_path / "plain")
    assert "certificate" not in results.runs[1]
    assert results.certificate_lines() == []
    scores = RunFolder(tmp_path / "plain").scores(0, results.runs[1]["method"])
    assert "validation_calibration" not in scores
    choice = metrics.choose_threshold(
        scores["validation_scores"], scores["validation_labels"], maximize="precision", subject_to="recall>=0.6"
    )
    assert results.runs[1]["threshold"] == choice.threshold
    late = rejudge(tmp_path / "plain", confidence=0.95).runs[1]["certificate"]["said"]
    assert "validation positives" in late[0]
    assert late[1].startswith("These rows have chosen the epoch too")


def test_rows_are_kept_for_certifying_only_where_they_can(settings: ComparisonSettings) -> None:
    def rows(**changes: Any) -> Any:
        return draw(load_problem(replace(settings, **changes)), replace(settings, **changes), 0).rows

    assert rows() is None
    assert rows(measure="precision@recall>=0.6", confidence=0) is None
    held = rows(measure="precision@recall>=0.6", validation=0.5)
    assert not (held.calibration & held.selection).any()
    assert held.calibration.sum() == pytest.approx(len(held.calibration) / 2, abs=2)
    few = rows(measure="precision@recall>=0.95")
    assert few.selection.all(), "too few positives, so all rows choose the epoch"
    assert few.calibration.sum() == pytest.approx(len(few.calibration) / 2, abs=2)
    assert rows(subject_to=("fpr[group=sex]<=0.3",), validation=0.5).selection.sum() < len(held.selection)


def test_met_is_said_of_the_estimate_and_certain_of_its_bound() -> None:
    arrays = {
        "test_scores": np.repeat([1.0, -1.0, -1.0], [8, 2, 90]),
        "test_labels": np.repeat([1, 1, 0], [8, 2, 90]),
    }
    made = Constraints(["recall>=0.7", "recall>=0.3", "fpr<=0.1", "recall>=0.9", "f1>=0.4"], {})
    found = made.values(scored(arrays, "test", made, ()), 0.0)
    assert [(row["met"], row["certain"]) for row in found] == [
        (True, False), (True, True), (True, True), (False, False), (True, True)
    ]  # fmt: skip
    assert found[0]["bound"] == pytest.approx(metrics.rate_bound(8, 10))
    assert found[2]["bound"] == pytest.approx(metrics.rate_bound(0, 90, side="upper")), "though its error is 0"
    weighted = arrays | {"test_weights": np.ones(100)}
    normal = made.values(scored(weighted, "test", made, ()), 0.0)
    assert normal[0]["bound"] == pytest.approx(0.8 - 1.6449 * math.sqrt(0.8 * 0.2 / 10), abs=1e-4)
    empty = made.values(scored({name: array[10:] for name, array in arrays.items()}, "test", made, ()), 0.0)
    assert (empty[0]["met"], empty[0]["certain"]) == (False, False), "there are no positives"


def test_differences_are_said_not_to_be_certified(
    settings: ComparisonSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "write_report", lambda *_: None)
    one = replace(settings, seeds=1, epochs=1, validation=0.5, subject_to=("tpr_difference[group=sex]<=0.9",))
    results = compare(one, tmp_path / "out")
    summary = "0 of 1 with cross-entropy, 0 of 1 with AUROC loss."
    assert results.certificate_lines() == [f"Thresholds certified at 95 % on calibration rows: {summary}"]
    reason = "has no exact test, since it is a difference between groups; it is considered on these rows only"
    said = results.runs[1]["certificate"]["said"]
    assert said == [f"Not certified: tpr_difference[group=sex]<=0.9 {reason}."]


def test_the_page_shows_groups_and_constraints(full: tuple[ComparisonSettings, Path]) -> None:
    page = (full[1] / "report.html").read_text()
    assert "recall[sex=Female]&gt;=0.6" in page
    assert '"groups":[["sex",["Female","Male"]]]' in page
    assert "weighted by the column w" in page


def test_weights_change_the_training(
    settings: ComparisonSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "write_report", lambda *_: None)
    one = replace(settings, seeds=1, epochs=1)
    plain, weighted = (compare(each, tmp_path / str(each.weight)) for each in (one, replace(one, weight="w")))
    for first, second in zip(plain.runs, weighted.runs, strict=True):
        assert first["history"]["loss"] != second["history"]["loss"]


def test_epochs_are_judged_at_the_threshold_that_would_be_chosen(settings: ComparisonSettings, tmp_path: Path) -> None:
    results = compare(replace(settings, measure="f1", seeds=1), tmp_path / "out")
    for run in results.runs:
        scores = RunFolder(tmp_path / "out").scores(0, run["method"])
        found = metrics.fbeta(scores["validation_scores"], scores["validation_labels"], threshold=run["threshold"])
        assert max(run["history"]["measure"]) == pytest.approx(found)


@pytest.mark.parametrize(
    ("size", "epochs", "patience"), [(100, 60, 20), (10_000, 32, 10), (27_000, 12, 6), (10**6, 12, 6)]
)
def test_epochs_go_by_the_size_of_the_table(size: int, epochs: int, patience: int) -> None:
    sized = with_epochs(ComparisonSettings(batch_size=128), size)
    assert (sized.epochs, sized.patience) == (epochs, patience)


def test_a_sized_run_says_so_and_is_resumed(settings: ComparisonSettings, tmp_path: Path) -> None:
    results = compare(replace(settings, seeds=1, batch_size=225), tmp_path / "out", sized=True)
    assert results.settings.epochs == 60
    assert read_settings(RunFolder(tmp_path / "out"))[0] == results.settings
    assert compare(results.settings, tmp_path / "out", resume=True).runs == results.runs


# ---------------------------------------------------------------- texts of constraints


def test_names_of_groups_become_numbers_and_back() -> None:
    groups = {"marital status": Groups(np.array([0, 1, 2]), ("Never married", "Married", "2"))}
    made = Constraints(
        ["recall[marital status=Never married]>=0.5", "tpr_difference<=0.1", "fpr[maritalstatus=2]<=0.3"], groups
    )
    assert [str(each) for each in made.each] == [
        "recall[maritalstatus=0]>=0.5", "tpr_difference[group=group]<=0.1", "fpr[maritalstatus=2]<=0.3"
    ]  # fmt: skip
    assert made.shown("recall[maritalstatus=0]>=0.5") == "recall[maritalstatus=Never married]>=0.5"
    assert made.shown("recall[maritalstatus=9]>=0.5") == "recall[maritalstatus=9]>=0.5"
    columns = made.columns({"marital status": torch.tensor([0, 1])})
    assert set(columns) == {"maritalstatus", "group"}
    assert not Constraints([], {})


def test_columns_of_constraints() -> None:
    texts = ["recall[group=sex]>=0.8", "fpr[race=White, against=overall]<=0.1", "recall>=0.5", "tnr[group=sex]>=0.1"]
    assert group_columns(texts) == ["sex", "race"]


@pytest.mark.parametrize(
    "text", ["recall>=0.9", "recall[group=sex]>=0.8", "tpr_difference[group=sex]<=0.02", "f1[a=B]>=0.2"]
)
def test_texts_that_are_constraints(text: str) -> None:
    check_text(text)
    assert ComparisonSettings(subject_to=(text,)).subject_to == (text,)


@pytest.mark.parametrize("text", ["recall", "recall>0.9", "recal>=0.9", "recall>=2", "churn[reference=old]<=0.1", ""])
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match=r"constraint|`lower`|`subject_to`"):
        ComparisonSettings(subject_to=(text,))
