"""Model files: what is written is what is read, and nothing else is."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from setwise._checks import InputError
from setwise.app.model_file import BOOSTER, FORMAT, KEY, TableModel, booster_bytes
from setwise.app.networks import MLP
from setwise.data import CategoryCode, NumberCode, TableEncoding
from setwise.metrics import PlattScaling
from support.resealing import change_model, model_parts, write_model

ENCODING = TableEncoding(
    (NumberCode("age", median=40.0, indicator=True), CategoryCode("job", ("clerk", "smith", ""))), "fraud", "yes", "no"
)
CELLS = {"age": ["30", "", "50"], "job": ["clerk", "pilot", "smith"], "fraud": ["?", "?", "?"], "id": ["a", "b", "c"]}


def make(**changes: Any) -> TableModel:
    torch.manual_seed(0)
    network = MLP(5, (4,)).standardize_by(torch.tensor(ENCODING.encode(CELLS)))
    values: dict[str, Any] = {
        "kind": "network",
        "encoding": ENCODING,
        "tensors": network.state_dict(),
        "threshold": 0.05,
        "measure": "auc",
        "hidden": (4,),
        "recipe": {"blend": 0.5},
        "about": {"seed": 3},
    }
    return TableModel(**(values | changes))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make().save(tmp_path / "model.safetensors")


def rewrite(path: Path, **changes: Any) -> None:
    """The same file with another header, and the right checksum."""
    change_model(path, lambda state, _: state.update(changes))


def test_what_is_written_is_read(path: Path) -> None:
    model = TableModel.load(path)
    first, second = make().predict(CELLS), model.predict(CELLS)
    np.testing.assert_array_equal(first.scores, second.scores)
    assert list(second.classes) == ["yes" if score >= np.float32(0.05) else "no" for score in second.scores]
    np.testing.assert_allclose(second.probabilities, 1 / (1 + np.exp(-second.scores.astype(np.float64))))
    assert second.remarks == first.remarks
    assert any("'pilot'" in text for text in second.remarks)
    assert any("id" in text and "fraud" not in text for text in second.remarks), "the target is no surprise"
    assert (model.measure, model.threshold, model.hidden, model.recipe) == ("auc", 0.05, (4,), {"blend": 0.5})
    assert (model.about, model.encoding) == ({"seed": 3}, ENCODING)


def test_a_run_folder_is_as_good_as_its_file(path: Path) -> None:
    assert TableModel.load(path.parent).about == {"seed": 3}


def test_another_threshold_is_a_probability(path: Path) -> None:
    model = TableModel.load(path)
    assert set(model.predict(CELLS, threshold=0.0).classes) == {"yes"}
    assert set(model.predict(CELLS, threshold=1.0).classes) == {"no"}


def test_probabilities_are_calibrated_and_decisions_are_those_of_the_score(tmp_path: Path) -> None:
    map_ = PlattScaling(0.5, -2.0)
    model = TableModel.load(make(calibration=map_).save(tmp_path / "model.safetensors"))
    assert model.calibration == map_
    found = model.predict(CELLS)
    np.testing.assert_allclose(found.probabilities, map_(found.scores))
    assert list(found.classes) == list(make().predict(CELLS).classes)  # the threshold is one of the score
    level = float(np.sort(found.probabilities)[1])
    chosen = model.predict(CELLS, threshold=level)
    assert [name == "yes" for name in chosen.classes] == (found.probabilities >= level).tolist()


def test_every_part_is_needed(path: Path) -> None:
    state, tensors = model_parts(path)
    for name in state:
        write_model(path, {key: value for key, value in state.items() if key != name}, tensors)
        with pytest.raises(InputError, match=rf"model\.safetensors .*{name}"):
            TableModel.load(path)


def test_the_same_model_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    for k in range(8):
        assert make().save(tmp_path / f"{k}.safetensors").read_bytes() == path.read_bytes()


def test_any_safetensors_reader_reads_it(path: Path) -> None:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()[KEY])["measure"] == "auc"
    assert set(load_file(path)) == set(make().tensors)


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


def test_a_model_that_is_not_finite_cannot_be_made() -> None:
    tensors = dict(make().tensors)
    tensors["layers.0.weight"] = torch.full_like(tensors["layers.0.weight"], math.nan)
    with pytest.raises(InputError, match=r"`layers\.0\.weight` to be finite"):
        make(tensors=tensors)
    with pytest.raises(InputError, match="`threshold`"):
        make(threshold=math.nan)


def test_scores_that_overflow_are_refused() -> None:
    tensors = {name: tensor * 1e38 if "layers" in name else tensor for name, tensor in make().tensors.items()}
    with pytest.raises(InputError, match="`scores` to be finite"):
        make(tensors=tensors).predict(CELLS)


def test_a_threshold_that_nothing_reaches_survives(tmp_path: Path) -> None:
    path = make(threshold=math.inf).save(tmp_path / "model.safetensors")
    model = TableModel.load(path)
    assert model.threshold == math.inf
    assert set(model.predict(CELLS).classes) == {"no"}


def test_it_is_written_as_a_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        make(measure="f1").save(path)
    assert path.read_bytes() == before


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


def nan_weights(path: Path) -> None:
    change_model(path, lambda _, tensors: tensors["layers.0.weight"].fill_(math.nan))


def zero_scale(path: Path) -> None:
    change_model(path, lambda _, tensors: tensors["scale"].zero_())


def other_dtype(path: Path) -> None:
    change_model(path, lambda _, tensors: tensors.update(mean=tensors["mean"].double()))


def many_networks(path: Path) -> None:
    change_model(path, lambda _, tensors: tensors.update({f"networks.{k}.mean": torch.zeros(1) for k in range(2000)}))


def nan_threshold(path: Path) -> None:
    state, tensors = model_parts(path)
    write_model(path, json.dumps(state | {"threshold": math.nan}), tensors)


def pickle_file(path: Path) -> None:
    torch.save({"a": torch.zeros(2)}, path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "checksum differs"),
        (no_model, "model of `setwise train`"),
        (no_json, "cannot be read"),
        (deep_json, "nested more than"),
        (pickle_file, "cannot be read"),
        (old_format, rf"format {FORMAT}, but its format is 1: train the model again"),
        (
            lambda path: rewrite(path, format=FORMAT + 1),
            rf"format {FORMAT}, but its format is {FORMAT + 1}.*update this",
        ),
        (lambda path: rewrite(path, format="old"), "its format is 'old'"),
        (lambda path: rewrite(path, kind="forest"), "`kind`.*'forest'"),
        (lambda path: rewrite(path, kind="boosting"), "'booster'"),
        (lambda path: rewrite(path, kind=["network"]), "`kind`"),
        (lambda path: rewrite(path, hidden=[7]), "names or shapes differ"),
        (lambda path: rewrite(path, hidden=[10**6, 10**6]), r"`hidden\[0\]` to be in \[1, 16384\], but got 1000000"),
        (lambda path: rewrite(path, hidden=[16384] * 16), "names or shapes differ"),
        (lambda path: rewrite(path, hidden=[4] * 10_000), "`hidden` to be at most 16 layers"),
        (lambda path: rewrite(path, hidden=[4.0]), r"`hidden\[0\]` to be an integer"),
        (lambda path: rewrite(path, hidden=4), "content cannot be right"),
        (lambda path: rewrite(path, encoding={"features": 3}), "content cannot be right"),
        (lambda path: rewrite(path, encoding=None), "content cannot be right"),
        (lambda path: rewrite(path, classes=["a", "b"]), "`classes`"),
        (lambda path: rewrite(path, threshold="high"), "`threshold` to be a number"),
        (lambda path: rewrite(path, threshold=[1]), "`threshold` to be a number"),
        (nan_threshold, "NaN is no number of JSON"),
        (lambda path: rewrite(path, measure=3), "`measure`"),
        (lambda path: rewrite(path, recipe=[]), "`recipe`"),
        (lambda path: rewrite(path, about="x"), "`about`"),
        (lambda path: rewrite(path, calibration={"kind": "platt", "slope": -1, "intercept": 0}), "slope"),
        (lambda path: rewrite(path, calibration={"kind": "temperature", "slope": 1, "offsets": [0, 1]}), "calibration"),
        (nan_weights, r"`layers\.0\.weight` to be finite"),
        (zero_scale, "`scale` to be positive"),
        (other_dtype, r"mean is .*float64"),
        (many_networks, "at most 64 networks"),
    ],
)
def test_what_is_no_model_is_refused(path: Path, damage: Any, message: str) -> None:
    damage(path)
    with pytest.raises(InputError, match=message):
        TableModel.load(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors.*setwise train"):
        TableModel.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"none\.safetensors"):
        TableModel.load(tmp_path / "none.safetensors")


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


def test_boosting_models_are_their_own_text(tmp_path: Path) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(80, 5))
    data = lightgbm.Dataset(inputs, (inputs[:, 0] > 0).astype(float))
    options = {"objective": "binary", "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5}
    booster = lightgbm.train(options, data, num_boost_round=3)
    tensors = {BOOSTER: booster_bytes(booster.model_to_string())}
    path = make(kind="boosting", tensors=tensors, hidden=()).save(tmp_path / "model.safetensors")
    model = TableModel.load(path)
    expected = booster.predict(inputs, raw_score=True).astype(np.float32)
    np.testing.assert_array_equal(model.score(inputs.astype(np.float32)), expected)
    change_model(path, lambda _, tensors: tensors.update({BOOSTER: booster_bytes("no trees")}))
    with pytest.raises(InputError, match="no trees"):
        TableModel.load(path)
