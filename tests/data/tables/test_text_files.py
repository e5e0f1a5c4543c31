"""Text files: separators, headers, quotes, line ends, encodings, compression, damage."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from setwise._checks import InputError
from setwise.data import load_inputs, load_table, read_table
from setwise.data.tables.reading import read_blocks
from setwise.data.tables.text_file import Utf8Stream
from support.flawed_tables import PLAIN

Write = Callable[..., Path]

MIXED = "age,job,pay,club,fraud\n30,clerk,100.5,a,no\n40,?,?,b,yes\n50,smith,300,a,no\n60,clerk,NA,b,no\n"


@pytest.mark.parametrize(
    ("name", "sep"),
    [("a.tsv", "\t"), ("a.csv", ";"), ("a.data", " "), ("a.csv.gz", ","), ("a.csv.xz", "|"), ("a.csv.bz2", ",")],
)
def test_separators_and_compression(write: Write, name: str, sep: str) -> None:
    expected = load_table(write(MIXED, "plain.csv")).inputs
    np.testing.assert_array_equal(load_table(write(MIXED.replace(",", sep), name)).inputs, expected)


def test_compression_is_found_by_the_bytes(write: Write, tmp_path: Path) -> None:
    expected = load_table(write(MIXED, "plain.csv")).inputs
    packed = write(MIXED, "a.csv.xz")
    packed.rename(tmp_path / "b.csv")
    np.testing.assert_array_equal(load_table(tmp_path / "b.csv").inputs, expected)
    (tmp_path / "c.csv.gz").write_text(MIXED)
    np.testing.assert_array_equal(load_table(tmp_path / "c.csv.gz").inputs, expected)
    with zipfile.ZipFile(tmp_path / "d.zip", "w") as archive:
        archive.writestr("__MACOSX/._d.csv", "noise")
        archive.writestr("d.csv", MIXED)
    np.testing.assert_array_equal(load_table(tmp_path / "d.zip").inputs, expected)


def test_a_given_separator_wins(write: Write) -> None:
    path = write("1,5;2,5;0\n3,5;1,5;1\n")
    assert load_table(path, sep=";").inputs.tolist() == [[1.5, 2.5], [3.5, 1.5]]
    assert load_table(path, sep=",", target=-1, positive="5;1").inputs.shape[0] == 2
    assert load_table(write(MIXED.replace(",", "^")), sep="^").encoding.names == ("age", "job", "pay", "club")


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
        (",b,y\n1,2,0\n3,4,1\n", True),
    ],
)
def test_header_is_found(write: Write, text: str, header: bool) -> None:
    table = load_table(write(text))
    assert table.encoding.header is header
    assert len(table) == text.strip().count("\n") + (not header)
    if not header:
        assert table.target == f"x{len(text.splitlines()[0].replace(',', ' ').split()) - 1}"


def test_header_can_be_said(write: Write) -> None:
    path = write("1,2,0\n3,4,1\n5,6,0\n")
    table = load_table(path, header=True)
    assert (len(table), table.target, table.columns) == (2, "0", ("1", "2"))
    assert load_table(path, header=False).target == "x2"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: text[:-1],
        lambda text: "\n\n" + text,
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.replace("\n", "\n   \n", 5),
        lambda text: "sep=,\n" + text,
        lambda text: "Report of May\nby Bob\n\n" + text,
        lambda text: "Report of May,,\n" + text,
        lambda text: "# one\n# two, of them\n" + text,
        lambda text: text.replace(",", " , "),
        lambda text: text.replace(",", ";").replace(";", "  ,\t"),
        lambda text: text.replace("kind", '"kind"').replace("a", '"a"'),
        lambda text: text.replace("\n", "\n,,\n"),  # rows without a target are left out
    ],
)
def test_ways_of_writing_the_same_table(write: Write, change: Callable[[str], str]) -> None:
    expected, found = load_table(write(PLAIN)), load_table(write(change(PLAIN), "other.csv"))
    assert [name.strip() for name in found.encoding.names] == ["x", "kind"]
    np.testing.assert_array_equal(found.inputs, expected.inputs)
    assert found.labels.tolist() == expected.labels.tolist()


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252", "latin-1"]
)
def test_encodings(write: Write, encoding: str) -> None:
    table = load_table(write("a,ort,y\n1,Köln,0\n2,Bonn,1\n".encode(encoding)))
    assert table.columns == ("a", "ort=Bonn", "ort=Köln")


def test_a_damaged_byte_does_not_change_the_encoding(write: Write) -> None:
    table = read_table(write("a,ort,y\n1,Köln,0\n2,Zürich,1\n".encode() + b"3,K\xf6ln,1\n"))
    assert set(table.column("ort")) == {"Köln", "Zürich", "K\ufffdln"}
    assert table.notes == ("1 byte is not UTF-8, the first in line 4; read as the sign \ufffd.",)
    old = read_table(write("a,preis,y\n1,5 €,0\n2,7 €,1\n".encode("cp1252"), "old.csv"))
    assert old.notes == ("The file is not UTF-8; it was read as Windows-1252.",)
    assert old.encode(old.fit())[:, 1].tolist() == [5, 7]


def test_a_letter_that_stands_across_two_blocks(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a,ort,y\n" + "".join(f"{k},{'ä' * (k % 5)}ß,{k % 2}\n" for k in range(200))
    for encoding in ("utf-8", "utf-16", "cp1252"):
        path = write(text.encode(encoding), f"{encoding}.csv")
        monkeypatch.setattr("setwise.data.tables.text_file._BLOCK", 64 if encoding != "cp1252" else 1 << 20)
        with io.BufferedReader(Utf8Stream(path)) as stream:
            assert stream.read().decode() == text


def test_quotes_hold_separators_line_ends_and_quotes(write: Write) -> None:
    cells = ['"one, two"', '"one\ntwo"', '"say ""yes"""', '5" pipe', "it's", '" blank "']
    rows = "".join(f"{k},{cells[k % 6]},{k % 2}\n" for k in range(600))  # more than shows the dialect
    table = read_table(write("x,c,y\n" + rows))
    assert len(table) == 600
    assert sorted(set(table.column("c"))) == sorted(["one, two", "one\ntwo", 'say "yes"', '5" pipe', "it's", "blank"])


def test_names_with_line_ends_and_rows_without_a_header(write: Write) -> None:
    named = read_table(write('x,"two\nlines",y\n' + "1.5,a,0\n2.5,b,1\n" * 3))
    assert (named.columns, len(named)) == (("x", "two\nlines", "y"), 6)
    bare = read_table(write('1.5,"two\nlines",0\n' + "1.5,a,0\n2.5,b,1\n" * 3, "bare.csv"))
    assert (bare.columns, len(bare)) == (("x0", "x1", "x2"), 7)


def test_wide_cells_and_many_columns(write: Write) -> None:
    table = read_table(write("x,c,y\n1," + "w" * 300_000 + ",0\n" + "2,a,1\n3,b,0\n" * 5))
    assert max(map(len, table.column("c"))) == 300_000
    names = [f"a_long_name_of_a_column_{k}" for k in range(12_000)]  # the header alone is longer than what is looked at
    rows = "".join(",".join(str(k + row) for k in range(12_000)) + f",{row % 2}\n" for row in range(4))
    wide = read_table(write(",".join(names) + ",y\n" + rows, "wide.csv"))
    assert wide.columns == (*names, "y")


def test_codes_with_leading_zeros_are_found_in_any_row(write: Write) -> None:
    for quote in ("", '"'):
        rows = "".join(f"{k % 7}.5,{quote}{k % 9 + 1000 if k != 450 else '0123'}{quote},{k % 2}\n" for k in range(500))
        table = read_table(write("x,c,y\n" + rows))
        assert "0123" in set(table.column("c"))
        assert table.kinds["c"].kind == "category"
        assert table.kinds["x"].kind == "number"


def test_codes_that_stand_across_two_blocks(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("setwise.data.tables.text_table._HEAD", 64)
    monkeypatch.setattr("setwise.data.tables.text_file._BLOCK", 64)
    for row in range(20, 44):
        rows = "".join(f"{k % 7}.5,{k % 9 + 10 if k != row else '007'},{k % 2}\n" for k in range(60))
        assert "007" in set(read_table(write("x,c,y\n" + rows)).column("c"))


def test_whole_numbers_beyond_64_bits(write: Write) -> None:
    path = write("a,y\n" + "".join(f"{10**30 * (k % 7 + 1)},{k % 2}\n" for k in range(30)))
    table = load_table(path)
    blocks, _ = read_blocks(path, texts=table.encoding.texts)
    np.testing.assert_array_equal(np.concatenate([table.encoding.encode(block) for block in blocks]), table.inputs)


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("0.5,a\n", "line 302 has 2; the row is cut short"),
        ("0.5,a,b,1\n", "line 302 has 4; a text that holds ',' needs double quotes"),
        ("0.5,a,1,\n", "line 302 has 4"),
        ("the end\n", "line 302 has 1"),
        ('0.5,a\n0.5,"a,b",1\n', "line 302 has 2"),  # as many separators as there should be
        ("0.5,a\n0.5,a,b,1\n", "line 302 has 2|line 303 has 4"),
        ('0.5,"a,1\n0.5,a,0\n', "one after line .* stays open"),
        ("\x1a", "line 302 has 1"),
    ],
)
def test_rows_that_do_not_fit_are_refused_far_from_the_start(write: Write, tail: str, message: str) -> None:
    path = write(PLAIN + tail)
    with pytest.raises(InputError, match=message):
        read_table(path)
    encoding = load_table(write(PLAIN, "good.csv")).encoding
    blocks, _ = read_blocks(path, texts=encoding.texts, columns=encoding.names)
    with pytest.raises(InputError, match=message):
        list(blocks)


def test_files_that_are_no_tables(write: Write, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.csv, but there is no such file"):
        load_table(tmp_path / "absent.csv")
    write(MIXED, "transactions.csv")
    with pytest.raises(FileNotFoundError, match=r"did you mean 'transactions\.csv'"):
        load_table(tmp_path / "transaction.csv")
    with pytest.raises(FileNotFoundError, match=r"that is a folder"):
        load_table(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"nor the folder"):
        load_table(tmp_path / "no" / "table.csv")
    np.savez(tmp_path / "data.npz", a=np.zeros(3))
    with pytest.raises(InputError, match=r"data\.npz to be a text table"):
        load_table(tmp_path / "data.npz")
    path = write(MIXED, "cut.csv.xz")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"cut\.csv\.xz to be a complete \.xz file"):
        load_table(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xd0\xcf\x11\xe0" + bytes(99), "an old Excel workbook"),
        (b"SQLite format 3\0" + bytes(99), "a database"),
        (b"%PDF-1.7\n", "a PDF"),
        (b"ARROW1\0\0", "a Feather file"),
        (b"\x80\x04\x95abc\0", "a pickle"),
        (b"<?xml version='1.0'?>\n<rows><row/></rows>", "it is XML"),
        (b"<!DOCTYPE html>\n<html></html>", "a web page"),
        (b'{"x": 1, "y": 0}\n{"x": 2, "y": 1}\n', "it is JSON"),
        (b"[\n [1, 2],\n [3, 4]]", "it is JSON"),
        (b"% old\n@relation a\n\n@attribute x numeric\n@data\n1,0\n", "an ARFF file"),
        (b"a,b\n\0\0", "zero bytes"),
        (b"\xff\xfea", "to be in UTF-16, as it begins, but it cannot be read"),
    ],
)
def test_other_formats_are_named(write: Write, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_table(write(content))


def test_a_model_of_one_column_reads_files_of_one_column(write: Write) -> None:
    encoding = load_table(write("x,y\n1.5,0\n2.5,1\n3.5,0\n")).encoding
    assert load_inputs(write("x\n7\n8\n", "new.csv"), encoding).tolist() == [[7], [8]]
