"""Wrong ways of calling ``setwise train`` on a table of one's own: each gives one line that says what to do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from setwise.cli.app import run

COLUMNS = ("amount", "country", "sex", "day", "name", "part", "w", "half", "bad", "worse", "one", "fraud")


def cell(name: str, k: int, value: float) -> str:
    return {
        "amount": f"{value:.3f}",
        "country": ("DE", "FR", "")[k % 3],
        "sex": "FM"[k % 2],
        "day": f"{1 + k % 28:02d}/02/2024",
        "name": f"person {k}",
        "part": ("train", "validation", "test")[k % 3],
        "w": str(1 + k % 2),
        "half": "train",
        "bad": "test" if value > 0.8 and k % 2 else "train",
        "worse": "test" if value > 0.8 or k % 3 == 0 else "train",
        "one": "site",
        "fraud": str(int(value > 0.8)),
    }[name]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = np.random.default_rng(0).normal(size=300)
    lines = [",".join(COLUMNS), *(",".join(cell(name, k, v) for name in COLUMNS) for k, v in enumerate(values))]
    path = tmp_path_factory.mktemp("data") / "payments.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


APART = ("day", "name", "part", "w", "bad", "worse")
GOOD = ("--target", "fraud", *(text for name in APART for text in ("--drop", name)))
PART = r"column 'part'.*says train and test.*--split or --drop"
WRONG: dict[str, tuple[tuple[str, ...], str]] = {
    "a split that is not named": (("--target", "fraud"), PART),
    "target misspelt": (("--target", "frod"), r"`target`.*no 'frod'.*did you mean 'fraud'"),
    "target of many values": (("--target", "name"), r"`positive`.*300 values"),
    "positive unknown": ((*GOOD, "--positive", "yes"), r"`positive` to be a value of 'fraud' \('0', '1'\).*'yes'"),
    "measure misspelt": ((*GOOD, "--measure", "precision@recal>=0.9"), r"`measure`|measure"),
    "measure without a level": ((*GOOD, "--measure", "precision@recall"), r"precision@recall"),
    "level above 1": ((*GOOD, "--measure", "precision@recall>=90"), r"`recall`.*90"),
    "measure of classes": ((*GOOD, "--measure", "auc_mu"), r"`measure` to be one of two classes"),
    "measure of scores alone": ((*GOOD, "--measure", "ndcg@10"), r"`measure`"),
    "group misspelt": ((*GOOD, "--group", "sexe"), r"`group`.*'sexe'.*did you mean 'sex'"),
    "group of numbers": ((*GOOD, "--group", "amount"), r"`group` column 'amount'.*at most 20 groups"),
    "weight of text": ((*GOOD, "--weight", "country"), r"`weight` column 'country'.*row 1 holds 'DE'"),
    "weight misspelt": ((*GOOD, "--weight", "W"), r"`weight`.*no 'W'.*did you mean 'w'"),
    "weight is the target": ((*GOOD, "--weight", "fraud"), r"`weight` to be another column than the target"),
    "weights beyond their bound": (
        (*GOOD, "--weight", "w", "--max-weight", "1.5", "--subject-to", "recall>=0.5"),
        r"`max_weight`.*1\.5",
    ),
    "bound of weights negative": ((*GOOD, "--weight", "w", "--max-weight", "-1"), r"`max_weight`.*-1"),
    "bound of weights no number": ((*GOOD, "--weight", "w", "--max-weight", "nan"), r"`max_weight`.*nan"),
    "bound of weights without weights": ((*GOOD, "--max-weight", "3"), r"--weight .*beside --max-weight"),
    "split of other words": ((*GOOD, "--split", "country"), r"`split` column 'country'.*train and test.*'DE'"),
    "split misspelt": ((*GOOD, "--split", "parts"), r"`split`.*'parts'.*did you mean 'part'"),
    "split without a test": ((*GOOD, "--split", "half"), r"`split` column 'half' to hold train and test.*'train'"),
    "split with one class in the test": ((*GOOD, "--split", "bad"), r"test rows to hold both classes"),
    "split with one class to learn from": (
        (*GOOD, "--split", "worse"),
        r"at least 2 positives and 2 negatives.* has 0 and",
    ),
    "time misspelt": ((*GOOD, "--time-column", "dya"), r"`time_column`.*'dya'.*did you mean 'day'"),
    "time of texts": ((*GOOD, "--time-column", "country"), r"`time_column` to be a column of dates.*'country'"),
    "folds of an unknown column": ((*GOOD, "--group-folds", "person"), r"`group_folds`.*'person'"),
    "one group only": ((*GOOD, "--group-folds", "one"), r"at least 2 groups"),
    "time and groups": (
        (*GOOD, "--time-column", "day", "--group-folds", "name"),
        r"`time_column` or `group_folds`, but got both",
    ),
    "one column as time and as weight": (
        (*GOOD, "--time-column", "w", "--weight", "w"),
        r"different columns, but 'w' is `weight` and `time_column`",
    ),
    "one column as split and as groups": (
        (*GOOD, "--split", "part", "--group-folds", "part"),
        r"different columns, but 'part'",
    ),
    "the target orders the rows": (
        (*GOOD, "--time-column", "fraud"),
        r"`time_column` to be another column than the target",
    ),
    "used and dropped": ((*GOOD, "--use", "name"), r"`use` or in `drop`, but 'name' is in both"),
    "use unknown": ((*GOOD, "--use", "nam"), r"`use`.*'nam'.*did you mean 'name'"),
    "drop unknown": ((*GOOD, "--drop", "id"), r"`drop`.*'id'"),
    "drop the target": ((*GOOD, "--drop", "fraud"), r"`drop` to be another column than the target"),
    "drop everything": (
        (*GOOD, "--drop", "amount", "--drop", "country", "--drop", "sex", "--drop", "half", "--drop", "one"),
        r"at least one column of inputs",
    ),
    "constraint by its former name": ((*GOOD, "--constraint", "recall>=0.8"), r"No such option.*--constraint"),
    "confidence of 1": ((*GOOD, "--confidence", "1"), r"`confidence` to be in \[0, 1\).*1"),
    "confidence in percent": ((*GOOD, "--confidence", "95"), r"`confidence` to be in \[0, 1\).*95"),
    "constraint without level": ((*GOOD, "--subject-to", "recall"), r"constraint to be a rate.*'recall'"),
    "constraint on an unknown rate": ((*GOOD, "--subject-to", "recal>=0.8"), r"constraint.*the rates are recall"),
    "constraint on an unknown column": ((*GOOD, "--subject-to", "recall[group=gendr]>=0.8"), r"`subject_to`.*'gendr'"),
    "constraint on an unknown group": ((*GOOD, "--subject-to", "recall[sex=female]>=0.8"), r"group of 'sex' \(F, M\)"),
    "constraint level above 1": ((*GOOD, "--subject-to", "recall>=80"), r"`lower` to be in \[0\.0, 1\.0\].*80"),
    "difference without a group": ((*GOOD, "--subject-to", "tpr_difference<=0.1"), r"--group to name the column"),
    "candidate of constraints without any": (
        (*GOOD, "--models", "network_constrained"),
        r"constraints by group beside the candidate",
    ),
    "model unknown": ((*GOOD, "--models", "logistic,forest"), r"`models` among logistic, .*'forest'"),
    "model misspelt": ((*GOOD, "--models", "lightgmb"), r"`models` among .*'lightgmb'.*did you mean 'lightgbm'"),
    "no model": ((*GOOD, "--models", " , "), r"`models`"),
    "model by its former option": ((*GOOD, "--model", "boosting"), r"No such option.*--model"),
    "one fold": ((*GOOD, "--folds", "1"), r"`folds`.*at least 2"),
    "folds no number": ((*GOOD, "--folds", "many"), r"--folds"),
    "no worker": ((*GOOD, "--workers", "0"), r"`workers`.*0"),
    "time limit negative": ((*GOOD, "--time-limit", "-3"), r"`time_limit`.*-3"),
    "time limit of nothing": ((*GOOD, "--time-limit", "0"), r"`time_limit`.*0"),
    "time limit no number": ((*GOOD, "--time-limit", "soon"), r"--time-limit"),
    "seed beyond all": ((*GOOD, "--seed", "99999999999"), r"`seed`.*99999999999"),
    "resume and overwrite": ((*GOOD, "--resume", "--overwrite"), r"--resume or --overwrite, but got both"),
    "resume without a run": ((*GOOD, "--resume"), r"no settings\.json"),
    "a table with settings of the recipe": (
        (*GOOD, "--set", "blend=1"),
        r"--set only with images, but the data is a table",
    ),
    "a table with epochs": ((*GOOD, "--epochs", "3"), r"--epochs only with images"),
    "a table with seeds": ((*GOOD, "--seeds", "3"), r"--seeds only with images"),
    "a table with minority": ((*GOOD, "--minority", "0.1"), r"--minority only with images"),
    "a table with batches": ((*GOOD, "--batch-size", "8"), r"--batch-size only with images"),
    "a table with patience": ((*GOOD, "--patience", "8"), r"--patience only with images"),
    "a table with threads": ((*GOOD, "--threads", "2"), r"--threads only with images"),
    "images with a column": (("IMAGES", "--group", "sex"), r"--group only with a table"),
    "images with a target": (("IMAGES", "--target", "sex"), r"--target only with a table"),
    "images with models": (("IMAGES", "--models", "logistic"), r"--models only with a table"),
    "images with a time limit": (("IMAGES", "--time-limit", "5"), r"--time-limit only with a table"),
    "images with folds": (("IMAGES", "--folds", "5"), r"--folds only with a table"),
    "images with a seed": (("IMAGES", "--seed", "5"), r"--seed only with a table"),
    "images with a constraint": (("IMAGES", "--subject-to", "recall>=0.8"), r"--subject-to only with a table"),
    "setting unknown": (("IMAGES", "--set", "margins=1"), r"settings among.*`margins`"),
    "setting without a value": (("IMAGES", "--set", "margin"), r"--set name=value.*'margin'"),
    "setting of another type": (("IMAGES", "--set", "blend=much"), r"`blend` to be a number"),
    "setting out of range": (("IMAGES", "--set", "blend=2"), r"`blend`.*2"),
    "setting given twice": (("IMAGES", "--epochs", "3", "--set", "epochs=4"), r"`epochs` once"),
    "setting of a table": (("IMAGES", "--set", "target=x"), r"--target only with a table"),
    "unknown setting": (("IMAGES", "--set", "model=boosting"), r"among .* but got `model`"),
    "epochs zero": (("IMAGES", "--epochs", "0"), r"`epochs`.*at least 1"),
    "measure of images where less is better": (("IMAGES", "--measure", "fpr@tpr>=0.9"), r"more is better"),
}  # fmt: skip


def test_there_are_enough_of_them() -> None:
    assert len(WRONG) >= 75


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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--subject-to", "precision>=0.999"), r"\nNot certified: .*precision >= 0\.999.*\n"),
        (("--subject-to", "recall>=1", "--subject-to", "fpr<=0"), r"\nNot certified: .*"),
        (("--measure", "precision@recall>=0.999"), r"\nNot certified: \d+ positives cannot certify recall >= 0\.999"),
        (("--subject-to", "fpr<=0", "--confidence", "0"), r"fpr<=0: met on the rows of the table \(0\.000\)"),
        (("--measure", "fpr@tpr>=0.9"), r"FPR at TPR 0\.9 \[95 %\]"),
    ],
)  # fmt: skip
def test_what_is_hard_to_meet_is_no_error(
    options: tuple[str, ...], said: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A floor that no threshold meets, or that so few rows cannot certify, is said; there is a model all the same."""
    out = tmp_path / "out"
    assert run(["train", str(table), *GOOD, "--models", "logistic", *options, "--out", str(out)]) == 0
    assert re.search(said, capsys.readouterr().out)
    assert run(["predict", str(out), str(table), "--out", str(tmp_path / "predictions.csv")]) == 0
