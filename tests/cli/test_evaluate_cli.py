"""``setwise evaluate`` of a table of scores: figures, files, exit codes, and one line for each wrong call."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from setwise.cli.app import run
from setwise.metrics import auroc, choose_threshold, confusion_counts, rate_bound

ROWS = 800


def lines_of(seed: int, *, rows: int = ROWS, labels: tuple[str, str] = ("ok", "fraud")) -> list[str]:
    generator = np.random.default_rng(seed)
    positive = generator.random(rows) < 0.2
    latent = generator.normal(size=rows) + 2 * positive
    p, q = (1 / (1 + np.exp(2 - 1.5 * (latent + noise * generator.normal(size=rows)))) for noise in (0.1, 1.0))
    table = ["p,q,sex,w,y,name,three,gaps,minus,same"]
    table += [
        f"{p[k]:.6f},{q[k]:.6f},{'FM'[k % 2]},{1 + k % 2},{labels[int(positive[k])]},n{k},{k % 3},"
        f"{'' if k == 7 else p[k]},{p[k] - 0.5},1"
        for k in range(rows)
    ]
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("scores")
    (made / "scores.csv").write_text("\n".join(lines_of(0)) + "\n")
    (made / "cal.csv").write_text("\n".join(lines_of(1)) + "\n")
    (made / "few.csv").write_text("\n".join(lines_of(2, rows=60)) + "\n")
    (made / "other.csv").write_text("\n".join(lines_of(1, labels=("no", "yes"))) + "\n")
    (made / "narrow.csv").write_text("p,y\n0.5,ok\n0.6,fraud\n")
    (made / "empty.csv").write_text("")
    (made / "header.csv").write_text("p,y\n")
    (made / "ragged.csv").write_text("p,y\n0.1,ok\n0.2\n")
    (made / "broken.csv.gz").write_bytes(b"no gzip")
    (made / "broken.parquet").write_bytes(b"no parquet")
    (made / "run").mkdir()
    return made


@pytest.fixture(autouse=True)
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def columns(path: Path) -> dict[str, np.ndarray]:
    rows = [line.split(",") for line in path.read_text().splitlines()]
    return {name: np.asarray([row[k] for row in rows[1:]]) for k, name in enumerate(rows[0])}


def evaluate(*arguments: str, table: str = "scores.csv", expected: int = 0) -> dict[str, object]:
    code = run(["evaluate", table, "--score", "p", "--target", "y", "--json", "result.json", *arguments])
    assert code == expected
    found: dict[str, object] = json.loads(Path("result.json").read_text())
    return found


def decision(found: dict[str, object], column: int = 0) -> dict[str, object]:
    result: dict[str, object] = found["columns"][column]["decision"]  # type: ignore[index]
    return result


def test_figures_are_those_of_the_measures(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    found = evaluate("--subject-to", "recall>=0.8")
    table = columns(folder / "scores.csv")
    scores, labels = table["p"].astype(float), table["y"] == "fraud"
    assert (found["positive"], found["rows"], found["positives"]) == ("fraud", ROWS, labels.sum())
    rows = {row["key"]: row["interval"] for row in found["columns"][0]["measures"]}  # type: ignore[index]
    assert rows["auroc"]["estimate"] == pytest.approx(auroc(scores, labels))
    choice = choose_threshold(scores, labels, maximize="precision", subject_to="recall>=0.8", confidence=0.95)
    assert decision(found)["threshold"] == choice.threshold
    assert decision(found)["how"] == "certified"
    shown = capsys.readouterr().out
    assert "At the certified threshold" in shown
    assert "Wrote result.json" in shown


def test_threshold_in_use(folder: Path) -> None:
    found = evaluate("--threshold", "0.3", "--subject-to", "recall>=0.5", "--confidence", "0.9")
    table = columns(folder / "scores.csv")
    counts = confusion_counts(table["p"].astype(float), table["y"] == "fraud", threshold=0.3)
    check = decision(found)["checks"][0]  # type: ignore[index]
    assert check["bound"] == rate_bound(int(counts.tp), int(counts.tp + counts.fn), confidence=0.9)
    assert decision(found)["how"] == "given"


def test_calibration_table(folder: Path) -> None:
    found = evaluate("--calibration", "cal.csv", "--subject-to", "recall>=0.8")
    table = columns(folder / "cal.csv")
    scores, labels = table["p"].astype(float), table["y"] == "fraud"
    choice = choose_threshold(scores, labels, maximize="precision", subject_to="recall>=0.8", confidence=0.95)
    assert (decision(found)["threshold"], decision(found)["same_rows"]) == (choice.threshold, False)


def test_two_columns_groups_weights_and_a_page(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    found = evaluate(
        "--score", "q", "--group", "sex", "--weight", "w", "--max-weight", "2", "--positive", "fraud", "--measure",
        "tpr@fpr<=0.1", "--subject-to", "recall>=0.7", "--out", "report.html",
    )  # fmt: skip
    assert [column["name"] for column in found["columns"]] == ["p", "q"]  # type: ignore[attr-defined]
    assert found["measure"] == "tpr@fpr<=0.1"
    assert found["comparisons"]
    assert decision(found)["how"] == "certified"
    page = (folder / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "sex" in page
    assert len(page) < 500_000
    assert "Wrote report.html" in capsys.readouterr().out


def test_positive_by_name() -> None:
    assert evaluate("--positive", "ok")["positive"] == "ok"


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (("--require", "recall>=0.8"), 0, r"required recall>=0.8: met at threshold .* lower bound 0\.8"),
        (("--threshold", "0.2", "--require", "recall>=0.5"), 0, r"met at threshold 0\.200: 0\.\d+, lower bound 0\.\d+"),
        (("--threshold", "0.9", "--require", "recall>=0.9"), 1, r"not met at threshold 0\.900: .* \(recall .* misses"),
        (("--subject-to", "recall>=0.9", "--require", "recall>=0.8"), 0, r"required recall>=0.8: met"),
        (("--subject-to", "recall>=0.8", "--require", "precision>=0.99"), 1, r"required precision>=0.99: not met"),
        (("--calibration", "cal.csv", "--subject-to", "recall>=0.9", "--require", "recall>=0.7"), 0, r"0.7: met"),
        (("--threshold", "0.2", "--require", "recall>=0.5", "--require", "fpr<=0.001"), 1, r"fpr<=0.001: not met"),
        (("--threshold", "0.1", "--require", "recall>=0.5", "--group", "sex"), 0, r"required recall>=0.5: met"),
    ],
)
def test_requirements_set_the_exit_code(
    arguments: Sequence[str], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate(*arguments, expected=code)
    last = [text for text in capsys.readouterr().out.splitlines() if text.startswith("required ")]
    assert re.search(line, last[-1]), last


def test_too_few_positives_do_not_pass(capsys: pytest.CaptureFixture[str]) -> None:
    evaluate("--require", "recall>=0.95", table="few.csv", expected=1)
    assert re.search(r"not met .*\d+ positives cannot certify recall >= 0.95 at 95 %; 59 can", capsys.readouterr().out)


@pytest.mark.parametrize(("name", "separator"), [("semicolons.csv", ";"), ("tabs.tsv", "\t"), ("packed.csv.gz", ",")])
def test_tables_of_other_kinds(name: str, separator: str, folder: Path) -> None:
    text = (folder / "scores.csv").read_text().replace(",", separator)
    data = gzip.compress(text.encode()) if name.endswith(".gz") else ("\ufeff" + text).encode()
    (folder / name).write_bytes(data)
    assert decision(evaluate(table=name)) == decision(evaluate())


def test_parquet(folder: Path) -> None:
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pd.read_csv(folder / "scores.csv").to_parquet(folder / "scores.parquet")
    assert evaluate(table="scores.parquet")["columns"] == evaluate()["columns"]


def test_words_that_pandas_takes_for_missing(folder: Path) -> None:
    lines = ["p,y,country", *(f"{k / 100},{'NA' if k % 3 else 'no'},{('NA', '')[k % 2]}" for k in range(100))]
    (folder / "namibia.csv").write_text("\n".join(lines))
    found = evaluate("--group", "country", "--positive", "NA", table="namibia.csv")
    groups = [row["value"] for row in found["columns"][0]["groups"]]  # type: ignore[index]
    assert groups == ["NA", "(missing)"]


GOOD = ("scores.csv", "--score", "p", "--target", "y")
WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "no such file": (("score.csv", "--score", "p", "--target", "y"), r"score\.csv.*no such file; did you mean 'scores"),
    "no such folder": (("none/a.csv", "--score", "p", "--target", "y"), r"nor the folder none"),
    "no score": (("scores.csv", "--target", "y"), r"--score to name the column.*add --score"),
    "no target": (("scores.csv", "--score", "p"), r"--target to name the column.*add --target"),
    "neither": (("scores.csv",), r"--target"),
    "score misspelt": (("scores.csv", "--score", "P", "--target", "y"), r"--score.*no 'P'; did you mean 'p'\?"),
    "score unknown": (("scores.csv", "--score", "logit", "--target", "y"), r"no 'logit'; it has p, q, sex"),
    "target misspelt": (("scores.csv", "--score", "p", "--target", "yy"), r"--target.*no 'yy'; did you mean 'y'"),
    "score is the target": (("scores.csv", "--score", "y", "--target", "y"), r"'y' is given as --score and"),
    "score twice": ((*GOOD, "--score", "p"), r"'p' is given twice"),
    "text scores": (("scores.csv", "--score", "sex", "--target", "y"), r"'sex'.*numbers, but row 1 holds 'F'; name"),
    "missing scores": (("scores.csv", "--score", "gaps", "--target", "y"), r"'gaps'.*1 of 800.*first in row 8; fill"),
    "three classes": (("scores.csv", "--score", "p", "--target", "three"), r"two classes, but it holds 3 values.*keep"),
    "one class": (("scores.csv", "--score", "p", "--target", "same"), r"two classes, but every row is '1'"),
    "missing labels": (("scores.csv", "--score", "p", "--target", "gaps"), r"'gaps'.*1 of 800 are missing.*row 8"),
    "positive": ((*GOOD, "--positive", "fruad"), r"`positive` to be one of the values 'fraud', 'ok'"),
    "measure": ((*GOOD, "--measure", "aurok"), r"Did you mean 'auroc'"),
    "measure of classes": ((*GOOD, "--measure", "auc_mu"), r"`measure` to be one of two classes"),
    "level": ((*GOOD, "--measure", "precision@recall>=90"), r"`recall`.*\[0, 1\].*90"),
    "constraint": ((*GOOD, "--subject-to", "recall=0.9"), r"`subject_to`.*'recall>=0.9'.*'recall=0.9'"),
    "rate": ((*GOOD, "--subject-to", "recal>=0.9"), r"`subject_to`.*'recal>=0.9'"),
    "maximize": ((*GOOD, "--maximize", "f-one"), r"`maximize` to be one of"),
    "confidence of 0": ((*GOOD, "--confidence", "0"), r"`confidence` to be in \(0, 1\)"),
    "confidence in percent": ((*GOOD, "--confidence", "95"), r"`confidence` to be in \(0, 1\), but got 95"),
    "threshold of letters": ((*GOOD, "--threshold", "high"), r"--threshold.*valid number"),
    "threshold nan": ((*GOOD, "--threshold", "nan"), r"`threshold`"),
    "two thresholds": ((*GOOD, "--threshold", "0.1", "--threshold", "0.2"), r"`threshold` to be one number or 1"),
    "weight negative": ((*GOOD, "--weight", "minus"), r"'minus'.*non-negative, but \d+ of 800.*row \d+; leave"),
    "weight unknown": ((*GOOD, "--weight", "weigth"), r"--weight.*no 'weigth'"),
    "weight of text": ((*GOOD, "--weight", "name"), r"--weight column 'name'.*row 1 holds 'n0'"),
    "max weight": ((*GOOD, "--weight", "w", "--max-weight", "1"), r"`max_weight` to be at least the largest weight, 2"),
    "group unknown": ((*GOOD, "--group", "sx"), r"--group.*no 'sx'; did you mean 'sex'"),
    "group of names": ((*GOOD, "--group", "name"), r"'name' to hold at most 50 values, but it holds 800; put them"),
    "empty": (("empty.csv", "--score", "p", "--target", "y"), r"empty\.csv to hold a table, but it is empty"),
    "header only": (("header.csv", "--score", "p", "--target", "y"), r"rows below its header"),
    "ragged": (("ragged.csv", "--score", "p", "--target", "y"), r"ragged\.csv to have 2 fields.*line 3 has 1"),
    "no gzip": (("broken.csv.gz", "--score", "p", "--target", "y"), r"broken\.csv\.gz to (be a complete|hold)"),
    "no parquet": (("broken.parquet", "--score", "p", "--target", "y"), r"broken\.parquet to be a Parquet file"),
    "calibration missing": ((*GOOD, "--calibration", "calib.csv"), r"calib\.csv.*no such file; did you mean 'cal"),
    "calibration lacks": ((*GOOD, "--group", "sex", "--calibration", "narrow.csv"), r"column of narrow\.csv.*no 'sex'"),
    "calibration classes": ((*GOOD, "--calibration", "other.csv"), r"calibration labels.*'ok' and 'fraud'.*'no'"),
    "calibration itself": ((*GOOD, "--calibration", "scores.csv"), r"same file; leave it out"),
    "calibration and threshold": ((*GOOD, "--calibration", "cal.csv", "--threshold", "0.5"), r"but got both"),
    "out in no folder": ((*GOOD, "--out", "none/report.html"), r"--out to exist, but none does not; make it"),
    "out is a folder": ((*GOOD, "--out", "run"), r"--out to be a file, but run is a folder"),
    "json is a folder": ((*GOOD, "--json", "run"), r"--json to be a file, but run is a folder; add a file name"),
    "run and score": (("run", "--score", "p", "--target", "y"), r"table beside --score, but run is a folder"),
    "table and data": ((*GOOD, "--data", "x.csv"), r"--data beside the folder of a run.*leave it out"),
    "table and tolerance": ((*GOOD, "--tolerance", "0.1"), r"--tolerance beside the folder of a run"),
    "require": ((*GOOD, "--require", "recall 0.9"), r"`require`.*'recall>=0.9'.*'recall 0.9'"),
    "unknown option": ((*GOOD, "--treshold", "0.3"), r"--treshold"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls_are_one_line(case: str, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    arguments, message = WRONG[case]
    assert run(["evaluate", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert shown.err.startswith("setwise: error: ")
    assert re.search(message, shown.err), shown.err
    assert sorted(folder.rglob("*")) == before


def test_there_are_at_least_25_wrong_calls() -> None:
    assert len(WRONG) >= 25


def test_another_encoding_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "p,y,city\n" + "".join(f"{k / 100},{int(k > 60)},{('Köln', 'Bonn')[k % 2]}\n" for k in range(100))
    (folder / "latin.csv").write_bytes(text.encode("latin-1"))
    evaluate("--group", "city", table="latin.csv")
    assert "latin.csv: The file is not UTF-8; it was read as Windows-1252." in capsys.readouterr().err
