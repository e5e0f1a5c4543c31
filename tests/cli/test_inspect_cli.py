"""``setwise inspect``: the table of columns, the warnings, and a command that can be pasted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from setwise.cli.app import run


@pytest.fixture
def table(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(400, 2))
    label = x[:, 0] + generator.normal(size=400) > 1.6
    lines = ["order id,amount,charged back,kind,fraud"]
    for k in range(400):
        back = "2024-02-03" if label[k] else ""
        lines.append(f"{k},{100 * x[k, 0]:.2f},{back},{'ab'[k % 2]},{('no', 'yes')[int(label[k])]}")
    path = tmp_path / "my orders.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_columns_warnings_and_command(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--target", "fraud", "--measure", "precision@recall>=0.95", "--group", "kind"]
    assert run(["inspect", str(table), *options]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"400 rows, \d+ of them positive \(\d+\.?\d* %\): fraud is 'yes'", shown)
    assert re.search(r"order id +identifier +0 +400 +left out", shown)
    assert re.search(r"charged back +(constant|category|date) +\d+ \(\d+ %\)", shown)
    assert "! Column 'charged back' alone separates the classes by where it is missing" in shown
    assert "--drop 'charged back'" in shown
    assert re.search(r"! Too few rows to certify recall>=0\.95: .* positives cannot certify recall >= 0\.95", shown)
    command = shlex.split(shown.rsplit("\n  ", 1)[1])
    assert command == ["setwise", "train", str(table), *options[:4], "--group", "kind"]
    assert run([*command[1:], "--models", "logistic", "--out", str(table.parent / "out")]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv"], r"none\.csv, but there is no such file"),
        (["TABLE", "--target", "frod"], r"`target`.*did you mean 'fraud'"),
        (["TABLE", "--drop", "kin"], r"`drop`.*did you mean 'kind'"),
        (["TABLE", "--measure", "auk"], r"measure"),
        (["TABLE", "--confidence", "2"], r"`confidence`"),
        (["TABLE", "--subject-to", "recal>=0.9"], r"recall>=0\.9"),
        ([], "DATA"),
    ],
)
def test_wrong_calls_are_one_line(
    table: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", *(str(table) if each == "TABLE" else each for each in arguments)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("setwise: error: ")
    assert output.err.count("\n") == 1
    assert re.search(message, output.err)
