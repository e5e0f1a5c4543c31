"""``setwise predict``: the same preprocessing, columns checked, what is new is said."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from setwise import metrics
from setwise.app.model_file import TableModel
from setwise.app.reevaluation import read_run
from setwise.cli.app import run

QUICK = ("--models", "logistic")


def bank(rows: int = 160, seed: int = 0) -> str:
    generator = np.random.default_rng(seed)
    x = generator.normal(size=rows)
    lines = ["age,job,sex,when,fraud"]
    for k, value in enumerate(x):
        label = "yes" if value + 0.5 * generator.normal() > 0.8 else "no"
        job = ("clerk", "smith")[k % 2]
        lines.append(f"{40 + 10 * value:.2f},{job},{'FM'[k % 3 > 0]},2024-01-{1 + k % 28:02d},{label}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bank")
    (folder / "bank.csv").write_text(bank())
    options = ["--target", "fraud", "--drop", "when", "--group", "sex", "--subject-to", "recall[group=sex]>=0.5"]
    out = folder / "run"
    assert run(["train", str(folder / "bank.csv"), "--measure", "f1", *options, "--out", str(out), *QUICK]) == 0
    return out


def new_table(folder: Path, *columns: str, file: str = "new.csv") -> Path:
    """Some rows with these columns, in this order."""
    rows = list(csv.DictReader(bank(20, seed=1).splitlines()))
    path = folder / file
    path.write_text(
        "\n".join([",".join(columns), *(",".join(row.get(c, "1") for c in columns) for row in rows)]) + "\n"
    )
    return path


def test_train_says_where_the_model_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bank.csv").write_text(bank())
    arguments = ["train", str(tmp_path / "bank.csv"), "--drop", "when", "--out", str(tmp_path / "run"), *QUICK]
    assert run([*arguments, "--subject-to", "fpr[sex=F]<=0.5"]) == 0
    printed = capsys.readouterr().out
    assert f"Model:  {tmp_path / 'run' / 'model.safetensors'}\n" in printed
    assert re.search(
        r"\nfpr\[sex=F\] <= 0\.5 holds with 95 % confidence \(upper bound 0\.\d+; \d+ out-of-fold", printed
    )


def test_predictions_are_those_of_the_model(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = new_table(tmp_path, "job", "sex", "age"), tmp_path / "predictions.csv"
    assert run(["predict", str(trained), str(path), "--out", str(out)]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert list(rows[0]) == ["row", "prediction", "probability"]
    assert [row["row"] for row in rows] == [str(k) for k in range(1, 21)]
    model = TableModel.load(trained)
    read = list(csv.DictReader(path.read_text().splitlines()))
    cells = {name: [row[name] for row in read] for name in ("age", "job", "sex")}
    expected = model.apply(cells)
    assert [row["prediction"] for row in rows] == list(expected.classes) == model.predict(cells).tolist()
    assert [float(row["probability"]) for row in rows] == pytest.approx(expected.probabilities.tolist(), rel=1e-5)
    said = capsys.readouterr().err
    assert f"Predictions: {out}" in said
    assert "20 rows" in said
    assert "Left out" not in said


def test_the_calibration_is_that_of_the_out_of_fold_scores(trained: Path) -> None:
    stored = read_run(trained)
    fits = stored.fits[0]
    own = metrics.fit_calibration(fits["logistic"].logits, fits.rows.y)
    assert TableModel.load(trained).calibration == own


def test_several_classes_have_a_probability_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bank.csv").write_text(re.sub(r"(?m),clerk,(.*,)yes$", r",clerk,\1maybe", bank(300)))
    options = ["--target", "fraud", "--drop", "when", "--out", str(tmp_path / "run"), *QUICK]
    assert run(["train", str(tmp_path / "bank.csv"), *options]) == 0
    capsys.readouterr()
    assert run(["predict", str(tmp_path / "run"), str(new_table(tmp_path, "age", "job", "sex"))]) == 0
    output = capsys.readouterr()
    rows = list(csv.DictReader(output.out.splitlines()))
    assert len(rows) == 20
    assert list(rows[0]) == ["row", "prediction", "probability", "p(maybe)", "p(no)", "p(yes)"]
    for row in rows:
        values = {name: float(row[f"p({name})"]) for name in ("maybe", "no", "yes")}
        assert sum(values.values()) == pytest.approx(1, abs=1e-5)
        assert row["prediction"] == max(values, key=lambda name: values[name])
        assert float(row["probability"]) == max(values.values())
    assert run(["predict", str(tmp_path / "run"), str(tmp_path / "new.csv"), "--threshold", "0.5"]) == 2
    assert "threshold" in capsys.readouterr().err


def test_without_out_they_go_to_stdout_and_remarks_do_not(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = new_table(tmp_path, "age", "job", "sex", "fraud", "id", "zip")
    text = path.read_text().replace("clerk", "pilot", 2).replace("\n", "\n,", 1).replace("\n,", "\n?,", 1)
    lines = text.splitlines()
    lines[1] = re.sub(r"^\?,[^,]*", "?", lines[1])
    path.write_text("\n".join(lines) + "\n")
    assert run(["predict", str(trained / "model.safetensors"), str(path)]) == 0
    output = capsys.readouterr()
    assert len(list(csv.DictReader(output.out.splitlines()))) == 20
    assert "Left out, since the model does not know them: id, zip." in output.err
    assert re.search(r"Column 'age': 1 missing, taken for the median \d+", output.err)
    assert "Column 'job': 2 with values not seen before ('pilot'), taken for none of the known values." in output.err


def test_the_target_may_be_there_and_another_threshold_given(trained: Path, tmp_path: Path) -> None:
    path, out = new_table(tmp_path, "age", "job", "sex", "fraud"), tmp_path / "p.csv"
    counts = []
    for threshold in ("0", "0.5", "1"):
        assert run(["predict", str(trained), str(path), "--out", str(out), "--threshold", threshold]) == 0
        rows = list(csv.DictReader(out.read_text().splitlines()))
        counts.append(sum(row["prediction"] == "yes" for row in rows))
        assert counts[-1] == sum(float(row["probability"]) >= float(threshold) for row in rows)
    assert counts[0] == 20
    assert counts[-1] == 0
    truth = [row["fraud"] == "yes" for row in csv.DictReader(path.read_text().splitlines())]
    assert 0 <= metrics.auroc([float(row["probability"]) for row in rows], truth) <= 1


def test_parquet_and_csv_give_the_same(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = new_table(tmp_path, "age", "job", "sex")
    pandas.read_csv(path).to_parquet(tmp_path / "new.parquet")
    printed = []
    for each in (path, tmp_path / "new.parquet"):
        assert run(["predict", str(trained), str(each)]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


Wrong = Callable[[Path, Path], list[str]]


def with_table(*columns: str) -> Wrong:
    return lambda run_, folder: ["predict", str(run_), str(new_table(folder, *columns))]


def with_cells(old: str, new: str) -> Wrong:
    def make(run_: Path, folder: Path) -> list[str]:
        path = new_table(folder, "age", "job", "sex")
        path.write_text(re.sub(old, new, path.read_text(), count=1))
        return ["predict", str(run_), str(path)]

    return make


def newer(run_: Path, folder: Path) -> list[str]:
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    source, path = run_ / "model.safetensors", folder / "newer.safetensors"
    with safe_open(source, framework="pt") as file:
        state = json.loads(file.metadata()["setwise"])
    save_file(load_file(source), path, metadata={"setwise": json.dumps(state | {"format": 99})})
    return ["predict", str(path), str(new_table(folder, "age", "job", "sex"))]


def text_as_model(_: Path, folder: Path) -> list[str]:
    (folder / "model.safetensors").write_text("not a model")
    return ["predict", str(folder / "model.safetensors"), str(new_table(folder, "age", "job", "sex"))]


def no_table(_: Path, folder: Path) -> list[str]:
    return ["predict", str(folder), str(folder / "new.csv")]


WRONG: dict[str, tuple[Wrong, str]] = {
    "no model": (no_table, r"model file at .*model\.safetensors.*`setwise train` writes one"),
    "no data": (lambda run_, _: ["predict", str(run_)], "DATA"),
    "model is text": (text_as_model, r"model\.safetensors to be a model file"),
    "newer model": (newer, "format is 99.*update"),
    "a fit of a run": (
        lambda run_, folder: ["predict", f"{run_}/fits/logistic-0.safetensors", str(new_table(folder, "age", "b"))],
        "fits/logistic-0.*to be of format 3, but its format is",
    ),
    "missing file": (lambda run_, folder: ["predict", str(run_), str(folder / "none.csv")], r"none\.csv"),
    "missing column": (with_table("age", "job"), "no 'sex' among age, job"),
    "misspelt column": (with_table("age", "jobs", "sex"), "no 'job'.*did you mean 'jobs'"),
    "text for a number": (with_cells(r"\n[\d.]+,", "\nold,"), "'age' to hold finite numbers, but found 'old' in row 1"),
    "infinite number": (with_cells(r"\n[\d.]+,", "\ninf,"), "'inf' in row 1"),
    "ragged rows": (with_cells(r"\n([\d.]+),", r"\n\1,1,"), "line 2 has 4"),
    "threshold above 1": (
        lambda run_, folder: ["predict", str(run_), str(new_table(folder, "age", "job", "sex")), "--threshold", "1.5"],
        "`threshold`",
    ),
    "out is a folder": (
        lambda run_, folder: [
            "predict", str(run_), str(new_table(folder, "age", "job", "sex")), "--out", str(folder),
        ],
        "`out` to be a file",
    ),
    "out is the input": (
        lambda run_, folder: [
            "predict", str(run_), str(new_table(folder, "age", "job", "sex")), "--out", str(folder / "new.csv"),
        ],
        "one that is read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls_give_one_line(
    case: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, message = WRONG[case]
    capsys.readouterr()
    assert run(make(trained, tmp_path)) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("setwise: error: ")
    assert output.err.count("\n") == 1
    assert re.search(message, output.err)
    assert not list(tmp_path.glob("*.partial"))
