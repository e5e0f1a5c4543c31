"""Inspection: the columns, what may go wrong, and the command."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from setwise._checks import InputError
from setwise.data import Inspection, inspect, read_table
from support.flawed_tables import DAYS, ROWS, X, Y, text_table

Write = Callable[..., Path]


def about(found: Inspection) -> set[tuple[str, str | None]]:
    return {(warning.about, warning.column) for warning in found.warnings}


def test_every_column_is_reported_in_order(write: Write) -> None:
    path = write(text_table(id=range(ROWS), when=DAYS, job=["a", "b", ""] * 100, gone=[""] * ROWS))
    found = inspect(path, target="y", drop=["job"])
    assert [(column.name, column.kind) for column in found.columns] == [
        *(
            ("x", "number"),
            ("id", "identifier"),
            ("when", "date"),
            ("job", "dropped"),
            ("gone", "empty"),
            ("y", "target"),
        ),
    ]
    by_name = {column.name: column for column in found.columns}
    assert (by_name["job"].missing, by_name["job"].distinct) == (100, 2)
    assert by_name["when"].becomes.startswith("date: days since 2021-01-0")
    assert by_name["y"].becomes == f"target; positive: 1 ({Y.sum()} of 300)"
    assert (found.rows, found.positives, found.target, found.classes) == (300, Y.sum(), "y", ("0", "1"))
    assert found.left_out.keys() == {"id", "gone"}
    assert found.summary == f"300 rows, {Y.sum()} of them positive ({100 * Y.mean():.3g} %): y is '1'."
    shown = str(found)
    for text in ("column", "what becomes of it", "! Column 'id' is left out", found.summary):
        assert text in shown


def test_the_command_can_be_pasted(write: Write) -> None:
    columns: dict[str, Any] = {"a b": range(ROWS), "sex": ["F", "M"] * 150, "part": ["train", "test"] * 150}
    path = write(text_table(**columns), "my data.csv")
    found = inspect(
        path, target="y", positive=1, measure="auc", subject_to="recall>=0.5", drop=[1], group=["sex"], use=["x"]
    )
    assert shlex.split(found.command) == [
        *("setwise", "train", str(path), "--target", "y", "--positive", "1", "--measure", "auc"),
        *("--subject-to", "recall>=0.5", "--group", "sex", "--drop", "a b", "--use", "x", "--split", "part"),
    ]
    assert ("split", "part") in about(found)
    assert inspect({"x": X, "y": Y}).command == ""


def test_leaks(write: Write) -> None:
    columns: dict[str, Any] = {
        "paid": np.where(Y == 1, "no", "yes"),
        "rate": Y + X / 100,
        "closed": [day if y else "" for day, y in zip(DAYS, Y, strict=True)],
        "fair": ["a", "b", "c"] * 100,
        "many": [f"k{k * 7 % 150}" for k in range(ROWS)],
    }
    found = inspect(write(text_table(**columns)), target="y")
    assert {name for kind, name in about(found) if kind == "leak"} == {"paid", "rate", "closed"}


def test_rows_sorted_by_the_target_and_columns_that_count_rows() -> None:
    order = np.argsort(Y, kind="stable")
    found = inspect({"x": X[order], "y": Y[order]})
    assert about(found) == {("order", None)}
    assert about(inspect({"t": np.cumsum(np.abs(X) + 0.1), "y": Y})) == {("order", "t")}
    assert about(inspect({"t": np.cumsum(np.abs(X) + 0.1), "y": Y}, use=["t"])) == set()


def test_copies_of_rows() -> None:
    found = inspect({"x": np.tile(X[:100], 3), "y": np.tile(Y[:100], 3)})
    assert about(found) == {("duplicates", None)}
    assert "200 of 300 rows" in found.warnings[0].message


@pytest.mark.parametrize(("code", "said"), [(-999, True), (999, True), (-1, False), (90, False)])
def test_numbers_that_stand_for_missing(code: int, said: bool) -> None:
    found = inspect({"age": [code if k % 7 == 0 else 20 + k % 61 for k in range(ROWS)], "x": X, "y": Y})
    assert (("cells", "age") in about(found)) is said


def test_numbers_that_cannot_be_computed_with_are_said_with_their_row() -> None:
    labels: list[object] = list(Y)
    labels[0] = None
    columns = {"x": [*X[:9], np.inf, *X[10:]], "y": labels}
    found = inspect(columns)
    (warning,) = [warning for warning in found.warnings if warning.column == "x"]
    assert "in row 10" in warning.message
    with pytest.raises(InputError, match="found 'inf' in row 10"):
        read_table(columns).fit()


def test_too_few_positives_for_a_floor() -> None:
    columns = {"x": X, "sex": ["F", "M", "M"] * 100, "y": Y}
    messages = [warning.message for warning in inspect(columns, subject_to="recall>=0.999").warnings]
    assert len(messages) == 1
    assert messages[0].startswith("Too few rows to certify recall>=0.999")
    assert inspect(columns, subject_to=["recall>=0.9"]).warnings == ()
    assert inspect(columns, subject_to="recall>=0.999", confidence=0).warnings == ()
    by_group = inspect(columns, subject_to="recall[group=sex]>=0.95")
    assert "in sex = F" in by_group.warnings[0].message
    few = inspect({"x": X, "y": [int(k < 1) for k in range(ROWS)]})
    assert "There is only 1 positive:" in few.warnings[-1].message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subject_to": "recal>=0.9"}, "recall>=0.9"),
        ({"subject_to": ["recall"]}, "`subject_to`"),
        ({"confidence": 1.0}, r"`confidence` to be in \[0, 1\)"),
        ({"group": ["sax"]}, "`group` to be a column, but there is no 'sax'"),
        ({"drop": ["sax"]}, "`drop` to be a column"),
        ({"target": "z"}, "`target` to be a column"),
    ],
)
def test_what_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        inspect({"x": X, "y": Y}, **options)
