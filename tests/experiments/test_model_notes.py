from __future__ import annotations

from setwise.data import CategoryCode, NumberCode, TableEncoding
from setwise.experiments.comparison import ComparisonSettings
from setwise.experiments.model_notes import column_notes, usage_notes


def test_every_column_has_a_note() -> None:
    features = (
        NumberCode("age"),
        NumberCode("debt", median=2.5, indicator=True),
        CategoryCode("job", categories=("a", "b", "")),
        CategoryCode("sex", categories=("f",)),
    )
    encoding = TableEncoding(features, "fraud", "yes", "no")
    settings = ComparisonSettings(
        measure="auc", data="bank.csv", weight="w", split="part", drop=("id", "race"), group=("sex", "race")
    )
    assert column_notes(encoding, settings) == {
        "age": "number",
        "debt": "number; where missing, the median 2.5, and a further input says so",
        "job": "category: 2 values, one 0/1 input each; missing is a value of its own",
        "sex": "category: 1 value, one 0/1 input each; results by group",
        "fraud": "target; positive: yes",
        "w": "sample weight, no input",
        "part": "says which rows train, validate and test; no input",
        "id": "dropped",
        "race": "dropped; results by group",
    }


def test_the_texts_to_copy_are_relative_and_compile() -> None:
    command, python = usage_notes().values()
    assert command.startswith("setwise predict model.safetensors ")
    compile(python, "usage", "exec")
