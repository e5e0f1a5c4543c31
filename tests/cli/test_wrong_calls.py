"""Wrong ways of calling ``setwise train`` on a table of one's own: each gives one line that says what to do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from setwise.cli.app import run

COLUMNS = ("amount", "country", "sex", "day", "name", "part", "w", "fraud")


def cell(name: str, k: int, value: float) -> str:
    return {
        "amount": f"{value:.3f}",
        "country": ("DE", "FR", "")[k % 3],
        "sex": "FM"[k % 2],
        "day": f"{1 + k % 28:02d}/02/2024",
        "name": f"person {k}",
        "part": ("train", "validation", "test")[k % 3],
        "w": str(1 + k % 2),
        "fraud": str(int(value > 0.8)),
    }[name]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = np.random.default_rng(0).normal(size=300)
    lines = [",".join(COLUMNS), *(",".join(cell(name, k, v) for name in COLUMNS) for k, v in enumerate(values))]
    path = tmp_path_factory.mktemp("data") / "payments.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


GOOD = ("--target", "fraud", "--drop", "day", "--drop", "name", "--drop", "part", "--drop", "w")
WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "a split that is not named": (("--target", "fraud"), r"column 'part'.*says train and test.*--split or --drop"),
    "target misspelt": (("--target", "frod"), r"`target`.*no 'frod'.*did you mean 'fraud'"),
    "target of many values": (("--target", "name"), r"`positive`.*300 values"),
    "positive unknown": ((*GOOD, "--positive", "yes"), r"`positive` to be a value of 'fraud' \('0', '1'\).*'yes'"),
    "measure misspelt": ((*GOOD, "--measure", "precision@recal>=0.9"), r"`measure`|measure"),
    "measure without a level": ((*GOOD, "--measure", "precision@recall"), r"precision@recall"),
    "level above 1": ((*GOOD, "--measure", "precision@recall>=90"), r"`recall`.*90"),
    "measure of classes": ((*GOOD, "--measure", "auc_mu"), r"`measure` to be one of two classes"),
    "measure where less is better": ((*GOOD, "--measure", "fpr@tpr>=0.9"), r"more is better"),
    "group misspelt": ((*GOOD, "--group", "sexe"), r"`group`.*'sexe'.*did you mean 'sex'"),
    "group of numbers": ((*GOOD, "--group", "amount"), r"`group` column 'amount'.*at most 20 groups"),
    "weight of text": ((*GOOD, "--weight", "country"), r"`weight` column 'country'.*row 1 holds 'DE'"),
    "weight is the target": ((*GOOD, "--weight", "fraud"), r"`weight` to be another column than the target"),
    "split of other words": ((*GOOD, "--split", "country"), r"`split` column 'country'.*train, validation and test"),
    "drop unknown": ((*GOOD, "--drop", "id"), r"`drop`.*'id'"),
    "drop the target": ((*GOOD, "--drop", "fraud"), r"`drop` to be another column than the target"),
    "drop everything": (
        (*GOOD, "--drop", "amount", "--drop", "country", "--drop", "sex"), r"at least one column of inputs"
    ),
    "constraint by its former name": ((*GOOD, "--constraint", "recall>=0.8"), r"--subject-to 'recall>=0.8'"),
    "confidence of 1": ((*GOOD, "--confidence", "1"), r"`confidence` to be in \[0, 1\).*1"),
    "constraint without level": ((*GOOD, "--subject-to", "recall"), r"constraint to be a rate.*'recall'"),
    "constraint on an unknown rate": ((*GOOD, "--subject-to", "recal>=0.8"), r"constraint.*the rates are recall"),
    "constraint on an unknown column": ((*GOOD, "--subject-to", "recall[group=gendr]>=0.8"), r"`subject_to`.*'gendr'"),
    "constraint on an unknown group": ((*GOOD, "--subject-to", "recall[sex=female]>=0.8"), r"group of 'sex' \(F, M\)"),
    "constraint level above 1": ((*GOOD, "--subject-to", "recall>=80"), r"`lower` to be in \[0\.0, 1\.0\].*80"),
    "difference without a group": ((*GOOD, "--subject-to", "tpr_difference<=0.1"), r"--group to name the column"),
    "several networks under a constraint": (
        (*GOOD, "--subject-to", "recall>=0.8", "--set", "members=4"), r"`members` to be 1 with constraints.*4"
    ),
    "model unknown": ((*GOOD, "--model", "forest"), r"`model` to be one of 'network', 'boosting'.*'forest'"),
    "setting unknown": ((*GOOD, "--set", "margins=1"), r"settings among.*`margins`"),
    "setting without a value": ((*GOOD, "--set", "margin"), r"--set name=value.*'margin'"),
    "setting of another type": ((*GOOD, "--set", "blend=much"), r"`blend` to be a number"),
    "setting out of range": ((*GOOD, "--set", "blend=2"), r"`blend`.*2"),
    "setting given twice": ((*GOOD, "--epochs", "3", "--set", "epochs=4"), r"`epochs` once"),
    "epochs zero": ((*GOOD, "--epochs", "0"), r"`epochs`.*at least 1"),
    "minority for more than there are": ((*GOOD, "--minority", "0.4"), r"`minority`"),
    "images with a column": (("IMAGES", "--group", "sex"), r"`group` only with a table"),
    "images with boosting": (("IMAGES", "--model", "boosting"), r"`model` only with a table"),
}  # fmt: skip


def test_there_are_enough_of_them() -> None:
    assert len(WRONG) >= 25


@pytest.mark.parametrize("case", WRONG)
def test_one_helpful_line(case: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options, message = WRONG[case]
    source = ["fashion", *options[1:]] if options[0] == "IMAGES" else [str(table), *options]
    assert run(["train", *source, "--out", str(tmp_path / "out")]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("setwise: error: ")
    assert output.err.count("\n") == 1
    assert "Traceback" not in output.err
    assert re.search(message, output.err), output.err
    assert not (tmp_path / "out").exists(), "nothing was started"
