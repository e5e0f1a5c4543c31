"""``inspect``, ``train`` and ``predict`` on a table of several classes, as they are typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
from sklearn.datasets import load_wine

from setwise.app import load_model
from setwise.cli.app import run


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = load_wine(as_frame=True)
    frame = found.frame.sample(frac=1, random_state=0).rename(columns={"target": "grape"})
    frame["grape"] = frame["grape"].map({0: "red, dry", 1: "<white>", 2: "rosé"})
    frame.insert(0, "bottle", [f"b{k:03d}" for k in range(len(frame))])
    path = tmp_path_factory.mktemp("wine") / "wine.csv"
    frame.to_csv(path, index=False)
    return path


def test_from_inspection_to_predictions(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(table), "--target", "grape", "--measure", "ap"]) == 0
    shown = capsys.readouterr().out
    assert "178 rows, 3 classes of grape: '<white>' 71, 'red, dry' 59, 'rosé' 48." in shown
    assert "each is learned against the others" in shown
    command = shlex.split(shown.rsplit("\n  ", 1)[1])
    assert command == ["setwise", "train", str(table), "--target", "grape", "--measure", "ap"]
    out = table.parent / "run"
    assert run([*command[1:], "--models", "logistic,extra_trees", "--folds", "3", "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "wine.csv: grape, 3 classes" in shown
    assert re.search(r"Macro average of average precision: 48 rows of class 'rosé' are too few", shown)
    assert re.search(r"<white> +71 +[01]\.\d{3} \[", shown)
    assert f"Model:  {out / 'model.safetensors'}" in shown
    page = (out / "report.html").read_text()
    assert "&lt;white&gt;" in page
    assert "<script" not in page

    predictions = table.parent / "predictions.csv"
    assert run(["predict", str(out), str(table), "--out", str(predictions)]) == 0
    said = capsys.readouterr().err
    assert re.search(r"178 rows, '<white>' \d+, 'red, dry' \d+, 'rosé' \d+ \(grape\)\.", said)
    found, model = pd.read_csv(predictions), load_model(out)
    probabilities = [f"p({name})" for name in ("<white>", "red, dry", "rosé")]
    assert list(found.columns) == ["row", "bottle", "prediction", "probability", *probabilities]
    frame = pd.read_csv(table)
    assert found["prediction"].tolist() == model.predict(frame).tolist()
    assert (found["prediction"] == frame["grape"]).mean() > 0.9

    assert run(["predict", str(out), str(table), "--threshold", "0.4"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "`threshold` only with a model of two classes, but this one is of 3" in output.err

    assert run(["train", "--out", str(out), "--resume"]) == 0
    assert "wine.csv: grape, 3 classes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--subject-to", "recall>=0.9"], r"`subject_to` with one class against the others, but 'grape' has 3 classes"),
        (["--group", "hue"], r"`group` with one class"),
        (["--positive", "roze"], r"`positive` to be a value of 'grape' .*'rosé'"),
    ],
)
def test_wrong_calls_are_one_line(
    table: Path, tmp_path: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", str(table), "--target", "grape", "--out", str(tmp_path / "out"), *options]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.splitlines()) == 1
    assert re.search(message, output.err)
    assert not (tmp_path / "out" / "settings.json").exists()
