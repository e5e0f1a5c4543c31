"""Model files: what is written is what is read, and nothing else is."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from setwise._checks import InputError
from setwise.app.ensemble import Ensemble
from setwise.app.model_file import TableModel, load_model
from setwise.app.scorers import ForestScorer, LinearScorer, NetworkScorer, Scorer, TreeScorer
from setwise.app.stack import Stack
from setwise.app.stored_model import FORMAT, StoredModel
from setwise.app.tensor_file import KEY
from setwise.app.train_report import CandidateRow, ColumnRow, TrainReport
from setwise.app.tree_file import BOOSTER, booster_bytes
from setwise.data import CategoryCode, NumberCode, TableEncoding
from setwise.metrics import Interval, PlattScaling
from setwise.metrics.calibration_maps import IsotonicCalibration
from support.resealing import change_model, model_parts, write_model

ENCODING = TableEncoding(
    (NumberCode("age", median=40.0, indicator=True), CategoryCode("job", ("clerk", "smith", ""))), "fraud", "yes", "no"
)
CELLS = {"age": ["30", "", "50"], "job": ["clerk", "pilot", "smith"], "fraud": ["?", "?", "?"], "id": ["a", "b", "c"]}
ROWS = ENCODING.encode(CELLS)
COLUMNS = len(ENCODING.columns)
FOLDS = 2
# Two trees, the second a single leaf, as LightGBM and our forests write them.
TREES = """tree
version=v4
num_class=1
num_tree_per_iteration=1
max_feature_idx=4

Tree=0
num_leaves=3
num_cat=0
split_feature=0 2
threshold=35.5 0.5
decision_type=2 2
left_child=-1 1
right_child=1 -3
leaf_value=0.25 0.125 0.0625
is_linear=0
shrinkage=1

Tree=1
num_leaves=1
num_cat=0
leaf_value=0.03125
is_linear=0
shrinkage=1

end of trees
""".replace("left_child=-1 1", "left_child=-1 -2")

NUMBERS = Interval(0.81, 0.75, 0.86, 0.95)
REPORT = TrainReport(
    title="bank: fraud is 'yes' or not",
    measure="AUROC",
    criterion="AUROC",
    headline=("Shipped: a stack.", "Predicted positive from probability 0.5 on."),
    candidates=(
        CandidateRow("logistic", "logistic regression", NUMBERS, NUMBERS, math.nan),
        CandidateRow("stack", "stack of 4 candidates", NUMBERS, None, math.nan, ("shipped",)),
    ),
    columns=(ColumnRow("age", 0.2, 0.01, 0.8), ColumnRow("job", 0.05, 0.01, 0.2)),
    remarks=("Column 'age' carries 80% of what the model knows.",),
    threshold=0.5,
    certificate={"certified": True, "said": ["recall >= 0.8 holds."]},
)


def network(seed: int) -> NetworkScorer:
    draw = torch.Generator().manual_seed(seed)
    layers = [(torch.randn(COLUMNS, 4, generator=draw), torch.randn(1, 4, generator=draw))]
    layers.append((torch.randn(4, 1, generator=draw), torch.zeros(1, 1)))
    return NetworkScorer.of(np.full(COLUMNS, 0.5), np.full(COLUMNS, 2.0), torch.randn(COLUMNS, 1), layers)


def members() -> dict[str, tuple[Scorer, ...]]:
    """Two folds' models of every kind there is."""
    torch.manual_seed(0)
    coef = np.array([0.1, -0.3, 1 / 3, 0.0, 0.7])
    return {
        "logistic": tuple(LinearScorer.of(coef + k, -0.1) for k in range(FOLDS)),
        "lightgbm": tuple(TreeScorer.of(TREES, COLUMNS, 0.1 * k) for k in range(FOLDS)),
        "extra_trees": tuple(ForestScorer.with_share(TREES, COLUMNS, 0.2) for _ in range(FOLDS)),
        "network": tuple(network(k) for k in range(FOLDS)),
    }


def stack(names: tuple[str, ...]) -> Stack:
    count = len(names)
    return Stack(names, np.linspace(0.1, 1.0, count), -0.2, np.linspace(-1.0, 1.0, count), np.full(count, 1.5))


def make(**changes: Any) -> TableModel:
    found = members()
    values: dict[str, Any] = {
        "encoding": ENCODING,
        "ensemble": Ensemble(found, stack(tuple(found))),
        "score_threshold": 0.05,
        "measure": "auc",
        "calibration": PlattScaling(0.5, -0.1),
        "about": {"seed": 3},
        "summary": REPORT,
    }
    return TableModel(**(values | changes))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make().save(tmp_path / "model.safetensors")


def rewrite(path: Path, **changes: Any) -> None:
    """The same file with another header, and the right checksum."""
    change_model(path, lambda state, _: state.update(changes))


# ---------------------------------------------------------------- what is written is read


def test_what_is_written_is_read_bit_for_bit(path: Path) -> None:
    made, model = make(), TableModel.load(path)
    assert model.ensemble.parts == made.ensemble.parts
    wanted, found = made.ensemble.tensors, model.ensemble.tensors
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) and found[name].dtype == wanted[name].dtype for name in wanted)
    first, second = made.apply(CELLS), model.apply(CELLS)
    np.testing.assert_array_equal(first.scores, second.scores)
    np.testing.assert_array_equal(first.probabilities, second.probabilities)
    assert first.classes == second.classes
    assert first.remarks == second.remarks
    assert (model.measure, model.score_threshold, model.types) == ("auc", 0.05, "str")
    assert (model.about, model.encoding, model.calibration) == ({"seed": 3}, ENCODING, PlattScaling(0.5, -0.1))
    assert str(model.report()) == str(made.report())
    assert model.report().to_dict() == made.report().to_dict()


def test_scores_are_the_stack_of_the_mean_of_the_folds(path: Path) -> None:
    model, found = TableModel.load(path), members()
    means = np.stack([np.mean([each.score(ROWS) for each in own], axis=0, dtype=np.float64) for own in found.values()])
    np.testing.assert_allclose(model.score(ROWS), stack(tuple(found)).combine(means), rtol=1e-12)
    trees = found["lightgbm"][0].score(ROWS).astype(np.float64)
    np.testing.assert_allclose(trees, [0.25 + 0.03125, 0.125 + 0.03125, 0.125 + 0.03125], rtol=1e-7)


def test_what_is_new_in_a_table_is_said(path: Path) -> None:
    said = TableModel.load(path).apply(CELLS).remarks
    assert any("'pilot'" in text for text in said)
    assert any("id" in text and "fraud" not in text for text in said), "the target is no surprise"


def test_a_run_folder_is_as_good_as_its_file(path: Path) -> None:
    assert TableModel.load(path.parent).about == {"seed": 3}


def test_decisions_are_those_of_the_score_and_probabilities_are_calibrated(path: Path) -> None:
    model = TableModel.load(path)
    found = model.apply(CELLS)
    np.testing.assert_array_equal(found.probabilities, PlattScaling(0.5, -0.1)(found.scores))
    assert list(found.classes) == ["yes" if score >= 0.05 else "no" for score in found.scores]
    assert model.predict(CELLS).tolist() == list(found.classes)
    np.testing.assert_array_equal(model.predict_proba(CELLS)[:, 1], found.probabilities)
    np.testing.assert_allclose(model.predict_proba(CELLS).sum(axis=1), 1)
    level = float(np.sort(found.probabilities)[1])
    chosen = model.apply(CELLS, threshold=level)
    assert [name == "yes" for name in chosen.classes] == (found.probabilities >= level).tolist()


def test_a_threshold_among_probabilities_that_round_to_one_still_decides() -> None:
    one = Ensemble({"logistic": (LinearScorer.of(np.array([1.0, 0, 0, 0, 0]), 0.0),)})
    model = make(ensemble=one, score_threshold=45.0, calibration=PlattScaling(1.0, 0.0))
    cells = {"age": [40.0, 50.0], "job": ["clerk", "clerk"]}
    np.testing.assert_array_equal(model.apply(cells).probabilities, 1.0)
    assert list(model.apply(cells).classes) == ["no", "yes"]
    assert model.predict(cells).tolist() == ["no", "yes"]


def test_another_threshold_is_a_probability(path: Path) -> None:
    model = TableModel.load(path)
    assert set(model.apply(CELLS, threshold=0.0).classes) == {"yes"}
    assert set(model.apply(CELLS, threshold=1.0).classes) == {"no"}


@pytest.mark.parametrize(
    "calibration", [PlattScaling(0.25, 2.0), IsotonicCalibration.fit(np.arange(20.0), [0, 1, 0, 1, 1] * 4)]
)
def test_calibrations_are_kept(calibration: Any, tmp_path: Path) -> None:
    model = TableModel.load(make(calibration=calibration).save(tmp_path / "model.safetensors"))
    assert model.calibration == calibration
    np.testing.assert_array_equal(model.apply(CELLS).probabilities, calibration(model.score(ROWS)))


@pytest.mark.parametrize(
    ("types", "values", "expected"),
    [("int", ("0", "1"), [1, 0]), ("bool", ("False", "True"), [True, False]), ("float", ("0.5", "2.5"), [2.5, 0.5])],
)
def test_predictions_are_of_the_type_of_the_target(
    types: str, values: tuple[str, str], expected: list[Any], tmp_path: Path
) -> None:
    encoding = TableEncoding((NumberCode("x"),), "y", values[1], values[0])
    one = Ensemble({"logistic": (LinearScorer.of(np.array([1.0]), 0.0),)})
    made = TableModel(encoding, one, 0.0, "auc", types=types)
    model = TableModel.load(made.save(tmp_path / "model.safetensors"))
    found = model.predict({"x": [1.0, -1.0]})
    assert found.tolist() == expected == model.classes_[[1, 0]].tolist()
    assert found.dtype == made.predict({"x": [1.0]}).dtype


def test_a_threshold_that_nothing_reaches_survives(tmp_path: Path) -> None:
    path = make(score_threshold=math.inf).save(tmp_path / "model.safetensors")
    model = TableModel.load(path)
    assert model.score_threshold == model.threshold == math.inf
    assert set(model.apply(CELLS).classes) == {"no"}


def test_a_model_without_report_is_kept_and_says_so(tmp_path: Path) -> None:
    model = TableModel.load(make(summary=None).save(tmp_path / "model.safetensors"))
    with pytest.raises(InputError, match="has no report"):
        model.report()


def test_the_page_of_a_model_from_a_file_is_elsewhere(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="beside the model in the folder of its run"):
        TableModel.load(path).report().write(tmp_path / "page.html")


def test_the_same_model_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    for k in range(8):
        assert make().save(tmp_path / f"{k}.safetensors").read_bytes() == path.read_bytes()
    assert TableModel.load(path).save(tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_any_safetensors_reader_reads_it(path: Path) -> None:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()[KEY])["measure"] == "auc"
    assert set(load_file(path)) == set(make().ensemble.tensors)


def test_it_is_written_as_a_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        make(measure="f1").save(path)
    assert path.read_bytes() == before


# ---------------------------------------------------------------- damage


def test_every_changed_byte_is_noticed(path: Path) -> None:
    whole = path.read_bytes()
    for place in [*range(400), *range(400, len(whole), 97)]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InputError, match=r"model\.safetensors"):
            TableModel.load(path)
    for size in (0, 1, 7, 8, 9, 500, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"model\.safetensors .*(damaged|cannot be read)"):
            TableModel.load(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(InputError, match="checksum differs"):
        TableModel.load(path)


def test_every_part_is_needed(path: Path) -> None:
    state, tensors = model_parts(path)
    for name in state:
        write_model(path, {key: value for key, value in state.items() if key != name}, tensors)
        with pytest.raises(InputError, match=rf"model\.safetensors .*{name}"):
            TableModel.load(path)


def test_every_tensor_is_needed_and_no_other(path: Path) -> None:
    state, tensors = model_parts(path)
    for name in tensors:
        write_model(path, state, {key: value for key, value in tensors.items() if key != name})
        with pytest.raises(InputError, match=r"model\.safetensors .*content cannot be right"):
            TableModel.load(path)
        write_model(path, state, tensors | {f"{name}x": tensors[name].clone()})
        with pytest.raises(InputError, match=r"model\.safetensors .*content cannot be right"):
            TableModel.load(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors.*setwise train"):
        TableModel.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors"):
        TableModel.load(tmp_path / "none.safetensors")


# ---------------------------------------------------------------- no model of ours, with checksums that are right


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def no_model(path: Path) -> None:
    save_file({"a": torch.zeros(2)}, path)


def no_json(path: Path) -> None:
    write_model(path, "{", {"a": torch.zeros(2)})


def deep_json(path: Path) -> None:
    write_model(path, "[" * 200_000 + "]" * 200_000, {"a": torch.zeros(2)})


def old_format(path: Path) -> None:
    save_file(load_file(path), path, metadata={KEY: json.dumps({"format": 1})})


def pickle_file(path: Path) -> None:
    torch.save({"a": torch.zeros(2)}, path)


def tensors_of(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    return lambda path: change_model(path, lambda _, tensors: change(tensors))


def put(name: str, tensor: Tensor) -> Callable[[Path], None]:
    return tensors_of(lambda tensors: tensors.update({name: tensor}))


def filled(name: str, value: float) -> Callable[[Path], None]:
    return tensors_of(lambda tensors: tensors[name].fill_(value))


def tree(old: str, new: str) -> Callable[[Path], None]:
    """Another text of one tree model."""

    def change(tensors: dict[str, Tensor]) -> None:
        text = bytes(tensors[f"lightgbm.0.{BOOSTER}"].numpy()).decode()
        changed = re.sub(old, new, text, flags=re.MULTILINE)
        assert changed != text
        tensors[f"lightgbm.0.{BOOSTER}"] = booster_bytes(changed)

    return tensors_of(change)


def report(**changes: Any) -> Callable[[Path], None]:
    return lambda path: change_model(path, lambda state, _: state["report"].update(changes))


def parts(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    return lambda path: change_model(path, lambda state, _: change(state["parts"]))


def state(**changes: Any) -> Callable[[Path], None]:
    return lambda path: rewrite(path, **changes)


ROW = ["x", 0.0, 0.0, 0.0]
REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "cut": (cut, "checksum differs"),
    "other tensors": (no_model, "other tensors than those of `setwise train`"),
    "no JSON": (no_json, "cannot be read"),
    "deep JSON": (deep_json, "nested more than"),
    "no object": (lambda path: write_model(path, '"model"', {}), "no JSON object"),
    "pickle": (pickle_file, "cannot be read"),
    "old format": (old_format, rf"format {FORMAT}, but its format is 1: train the model again"),
    "new format": (state(format=FORMAT + 1), rf"format {FORMAT}, but its format is {FORMAT + 1}.*update this"),
    "no format": (state(format="old"), "its format is 'old'"),
    "encoding of a number": (state(encoding={"features": 3}), "content cannot be right"),
    "no encoding": (state(encoding=None), "content cannot be right"),
    "classes": (state(classes=["a", "b"]), "`classes`"),
    "types": (state(types="object"), "`types`"),
    "types list": (state(types=["int"]), "content cannot be right"),
    "threshold text": (state(threshold="high"), "`score_threshold` to be a number"),
    "threshold list": (state(threshold=[1]), "`score_threshold` to be a number"),
    "threshold NaN": (state(threshold=math.nan), "NaN is no number of JSON"),
    "threshold large": (state(threshold=10**400), "too large"),
    "measure": (state(measure=3), "`measure`"),
    "measure long": (state(measure="a" * 10**6), "`measure`"),
    "about": (state(about="x"), "`about`"),
    # calibration
    "calibration list": (state(calibration=[]), "content cannot be right"),
    "slope": (state(calibration={"kind": "platt", "slope": -1, "intercept": 0}), "slope"),
    "slope text": (state(calibration={"kind": "platt", "slope": "1", "intercept": 0}), "slope"),
    "of classes": (state(calibration={"kind": "temperature", "slope": 1, "offsets": [0, 1]}), "calibration"),
    "unknown kind": (state(calibration={"kind": "beta"}), "calibration"),
    "decreasing": (
        state(calibration={"kind": "isotonic", "scores": [1, 0], "log_odds": [0, 1], "slope": 1}),
        "increasing",
    ),
    # parts
    "no parts": (state(parts=None), "content cannot be right"),
    "no members": (state(parts={"members": {}, "stack": None}), "1 to 32 candidates"),
    "many members": (
        state(parts={"members": {f"c{k}": ["linear"] for k in range(33)}, "stack": None}),
        "1 to 32 candidates",
    ),
    "many models": (parts(lambda own: own["members"].update(logistic=["linear"] * 65)), "`members`"),
    "no models": (parts(lambda own: own["members"].update(logistic=[])), "`members`"),
    "name of a path": (parts(lambda own: own["members"].update({"../x": ["linear"]})), "`members`"),
    "kind": (parts(lambda own: own["members"].update(logistic=["forest", "svm"])), "svm|share"),
    "kind of a list": (parts(lambda own: own["members"].update(logistic=[["linear"], ["linear"]])), "`members`"),
    "other kind": (parts(lambda own: own["members"].update(logistic=["network"] * 2)), "network scorer"),
    "a model too many": (parts(lambda own: own["members"].update(logistic=["linear"] * 3)), "logistic.2"),
    "no stack": (parts(lambda own: own.update(stack=None)), "`stack`"),
    "stack of others": (parts(lambda own: own.update(stack=["a", "b", "c", "d"])), "`stack`"),
    "stack twice": (parts(lambda own: own["stack"].append("logistic")), "`stack`"),
    "stack of a number": (parts(lambda own: own.update(stack=4)), "`stack`"),
    "member called stack": (parts(lambda own: own["members"].update(stack=["linear"])), "`members`"),
    # tensors
    "many tensors": (
        tensors_of(lambda tensors: tensors.update({f"networks.{k}.mean": torch.zeros(1) for k in range(2000)})),
        "missing or too many",
    ),
    "no tensors": (tensors_of(lambda tensors: tensors.clear()), "missing or too many"),
    "coef NaN": (filled("logistic.0.coef", math.nan), "`coef` to be finite"),
    "coef infinite": (filled("logistic.0.coef", math.inf), "`coef` to be finite"),
    "coef long": (put("logistic.0.coef", torch.zeros(9, dtype=torch.float64)), "`coef` of a linear scorer"),
    "coef float": (put("logistic.0.coef", torch.zeros(5)), "`coef` of a linear scorer"),
    "coef half": (put("logistic.0.coef", torch.zeros(5).half()), "`coef` of a linear scorer"),
    "intercept": (put("logistic.0.intercept", torch.zeros(2, dtype=torch.float64)), "`intercept`"),
    "weights NaN": (filled("network.0.weight.0", math.nan), r"`weight\.0` to be finite"),
    "scale zero": (filled("network.0.scale", 0.0), "`scale` of a network scorer"),
    "layers": (put("network.0.weight.1", torch.zeros(7, 1)), r"`weight\.1`"),
    "layer of three sides": (put("network.0.weight.0", torch.zeros(5, 2, 2)), r"`weight\.0`"),
    "a layer more": (put("network.0.weight.2", torch.zeros(1, 1)), r"`weight\.1`|bias\.2"),
    "share": (filled("extra_trees.0.share", 1.0), "`share` of a forest"),
    "start NaN": (filled("lightgbm.0.start", math.nan), "`start` to be finite"),
    # stack
    "stack NaN": (filled("stack.weights", math.nan), "`weights` to be finite"),
    "stack negative": (filled("stack.weights", -1.0), "`weights`"),
    "stack scale": (filled("stack.scale", 0.0), "`scale` of a stack"),
    "stack mean": (filled("stack.mean", math.inf), "`mean` to be finite"),
    "stack short": (put("stack.weights", torch.ones(3, dtype=torch.float64)), "`weights` of a stack"),
    "stack of texts": (put("stack.weights", torch.ones(4, dtype=torch.uint8)), "`weights` of a stack"),
    # trees
    "trees": (put(f"lightgbm.0.{BOOSTER}", booster_bytes("no trees")), "no trees"),
    "trees of floats": (put(f"lightgbm.0.{BOOSTER}", torch.zeros(9)), BOOSTER),
    "trees of two sides": (put(f"lightgbm.0.{BOOSTER}", torch.zeros(3, 3, dtype=torch.uint8)), BOOSTER),
    "trees of no text": (put(f"lightgbm.0.{BOOSTER}", torch.full((9,), 255, dtype=torch.uint8)), "content cannot"),
    "tree feature": (tree(r"^split_feature=0", "split_feature=1000000"), "split_feature"),
    "tree negative feature": (tree(r"^split_feature=0", "split_feature=-5"), "split_feature"),
    "tree leaves": (tree(r"^num_leaves=3", "num_leaves=2000000000"), "num_leaves"),
    "tree children": (tree(r"^left_child=-1", "left_child=99999"), "left_child"),
    "tree cycle": (tree(r"^left_child=-1", "left_child=0"), "children"),
    "tree leaf": (tree(r"^leaf_value=0.25", "leaf_value=nan"), "leaf_value"),
    "tree threshold": (tree(r"^threshold=35.5", "threshold=1e999"), "threshold"),
    "tree kind": (tree(r"^decision_type=2", "decision_type=1"), "decision_type"),
    "tree categories": (tree(r"^num_cat=0", "num_cat=7"), "num_cat"),
    "tree classes": (tree(r"^num_class=1", "num_class=1000000"), "num_class"),
    "tree columns": (tree(r"^max_feature_idx=4", "max_feature_idx=2000000000"), "max_feature_idx"),
    "no tree": (tree(r"^Tree=\d", "Bush=0"), "no trees"),
    "tree of lines": (tree(r"^is_linear=0", "is_linear=1"), "is_linear"),
    # report
    "report list": (state(report=[]), "content cannot be right"),
    "report title": (report(title=3), "`title`"),
    "report title long": (report(title="a" * 10**6), "`title`"),
    "report headline": (report(headline="x"), "`headline`"),
    "report headline long": (report(headline=["a" * 10**6]), "`headline`"),
    "report many lines": (report(headline=["a"] * 10**5), "`headline`"),
    "report remarks": (report(remarks=[1]), "`remarks`"),
    "report candidates": (report(candidates=[{}]), "content cannot be right"),
    "report many candidates": (report(candidates=[{}] * 2000), "at most 1000 rows"),
    "report many columns": (report(columns=[ROW] * 2000), "at most 1000 rows"),
    "report columns": (report(columns=[["x", 1]]), "content cannot be right"),
    "report columns of texts": (report(columns=[["x", "a", "b", "c"]]), "content cannot be right"),
    "report certificate": (report(certificate="x"), "`certificate`"),
    "report threshold": (report(threshold="x"), "content cannot be right"),
    "report level": (report(level=None), "content cannot be right"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_model_is_refused(path: Path, case: str) -> None:
    damage, message = REFUSED[case]
    damage(path)
    with pytest.raises(InputError, match=message) as caught:
        TableModel.load(path)
    said = str(caught.value)
    assert path.name in said
    assert len(said) < 2000
    assert "\n" not in said


def test_nothing_is_built_before_all_of_it_is_checked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import lightgbm

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("LightGBM was given a text that is not checked")

    tree(r"^leaf_value=0.03125", "leaf_value=x")(path)  # in the last tree
    monkeypatch.setattr(lightgbm, "Booster", refuse)
    with pytest.raises(InputError, match="leaf_value of tree 1"):
        TableModel.load(path)


OTHERS: tuple[Any, ...] = (None, -1, 1e300, "x", "a" * 10**5, [], {}, [[1]], True)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value within a value of JSON."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in inner for place in places(item, (*at, key)))]


def load_if_allowed(path: Path) -> StoredModel | str:
    """The model, or the line that refuses it."""
    try:
        return load_model(path)
    except InputError as error:
        return str(error)


def try_hostile_headers(path: Path, cells: dict[str, Any], *, every: int = 1) -> tuple[int, int]:
    """Every entry, and every entry of those, replaced by what it is not: refused in a line, or as good as before.

    Args:
        path: A model file, which is changed.
        cells: Rows for it.
        every: Takes one of so many places.

    Returns:
        How many were tried, and how many refused.
    """
    whole, tensors = model_parts(path)
    text, tried, refused = json.dumps(whole), 0, 0
    for at in places(whole)[1::every]:
        for value in OTHERS:
            changed = json.loads(text)
            owner = changed
            for key in at[:-1]:
                owner = owner[key]
            owner[at[-1]] = value
            write_model(path, changed, tensors)
            tried += 1
            model = load_if_allowed(path)
            if isinstance(model, str):
                refused += 1
                assert "\n" not in model, (at, value)
                assert len(model) < 2000, (at, value)
                continue
            assert isinstance(str(model.summary), str)
            rows = {name: ["1", "2", "3"] for name in model.encoding.names} | cells
            with contextlib.suppress(InputError):  # a column of numbers that is now said to hold dates, or the like
                found = model.apply(rows)
                assert len(found.classes) == 3, (at, value)
                assert np.isfinite(found.probabilities).all(), (at, value)
    return tried, refused


def test_any_value_of_the_header_may_be_hostile(path: Path) -> None:
    tried, refused = try_hostile_headers(path, CELLS, every=2)
    assert refused > tried / 2 > 150


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_any_value_of_the_header_of_a_trained_model_may_be_hostile(tmp_path: Path, classes: int) -> None:
    pytest.importorskip("sklearn")
    from setwise.app.training import train

    draw = np.random.default_rng(0)
    x = draw.normal(size=150)
    data: dict[str, Any] = {
        "x": x,
        "day": [f"2024-01-{k % 28 + 1:02d}" for k in range(150)],
        "text": [f"w{k % 5} late paid {k}" for k in range(150)],
        "kind": draw.choice(["a", "b"], 150),
        "y": np.digitize(x + draw.normal(size=150) / 3, [-0.5, 0.5][: classes - 1]),
    }
    path = train(data, models="logistic", folds=2, progress=False).save(tmp_path / "model.safetensors")
    tried, refused = try_hostile_headers(path, {name: column[:3] for name, column in data.items()}, every=2)
    assert refused > tried / 2 > 300


# ---------------------------------------------------------------- models that cannot be made, tables it cannot read


def test_a_model_that_makes_no_sense_cannot_be_made() -> None:
    with pytest.raises(InputError, match="`score_threshold`"):
        make(score_threshold=math.nan)
    with pytest.raises(InputError, match="`types`"):
        make(types="date")
    with pytest.raises(InputError, match="`measure`"):
        make(measure=None)
    with pytest.raises(InputError, match="`calibration`"):
        make(calibration="platt")


def test_scores_beyond_all_are_drawn_in_and_stay_finite(tmp_path: Path) -> None:
    one = Ensemble({"logistic": (LinearScorer.of(np.full(5, 1e300), 1e300),)})
    model = TableModel.load(make(ensemble=one).save(tmp_path / "model.safetensors"))
    found = model.apply(CELLS)
    assert np.isfinite(found.scores).all()
    assert np.isfinite(found.probabilities).all()


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"age": ["1"]}, r"that the model was trained on, but there is no 'job' among age"),
        ({"age": ["old"], "job": ["clerk"]}, r"column 'age' to hold finite numbers, but found 'old' in row 1"),
    ],
)
def test_tables_it_cannot_read(cells: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make().predict(cells)


def test_trees_are_lightgbms_own_text_and_stay_the_same_to_the_last_bit(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(80, 5))
    data = lightgbm.Dataset(inputs, (inputs[:, 0] > 0).astype(float))
    options = {"objective": "binary", "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5}
    booster = lightgbm.train(options, data, num_boost_round=3)
    one = Ensemble({"lightgbm": (TreeScorer.of(booster.model_to_string(), 5),)})
    model = TableModel.load(make(ensemble=one).save(tmp_path / "model.safetensors"))
    expected = booster.predict(inputs, raw_score=True).astype(np.float32)
    np.testing.assert_array_equal(model.score(inputs.astype(np.float32)), expected)
