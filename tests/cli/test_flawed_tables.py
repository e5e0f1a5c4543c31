"""Every flaw of a table, through ``setwise train``: a good model, or one line that says what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from setwise import metrics
from setwise.app.model_file import TableModel, load_model
from setwise.cli.app import run
from setwise.data import read_table
from support.flawed_tables import FLAWS, write_bytes

QUICK = ("--models", "logistic")
SEVERAL = ("three classes",)  # what reads a table of one class against the others refuses, training takes
CHANCE = ("five positives",)  # whose labels have nothing to do with "x"


@pytest.mark.parametrize("flaw", FLAWS)
def test_each_flaw_ends_in_a_good_model_or_in_one_line(
    flaw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = FLAWS[flaw]
    path, out = tmp_path / case.name, tmp_path / "out"
    path.write_bytes(write_bytes(case))
    code = run(["train", str(path), *case.options, "--out", str(out), *QUICK])
    output = capsys.readouterr()
    kind, expected = case.expected
    if flaw in SEVERAL:
        assert code == 0, output.err
        assert len(load_model(out).encoding.classes) == 3
        assert "for each of 3 classes against the others" in output.out
        return
    if kind == "refuses":
        assert code == 2
        assert output.out == ""
        assert output.err.startswith("setwise: error: ")
        assert output.err.count("\n") == 1
        assert re.search(str(expected), output.err)
        assert not out.exists()
        return
    assert code == 0, output.err
    said = output.err.replace("\n", " ")
    for text in expected:
        assert text in said
    # The model has learnt from "x", whatever stands beside it: on the file's own rows, read anew.
    positive = case.options[case.options.index("--positive") + 1] if "--positive" in case.options else None
    target = case.options[1] if "--target" in case.options else None
    table = read_table(path, target=target, positive=positive)
    found = TableModel.load(out).apply(table.frame)
    assert flaw in CHANCE or metrics.auroc(found.scores, table.labels) > 0.8
    assert run(["predict", str(out), str(path), "--out", str(tmp_path / "predictions.csv")]) == 0
