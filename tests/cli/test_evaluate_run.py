"""``setwise evaluate RUN`` of a table: the same results from the stored fits, other floors, broken runs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from setwise import metrics
from setwise.app import candidates
from setwise.app.conclusion import chosen
from setwise.app.fit_store import FORMAT, FitStore
from setwise.app.model_file import TableModel
from setwise.app.reevaluation import read_run
from setwise.app.result_differences import differences
from setwise.app.run_folder import RunFolder
from setwise.app.tensor_file import read_tensors, sealed_tensors
from setwise.app.training import train
from setwise.cli.app import run
from support.resealing import change_json, change_model

AGREES = "Agrees with results.json within 1e-06.\n"
FIT = "fits/logistic-2.safetensors"


def table_text(rows: int = 420) -> str:
    generator = np.random.default_rng(0)
    x, sex = generator.normal(size=(rows, 2)), generator.integers(0, 2, rows)
    y = x[:, 0] + 0.5 * sex + 0.7 * generator.normal(size=rows) > 0.4
    lines = ["a,b,sex,region,day,part,w,risk,fraud"]
    for k in range(rows):
        part, region = ("train", "train", "test")[k % 3], ("North", "South", "East")[k % 3]
        risk = ("low", "middle", "high")[int(np.searchsorted([-0.4, 0.6], x[k, 0]))]
        day = f"2024-{1 + k // 40:02d}-{1 + k % 28:02d}"
        lines.append(f"{x[k, 0]:.4f},{x[k, 1]:.4f},{'FM'[sex[k]]},{region},{day},{part},{1 + k % 3},{risk},{int(y[k])}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "bank.csv"
    path.write_text(table_text())
    return path


APART = ("--target", "fraud", "--drop", "day", "--drop", "part", "--drop", "risk")
KINDS: dict[str, tuple[str, ...]] = {
    "folds": (*APART, "--measure", "precision@recall>=0.8", "--models", "logistic,linear_measure", "--drop", "w"),
    "a test set": (
        *("--target", "fraud", "--drop", "day", "--drop", "risk", "--drop", "w", "--split", "part"),
        *("--group", "region", "--subject-to", "recall[group=sex]>=0.5", "--models", "logistic,lightgbm"),
    ),
    "in time": (
        *("--target", "fraud", "--drop", "part", "--drop", "risk", "--drop", "w", "--time-column", "day"),
        *("--measure", "ap", "--models", "logistic,linear_measure"),
    ),
    "several classes": ("--target", "risk", "--drop", "a", "--drop", "day", "--drop", "part", "--models", "logistic"),
    "weights": (*APART, "--weight", "w", "--max-weight", "3", "--subject-to", "recall>=0.5", "--models", "logistic"),
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(csv: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Folder of a run of this kind, trained when it is first asked for."""
    root, made = tmp_path_factory.mktemp("runs"), {}

    def make(kind: str) -> Path:
        if kind not in made:
            made[kind] = root / kind
            assert run(["train", str(csv), *KINDS[kind], "--out", str(made[kind])]) == 0
        return made[kind]

    return make


@pytest.fixture
def out(finished: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A copy of the first run, to be changed."""
    shutil.copytree(finished("folds"), tmp_path / "out")
    capsys.readouterr()
    return tmp_path / "out"


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("setwise: error: ")
    return output.err


def change_fit(path: Path, change: Callable[[dict[str, Any], dict[str, Tensor]], object]) -> None:
    """Change a stored fit, with a checksum that is right again."""
    state, tensors = read_tensors(path, "a fit", format_=FORMAT, advice="")
    change(state, tensors)
    path.write_bytes(sealed_tensors(tensors, state))


# ---------------------------------------------------------------- what agrees


@pytest.mark.parametrize("kind", KINDS)
def test_the_stored_fits_give_the_stored_results(
    kind: str, finished: Callable[[str], Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = finished(kind)
    capsys.readouterr()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def fitted(*_: object, **__: object) -> None:
        raise AssertionError("nothing is fitted")

    for name in ("fit", "fit_folds"):
        monkeypatch.setattr(candidates.Candidate, name, fitted)
    assert run(["evaluate", str(folder)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.endswith(AGREES)
    report = json.loads((folder / "results.json").read_text())["report"]
    for sentence in report["headline"]:
        assert sentence in printed.out
    assert all(row["title"] in printed.out for row in report["candidates"])
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before, "and nothing is written"
    assert run(["evaluate", str(folder), "--tolerance", "0"]) == 0, "on the same machine to the last bit"


def test_it_prints_what_train_printed(csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    assert run(["train", str(csv), *KINDS["folds"], "--out", str(folder)]) == 0
    trained = capsys.readouterr().out
    assert run(["evaluate", str(folder)]) == 0
    assert capsys.readouterr().out.removesuffix(AGREES) == trained.partition("Report: ")[0]


def test_the_page_has_the_measure_and_not_what_the_candidates_are_compared_by(finished: Callable[[str], Path]) -> None:
    results = json.loads((finished("a test set") / "results.json").read_text())
    stored = read_run(finished("a test set"))
    _, choice = chosen(stored.problem, stored.fits[0], stored.settings)
    assert results["report"]["criterion"] == "Precision under the constraints"
    row = results["evaluation"]["columns"][0]["measures"][0]
    assert row["title"] == "AUROC"
    assert row["interval"]["estimate"] == pytest.approx(metrics.auroc(choice.logits[choice.name], choice.labels))
    assert results["report"]["headline"][1].startswith("Precision under the constraints on new rows: ")
    results = json.loads((finished("folds") / "results.json").read_text())
    values = {row["title"]: row["value"][0] for row in results["report"]["candidates"]}
    for column in results["evaluation"]["columns"]:
        shown = next(row for row in column["measures"] if row["key"] == results["evaluation"]["measure"])
        assert shown["interval"]["estimate"] == values[re.sub(r"^shipped \((.*)\)$", r"\1", column["name"])]


def test_candidates_that_the_time_limit_left_out_stay_out(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    options = [*APART, "--models", "logistic,linear_measure", "--time-limit", "1e-9"]
    assert run(["train", str(csv), *options, "--workers", "1", "--out", str(folder)]) == 0
    said = "5 of 5 folds had not begun after 1e-09 s: linear_measure was left out."
    assert said in capsys.readouterr().out
    assert run(["evaluate", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert said in printed
    assert printed.endswith(AGREES)


def test_a_table_that_has_moved(csv: Path, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def move(settings: dict[str, Any]) -> None:
        settings["settings"]["data"] = str(tmp_path / "gone.csv")

    read = RunFolder(out).identity
    moved = tmp_path / "elsewhere.csv"
    shutil.copy(csv, moved)
    assert run(["evaluate", str(out), "--data", str(moved)]) == 0
    assert capsys.readouterr().out.endswith(AGREES)
    change_json(out / "settings.json", move)
    assert RunFolder(out).identity != read
    assert run(["evaluate", str(out)]) == 2
    assert re.search(r"table of .*out at .*gone\.csv, but there is no such file; .*--data", one_line(capsys))


def test_a_run_made_in_python(csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(csv)[["a", "b", "sex", "fraud"]]
    train(frame, target="fraud", models="logistic", out=tmp_path / "out", progress=False)
    frame.to_csv(tmp_path / "frame.csv", index=False)
    capsys.readouterr()
    assert run(["evaluate", str(tmp_path / "out")]) == 2
    assert "--data to name the table" in one_line(capsys)
    assert run(["evaluate", str(tmp_path / "out"), "--data", str(tmp_path / "frame.csv")]) == 0
    assert capsys.readouterr().out.endswith(AGREES)


# ---------------------------------------------------------------- what differs


def test_values_that_differ_are_listed(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def lower(results: dict[str, Any]) -> None:
        results["report"]["candidates"][0]["value"][0] -= 0.125
        results["report"]["threshold"] += 1e-4
        results["report"]["headline"][0] = "Shipped: the best."

    change_json(out / "results.json", lower)
    assert run(["evaluate", str(out)]) == 1
    printed = capsys.readouterr().out
    assert "Differs from results.json in 3 values:\n" in printed
    assert re.search(r"  report\.candidates\[logistic\]\.value\[0\] is 0\.\d+, results\.json has 0\.\d+\n", printed)
    assert re.search(r"  report\.threshold is 0\.\d+, results\.json has 0\.\d+\n", printed)
    assert re.search(r"  report\.headline\[0\] is Shipped: .*, results\.json has Shipped: the best\.\n", printed)
    assert "Agrees" not in printed
    assert run(["evaluate", str(out), "--tolerance", "0.2"]) == 1, "a text is no matter of tolerance"
    assert "in 1 value:" in capsys.readouterr().out


def test_it_scores_the_rows_again(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def turn(_: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        tensors["scorer.coef"] = -tensors["scorer.coef"]

    change_fit(out / FIT, turn)
    assert run(["evaluate", str(out)]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"logistic-2\.safetensors: scores differ by up to \d", printed)
    assert "report.candidates[logistic].value[0] is" in printed
    assert re.search(r"\.\.\. and \d+ more\n", printed)


def test_scores_that_were_changed_are_found(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_fit(out / FIT, lambda _, tensors: tensors["logits"].add_(0.5))
    assert run(["evaluate", str(out)]) == 1
    assert "  logistic-2.safetensors: scores differ by up to 0.5\n" in capsys.readouterr().out


def test_a_model_that_is_not_of_the_fits(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def other(state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        state["threshold"] += 0.25
        next(tensor for name, tensor in tensors.items() if name.endswith("coef")).mul_(2)

    change_model(out / "model.safetensors", other)
    assert run(["evaluate", str(out)]) == 1
    printed = capsys.readouterr().out
    assert "model.safetensors: its scores are not those of the fits" in printed
    assert re.search(r"  threshold is -?[\d.]+, model\.safetensors has -?[\d.]+\n", printed)


@pytest.mark.parametrize(
    ("new", "stored", "found"),
    [
        ({"a": 1.0, "b": [1, 2]}, {"a": 1.0, "b": [1, 2]}, []),
        ({"a": float("nan")}, {"a": None}, []),
        ({"a": float("inf")}, {"a": None}, []),
        ({"a": 0.5}, {"a": None}, ["a is 0.5, results.json has nothing"]),
        ({"a": 1e6}, {"a": 1e6 + 0.5}, []),
        ({"a": 1.0}, {"a": 1.0 + 1e-5}, ["a is 1, results.json has 1.00001"]),
        ({"a": True}, {"a": 1}, ["a is True, results.json has 1"]),
        ({"a": 1}, {"b": 1}, ["a is missing in results.json", "b is only in results.json"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a has 1 entries, results.json has 2"]),
        ([{"name": "x", "v": 1}], [{"name": "x", "v": 2}], ["[x].v is 1, results.json has 2"]),
        ("recall 0.751, of 12", "recall 0.750, of 12", []),
        ("recall 0.752, of 9", "recall 0.750, of 9", [" is recall 0.752, of 9, results.json has recall 0.750, of 9"]),
        ("recall 0.75, of 9", "recall 0.75, of 8", [" is recall 0.75, of 9, results.json has recall 0.75, of 8"]),
        ("AUC 0.5", "AUROC 0.5", [" is AUC 0.5, results.json has AUROC 0.5"]),
    ],
)  # fmt: skip
def test_differences(new: Any, stored: Any, found: list[str]) -> None:
    assert list(differences(new, stored, 1e-6)) == found


# ---------------------------------------------------------------- another threshold


def test_another_floor_is_certified_on_the_same_scores(
    finished: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished("folds")
    capsys.readouterr()
    assert run(["evaluate", str(folder), "--subject-to", "recall>=0.9"]) == 0
    printed = capsys.readouterr().out
    stored = read_run(folder)
    name = json.loads((folder / "results.json").read_text())["about"]["chosen"]
    fits = stored.fits[0]
    if name != "stack":
        scores, labels = fits[name].logits, fits.rows.y
        choice = metrics.choose_threshold(
            scores, labels, maximize="precision", subject_to="recall>=0.9", confidence=0.95
        )
        bound, positives = choice.bounds[0].bound, int(labels.sum())
        line = f"recall >= 0.9 holds with 95 % confidence (lower bound {bound:.3f}; {positives} out-of-fold positives)."
        assert line in printed
        assert f"recall {metrics.recall(scores, labels, threshold=choice.threshold):.3f}, precision" in printed
    assert "recall >= 0.9 holds with 95 % confidence (lower bound 0.9" in printed
    assert "recall >= 0.8" not in printed, "the floor of the measure gives way"
    assert "Agrees" not in printed
    assert "Candidate" not in printed
    threshold = float(re.findall(r"setwise predict \S+ DATA --threshold (\S+)\n", printed)[0])
    model = TableModel.load(folder)
    lower = model.apply(stored.problem.table.frame, threshold=threshold).classes.count("1")
    assert lower > model.apply(stored.problem.table.frame).classes.count("1")


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("folds", ["--confidence", "0.5"], r"recall >= 0\.8 holds with 50 % confidence"),
        ("folds", ["--confidence", "0"], r"recall>=0\.8: met on the rows of the table \(0\.\d+\); not certified"),
        ("folds", ["--subject-to", "recall>=0.999"], r"Not certified: \d+ positives cannot certify recall >= 0\.999"),
        ("folds", ["--subject-to", "recall[group=sex]>=0.6"], r"\[sex=F\] >= 0\.6 holds.*\n.*\[sex=M\] >= 0\.6 holds"),
        ("folds", ["--subject-to", "fpr<=0.2", "--subject-to", "recall>=0.3"], r"fpr <= 0\.2 holds.*\nrecall >= 0\.3"),
        ("folds", ["--subject-to", "fpr[region=North]<=0.5"], r"fpr\[region=North\] <= 0\.5 holds"),
        ("folds", ["--subject-to", "tpr_difference[group=sex]<=0.9"], r"_difference\[group=sex\]<=0\.9 has no exact"),
        ("a test set", ["--subject-to", "recall>=0.7"], r"recall >= 0\.7 holds(?s:.*)On 140 test rows"),
        ("a test set", ["--subject-to", "fpr<=0.5"], r"\nfpr<=0\.5: 0\.\d+, (met|missed) there\.\n"),
        ("in time", ["--subject-to", "recall>=0.7"], r"refitted to all rows(?s:.*)changes with time is not covered"),
        ("folds", ["--maximize", "mcc"], r"recall >= 0\.8 holds with 95 % confidence"),
        ("in time", ["--maximize", "recall"], r"out of fold: recall 1\.000"),
        ("folds", ["--subject-to", "precision>=1"], r"Not certified: .*precision"),
    ],
)  # fmt: skip
def test_other_rules(
    kind: str, options: list[str], said: str, finished: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished(kind)
    capsys.readouterr()
    assert run(["evaluate", str(folder), *options]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.startswith("bank.csv: fraud is '1' or not\n\nShipped: ")
    assert re.search(said, printed.out), printed.out


# ---------------------------------------------------------------- what is refused


def remove(name: str) -> Callable[[Path], object]:
    return lambda out: (out / name).unlink()


def cut(name: str) -> Callable[[Path], object]:
    return lambda out: (out / name).write_bytes((out / name).read_bytes()[:-40])


def flip(name: str) -> Callable[[Path], object]:
    def damage(out: Path) -> None:
        content = bytearray((out / name).read_bytes())
        content[-30] ^= 1
        (out / name).write_bytes(bytes(content))

    return damage


def other_fold(out: Path) -> None:
    shutil.copy(out / "fits" / "logistic-1.safetensors", out / FIT)


def rename_candidate(out: Path) -> None:
    change_json(out / "results.json", lambda results: results["report"]["candidates"][0].update(name="forest"))


def no_report(out: Path) -> None:
    change_json(out / "results.json", lambda results: results.update(report=3))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove("settings.json"), r"no settings\.json"),
        (flip("settings.json"), r"settings\.json .*damaged.*--overwrite"),
        (remove("results.json"), r"has no results\.json; finish it with: setwise train --out .* --resume"),
        (flip("results.json"), r"results\.json .*checksum differs.*--resume"),
        (no_report, r"results\.json .*content cannot be right.*--resume"),
        (rename_candidate, r"results\.json .*its candidates are \['forest'"),
        (remove(FIT), r"logistic-2\.safetensors .*no such file; fit it again with: setwise train --out .* --resume"),
        (cut(FIT), r"logistic-2\.safetensors .*fit it again with: setwise train"),
        (flip(FIT), r"logistic-2\.safetensors .*checksum differs; fit it again with: setwise train"),
        (other_fold, r"logistic-2\.safetensors .*it is of another candidate, fold or class"),
        (remove("model.safetensors"), r"model\.safetensors .*no such file; write it again with: setwise train"),
        (flip("model.safetensors"), r"model\.safetensors .*checksum differs; write it again with: setwise train"),
        (remove("report.html"), r"report\.html .*no such file; write it again"),
        (flip("report.html"), r"report\.html .*checksum differs; write it again"),
    ],
)  # fmt: skip
def test_a_broken_run_is_one_line_that_says_what_to_do(
    damage: Callable[[Path], object], message: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(out)
    assert run(["evaluate", str(out)]) == 2
    assert re.search(message, one_line(capsys))


@pytest.mark.parametrize("damage", [remove(FIT), flip(FIT), remove("model.safetensors"), flip("report.html")])
def test_the_command_it_names_mends_the_run(
    damage: Callable[[Path], object], out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(out)
    assert run(["evaluate", str(out)]) == 2
    assert run(["train", "--out", str(out), "--resume"]) == 0
    capsys.readouterr()
    assert run(["evaluate", str(out)]) == 0
    assert capsys.readouterr().out.endswith(AGREES)


def test_fits_of_another_run_are_refused(
    out: Path, finished: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(finished("in time") / FIT, out / FIT)
    capsys.readouterr()
    assert run(["evaluate", str(out)]) == 2
    assert re.search(r"logistic-2\.safetensors .*it is of another run", one_line(capsys))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--data", "none.csv"], r"none\.csv, but there is no such file"),
        (["--data", "CHANGED"], r"`data` .*changed\.csv to be as when .* it has changed; .*--data.*--out"),
        (["--data", "SHORT"], r"`target`|`drop`|has changed"),
        (["--tolerance", "-1"], r"`tolerance`"),
        (["--maximize", "fone"], r"`maximize`.*'fone'"),
        (["--subject-to", "recall=high"], r"'recall=high'"),
        (["--subject-to", "recall>=80"], r"`lower` to be in \[0\.0, 1\.0\].*80"),
        (["--subject-to", "recall[group=sexe]>=0.8"], r"`subject_to`.*did you mean 'sex'"),
        (["--subject-to", "recall[sex=X]>=0.8"], r"group of 'sex' \(F, M\).*'X'"),
        (["--subject-to", "tpr_difference<=0.1"], r"--group to name the column"),
        (["--confidence", "1"], r"`confidence`"),
        (["--score", "p"], r"a table beside --score.*is a folder"),
        (["--require", "recall>=0.9"], r"a table beside --require"),
        (["--threshold", "0.5"], r"a table beside --threshold"),
    ],
)
def test_wrong_options_are_one_line(
    options: list[str],
    message: str,
    csv: Path,
    finished: Callable[[str], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    changed, short = tmp_path / "changed.csv", tmp_path / "short.csv"
    changed.write_text(csv.read_text().replace(",North,", ",South,", 1))
    short.write_text("".join(line.partition(",")[2] + "\n" for line in csv.read_text().splitlines()))
    folder = finished("folds")
    capsys.readouterr()
    files = {"CHANGED": str(changed), "SHORT": str(short)}
    assert run(["evaluate", str(folder), *(files.get(text, text) for text in options)]) == 2
    assert re.search(message, one_line(capsys))


def test_what_has_no_threshold_or_no_constraint(
    finished: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    classes, plain = finished("several classes"), finished("in time")
    capsys.readouterr()
    assert run(["evaluate", str(classes), "--subject-to", "recall>=0.9"]) == 2
    assert re.search(r"several classes, which have no threshold; leave --subject-to", one_line(capsys))
    assert run(["evaluate", str(plain), "--confidence", "0.9"]) == 2
    assert re.search(r"--confidence beside a constraint.*--subject-to", one_line(capsys))


def test_reading_a_fit_names_the_command(tmp_path: Path, finished: Callable[[str], Path]) -> None:
    stored = read_run(finished("folds"))
    store = FitStore(tmp_path, stored.fits[0].folds, stored.problem.rows.x.shape[1], advice="do this")
    with pytest.raises(ValueError, match=r"no such file; do this\."):
        store.read("logistic", 0)
