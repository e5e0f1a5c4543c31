from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import setwise
from setwise import cli
from setwise.app.cross_fit import Event
from setwise.app.images import comparison
from setwise.app.images.settings import ComparisonSettings
from setwise.app.model_file import TableModel
from setwise.app.run_folder import RunFolder
from setwise.app.run_settings import read_settings
from setwise.app.settings import TrainSettings
from setwise.cli.app import run
from support.resealing import change_json, seal_text

QUICK = ("--models", "logistic")
EPOCHS = ("--epochs", "2", "--seeds", "2", "--batch-size", "32", "--threads", "1", "--minority", "0")  # of images


def table_text(rows: int = 160) -> str:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 2))
    y = x[:, 0] + generator.normal(size=rows) > 1
    return "a,b,fraud\n" + "".join(f"{a},{b},{int(label)}\n" for (a, b), label in zip(x, y, strict=True))


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "bank.csv"
    path.write_text(table_text())
    return path


@pytest.fixture(scope="module")
def trained(csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "bank"
    assert run(["train", str(csv), "--target", "fraud", "--out", str(out), *QUICK]) == 0
    return out


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    generator = np.random.default_rng(0)
    for split in ("train", "test"):
        labels = np.arange(120) % 2
        pictures = generator.integers(0, 200, (120, 6, 6)) + 20 * labels[:, None, None]
        np.save(folder / f"{split}_images.npy", pictures.astype(np.uint8))
        np.save(folder / f"{split}_labels.npy", labels)
    return folder


@pytest.fixture(scope="module")
def compared(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison on images."""
    out = tmp_path_factory.mktemp("runs") / "images"
    assert run(["train", str(images), "--out", str(out), *EPOCHS]) == 0
    return out


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "write_report", lambda *_: None)


def results_of(out: Path) -> dict[str, Any]:
    """Results without times, which differ between any two runs, and so the checksum."""
    results: dict[str, Any] = json.loads((out / "results.json").read_text())
    del results["sha256"]
    for row in results.get("report", {}).get("candidates", ()):
        row.pop("seconds")
    for training in results.get("runs", ()):
        training.pop("seconds")
    return results


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The single line on stderr of a failed command, which printed nothing else."""
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("setwise: error: ")
    assert "Traceback" not in output.err
    return output.err


# ---------------------------------------------------------------- what works


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"setwise {setwise.__version__}\n"
    assert run([]) == 0
    assert "evaluate" in capsys.readouterr().out
    assert run(["train", "--help"]) == 0
    assert "--resume" in capsys.readouterr().out


def test_train_prints_the_answer_and_writes_the_run(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    models = ("--models", "logistic, linear_measure")
    assert run(["train", "--data", str(csv), "--target", "fraud", "--positive", "1", *models]) == 0
    out = tmp_path / "runs" / "auc-bank"
    results = json.loads((out / "results.json").read_text())
    printed = capsys.readouterr().out
    report = results["report"]
    assert printed.startswith("bank.csv: fraud is '1' or not\n\nShipped: ")
    for sentence in report["headline"]:
        assert sentence in printed
    lines = [re.split(r"\s{2,}", line.strip()) for line in printed.splitlines()]
    heads = next(line for line in lines if line[0] == "Candidate")
    assert heads[1:4] == ["AUROC [95 %]", "shipped minus it", "CPU s"]
    assert [row["name"] for row in report["candidates"]] == ["logistic", "linear_measure", "stack"]
    for row in report["candidates"]:
        shown = next(line for line in lines if line[0] == row["title"])
        value, low, high = row["value"]
        assert shown[1] == f"{value:.3f} [{low:.3f}, {high:.3f}]"
        assert ("shipped" in shown[-1]) == (row["difference"] is None)
        if row["difference"] is not None:
            assert shown[2].startswith(f"{row['difference'][0]:+.3f} [")
    assert [line[0] for line in lines if line[0] in ("a", "b")] == [name for name, *_ in report["columns"]]
    assert f"Report: {Path('runs/auc-bank/report.html')}" in printed
    assert f"Model:  {Path('runs/auc-bank/model.safetensors')}" in printed
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    assert results["settings"]["data"] == str(csv)
    assert results["settings"]["models"] == ["logistic", "linear_measure"]
    assert {path.name for path in (out / "fits").iterdir()} == {
        f"{name}-{fold}.safetensors" for name in ("logistic", "linear_measure") for fold in range(5)
    }


def test_options_of_a_table_reach_the_settings(tmp_path: Path) -> None:
    path, out = tmp_path / "bank.csv.gz", tmp_path / "out"
    rows = table_text(400).splitlines()
    more = [f"{k % 7},{'FM'[k % 2]},2024-01-{1 + k % 28:02d},{1 + k % 3}" for k in range(400)]
    text = [f"site,sex,day,w,{rows[0]}", *(f"{first},{row}" for first, row in zip(more, rows[1:], strict=True))]
    path.write_bytes(gzip.compress("\n".join(text).encode()))
    options = ["--folds", "3", "--seed", "7", "--workers", "1", "--time-limit", "600", "--confidence", "0.8"]
    options += ["--group", "sex", "--weight", "w", "--max-weight", "3", "--group-folds", "site", "--use", "site"]
    options += ["--drop", "day", "--drop", "b", "--subject-to", "recall>=0.3", "--positive", "0", *QUICK]
    assert run(["train", str(path), "--measure", "AP", "--target", "fraud", "--out", str(out), *options]) == 0
    settings, _ = read_settings(RunFolder(out), TrainSettings)
    assert settings == TrainSettings(
        measure="AP", data=str(path), target="fraud", positive="0", group=("sex",), weight="w", drop=("day", "b"),
        use=("site",), subject_to=("recall>=0.3",), confidence=0.8, max_weight=3.0, group_folds="site",
        models=("logistic",), folds=3, seed=7,
    )  # fmt: skip
    model = TableModel.load(out)
    assert {code.name for code in model.encoding.features} == {"a", "sex", "site"}
    assert model.encoding.positive == "0"
    assert len(model.ensemble.members["logistic"]) == 3
    assert run(["train", str(path), "--target", "fraud", "--time-column", "day", "--drop", "w", *QUICK,
                "--out", str(tmp_path / "time")]) == 0  # fmt: skip
    assert read_settings(RunFolder(tmp_path / "time"), TrainSettings)[0].time_column == "day"


@pytest.mark.usefixtures("no_page")
def test_options_of_images_reach_the_settings(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    options = ["--epochs", "1", "--seeds", "1", "--batch-size", "50", "--patience", "4", "--threads", "1"]
    options += ["--minority", "0.3", "--positive", "1", "--set", "width=4", "--set", "average=null"]
    assert run(["train", str(images), "--measure", "AUC", "--out", str(out), *options]) == 0
    assert "class 1 or not" in capsys.readouterr().out
    settings, _ = read_settings(RunFolder(out), ComparisonSettings)
    assert (settings.epochs, settings.seeds, settings.batch_size, settings.patience) == (1, 1, 50, 4)
    assert (settings.minority, settings.width, settings.average) == (0.3, 4, None)
    draws = json.loads((out / "results.json").read_text())["draws"]
    assert draws[0]["test"]["positives"] / draws[0]["test"]["size"] == pytest.approx(0.3, abs=0.02)


def test_images_print_one_table(compared: Path, images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", str(images), "--out", str(compared), "--resume"]) == 0
    printed = capsys.readouterr().out
    results = json.loads((compared / "results.json").read_text())
    lines = [re.split(r"\s{2,}", line.strip()) for line in printed.splitlines()]
    first = next(line for line in lines if line[0] == "AUROC")
    row = results["table"][0]
    assert first[1].startswith(f"{row['cross_entropy']['mean']:.3f} [{row['cross_entropy']['low']:.3f}, ")
    assert first[3].startswith(f"{row['difference']['mean']:+.3f} [")
    assert [line[0] for line in lines if line[0] in ("Average precision", "F1", "Precision at recall 0.9")]
    assert "Cross-entropy" in printed
    assert "AUROC loss" in printed
    assert results["verdict"] in " ".join(printed.split())
    assert f"Report: {compared / 'report.html'}" in printed
    assert results["settings"]["minority"] is None


def test_stopped_by_ctrl_c_and_resumed_without_repeating_options(
    csv: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "my run"
    seen = []

    def interrupt(_: object, event: Event) -> None:
        if event.kind == "done":
            seen.append(event)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("setwise.app.progress.FitBars.show", interrupt)
        assert run(["train", str(csv), "--target", "fraud", "--out", str(out), "--workers", "1", *QUICK]) == 130
    message = capsys.readouterr().err
    assert f"Continue with: setwise train --out '{out}' --resume" in message
    assert "Traceback" not in message
    assert len(list((out / "fits").iterdir())) == 3
    kept = {path.name: path.stat().st_mtime_ns for path in (out / "fits").iterdir()}
    assert run(["train", "--out", str(out), "--resume"]) == 0
    assert all((out / "fits" / name).stat().st_mtime_ns == when for name, when in kept.items()), "not fitted again"
    assert results_of(out) == results_of(trained)
    assert (out / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()


@pytest.mark.usefixtures("no_page")
def test_images_are_stopped_by_ctrl_c_and_resumed(
    images: Path, compared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "my run"
    seen = []

    def interrupt(_: object, epochs: int, __: float) -> None:
        seen.append(epochs)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("setwise.cli.display.Bars.epoch", interrupt)
        assert run(["train", str(images), "--out", str(out), *EPOCHS]) == 130
    assert f"Continue with: setwise train --out '{out}' --resume" in capsys.readouterr().err
    assert run(["train", "--out", str(out), "--resume"]) == 0
    assert results_of(out)["table"] == results_of(compared)["table"]


def test_evaluate_of_images_agrees(compared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["evaluate", str(compared)]) == 0
    output = capsys.readouterr()
    assert "Agrees with results.json" in output.out
    assert "Average precision" in output.out


def test_evaluate_of_images_with_other_thresholds(compared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conditions = ["--maximize", "precision", "--subject-to", "recall>=0.9", "--subject-to", "precision>=0.999"]
    assert run(["evaluate", str(compared), *conditions]) == 0
    output = capsys.readouterr().out
    assert "Recall" in output
    assert "No threshold meets the condition on the validation set of seed 0" in output
    assert re.search(r"seed 1, auc: Not certified: \d+ positives cannot certify recall >= 0.9 at 95 %; \d+ can", output)
    assert run(["evaluate", str(compared), *conditions, "--confidence", "0"]) == 0
    assert "ertified" not in capsys.readouterr().out
    assert run(["evaluate", str(compared), "--subject-to", "recall>=0.3", "--confidence", "0.8"]) == 0
    output = capsys.readouterr().out
    assert re.search(
        r"seed 0, auc: recall >= 0.3 holds with 80 % confidence \(lower bound 0\.\d+; \d+ validation", output
    )
    assert "seed 0, auc: These rows have chosen the epoch too" in output, "no rows were kept for it"


def test_evaluate_of_images_says_where_it_differs(
    compared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(compared, out)

    def lower(results: dict[str, Any]) -> None:
        results["runs"][0]["metrics"]["auroc"] -= 0.125

    change_json(out / "results.json", lower)
    assert run(["evaluate", str(out)]) == 1
    assert "seed 0, cross_entropy: auroc is" in capsys.readouterr().out


def test_train_says_what_is_certified_and_what_is_not(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["train", str(csv), "--target", "fraud", *QUICK]
    easy = [*options, "--measure", "precision@recall>=0.5", "--out", str(tmp_path / "easy")]
    assert run([*easy, "--confidence", "0.8"]) == 0
    assert re.search(
        r"recall >= 0.5 holds with 80 % confidence \(lower bound 0\.\d+; \d+ out-of-fold positives\)\.\n",
        capsys.readouterr().out,
    )
    assert run([*options, "--subject-to", "recall>=0.98", "--out", str(tmp_path / "hard")]) == 0
    output = capsys.readouterr()
    reason = r"\d+ positives cannot certify recall >= 0.98 at 95 %; 149 can\."
    assert re.search(rf"\nNot certified: {reason}\n", output.out)
    assert re.search(rf"setwise: Too few rows to certify recall>=0.98: {reason}\n", output.err), "before training"
    assert run([*easy, "--overwrite", "--confidence", "0"]) == 0
    output = capsys.readouterr()
    assert "recall>=0.5: met on the rows of the table (0." in output.out
    assert "holds with" not in output.out
    assert "Too few rows" not in output.err


# ---------------------------------------------------------------- what is refused


def train_on(text: str, *options: str) -> Callable[[Path], list[str]]:
    def arguments(folder: Path) -> list[str]:
        (folder / "data.csv").write_text(text)
        return ["train", str(folder / "data.csv"), "--out", str(folder / "out"), *options]

    return arguments


def plain(*arguments: str) -> Callable[[Path], list[str]]:
    return lambda folder: [argument.replace("FOLDER", str(folder)) for argument in arguments]


def binary_file(folder: Path) -> list[str]:
    (folder / "data.csv").write_bytes(b"\x00\xff\xfe" * 50)
    return ["train", str(folder / "data.csv"), "--out", str(folder / "out")]


def broken_archive(folder: Path) -> list[str]:
    (folder / "data.csv.gz").write_bytes(b"no archive")
    return ["train", str(folder / "data.csv.gz"), "--out", str(folder / "out")]


def file_in_the_way(folder: Path) -> list[str]:
    (folder / "out").write_text("mine")
    return ["train", "--out", str(folder / "out")]


def folder_in_the_way(folder: Path) -> list[str]:
    (folder / "out").mkdir()
    (folder / "out" / "thesis.tex").write_text("mine")
    return ["train", "--out", str(folder / "out"), "--overwrite"]


def sealed(text: str) -> str:
    return seal_text(text + "\n").decode()


def with_settings(text: str, *arguments: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / "settings.json").write_text(text)
        return [argument.replace("FOLDER", str(folder)) for argument in arguments]

    return make


REFUSED: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "unknown measure": (plain("train", "--measure", "auk", "--out", "FOLDER/out"), r"mean 'auc'.*`measure`.*'auk'"),
    "unknown data": (plain("train", "--data", "fasion", "--out", "FOLDER/out"), r"fashion.*'fasion'"),
    "unknown class": (plain("train", "--positive", "hat", "--out", "FOLDER/out"), r"`positive`.*shirt.*'hat'"),
    "missing file": (plain("train", "FOLDER/none.csv", "--out", "FOLDER/out"), r"none\.csv"),
    "missing folder": (plain("train", "FOLDER/none/data", "--out", "FOLDER/out"), "none/data"),
    "binary file": (binary_file, r"data\.csv"),
    "broken archive": (broken_archive, r"data\.csv\.gz"),
    "empty file": (train_on(""), "empty"),
    "header only": (train_on("a,b\n"), "rows"),
    "missing column": (train_on(table_text(), "--target", "fruad"), r"`target`.*fruad"),
    "labels all missing": (train_on("a,y\n1,\n2,\n3,\n"), r"'y'.*it has none in any row"),
    "single class": (train_on("a,y\n1,0\n2,0\n3,0\n"), r"'y'.*two values"),
    "too few rows": (train_on("a,y\n1,0\n2,0\n3,0\n4,1\n5,0\n"), r"at least 2 positives and 2 negatives.*1 and 4"),
    "too few in a group of rows": (
        train_on("a,y,p\n1,0,1\n2,1,2\n3,0,3\n4,1,2\n5,0,4\n", "--target", "y", "--group-folds", "p"),
        "at least 2 groups of each class",
    ),
    "too few at the end": (
        train_on("a,y,t\n" + "".join(f"{k * k % 17},{int(k > 36)},{k}\n" for k in range(40)), "--target", "y",
                 "--time-column", "t"), "`time` to order the rows so that both classes occur"
    ),
    "unknown positive": (train_on(table_text(), "--positive", "2"), "`positive`"),
    "folds 1": (train_on(table_text(), "--folds", "1"), r"`folds`.*at least 2.*1"),
    "folds too many": (train_on(table_text(), "--folds", "51"), r"`folds`.*at most 50.*51"),
    "workers 0": (train_on(table_text(), "--workers", "0"), r"`workers`.*0"),
    "no time": (train_on(table_text(), "--time-limit", "0"), r"`time_limit`.*0"),
    "time negative": (train_on(table_text(), "--time-limit", "-5"), r"`time_limit`.*-5"),
    "time NaN": (train_on(table_text(), "--time-limit", "nan"), r"`time_limit`.*nan"),
    "seed negative": (train_on(table_text(), "--seed", "-1"), r"`seed`.*-1"),
    "target without table": (plain("train", "--target", "y", "--out", "FOLDER/out"), "--target only with a table"),
    "epochs 0": (plain("train", "--epochs", "0", "--out", "FOLDER/out"), r"`epochs`.*at least 1.*0"),
    "epochs no number": (plain("train", "--epochs", "many"), "--epochs"),
    "seeds negative": (plain("train", "--seeds", "-1", "--out", "FOLDER/out"), r"`seeds`.*-1"),
    "seeds fraction": (plain("train", "--seeds", "1.5"), "--seeds"),
    "minority above half": (plain("train", "--minority", "0.7", "--out", "FOLDER/out"), r"`minority`.*0\.7"),
    "minority negative": (plain("train", "--minority", "-0.1", "--out", "FOLDER/out"), "`minority`"),
    "minority NaN": (plain("train", "--minority", "nan", "--out", "FOLDER/out"), "`minority`"),
    "minority no number": (plain("train", "--minority", "few"), "--minority"),
    "batch of one": (plain("train", "--batch-size", "1", "--out", "FOLDER/out"), "`batch_size`"),
    "unknown option": (plain("train", "--epoks", "3"), "--epoks"),
    "unknown command": (plain("trian"), "trian"),
    "option without value": (plain("train", "--epochs"), "--epochs"),
    "data twice": (plain("train", "a.csv", "--data", "b.csv"), "once"),
    "resume and overwrite": (plain("train", "--resume", "--overwrite"), "both"),
    "resume without a run": (plain("train", "--out", "FOLDER/out", "--resume"), r"no settings\.json"),
    "resume corrupt": (with_settings("{", "train", "--out", "FOLDER", "--resume"), r"settings\.json"),
    "out is a file": (file_in_the_way, "is a file"),
    "out is a folder of others": (folder_in_the_way, "other files"),
    "evaluate nothing": (plain("evaluate"), "RUN"),
    "evaluate no folder": (plain("evaluate", "FOLDER/none"), r"no settings\.json"),
    "evaluate no run": (plain("evaluate", "FOLDER"), r"no settings\.json"),
    "evaluate corrupt": (with_settings("{]", "evaluate", "FOLDER"), r"settings\.json .*damaged.*--overwrite"),
    "evaluate bytes": (with_settings("null", "evaluate", "FOLDER"), "settings.json .*damaged"),
    "evaluate no job": (
        with_settings(sealed('{"format": 5, "job": "sounds", "data": "", "settings": {}}'), "evaluate", "FOLDER"),
        "its job is 'sounds'",
    ),
    "evaluate settings of others": (
        with_settings(
            sealed('{"format": 5, "job": "table", "data": "", "settings": {"foldz": 3}}'), "evaluate", "FOLDER"
        ),
        "`foldz` .*did you mean 'folds'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_one_line_and_exit_code_2(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, message = REFUSED[case]
    assert run(arguments(tmp_path)) == 2
    assert re.search(message, one_line(capsys))
    kept = tmp_path / "out"
    assert not (kept / "settings.json").exists(), "nothing was started"


def break_model(out: Path) -> None:
    (out / "models" / "seed1-auc.safetensors").unlink()


def break_results(out: Path) -> None:
    (out / "results.json").write_text("{")


@pytest.mark.parametrize(
    ("damage", "arguments", "message"),
    [
        (break_model, [], r"seed1-auc\.safetensors"),
        (break_results, [], r"results\.json"),
        (None, ["--data", "none.csv"], r"none\.csv"),
        (None, ["--maximize", "fone"], "`maximize`"),
        (None, ["--subject-to", "recall=high"], "`subject_to`"),
        (None, ["--tolerance", "-1"], "`tolerance`"),
    ],
)
def test_evaluate_of_images_refuses(
    compared: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], None] | None,
    arguments: list[str],
    message: str,
) -> None:
    out = tmp_path / "out"
    shutil.copytree(compared, out)
    if damage is not None:
        damage(out)
    assert run(["evaluate", str(out), *arguments]) == 2
    assert re.search(message, one_line(capsys))


def test_an_existing_run_and_a_changed_setting_are_refused(
    csv: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    again = ["train", str(csv), "--target", "fraud", "--out", str(trained), *QUICK]
    assert run(again) == 2
    assert re.search(r"--resume.*--overwrite", one_line(capsys))
    assert run(["train", "--out", str(trained), "--resume", "--folds", "7"]) == 2
    assert re.search(r"`folds` to be 5.*7", one_line(capsys))
    assert run(["train", "--out", str(trained), "--resume", "--epochs", "7"]) == 2
    assert "--epochs only with images, but the data is a table" in one_line(capsys)
    assert run(["train", "fashion", "--out", str(trained), "--resume"]) == 2
    assert one_line(capsys)
    moved = trained.parent / "moved.csv"
    moved.write_text(csv.read_text().replace("\n", "\n0", 1))
    assert run(["train", str(moved), "--out", str(trained), "--resume"]) == 2
    assert re.search(r"`data` to be .*bank\.csv.*moved\.csv", one_line(capsys))


def test_a_file_that_may_not_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.csv"
    path.write_text(table_text())

    def refuse(self: Path, *_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(self))

    # Root may read everything, so the refusal is put in the way instead of set on the file.
    for name in ("open", "read_bytes", "read_text"):
        monkeypatch.setattr(Path, name, refuse)
    assert run(["train", str(path), "--out", str(tmp_path / "out")]) == 2
    assert re.search(r"secret\.csv", one_line(capsys))


def test_faults_of_our_own_are_not_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise TypeError("unsupported operand")

    monkeypatch.setattr("setwise.app.images.comparison.load_problem", broken)
    with pytest.raises(TypeError, match="unsupported operand"):
        run(["train", "--out", str(tmp_path / "out")])


# ---------------------------------------------------------------- the process


def test_console_script_ends_with_the_exit_code(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "from setwise.cli import main; main()"]
    done = subprocess.run(
        [*program, "train", "--measure", "auk"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("setwise: error: Did you mean 'auc'? Expected `measure`")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_without_the_extra_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "setwise.cli.app")
    monkeypatch.delattr(cli, "app", raising=False)
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "pip install 'setwise[cli]'" in one_line(capsys)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["table", "images"])
def test_killed_outright_and_resumed(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    import time

    of_table = kind == "table"
    data, whole = (
        request.getfixturevalue(name) for name in (("csv", "trained") if of_table else ("images", "compared"))
    )
    options = ["--target", "fraud", *QUICK] if of_table else list(EPOCHS)
    out, sign = tmp_path / "out", "fits/*.safetensors" if of_table else "models/*.safetensors"
    process = subprocess.Popen(
        [sys.executable, "-c", "from setwise.cli import main; main()", "train", str(data), "--out", str(out), *options],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while process.poll() is None and not any(out.glob(sign)):
        time.sleep(0.001)
    process.kill()
    process.wait()
    assert not (out / "results.json").exists()
    assert run(["train", "--out", str(out), "--resume"]) == 0
    assert results_of(out) == results_of(whole)
