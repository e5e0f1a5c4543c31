"""Tables as numbers: what becomes of each kind of column, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from setwise._checks import InputError
from setwise.data import TableEncoding, load_inputs, load_keel, load_table, read_table

Write = Callable[..., Path]

MIXED = """age,job,pay,club,fraud
30,clerk,100.5,a,no
40,,?,b,yes
50,smith,300,a,no
60,clerk,NA,b,no
"""


def test_columns_become_numbers(write: Write) -> None:
    table = load_table(write(MIXED))
    assert table.columns == (
        *("age", "job=clerk", "job=smith", "job=(missing)", "pay", "pay=(missing)"),
        *("club=a", "club=b"),
    )
    expected = [
        [30, 1, 0, 0, 100.5, 0, 1, 0],
        [40, 0, 0, 1, 200.25, 1, 0, 1],
        [50, 0, 1, 0, 300, 0, 1, 0],
        [60, 1, 0, 0, 200.25, 1, 0, 1],
    ]
    np.testing.assert_array_equal(table.inputs, np.array(expected, np.float32))
    assert table.inputs.dtype == np.float32
    assert table.labels.tolist() == [0, 1, 0, 0]
    assert (table.target, table.classes, table.name, len(table)) == ("fraud", ("no", "yes"), "data", 4)


def test_target_features_and_dropped_by_name_and_position(write: Write) -> None:
    path = write(MIXED)
    table = load_table(path, target="club", features=["age", 2], drop=["fraud", 1])
    assert table.columns == ("age", "pay", "pay=(missing)")
    assert table.dropped["fraud"].tolist() == ["no", "yes", "no", "no"]
    assert table.dropped["job"].tolist() == ["clerk", "", "smith", "clerk"]
    assert load_table(path, target=3).labels.tolist() == table.labels.tolist()
    assert not any(name.startswith("job") for name in load_table(path, drop=["job"]).columns)
    both = load_table(path, features=["age", "job"], drop=["job"])
    assert both.columns == ("age", "job=clerk", "job=smith", "job=(missing)")
    rows = table.subset([1, 3])
    assert rows.dropped["fraud"].tolist() == ["yes", "no"]
    np.testing.assert_array_equal(rows.inputs, table.inputs[[1, 3]])


def test_numbers_and_names_are_told_apart(write: Write) -> None:
    table = load_table(write("a,b,c,y\n18_24,1e3,,0\n25_34,-.5,,1\n"))
    assert table.columns == ("a=18_24", "a=25_34", "b")  # underscores are no numbers; what is empty is left out
    assert table.encoding.left_out == {"c": "empty: no value at all"}
    np.testing.assert_array_equal(table.inputs[:, 2], np.array([1000, -0.5], np.float32))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, r"data.csv to hold a table, but it is empty"),
        ("\n \n", {}, r"empty"),
        ("a,b,y\n", {}, r"rows below its header"),
        ("alone\n1\n2\n", {}, r"at least two columns, the target and an input, but found one"),
        ("a,b,y\n1,2,0\n3,4\n", {}, r"3 fields in each row, as in its first, but line 3 has 2"),
        ("a,b,y\n1,2,0\n3,4,5,1\n", {}, r"line 3 has 4"),
        ("a,a,y\n1,2,0\n3,4,1\n", {}, r"different names, but 'a' comes twice"),
        ("a,b,y\n1,2,0\n3,4,0\n", {}, r"target 'y' to have two values, but it is '0' in every row"),
        ("a,b,y\n1,inf,0\n3,4,1\n", {}, r"column 'b' to hold finite numbers, but found 'inf' in row 1"),
        ("a,b,y\n1,9,\n1,inf,0\n3,4,1\n", {}, r"found 'inf' in row 2"),  # rows are counted as in the file
        ("a,b,y\n1,1e39,0\n3,4,1\n", {}, r"found '1e\+39' in row 1"),
        ("a,b,y\n1,-1e39 €,0\n3,4 €,1\n", {}, r"found '-1e39 €' in row 1"),
        (MIXED, {"target": "frod"}, r"`target` to be a column, but there is no 'frod' among age, .*mean 'fraud'"),
        (MIXED, {"features": ["aeg"]}, r"`features` to be a column"),
        (MIXED, {"drop": ["nothing"]}, r"`drop` to be a column"),
        (MIXED, {"use": ["nothing"]}, r"`use` to be a column"),
        (MIXED, {"target": 9}, r"`target` to be a position among 5 columns, but got 9"),
        (MIXED, {"features": ["fraud"]}, r"`features` to be without the target 'fraud'"),
        (MIXED, {"features": []}, r"at least one column of inputs"),
        (MIXED, {"header": "yes"}, r"`header` to be one of 'infer', True, False"),
        (MIXED, {"max_categories": 1}, r"max_categories"),
    ],
)
def test_what_is_refused(write: Write, text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_table(write(text), **options)


def test_rows_without_a_target_are_left_out_and_counted(write: Write) -> None:
    path = write("a,b,y\n1,2,0\n3,4,\n5,6,1\n7,8,NA\n")
    table = read_table(path)
    assert (len(table), table.labels.tolist()) == (2, [0, 1])
    assert table.notes == ("2 of 4 rows have no value of the target 'y' and were left out.",)
    assert load_table(path).inputs.tolist() == [[1, 2], [5, 6]]


def test_texts_of_many_values_are_hashed(write: Write) -> None:
    path = write("who,x,y\n" + "".join(f"word{k % 7} word{k},{k % 5}.5,{k % 2}\n" for k in range(30)))
    assert load_table(path, max_categories=20).inputs.shape == (30, 65)
    assert load_table(path, max_categories=30).inputs.shape == (30, 31)
    assert load_table(path, max_categories=20, drop=["who"]).inputs.shape == (30, 1)


def test_a_column_that_names_rows_is_used_if_asked_for(write: Write) -> None:
    path = write("id,x,y\n" + "".join(f"{k},{k % 7}.5,{k % 2}\n" for k in range(40)))
    table = load_table(path)
    assert table.columns == ("x",)
    assert table.encoding.identifiers == ("id",)
    assert load_table(path, use=["id"]).columns == ("id", "x")
    assert load_table(path, features=["id"]).columns == ("id",)


def test_another_table_is_read_as_the_first(write: Write) -> None:
    first = load_table(write(MIXED))
    encoding = TableEncoding.from_dict(json.loads(json.dumps(first.encoding.to_dict())))
    assert encoding == first.encoding
    other = write("fraud,club,pay,job,age\nno,c,,smith,\nno,a,5,?,20\n", "other.csv")  # another order, new values
    second = load_table(other, encoding=encoding)
    expected = [[45, 0, 1, 0, 200.25, 1, 0, 0], [20, 0, 0, 1, 5, 0, 1, 0]]
    np.testing.assert_array_equal(second.inputs, np.array(expected, np.float32))
    assert second.labels.tolist() == [0, 0]  # one class is enough here
    assert second.classes == first.classes
    np.testing.assert_array_equal(load_inputs(other, encoding), second.inputs)

    unlabelled = write("age,job,pay,club\n1,clerk,2,a\n", "new.csv")
    np.testing.assert_array_equal(load_inputs(unlabelled, encoding), [[1, 1, 0, 0, 2, 0, 1, 0]])
    with pytest.raises(InputError, match=r"`target` to be a column, but there is no 'fraud'"):
        load_table(unlabelled, encoding=encoding)
    with pytest.raises(InputError, match=r"the column that the model was trained on, but there is no 'pay' among age"):
        load_inputs(write("age,job,club\n1,clerk,a\n", "short.csv"), encoding)
    with pytest.raises(InputError, match=r"column 'age' to hold finite numbers, but found 'old' in row 1"):
        load_inputs(write("age,job,pay,club\nold,clerk,2,a\n", "text.csv"), encoding)
    with pytest.raises(InputError, match=r"'fraud' to be 'no' or 'yes', but it also holds 'maybe'"):
        load_table(write(MIXED.replace("yes", "maybe"), "odd.csv"), encoding=encoding)
    with pytest.raises(InputError, match=r"left out where `encoding` is given"):
        load_table(other, encoding=encoding, target="fraud")


def test_without_pandas_it_says_what_to_install(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(MIXED)
    for name in ("pandas", "pyarrow"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, None)
            with pytest.raises(ImportError, match="pip install"):
                load_table(path)


def test_keel_archive(tmp_path: Path) -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 1, 0], np.uint8)
    path = tmp_path / "keel.npz"
    arrays: dict[str, Any] = {"yeast4/x": x, "yeast4/y": y}
    np.savez(path, **arrays)
    table = load_keel(path, "yeast4")
    np.testing.assert_array_equal(table.inputs, x)
    assert (table.labels.tolist(), table.columns, table.name) == ([0, 1, 0], ("x0", "x1"), "yeast4")
    with pytest.raises(InputError, match=r"one of the 1 sets in .*'yeast' \(did you mean 'yeast4'\?\)"):
        load_keel(path, "yeast")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match=r"complete \.npz archive"):
        load_keel(path, "yeast4")
    with pytest.raises(FileNotFoundError, match=r"gone\.npz"):
        load_keel(tmp_path / "gone.npz", "yeast4")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "target", "shape", "positives", "header", "left_out"),
    [
        ("adult.csv.xz", "income", (48_842, 106), 11_687, True, {}),
        ("compas_two_years.csv.xz", None, (7_214, 26), 3_251, True, {}),
        ("german.data", None, (1_000, 61), 300, False, {}),
        ("haberman.csv.xz", None, (306, 3), 81, False, {}),
        ("mammography.csv.xz", None, (11_183, 6), 260, False, {}),
        ("oil_spill.csv.xz", None, (937, 48), 41, False, {"x22": "constant: 0 in every row"}),
        ("phoneme.csv.xz", None, (5_404, 5), 1_586, False, {}),
        ("pima_indians_diabetes.csv.xz", None, (768, 8), 268, False, {}),
        ("uci_credit_default.csv.xz", None, (30_000, 32), 6_636, True, {}),
    ],
)
def test_real_tables(
    real_set: Callable[[str], Path],
    name: str,
    target: str | None,
    shape: tuple[int, int],
    positives: int,
    header: bool,
    left_out: dict[str, str],
) -> None:
    drop = ["split", "sex"] if target else []
    table = load_table(real_set("tabular") / name, target=target, drop=drop)
    assert table.inputs.shape == shape
    assert table.labels.sum() == positives
    assert table.encoding.header is header
    assert np.isfinite(table.inputs).all()
    assert table.encoding.left_out == {**left_out, **dict.fromkeys(drop, "dropped")}
    if target:
        assert set(table.dropped["split"]) == {"train", "test"}
        assert set(table.dropped["sex"]) == {"Male", "Female"}


@pytest.mark.data
def test_real_keel_sets(real_set: Callable[[str], Path]) -> None:
    table = load_keel(real_set("tabular") / "keel_imbalanced.npz", "yeast4")
    assert table.inputs.shape == (1484, 8)
    assert table.labels.sum() == 51
