"""Tables before anything is fitted: weights, groups, columns as texts, the fingerprint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from setwise._checks import InputError
from setwise.data import RawTable, read_table

Write = Callable[..., Path]

ROWS = "age,job,pay,sex,w,y\n10,clerk,1,F,1,0\n20,smith,2,M,0.5,1\n,clerk,3,F,2,0\n1000,pilot,,M,1,1\n"


@pytest.fixture
def table(write: Write) -> RawTable:
    return read_table(write(ROWS), drop=["w"])


def test_weights_and_groups(table: RawTable) -> None:
    assert table.weights("w").tolist() == [1.0, 0.5, 2.0, 1.0]
    codes, names = table.groups("sex")
    assert (codes.tolist(), names) == ([0, 1, 0, 1], ("F", "M"))
    assert table.groups("age")[1] == ("(missing)", "10", "1000", "20")
    with pytest.raises(InputError, match=r"`group` column 'age' to hold at most 3 groups, but it holds 4"):
        table.groups("age", limit=3)
    with pytest.raises(InputError, match=r"`group` to be a column, but there is no 'sax'.*did you mean 'sex'"):
        table.groups("sax")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("1 -1", r"row 2 holds '-1'"),
        ("1 inf", "'inf'"),
        ("nan 1", "row 1"),
        ("1 heavy", "'heavy'"),
        ("0 0", "above 0"),
        ("? 1", "row 1"),
    ],
)
def test_weights_that_are_none(write: Write, cells: str, message: str) -> None:
    rows = "".join(f"{k},{cell},{k}\n" for k, cell in enumerate(cells.split()))
    with pytest.raises(InputError, match=message):
        read_table(write("x,w,y\n" + rows)).weights("w")


def test_columns_as_texts(table: RawTable) -> None:
    assert table.column("age").tolist() == ["10", "20", "", "1000"]
    assert table.column("w").tolist() == ["1", "0.5", "2", "1"]
    assert table.column(1).tolist() == ["clerk", "smith", "clerk", "pilot"]
    assert dict(table.dropped) == {"w": "dropped"}
    assert (table.columns, len(table), table.name) == (("age", "job", "pay", "sex", "w", "y"), 4, "data")


def test_the_fingerprint_changes_with_any_cell(table: RawTable, write: Write) -> None:
    same = read_table(write(ROWS, "again.csv"))
    assert same.fingerprint() == table.fingerprint()
    for old, new in (("pilot", "pilots"), ("1000", "1001"), (",1,1\n", ",1,0\n"), ("0.5", ""), ("sex", "sax")):
        assert read_table(write(ROWS.replace(old, new), "other.csv"), target="y").fingerprint() != table.fingerprint()
