"""Tables before anything is fitted: Parquet, dates, what is learnt from the training rows alone, and what is new."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from setwise._checks import InputError
from setwise.data import RawTable, load_inputs, load_table, read_table
from setwise.data._dates import are_dates


def write(folder: Path, text: str, name: str = "data.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


ROWS = "age,job,pay,sex,w,y\n10,clerk,1,F,1,0\n20,smith,2,M,0.5,1\n,clerk,3,F,2,0\n1000,pilot,,M,1,1\n"


@pytest.fixture
def table(tmp_path: Path) -> RawTable:
    return read_table(write(tmp_path, ROWS), aside=["w"])


def test_medians_categories_and_indicators_come_from_the_given_rows(table: RawTable) -> None:
    part = table.fit([0, 1])
    assert part.columns == ("age", "job=clerk", "job=smith", "pay", "sex=F", "sex=M")
    assert part.features[0].median == 15.0
    expected = [[15, 1, 0, 3, 1, 0], [1000, 0, 0, 1.5, 0, 1]]  # the outlier of row 3 moved no median
    np.testing.assert_array_equal(table.encode(part, [2, 3]), np.array(expected, np.float32))
    whole = table.fit()
    assert whole.columns[:2] == ("age", "age=(missing)")
    assert "job=pilot" in whole.columns
    assert whole.features[0].median == 20.0


def test_a_column_without_values_in_these_rows_is_left_out(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a,b,c,y\n,,1,0\n,,2,1\n3,x,3,1\n"))
    assert table.fit([0, 1]).columns == ("c",)
    assert table.fit().columns == ("a", "a=(missing)", "b=x", "b=(missing)", "c")


def test_the_kind_of_a_column_is_that_of_all_its_cells(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a,b,y\n1,1,0\n2,2,1\nlow,3,1\n"))
    assert table.fit([0, 1]).columns == ("a=1", "a=2", "b")


def test_what_is_new_is_said(table: RawTable) -> None:
    encoding = table.fit([0, 1])
    assert encoding.remarks(table.cells) == [
        "Left out, since the model does not know them: w.",
        "Column 'age': 1 missing, taken for the median 15.",
        "Column 'job': 1 with values not seen before ('pilot'), taken for none of the known values.",
        "Column 'pay': 1 missing, taken for the median 1.5.",
    ]
    assert table.fit().remarks({name: cells for name, cells in table.cells.items() if name != "w"}) == []
    cells = {name: list(values) for name, values in table.cells.items() if name != "w"}
    cells["job"] = ["", "a", "b", "c"]
    (remark,) = [text for text in table.fit().remarks(cells) if "job" in text]
    assert "3 with values not seen before ('a', 'b', 'c') and 1 missing, taken for none" in remark


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
        ("? 1", "'\\?'"),
    ],
)
def test_weights_that_are_none(tmp_path: Path, cells: str, message: str) -> None:
    rows = "".join(f"{k},{cell},{k}\n" for k, cell in enumerate(cells.split()))
    with pytest.raises(InputError, match=message):
        read_table(write(tmp_path, "x,w,y\n" + rows)).weights("w")


def test_the_fingerprint_changes_with_any_cell(table: RawTable, tmp_path: Path) -> None:
    same = read_table(write(tmp_path, ROWS, "again.csv"))
    other = read_table(write(tmp_path, ROWS.replace("pilot", "pilots"), "other.csv"))
    assert same.fingerprint() == table.fingerprint() != other.fingerprint()


# ---------------------------------------------------------------- dates

DATES = ("2024-01-31", "2024/1/3", "31.01.2024", "01/31/24", "31 Jan 2024", "Jan 31, 2024", "2024-01-31 10:30",
         "2024-01-31T10:30:00.5Z", "2024-01-31 10:30:00+02:00", "10:30", "9:05 PM")  # fmt: skip
NO_DATES = ("18-24", "1-2", "1.2.3", "2024", "20240131", "10.0.0.1", "A-1-2024", "Mayor 1", "3:2:1:0", "1/2")


@pytest.mark.parametrize("text", DATES)
def test_dates_are_refused(tmp_path: Path, text: str) -> None:
    assert are_dates([text])
    path = write(tmp_path, f'when,x,y\n"{text}",1,0\n"{text}",2,1\n,3,1\n')
    with pytest.raises(InputError, match=r"column 'when' .* dates or times.*`aside`, --drop"):
        load_table(path)
    assert load_table(path, aside=["when"]).columns == ("x",)


@pytest.mark.parametrize("text", NO_DATES)
def test_other_texts_are_no_dates(text: str) -> None:
    assert not are_dates([text])
    assert not are_dates(["2024-01-31", text])


# ---------------------------------------------------------------- Parquet


def parquet(folder: Path, columns: dict[str, list[Any]], name: str = "data.parquet") -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), folder / name)
    return folder / name


def test_parquet_is_read_as_the_same_csv(tmp_path: Path) -> None:
    columns: dict[str, list[Any]] = {"age": [10, None, 30], "job": ["clerk", None, "smith"], "pay": [0.1, 1e-9, 3.5]}
    columns["y"] = [True, False, True]
    first = load_table(parquet(tmp_path, columns))
    second = load_table(write(tmp_path, "age,job,pay,y\n10,clerk,0.1,True\n,,1e-9,False\n30,smith,3.5,True\n"))
    assert first.encoding == second.encoding
    np.testing.assert_array_equal(first.inputs, second.inputs)
    assert first.labels.tolist() == [1, 0, 1]
    plain_name = parquet(tmp_path, columns, "table.bin")  # known by its first bytes
    np.testing.assert_array_equal(load_inputs(plain_name, first.encoding), first.inputs)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"when": [dt.date(2024, 1, 1), dt.date(2024, 1, 2)], "y": [0, 1]}, r"'when' .* dates or times"),
        ({"when": [dt.datetime(2024, 1, 1, 5), dt.datetime(2024, 1, 2)], "y": [0, 1]}, r"dates or times"),  # noqa: DTZ001
        ({"x": [[1], [2]], "y": [0, 1]}, r"column 'x' of .* holds lists"),
        ({"x": [b"a", b"b"], "y": [0, 1]}, r"holds bytes"),
        ({"y": [0, 1]}, r"at least two columns"),
        ({"x": [], "y": []}, r"to hold rows"),
    ],
)
def test_parquet_that_is_refused(tmp_path: Path, columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_table(parquet(tmp_path, columns))


def test_a_broken_parquet_file(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = write(tmp_path, "no parquet at all", "data.parquet")
    with pytest.raises(InputError, match=r"data\.parquet to be a Parquet file"):
        load_table(path)


def test_without_pyarrow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "PAR1", "data.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"data\.parquet needs `pyarrow`: pip install pyarrow"):
        load_table(path)
