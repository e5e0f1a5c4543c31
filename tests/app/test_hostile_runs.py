"""Runs that somebody has made up, with checksums that are right: refused in one line before anything is built."""

from __future__ import annotations

import io
import json
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch import Tensor

import setwise
from setwise._files import seal_page
from setwise.app.fit_store import LOGITS
from setwise.app.images import comparison
from setwise.app.images.comparison import ComparisonSettings, compare
from setwise.app.run_folder import FORMAT
from setwise.app.tree_file import BOOSTER, booster_bytes
from setwise.cli.app import run
from setwise.training import Checkpoint
from support.resealing import (
    change_json,
    change_model,
    change_records,
    change_weights,
    model_parts,
    note_digests,
    seal_text,
    write_model,
)
from support.runs import QUICK, Stopped, Watch, clock_at_rest, small_images, write_table

pytest.importorskip("lightgbm", reason="LightGBM is not installed")

Damage = Callable[[Path], object]

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(setwise.__file__).parents[1])}
DEEP = "[" * 200_000 + "]" * 200_000


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a table, rows to predict, a run of the table, and runs of images, finished and stopped."""
    folder = tmp_path_factory.mktemp("runs")
    for name, rows in (("bank", 150), ("new", 5)):
        write_table(folder / f"{name}.csv", rows)
    (folder / "pictures").mkdir()
    settings = ComparisonSettings.for_measure(
        "auc",
        data=str(small_images(folder / "pictures")),
        positive=1,
        minority=None,
        seeds=2,
        epochs=2,
        width=4,
        batch_size=32,
    )
    with pytest.MonkeyPatch.context() as patch, clock_at_rest():
        page = seal_page("<p>report").encode()
        patch.setattr(comparison, "write_report", lambda _, path: path.write_bytes(page))
        compare(settings, folder / "images")
        with pytest.raises(Stopped):
            compare(settings, folder / "stopped", progress=Watch(5))
        assert run(["train", str(folder / "bank.csv"), *QUICK, "--out", str(folder / "table")]) == 0
        only_trees = ["--models", "lightgbm", "--folds", "2", "--out", str(folder / "trees")]
        assert run(["train", str(folder / "bank.csv"), *only_trees]) == 0
        yield folder


LINE_FIT, TREE_FIT = "fits/logistic-0.safetensors", "fits/lightgbm-1.safetensors"


def setting(**values: Any) -> Damage:
    return lambda out: change_json(out / "settings.json", lambda stored: stored["settings"].update(values))


def without_setting(name: str) -> Damage:
    return lambda out: change_json(out / "settings.json", lambda stored: stored.pop(name))


def top(**values: Any) -> Damage:
    return lambda out: change_json(out / "settings.json", lambda stored: stored.update(values))


def settings_text(text: str) -> Damage:
    def damage(out: Path) -> None:
        (out / "settings.json").write_bytes(seal_text(text + "\n"))

    return damage


def model(**values: Any) -> Damage:
    return lambda out: change_model(out / "model.safetensors", lambda state, _: state.update(values))


def model_tensors(change: Callable[[dict[str, Tensor]], object]) -> Damage:
    return lambda out: change_model(out / "model.safetensors", lambda _, tensors: change(tensors))


def widened(tensors: dict[str, Tensor]) -> None:
    """Coefficients of a million columns."""
    name = next(name for name in tensors if name.endswith("coef"))
    tensors[name] = torch.zeros(10**6, dtype=torch.float64)


def encoding(**values: Any) -> Damage:
    return lambda out: change_model(out / "model.safetensors", lambda state, _: state["encoding"].update(values))


def many_columns(out: Path) -> None:
    def change(state: dict[str, Any], _: object) -> None:
        first = state["encoding"]["features"][0]
        state["encoding"]["features"] = [first | {"name": f"c{k}"} for k in range(50_000)]

    change_model(out / "model.safetensors", change)


def model_text(text: str) -> Damage:
    def damage(out: Path) -> None:
        write_model(out / "model.safetensors", text, model_parts(out / "model.safetensors")[1])

    return damage


def trees(old: str, new: str) -> Damage:
    """Change the text of the trees, in the model and in all stored fits."""

    def change(_: object, tensors: dict[str, Tensor]) -> None:
        for name in [name for name in tensors if name.endswith(BOOSTER)]:
            text = bytes(tensors[name].numpy()).decode()
            changed = re.sub(old, new, text, flags=re.MULTILINE)
            assert changed != text
            tensors[name] = booster_bytes(changed)

    def damage(out: Path) -> None:
        for path in (out / "model.safetensors", *(out / "fits").iterdir()):
            change_model(path, change)

    return damage


def fit(name: str, **values: Any) -> Damage:
    return lambda out: change_model(out / name, lambda state, _: state.update(values))


def fit_tensors(name: str, change: Callable[[dict[str, Tensor]], object]) -> Damage:
    return lambda out: change_model(out / name, lambda _, tensors: change(tensors))


def fit_of_another_run(out: Path) -> None:
    """The same candidate and fold of a run with another seed."""
    data, other = out.parent / "other.csv", out.parent / "other"
    write_table(data, 150)
    assert run(["train", str(data), *QUICK, "--seed", "1", "--out", str(other)]) == 0
    shutil.copyfile(other / LINE_FIT, out / LINE_FIT)


def record(**values: Any) -> Damage:
    return lambda out: change_records(out, lambda stored: stored.update(values))


def weights(change: Callable[[dict[str, Tensor]], object]) -> Damage:
    def damage(out: Path) -> None:
        for path in (out / "models").iterdir():
            change_weights(path, change)
        note_digests(out)

    return damage


def fill(tensors: dict[str, Tensor], value: float) -> None:
    for tensor in tensors.values():
        if tensor.is_floating_point():
            tensor.fill_(value)


def scores(change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(out: Path) -> None:
        for path in (out / "scores").iterdir():
            arrays = load_file(path)
            change(arrays)
            save_file(arrays, path)
        note_digests(out)

    return damage


def large_array(out: Path) -> None:
    """An array that says that it has 10^15 numbers."""
    header = {"validation_scores": {"dtype": "F64", "shape": [10**15], "data_offsets": [0, 8 * 10**15]}}
    text = json.dumps(header).encode()
    for path in (out / "scores").iterdir():
        path.write_bytes(len(text).to_bytes(8, "little") + text + b"\0" * 80)
    note_digests(out)


def checkpoint(**objects: Any) -> Damage:
    class State:
        def __init__(self, value: Any) -> None:
            self.value = value

        def state_dict(self) -> Any:
            return self.value

        def load_state_dict(self, state: Any) -> None:
            raise NotImplementedError

    def damage(out: Path) -> None:
        path = next((out / "checkpoints").rglob("last.ckpt"))
        saved = torch.load(path, weights_only=True)["objects"]
        for name, change in objects.items():
            saved[name] = change(saved[name])
        Checkpoint(path, **{name: State(value) for name, value in saved.items()}).save()

    return damage


def other_shapes(state: dict[str, Any]) -> dict[str, Any]:
    for own in state["state"].values():
        own["exp_avg"] = torch.zeros(1)
    return state


def text_of_settings(value: str) -> Damage:
    return settings_text(f'{{"format": {FORMAT}, "job": "table", {value}}}')


# Of settings that runs of tables and of images have in common.
HOSTILE_FILES: dict[str, tuple[Damage, str]] = {
    "measure list": (setting(measure=["auc"]), "`measure`"),
    "measure long": (setting(measure="a" * 10**6), "`measure`"),
    "grid": (setting(measure="auc(100000000)"), "`measure`"),
    "confidence": (setting(confidence=2), "`confidence`"),
    "data": (setting(data=7), "`data`"),
    "unknown": (setting(thread=1), "`thread`"),
    "no settings": (without_setting("settings"), r"settings\.json"),
    "no data": (without_setting("data"), r"settings\.json"),
    "no job": (without_setting("job"), r"settings\.json.*job"),
    "job": (top(job="../table"), r"settings\.json.*job"),
    "format": (top(format=99), f"format {FORMAT}"),
    "settings of a list": (top(settings=[]), r"settings\.json"),
    "deep": (text_of_settings('"data": "", "settings": ' + DEEP), "nested"),
    "NaN": (text_of_settings('"data": "", "settings": {"epochs": NaN}'), "NaN"),
    "surrogate": (text_of_settings('"data": "\\ud800", "settings": {}'), "Unicode"),
    "list": (text_of_settings('"data": [], "settings": []'), r"settings\.json"),
}
HOSTILE_TABLES: dict[str, tuple[Damage, str]] = {
    "group": (setting(group="a"), "`group`"),
    "many groups": (setting(group=["a"] * 100_000), "`group`"),
    "constraint": (setting(subject_to=["recall>=0.9" + " " * 10**6]), "`subject_to`"),
    "no constraint": (setting(subject_to=["__import__('os')"]), "__import__"),
    "folds": (setting(folds=10**9), "`folds`"),
    "one fold": (setting(folds=1), "`folds`"),
    "folds float": (setting(folds=3.0), "`folds`.*integer"),
    "folds true": (setting(folds=True), "`folds`.*integer"),
    "folds null": (setting(folds=None), "`folds`"),
    "seed": (setting(seed=10**30), "`seed`"),
    "seed negative": (setting(seed=-1), "`seed`"),
    "model": (setting(models=["os.system"]), "`models`"),
    "models text": (setting(models="logistic"), "`models`"),
    "many models": (setting(models=["logistic"] * 100_000), "`models`"),
    "weight bound": (setting(max_weight=10**400), "too large"),
    "weight bound negative": (setting(max_weight=-1), "`max_weight`"),
    "positive": (setting(positive=[1]), "`positive`"),
    "target": (setting(target="a" * 10**6), "`target`"),
    "target number": (setting(target=1), "`target`"),
    "weight": (setting(weight=["a"]), "`weight`"),
    "roles": (setting(weight="a", split="a"), "`weight` and `split`"),
    "time and groups": (setting(time_column="a", group_folds="b"), "`time_column` or `group_folds`"),
    "used and dropped": (setting(use=["a"], drop=["a"]), "`use` or in `drop`"),
    "no table": (setting(data=""), "settings|table|Is a directory"),
    "a device": (setting(data="/dev/zero"), "zero"),
    "a folder": (setting(data="/"), "/"),
    "of images": (top(job="images"), "settings"),
}
HOSTILE_SETTINGS: dict[str, tuple[Damage, str]] = {
    "threads 1e6": (setting(threads=1_000_000), "`threads`.*1024.*1000000"),
    "threads float": (setting(threads=1e6), "`threads`.*integer"),
    "threads null": (setting(threads=None), "`threads`"),
    "width": (setting(width=10**9), "`width`"),
    "width and members": (setting(width=1024, members=64), "`members`.*lower one of them"),
    "members": (setting(members=10**6), "`members`"),
    "batches": (setting(batch_size=10**12), "`batch_size`"),
    "seeds": (setting(seeds=10**9), "`seeds`"),
    "epochs": (setting(epochs=10**30), "`epochs`"),
    "epochs true": (setting(epochs=True), "`epochs`"),
    "share": (setting(validation=2), "`validation`"),
    "rate": (setting(learning_rate_measure="1"), "`learning_rate_measure`"),
    "rate large": (setting(learning_rate_measure=10**400), "too large"),
    "options": (setting(loss_options={"margin": 1e300}), "loss_options"),
    "options of lists": (setting(loss_options={"margin": [[1]]}), "margin|loss_options"),
    "of a table": (top(job="table"), "settings|table"),
}
# More of them in test_model_file.py; these here go through the command.
HOSTILE_MODELS: dict[str, tuple[Damage, str]] = {
    "threshold NaN": (model(threshold=math.nan), "NaN"),
    "threshold infinite": (model(threshold=math.inf), "Infinity"),
    "threshold text": (model(threshold="0"), "threshold"),
    "threshold large": (model(threshold=10**400), "too large"),
    "weights NaN": (model_tensors(lambda tensors: fill(tensors, math.nan)), "finite"),
    "weights infinite": (model_tensors(lambda tensors: fill(tensors, math.inf)), "finite"),
    "no weights": (model_tensors(lambda tensors: tensors.clear()), "missing or too many"),
    "many weights": (
        model_tensors(lambda tensors: tensors.update({f"logistic.{k}.x": torch.zeros(1) for k in range(5000)})),
        "missing or too many",
    ),
    "wide": (model_tensors(widened), "shape"),
    "encoding": (encoding(features=[{}] * 3), "content cannot be right"),
    "columns": (many_columns, "shape|columns"),
    "calibration": (model(calibration={"kind": "isotonic", "scores": [1, 0], "log_odds": [0, 1], "slope": 1}), "incr"),
    "report": (model(report={"title": "x"}), "content cannot be right"),
    "deep": (model_text(DEEP), "nested"),
    "text": (model_text('"model"'), "no JSON object"),
}
HOSTILE_TREES: dict[str, tuple[Damage, str]] = {
    "feature": (trees(r"^split_feature=\d+", "split_feature=1000000"), "split_feature"),
    "negative feature": (trees(r"^split_feature=\d+", "split_feature=-5"), "split_feature"),
    "leaves": (trees(r"^num_leaves=\d+", "num_leaves=2000000000"), "num_leaves"),
    "children": (trees(r"^left_child=-?\d+", "left_child=99999"), "left_child"),
    "a cycle": (trees(r"^left_child=-?\d+", "left_child=0"), "children"),
    "leaf value": (trees(r"^leaf_value=[^ \n]+", "leaf_value=nan"), "leaf_value"),
    "threshold": (trees(r"^threshold=[^ \n]+", "threshold=1e999"), "threshold"),
    "categories": (trees(r"^num_cat=0", "num_cat=7"), "num_cat"),
    "classes": (trees(r"^num_class=1", "num_class=1000000"), "num_class"),
    "columns": (trees(r"^max_feature_idx=\d+", "max_feature_idx=2000000000"), "max_feature_idx"),
    "no trees": (trees(r"^Tree=\d+", "Bush=0"), "no trees"),
    "linear": (trees(r"^is_linear=0", "is_linear=1"), "is_linear"),
}
HOSTILE_FITS: dict[str, tuple[Damage, str]] = {
    "format": (fit(LINE_FIT, format=99), "its format is 99"),
    "candidate": (fit(LINE_FIT, candidate="lightgbm"), "another candidate"),
    "fold": (fit(LINE_FIT, fold=1), "another candidate, fold"),
    "run": (fit(LINE_FIT, run="0" * 64), "another run"),
    "run null": (fit(LINE_FIT, run=None), "another run"),
    "another run": (fit_of_another_run, "another run"),
    "kind": (fit(LINE_FIT, kind="os.system"), "`kind`"),
    "kind of a list": (fit(LINE_FIT, kind=["linear"]), "kind|unhashable"),
    "other kind": (fit(LINE_FIT, kind="network"), "network scorer"),
    "seconds": (fit(LINE_FIT, seconds="long"), "`seconds`"),
    "seconds negative": (fit(LINE_FIT, seconds=-1), "`seconds`"),
    "seconds large": (fit(LINE_FIT, seconds=10**400), "too large"),
    "deep": (lambda out: write_model(out / LINE_FIT, DEEP, model_parts(out / LINE_FIT)[1]), "nested"),
    "text": (lambda out: write_model(out / LINE_FIT, '"fit"', model_parts(out / LINE_FIT)[1]), "no JSON object"),
    "NaN": (fit_tensors(LINE_FIT, lambda tensors: fill(tensors, math.nan)), "finite"),
    "logits NaN": (fit_tensors(LINE_FIT, lambda tensors: tensors[LOGITS].fill_(math.nan)), "`logits`"),
    "logits infinite": (fit_tensors(LINE_FIT, lambda tensors: tensors[LOGITS].fill_(math.inf)), "`logits`"),
    "few logits": (fit_tensors(LINE_FIT, lambda tensors: tensors.update({LOGITS: torch.zeros(3)})), "logits"),
    "many logits": (fit_tensors(LINE_FIT, lambda tensors: tensors.update({LOGITS: torch.zeros(10**6)})), "logits"),
    "double logits": (
        fit_tensors(LINE_FIT, lambda tensors: tensors.update({LOGITS: tensors[LOGITS].double()})),
        "logits",
    ),
    "no logits": (fit_tensors(LINE_FIT, lambda tensors: tensors.pop(LOGITS)), "logits"),
    "no tensors": (fit_tensors(LINE_FIT, lambda tensors: tensors.clear()), "logits"),
    "columns": (fit_tensors(LINE_FIT, widened), "shape"),
    "a tensor more": (fit_tensors(LINE_FIT, lambda tensors: tensors.update(x=torch.zeros(1))), "'x'"),
    "a model in its place": (lambda out: shutil.copyfile(out / "model.safetensors", out / LINE_FIT), "format"),
    "no trees": (
        fit_tensors(TREE_FIT, lambda tensors: tensors.update({f"scorer.{BOOSTER}": booster_bytes("tree\n")})),
        "no trees",
    ),
}


def results(**values: Any) -> Damage:
    return lambda out: change_json(out / "results.json", lambda stored: stored.update(values))


def of_report(**values: Any) -> Damage:
    return lambda out: change_json(out / "results.json", lambda stored: stored["report"].update(values))


HOSTILE_RESULTS: dict[str, tuple[Damage, str]] = {
    "format": (results(format=99), "format"),
    "report": (results(report=None), "content cannot be right"),
    "report of a list": (results(report=[]), "content cannot be right"),
    "about": (results(about={}), "content cannot be right"),
    "about of a text": (results(about="x"), "content cannot be right"),
    "candidates": (of_report(candidates=3), "content cannot be right"),
    "no candidates": (of_report(candidates=[]), "candidates"),
    "candidates of numbers": (of_report(candidates=[1, 2]), "content cannot be right"),
    "unknown candidate": (of_report(candidates=[{"name": "../../x"}]), "candidates"),
    "many candidates": (of_report(candidates=[{"name": f"c{k}"} for k in range(10_000)]), "candidates"),
    "remarks": (of_report(remarks=3), "content cannot be right"),
    "text": (lambda out: (out / "results.json").write_bytes(seal_text('{"a": ' + DEEP + "}")), "nested"),
}
HOSTILE_RECORDS: dict[str, tuple[Damage, str]] = {
    "seed": (record(seed=10**9), "`seed`"),
    "method": (record(method="../../x"), "`method`"),
    "no metrics": (lambda out: change_records(out, lambda stored: stored.pop("metrics")), "metrics"),
    "metrics": (record(metrics=3), "content cannot be right"),
    "history": (record(history={"measure": ["a"] * 4}), "history"),
    "best epoch": (record(best_epoch=10**9), "best_epoch"),
    "threshold": (record(threshold=[1]), "`threshold`"),
    "seconds": (record(seconds="long"), "`seconds`"),
    "files": (record(files={}), "models"),
    "NaN weights": (weights(lambda tensors: fill(tensors, math.nan)), "no finite weights"),
    "other weights": (weights(lambda tensors: tensors.update(x=torch.zeros(1))), "of the network"),
    "large weights": (weights(lambda tensors: fill(tensors, 3e38)), "finite"),
}
HOSTILE_SCORES: dict[str, tuple[Damage, str]] = {
    "NaN": (scores(lambda arrays: arrays["test_scores"].fill(math.nan)), "finite"),
    "shape": (scores(lambda arrays: arrays.update(test_scores=np.zeros((3, 3)))), "shape"),
    "length": (scores(lambda arrays: arrays.update(test_scores=np.zeros(3))), "equally long"),
    "labels": (scores(lambda arrays: arrays["test_labels"].fill(7)), "only 0 and 1"),
    "missing": (scores(lambda arrays: arrays.pop("test_labels")), "no scores and labels"),
    "complex": (scores(lambda arrays: arrays.update(test_groups=np.zeros(3, np.complex64))), "type complex"),
    "declared size": (large_array, "no safetensors file"),
}  # fmt: skip
HOSTILE_CHECKPOINTS: dict[str, Damage] = {
    "no history": checkpoint(history=lambda state: {name: state[name] for name in state if name != "values"}),
    "history of text": checkpoint(history=lambda state: state | {"values": "x"}),
    "a number": checkpoint(history=lambda _: 3),
    "patience": checkpoint(history=lambda state: state | {"waited": 10**9}),
    "best": checkpoint(history=lambda state: state | {"best": math.nan}),
    "network": checkpoint(network=lambda _: {"weight": torch.zeros(2)}),
    "optimizer": checkpoint(optimizer=other_shapes),
    "scheduler": checkpoint(scheduler=lambda state: state | {"step": 3, "last_epoch": "x"}),
    "weights": checkpoint(network=lambda state: {name: tensor * math.nan for name, tensor in state.items()}),
}


def check(runs: Path, source: str, out: Path, damage: Damage, command: str, message: str) -> None:
    """The command ends soon with one line, and takes no memory to speak of."""
    shutil.copytree(runs / source, out)
    damage(out)
    arguments = {
        "resume": ["train", "--out", str(out), "--resume"],
        "evaluate": ["evaluate", str(out)],
        "predict": ["predict", str(out), str(runs / "new.csv")],
    }[command]
    captured = io.StringIO()
    memory, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", captured)
        assert run(arguments) == 2
    assert re.fullmatch(r"setwise: error: [^\n]+\n", captured.getvalue())
    assert re.search(message, captured.getvalue()), captured.getvalue()
    assert len(captured.getvalue()) < 2000
    assert time.monotonic() - started < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 300_000


def test_there_are_enough_of_them() -> None:
    images = [*HOSTILE_FILES, *HOSTILE_SETTINGS, *HOSTILE_RECORDS, *HOSTILE_SCORES, *HOSTILE_CHECKPOINTS]
    assert len(images) >= 60
    tables = [*HOSTILE_FILES, *HOSTILE_TABLES, *HOSTILE_MODELS, *HOSTILE_TREES, *HOSTILE_FITS, *HOSTILE_RESULTS]
    assert len(tables) >= 100


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize("command", ["resume", "evaluate"])
@pytest.mark.parametrize("case", HOSTILE_FILES | HOSTILE_TABLES)
def test_settings_of_a_table(runs: Path, tmp_path: Path, case: str, command: str) -> None:
    damage, message = (HOSTILE_FILES | HOSTILE_TABLES)[case]
    check(runs, "table", tmp_path / "run", damage, command, message)


@pytest.mark.parametrize("case", HOSTILE_MODELS)
def test_models(runs: Path, tmp_path: Path, case: str) -> None:
    damage, message = HOSTILE_MODELS[case]
    check(runs, "table", tmp_path / "run", damage, "predict", rf"model\.safetensors.*({message})")


@pytest.mark.parametrize("case", HOSTILE_TREES)
def test_trees(runs: Path, tmp_path: Path, case: str) -> None:
    damage, message = HOSTILE_TREES[case]
    check(runs, "trees", tmp_path / "run", damage, "predict", rf"model\.safetensors.*({message})")


@pytest.mark.parametrize("case", HOSTILE_RESULTS)
def test_results(runs: Path, tmp_path: Path, case: str) -> None:
    damage, message = HOSTILE_RESULTS[case]
    check(runs, "table", tmp_path / "run", damage, "evaluate", rf"results\.json.*({message})")


@pytest.mark.parametrize("case", [name for name in HOSTILE_FITS if name != "run null"])
def test_fits_evaluated(runs: Path, tmp_path: Path, case: str) -> None:
    damage, message = HOSTILE_FITS[case]
    check(runs, "table", tmp_path / "run", damage, "evaluate", rf"safetensors.*({message})")


@pytest.mark.parametrize("case", HOSTILE_TREES)
def test_trees_evaluated(runs: Path, tmp_path: Path, case: str) -> None:
    damage, message = HOSTILE_TREES[case]
    check(runs, "trees", tmp_path / "run", damage, "evaluate", rf"safetensors.*({message})")


@pytest.mark.parametrize("case", ["weights NaN", "wide", "calibration", "report", "deep"])
def test_models_evaluated(runs: Path, tmp_path: Path, case: str) -> None:
    damage, message = HOSTILE_MODELS[case]
    check(runs, "table", tmp_path / "run", damage, "evaluate", rf"model\.safetensors.*({message})")


@pytest.mark.parametrize(
    "damage",
    [
        fit_tensors(LINE_FIT, lambda tensors: tensors[LOGITS].mul_(2)),
        of_report(threshold=0.999),
        of_report(headline=["Shipped: the best model there is."]),
        model(threshold=0.5),
    ],
)
def test_better_figures_than_the_fits_give_are_noticed(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Damage
) -> None:
    out = tmp_path / "run"
    shutil.copytree(runs / "table", out)
    damage(out)
    capsys.readouterr()
    assert run(["evaluate", str(out)]) == 1
    assert "Differs" in capsys.readouterr().out


def files(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def fitted_again(runs: Path, source: str, out: Path, damage: Damage, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Resume a run with hostile fits: it ends with the same files; what was said."""
    shutil.copytree(runs / source, out)
    damage(out)
    capsys.readouterr()
    with clock_at_rest():
        assert run(["train", "--out", str(out), "--resume"]) == 0
    found, wanted = files(out), files(runs / source)
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if found[name] != wanted[name]] == []
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("case", HOSTILE_FITS)
def test_fits_that_make_no_sense_are_fitted_again(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    damage, message = HOSTILE_FITS[case]
    (said,) = fitted_again(runs, "table", tmp_path / "run", damage, capsys)
    assert re.fullmatch(rf"setwise: .*(logistic-0|lightgbm-1)\.safetensors.*({message}).*", said)
    assert said.endswith("it is fitted again.")
    assert len(said) < 2000


@pytest.mark.parametrize("case", HOSTILE_TREES)
def test_trees_are_grown_again(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    damage, message = HOSTILE_TREES[case]
    said = fitted_again(runs, "trees", tmp_path / "run", damage, capsys)
    assert len(said) == 2
    assert all(re.search(message, line) for line in said)


def test_files_of_other_names_are_no_fits(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def strangers(out: Path) -> None:
        (out / "fits" / "notes.txt").write_text("mine")
        shutil.copyfile(out / LINE_FIT, out / "fits" / "logistic-99.safetensors")

    out = tmp_path / "run"
    shutil.copytree(runs / "table", out)
    strangers(out)
    assert run(["train", "--out", str(out), "--resume"]) == 0
    assert capsys.readouterr().err == ""
    model = "model.safetensors"
    assert (out / model).read_bytes() == (runs / "table" / model).read_bytes()


def test_no_tree_ends_the_process(runs: Path, tmp_path: Path) -> None:
    cases = ["feature", "children", "a cycle", "leaves"]
    for case in cases:
        shutil.copytree(runs / "trees", tmp_path / case)
        HOSTILE_TREES[case][0](tmp_path / case)
    script = (
        "import sys; from setwise.cli.app import run; print([run(['predict', out, 'new.csv']) for out in sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *(str(tmp_path / case) for case in cases)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        cwd=runs,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "[2, 2, 2, 2]\n")
    assert len(re.findall("^setwise: error: .*$", done.stderr, flags=re.MULTILINE)) == 4


# ---------------------------------------------------------------- images


@pytest.mark.parametrize("command", ["resume", "evaluate"])
@pytest.mark.parametrize("case", HOSTILE_SETTINGS)
def test_settings_of_images(runs: Path, tmp_path: Path, case: str, command: str) -> None:
    damage, message = HOSTILE_SETTINGS[case]
    check(runs, "images", tmp_path / "run", damage, command, message)


@pytest.mark.parametrize("case", HOSTILE_FILES)
def test_settings_of_images_and_tables(runs: Path, tmp_path: Path, case: str) -> None:
    damage, message = HOSTILE_FILES[case]
    check(runs, "images", tmp_path / "run", damage, "resume", message)


@pytest.mark.parametrize("case", HOSTILE_RECORDS)
def test_records_and_weights(runs: Path, tmp_path: Path, case: str) -> None:
    damage, message = HOSTILE_RECORDS[case]
    check(runs, "images", tmp_path / "run", damage, "evaluate", message)


AGAIN = {
    name: case
    for name, case in (HOSTILE_RECORDS | {f"{name} of scores": case for name, case in HOSTILE_SCORES.items()}).items()
    if name not in ("large weights", "other weights")
}


@pytest.mark.parametrize("case", AGAIN)
def test_trainings_that_make_no_sense_are_run_again(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    out, (damage, message) = tmp_path / "run", AGAIN[case]
    shutil.copytree(runs / "images", out)
    damage(out)
    assert run(["train", "--out", str(out), "--resume"]) == 0
    said = capsys.readouterr().err
    assert len(re.findall(rf"{message}.*: this training is run again\.", said)) == 4
    assert comparable(out) == comparable(runs / "images")


def test_scores_of_another_table(runs: Path, tmp_path: Path) -> None:
    shorter = scores(lambda arrays: arrays.update({name: array[:9] for name, array in arrays.items()}))
    check(runs, "images", tmp_path / "other", shorter, "resume", "cannot be right")


@pytest.mark.parametrize("case", HOSTILE_CHECKPOINTS)
def test_checkpoints_are_not_gone_on_with(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    out = tmp_path / "run"
    shutil.copytree(runs / "stopped", out)
    HOSTILE_CHECKPOINTS[case](out)
    assert run(["train", "--out", str(out), "--resume"]) == 0
    said = capsys.readouterr().err
    assert re.fullmatch(r"setwise: \S+last\.ckpt is damaged \(.*\): this training starts from its beginning\.\n", said)
    assert comparable(out) == comparable(runs / "images")


def comparable(out: Path) -> Any:
    runs_ = json.loads((out / "results.json").read_text())["runs"]
    return [{name: value for name, value in each.items() if name != "seconds"} for each in runs_]
