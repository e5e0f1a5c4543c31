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
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import setwise
from setwise._files import seal_page
from setwise.app.model_file import BOOSTER, booster_bytes
from setwise.cli.app import run
from setwise.experiments import comparison
from setwise.experiments.comparison import ComparisonSettings, compare
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
from support.runs import Stopped, Watch

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(setwise.__file__).parents[1])}
DEEP = "[" * 200_000 + "]" * 200_000


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the table, rows to predict, and runs: finished, stopped, and of trees."""
    folder = tmp_path_factory.mktemp("runs")
    generator = np.random.default_rng(0)
    x = generator.normal(size=(150, 2))
    labels = x[:, 0] + generator.normal(size=150) > 0.5
    lines = [f"{a:.4f},{b:.4f},{int(y)}" for (a, b), y in zip(x, labels, strict=True)]
    for name, rows in (("bank", lines), ("new", lines[:5])):
        (folder / f"{name}.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    settings = ComparisonSettings.for_measure(
        "auc", data=str(folder / "bank.csv"), minority=None, seeds=2, epochs=4, width=4, members=2
    )
    with pytest.MonkeyPatch.context() as patch:
        page = seal_page("<p>report").encode()
        patch.setattr(comparison, "write_report", lambda _, path: path.write_bytes(page))
        compare(settings, folder / "finished")
        with pytest.raises(Stopped):
            compare(settings, folder / "stopped", progress=Watch(3))
        trees = ComparisonSettings.for_measure(
            "auc", data=settings.data, model="boosting", minority=None, seeds=1, epochs=4
        )
        compare(trees, folder / "trees")
        yield folder


def setting(**values: Any) -> Callable[[Path], None]:
    return lambda out: change_json(out / "settings.json", lambda stored: stored["settings"].update(values))


def without_setting(name: str) -> Callable[[Path], None]:
    return lambda out: change_json(out / "settings.json", lambda stored: stored.pop(name))


def settings_text(text: str) -> Callable[[Path], None]:
    def damage(out: Path) -> None:
        (out / "settings.json").write_bytes(seal_text(text + "\n"))

    return damage


def model(**values: Any) -> Callable[[Path], None]:
    return lambda out: change_model(out / "model.safetensors", lambda state, _: state.update(values))


def model_tensors(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    return lambda out: change_model(out / "model.safetensors", lambda _, tensors: change(tensors))


def encoding(**values: Any) -> Callable[[Path], None]:
    return lambda out: change_model(out / "model.safetensors", lambda state, _: state["encoding"].update(values))


def many_columns(out: Path) -> None:
    def change(state: dict[str, Any], _: object) -> None:
        first = state["encoding"]["features"][0]
        state["encoding"]["features"] = [first | {"name": f"c{k}"} for k in range(50_000)]

    change_model(out / "model.safetensors", change)


def model_text(text: str) -> Callable[[Path], None]:
    def damage(out: Path) -> None:
        write_model(out / "model.safetensors", text, model_parts(out / "model.safetensors")[1])

    return damage


def trees(old: str, new: str) -> Callable[[Path], None]:
    """Change the text of the trees, in the model and in the weights of all trainings."""

    def change(tensors: dict[str, Tensor]) -> None:
        text = bytes(tensors[BOOSTER].numpy()).decode()
        changed = re.sub(old, new, text, flags=re.MULTILINE)
        assert changed != text
        tensors[BOOSTER] = booster_bytes(changed)

    def damage(out: Path) -> None:
        model_tensors(change)(out)
        for path in (out / "models").iterdir():
            change_weights(path, change)
        note_digests(out)

    return damage


def record(**values: Any) -> Callable[[Path], None]:
    return lambda out: change_records(out, lambda stored: stored.update(values))


def weights(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    def damage(out: Path) -> None:
        for path in (out / "models").iterdir():
            change_weights(path, change)
        note_digests(out)

    return damage


def fill(tensors: dict[str, Tensor], value: float) -> None:
    for tensor in tensors.values():
        if tensor.is_floating_point():
            tensor.fill_(value)


def scores(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def damage(out: Path) -> None:
        for path in (out / "scores").iterdir():
            arrays = dict(np.load(path))
            change(arrays)
            np.savez(path, **arrays)
        note_digests(out)

    return damage


def large_array(out: Path) -> None:
    """An array that says that it has 10^15 numbers."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    for path in (out / "scores").iterdir():
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("validation_scores.npy", header.getvalue() + b"\0" * 80)
    note_digests(out)


def checkpoint(**objects: Any) -> Callable[[Path], None]:
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


HOSTILE_SETTINGS: dict[str, tuple[Callable[[Path], None], str]] = {
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
    "grid": (setting(measure="auc(100000000)"), "`measure`"),
    "measure list": (setting(measure=["auc"]), "`measure`"),
    "measure long": (setting(measure="a" * 10**6), "`measure`"),
    "share": (setting(test=2), "`test`"),
    "rate": (setting(learning_rate_measure="1"), "`learning_rate_measure`"),
    "rate large": (setting(learning_rate_measure=10**400), "too large"),
    "options": (setting(loss_options={"margin": 1e300}), "loss_options"),
    "options of lists": (setting(loss_options={"margin": [[1]]}), "margin|loss_options"),
    "group": (setting(group="a"), "`group`"),
    "many groups": (setting(group=["a"] * 100_000), "`group`"),
    "constraint": (setting(subject_to=["recall>=0.9" + " " * 10**6]), "`subject_to`"),
    "data": (setting(data=7), "`data`"),
    "unknown": (setting(thread=1), "did you mean 'threads'"),
    "no settings": (without_setting("settings"), r"settings\.json"),
    "no data": (without_setting("data"), r"settings\.json"),
    "format": (lambda out: change_json(out / "settings.json", lambda stored: stored.update(format=99)), "format 4"),
    "deep": (settings_text('{"format": 4, "data": "", "settings": ' + DEEP + "}"), "nested"),
    "NaN": (settings_text('{"format": 4, "data": "", "settings": {"epochs": NaN}}'), "NaN"),
    "surrogate": (settings_text('{"format": 4, "data": "\\ud800", "settings": {}}'), "Unicode"),
    "list": (settings_text('{"format": 4, "data": [], "settings": []}'), r"settings\.json"),
}
HOSTILE_MODELS: dict[str, tuple[Callable[[Path], None], str]] = {
    "hidden": (model(hidden=[10**6, 10**6]), r"hidden\[0\]"),
    "hidden large": (model(hidden=[16_384] * 16), "names or shapes differ"),
    "hidden negative": (model(hidden=[-4]), r"hidden\[0\]"),
    "hidden text": (model(hidden="44"), r"hidden"),
    "hidden null": (model(hidden=None), "content cannot be right"),
    "threshold NaN": (model(threshold=math.nan), "NaN"),
    "threshold infinite": (model(threshold=math.inf), "Infinity"),
    "threshold text": (model(threshold="0"), "`threshold`"),
    "threshold large": (model(threshold=10**400), "too large"),
    "weights NaN": (model_tensors(lambda tensors: fill(tensors, math.nan)), "finite"),
    "weights infinite": (model_tensors(lambda tensors: fill(tensors, math.inf)), "finite"),
    "weights large": (model_tensors(lambda tensors: fill(tensors, 3e38)), "finite"),
    "no weights": (model_tensors(lambda tensors: tensors.clear()), "they lack"),
    "scale": (model_tensors(lambda tensors: fill(tensors, 0.0)), "positive"),
    "members": (
        model_tensors(lambda tensors: tensors.update({f"networks.{k}.x": torch.zeros(1) for k in range(5000)})),
        "at most 64 networks",
    ),
    "kind": (model(kind="boosting"), "booster"),
    "encoding": (encoding(features=[{}] * 3), "content cannot be right"),
    "columns": (many_columns, "shapes differ"),
    "calibration": (model(calibration={"kind": "isotonic", "scores": [1, 0], "log_odds": [0, 1], "slope": 1}), "incr"),
    "deep": (model_text(DEEP), "nested"),
    "text": (model_text('"model"'), "no JSON object"),
}
HOSTILE_TREES: dict[str, tuple[Callable[[Path], None], str]] = {
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
HOSTILE_RECORDS: dict[str, tuple[Callable[[Path], None], str]] = {
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
    "other weights": (weights(lambda tensors: tensors.update(x=torch.zeros(1))), "names or shapes differ"),
    "large weights": (weights(lambda tensors: fill(tensors, 3e38)), "finite"),
}
HOSTILE_SCORES: dict[str, tuple[Callable[[Path], None], str]] = {
    "NaN": (scores(lambda arrays: arrays["test_scores"].fill(math.nan)), "finite"),
    "shape": (scores(lambda arrays: arrays.update(test_scores=np.zeros((3, 3)))), "shape"),
    "length": (scores(lambda arrays: arrays.update(test_scores=np.zeros(3))), "equally long"),
    "labels": (scores(lambda arrays: arrays["test_labels"].fill(7)), "only 0 and 1"),
    "missing": (scores(lambda arrays: arrays.pop("test_labels")), "no scores and labels"),
    "objects": (scores(lambda arrays: arrays.update(test_scores=np.array([{}]))), "type object"),
    "declared size": (large_array, "shape"),
}  # fmt: skip
HOSTILE_CHECKPOINTS: dict[str, Callable[[Path], None]] = {
    "no history": checkpoint(record=lambda state: state | {"fit": {}}),
    "history of text": checkpoint(record=lambda state: state | {"fit": state["fit"] | {"history": "x"}}),
    "no record": checkpoint(record=lambda _: 3),
    "patience": checkpoint(record=lambda state: state | {"waited": 10**9}),
    "best": checkpoint(record=lambda state: state | {"best": math.nan}),
    "network": checkpoint(network=lambda _: {"weight": torch.zeros(2)}),
    "optimizer": checkpoint(optimizer=other_shapes),
    "scheduler": checkpoint(scheduler=lambda state: state | {"step": 3, "last_epoch": "x"}),
    "weights": checkpoint(network=lambda state: {name: tensor * math.nan for name, tensor in state.items()}),
}


def check(runs: Path, source: str, out: Path, damage: Callable[[Path], None], command: str, message: str) -> None:
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
    parts = HOSTILE_SETTINGS, HOSTILE_MODELS, HOSTILE_TREES, HOSTILE_RECORDS, HOSTILE_SCORES, HOSTILE_CHECKPOINTS
    assert sum(len(part) for part in parts) >= 90


@pytest.mark.parametrize("command", ["resume", "evaluate"])
@pytest.mark.parametrize("case", HOSTILE_SETTINGS)
def test_settings(runs: Path, tmp_path: Path, case: str, command: str) -> None:
    damage, message = HOSTILE_SETTINGS[case]
    check(runs, "finished", tmp_path / "run", damage, command, message)


@pytest.mark.parametrize("case", HOSTILE_MODELS)
def test_models(runs: Path, tmp_path: Path, case: str) -> None:
    damage, message = HOSTILE_MODELS[case]
    check(runs, "finished", tmp_path / "run", damage, "predict", message)


@pytest.mark.parametrize("command", ["predict", "evaluate"])
@pytest.mark.parametrize("case", HOSTILE_TREES)
def test_trees(runs: Path, tmp_path: Path, case: str, command: str) -> None:
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    damage, message = HOSTILE_TREES[case]
    check(runs, "trees", tmp_path / "run", damage, command, message)


@pytest.mark.parametrize("case", HOSTILE_RECORDS)
def test_records_and_weights(runs: Path, tmp_path: Path, case: str) -> None:
    damage, message = HOSTILE_RECORDS[case]
    check(runs, "finished", tmp_path / "run", damage, "evaluate", message)


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
    shutil.copytree(runs / "finished", out)
    damage(out)
    assert run(["train", "--out", str(out), "--resume"]) == 0
    said = capsys.readouterr().err
    assert len(re.findall(rf"{message}.*: this training is run again\.", said)) == 4
    assert comparable(out) == comparable(runs / "finished")


def test_weights_of_another_network_become_no_model(runs: Path, tmp_path: Path) -> None:
    damage, message = HOSTILE_RECORDS["other weights"]
    check(runs, "finished", tmp_path / "run", damage, "resume", message)


def test_scores_of_another_table(runs: Path, tmp_path: Path) -> None:
    shorter = scores(lambda arrays: arrays.update({name: array[:9] for name, array in arrays.items()}))
    check(runs, "finished", tmp_path / "other", shorter, "resume", "cannot be right")


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
    assert comparable(out) == comparable(runs / "finished")


def comparable(out: Path) -> Any:
    runs_ = json.loads((out / "results.json").read_text())["runs"]
    return [{name: value for name, value in each.items() if name != "seconds"} for each in runs_]


@pytest.mark.parametrize("case", ["feature", "children", "a cycle", "leaves"])
def test_no_tree_ends_the_process(runs: Path, tmp_path: Path, case: str) -> None:
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    out = tmp_path / "run"
    shutil.copytree(runs / "trees", out)
    HOSTILE_TREES[case][0](out)
    program = [sys.executable, "-c", "from setwise.cli import main; main()"]
    done = subprocess.run(
        [*program, "predict", str(out), str(runs / "new.csv")],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("setwise: error: ")
