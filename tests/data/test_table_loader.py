"""Tables: what becomes of each kind of column and target, and what is refused."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from setwise._checks import InputError
from setwise.data import TableEncoding, load_inputs, load_keel, load_table

MIXED = """age,job,pay,club,fraud
30,clerk,100.5,a,no
40,,?,b,yes
50,smith,300,a,no
60,clerk,NA,b,no
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def to_file(text: str, name: str = "data.csv") -> Path:
        path = tmp_path / name
        pack: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}
        path.write_bytes(pack.get(path.suffix, bytes)(text.encode()))
        return path

    return to_file


def test_columns_become_numbers(write: Callable[..., Path]) -> None:
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


@pytest.mark.parametrize(
    ("name", "sep"), [("a.tsv", "\t"), ("a.csv", ";"), ("a.data", " "), ("a.csv.gz", ","), ("a.csv.xz", "|")]
)
def test_separators_and_compression(write: Callable[..., Path], name: str, sep: str) -> None:
    text = MIXED.replace("40,,", "40,?,").replace(",", sep)
    np.testing.assert_array_equal(load_table(write(text, name)).inputs, load_table(write(MIXED, "plain.csv")).inputs)


def test_a_given_separator_wins(write: Callable[..., Path]) -> None:
    path = write("1,5;2,5;0\n3,5;1,5;1\n")
    assert load_table(path, sep=";").columns[0] == "x0=1,5"
    assert load_table(path, sep=",", target=-1, positive="5;1").inputs.shape[0] == 2


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("a,b,y\n1,2,0\n3,4,1\n", True),
        ("1,2,0\n3,4,1\n", False),
        ("0.5,1.5,'-1'\n0.7,2.5,'1'\n", False),
        ("A11 6 A34 1\nA12 48 A32 2\n", False),
        ("red,big,yes\nred,small,no\n", False),
        ("colour,size,good\nred,big,yes\nblue,big,no\n", True),
        ("id,2019,y\n1,5,0\n2,6,1\n", True),
        ("?,1,0\n2,3,1\n", False),
        ('"a","b","y"\n1,2,0\n3,4,1\n', True),
        ("\ufeffa,b,y\n1,2,0\n3,4,1\n", True),
        ("a, b, y\r\n1, 2, 0\r\n3, 4, 1\r\n\r\n", True),
    ],
)
def test_header_is_found(write: Callable[..., Path], text: str, header: bool) -> None:
    table = load_table(write(text))
    assert table.encoding.header is header
    assert len(table) == text.strip().count("\n") + (not header)
    if not header:
        assert table.target == f"x{len(text.splitlines()[0].replace(',', ' ').split()) - 1}"


def test_header_can_be_said(write: Callable[..., Path]) -> None:
    path = write("1,2,0\n3,4,1\n5,6,0\n")
    table = load_table(path, header=True)
    assert (len(table), table.target, table.columns) == (2, "0", ("1", "2"))
    assert load_table(path, header=False).target == "x2"
    with pytest.raises(InputError, match=r"`header` to be one of 'infer', True, False"):
        load_table(path, header="yes")


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ("1 1 1 0", ("0", "1")),  # label 1 is positive also where it is the more frequent
        ("1 1 1 -1", ("-1", "1")),
        ("True True False True", ("False", "True")),
        ("1 2 1 1", ("1", "2")),  # any other pair: the rarer
        ("1 2 2 2", ("2", "1")),
        ("b a b a", ("a", "b")),  # equal counts: the later
        ("10 9 10 9", ("9", "10")),  # numbers in their order, not as texts
        ("'good' 'bad' 'good' 'good'", ("good", "bad")),
        ("1.0 0.0 0.0 0.0", ("0", "1")),
        ("none attack none none", ("none", "attack")),
    ],
)
def test_which_value_is_positive(write: Callable[..., Path], values: str, classes: tuple[str, str]) -> None:
    rows = "".join(f"{k},{value}\n" for k, value in enumerate(values.split()))
    table = load_table(write("x,y\n" + rows))
    assert table.classes == classes
    spelled = [v.strip("'").replace(".0", "") for v in values.split()]
    assert table.labels.tolist() == [int(value == classes[1]) for value in spelled]


@pytest.mark.parametrize("positive", [2, "2", 2.0])
def test_many_values_need_a_positive_one(write: Callable[..., Path], positive: object) -> None:
    path = write("x,y\n1,0\n2,1\n3,2\n4,2\n")
    with pytest.raises(InputError, match=r"`positive` .* since it has 3 values: '0', '1', '2'\."):
        load_table(path)
    table = load_table(path, positive=positive)
    assert table.labels.tolist() == [0, 0, 1, 1]
    assert table.classes == ("not 2", "2")
    with pytest.raises(InputError, match=r"`positive` to be a value of 'y'"):
        load_table(path, positive=7)


def test_target_features_and_aside_by_name_and_position(write: Callable[..., Path]) -> None:
    path = write(MIXED)
    table = load_table(path, target="club", features=["age", 2], aside=["fraud", 1])
    assert table.columns == ("age", "pay", "pay=(missing)")
    assert table.aside["fraud"].tolist() == ["no", "yes", "no", "no"]
    assert table.aside["job"].tolist() == ["clerk", "", "smith", "clerk"]
    assert load_table(path, target=3).labels.tolist() == table.labels.tolist()
    assert not any(name.startswith("job") for name in load_table(path, aside=["job"]).columns)
    both = load_table(path, features=["age", "job"], aside=["job"])
    assert both.columns == ("age", "job=clerk", "job=smith", "job=(missing)")
    rows = table.subset([1, 3])
    assert rows.aside["fraud"].tolist() == ["yes", "no"]
    np.testing.assert_array_equal(rows.inputs, table.inputs[[1, 3]])


def test_numbers_and_names_are_told_apart(write: Callable[..., Path]) -> None:
    table = load_table(write("a,b,c,y\n18_24,1e3,,0\n25_34,-.5,,1\n"))
    assert table.columns == ("a=18_24", "a=25_34", "b")  # brackets are no numbers; a column without values is left out
    np.testing.assert_array_equal(table.inputs[:, 2], np.array([1000, -0.5], np.float32))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, r"data.csv to hold a table, but it is empty"),
        ("\n \n", {}, r"empty"),
        ("a,b,y\n", {}, r"rows below its header"),
        ("alone\n1\n2\n", {}, r"at least two columns, but found one"),
        ("a,b,y\n1,2,0\n3,4\n", {}, r"3 fields in each row, as in its first, but line 3 has 2"),
        ("a,b,y\n1,2,0\n3,4,5,1\n", {}, r"line 3 has 4"),
        ("a,a,y\n1,2,0\n3,4,1\n", {}, r"different names, but a come"),
        ("a,b,y\n1,2,0\n3,4,0\n", {}, r"target 'y' to have two values, but it is '0' in every row"),
        ("a,b,y\n1,2,0\n3,4,\n5,6,1\n", {}, r"'y' in every row .* 1 of 3 are missing, the first in row 2"),
        ("a,b,y\n1,inf,0\n3,4,1\n", {}, r"column 'b' to hold finite numbers, but found 'inf' in row 1"),
        ("a,b,y\n1,1e39,0\n3,4,1\n", {}, r"found '1e39'"),
        (MIXED, {"target": "frod"}, r"`target` to be a column, but there is no 'frod' among age, .*mean 'fraud'"),
        (MIXED, {"features": ["aeg"]}, r"`features` .* did you mean 'age'|`features` to be a column"),
        (MIXED, {"aside": ["nothing"]}, r"`aside` to be a column"),
        (MIXED, {"target": 9}, r"`target` to be a position among 5 columns, but got 9"),
        (MIXED, {"features": ["fraud"]}, r"`features` to be without the target 'fraud'"),
        (MIXED, {"features": []}, r"at least one column of inputs"),
    ],
)
def test_what_is_refused(write: Callable[..., Path], text: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_table(write(text), **options)  # type: ignore[arg-type]


def test_files_that_are_no_tables(write: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.csv, but there is no such file"):
        load_table(tmp_path / "absent.csv")
    with pytest.raises(FileNotFoundError, match=r"that is a folder"):
        load_table(tmp_path)
    np.savez(tmp_path / "data.npz", a=np.zeros(3))
    with pytest.raises(InputError, match=r"data\.npz to be a text table"):
        load_table(tmp_path / "data.npz")
    path = write(MIXED, "cut.csv.xz")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"cut\.csv\.xz to be a complete \.xz file"):
        load_table(path)


def test_old_spreadsheets_are_read(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("a,ort,y\n1,Köln,0\n2,Bonn,1\n".encode("latin-1"))
    assert load_table(path).columns == ("a", "ort=Bonn", "ort=Köln")


def test_a_column_of_names_is_refused(write: Callable[..., Path]) -> None:
    path = write("who,x,y\n" + "".join(f"name{k},1,{k % 2}\n" for k in range(30)))
    with pytest.raises(InputError, match=r"column 'who' .* at most 20 different texts, but it holds 30.*`aside`"):
        load_table(path, max_categories=20)
    assert load_table(path, max_categories=30).inputs.shape == (30, 31)
    assert load_table(path, max_categories=20, aside=["who"]).inputs.shape == (30, 1)


def test_another_table_is_read_as_the_first(write: Callable[..., Path]) -> None:
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
    with pytest.raises(InputError, match=r"`features` to be a column, but there is no 'pay'"):
        load_inputs(write("age,job,club\n1,clerk,a\n", "short.csv"), encoding)
    with pytest.raises(InputError, match=r"column 'age' to hold finite numbers, but found 'old'"):
        load_inputs(write("age,job,pay,club\nold,clerk,2,a\n", "text.csv"), encoding)
    with pytest.raises(InputError, match=r"'fraud' of .* to be 'no' or 'yes', but it also holds 'maybe'"):
        load_table(write(MIXED.replace("yes", "maybe"), "odd.csv"), encoding=encoding)
    with pytest.raises(InputError, match=r"left out where `encoding` is given"):
        load_table(other, encoding=encoding, target="fraud")


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
    ("name", "target", "shape", "positives", "header"),
    [
        ("adult.csv.xz", "income", (48_842, 106), 11_687, True),
        ("compas_two_years.csv.xz", None, (7_214, 26), 3_251, True),
        ("german.data", None, (1_000, 61), 300, False),
        ("haberman.csv.xz", None, (306, 3), 81, False),
        ("mammography.csv.xz", None, (11_183, 6), 260, False),
        ("oil_spill.csv.xz", None, (937, 49), 41, False),
        ("phoneme.csv.xz", None, (5_404, 5), 1_586, False),
        ("pima_indians_diabetes.csv.xz", None, (768, 8), 268, False),
        ("uci_credit_default.csv.xz", None, (30_000, 32), 6_636, True),
    ],
)
def test_real_tables(
    real_set: Callable[[str], Path],
    name: str,
    target: str | None,
    shape: tuple[int, int],
    positives: int,
    header: bool,
) -> None:
    aside = ["split", "sex"] if target else []
    table = load_table(real_set("tabular") / name, target=target, aside=aside)
    assert table.inputs.shape == shape
    assert table.labels.sum() == positives
    assert table.encoding.header is header
    assert np.isfinite(table.inputs).all()
    if target:
        assert set(table.aside["split"]) == {"train", "test"}
        assert set(table.aside["sex"]) == {"Male", "Female"}


@pytest.mark.data
def test_real_keel_sets(real_set: Callable[[str], Path]) -> None:
    table = load_keel(real_set("tabular") / "keel_imbalanced.npz", "yeast4")
    assert table.inputs.shape == (1484, 8)
    assert table.labels.sum() == 51
