"""Tables with a flaw each, as they come from spreadsheets, databases and other people, and how each has to end.

``FLAWS`` maps the name of a flaw to the file's text or bytes, the file's name, the options of ``setwise train``, and
what is expected: ``("trains", texts)`` with texts that have to be said of the table, or ``("refuses", pattern)`` of the
one line that says what to do. Where a model is expected, "x" is enough to learn from: 300 rows, some 90 of them
positive.
"""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import uuid
import zipfile
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

ROWS = 300
_GENERATOR = np.random.default_rng(20)
X = _GENERATOR.normal(size=ROWS)
Y = (X + 0.6 * _GENERATOR.normal(size=ROWS) > 0.6).astype(int)
DAYS = [dt.date(2021, 1, 1) + dt.timedelta(days=int(day)) for day in _GENERATOR.integers(0, 900, ROWS)]
AMOUNTS = _GENERATOR.uniform(10, 99_999, ROWS)
_ORDER = _GENERATOR.permutation(ROWS)


class Flaw(NamedTuple):
    """A table, and how it has to end.

    Attributes:
        content: The file.
        name: Its name.
        options: Options of ``setwise train``.
        expected: ``("trains", texts)`` that have to be said, or ``("refuses", pattern)`` of the line that refuses.
    """

    content: str | bytes
    name: str = "table.csv"
    options: Sequence[str] = ("--target", "y")
    expected: tuple[Literal["trains"], tuple[str, ...]] | tuple[Literal["refuses"], str] = ("trains", ())


def _quoted(cell: object) -> str:
    text = str(cell)
    return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',;"\n\r') else text


def text_table(sep: str = ",", decimal: str = ".", labels: Iterable[object] = Y, **columns: Iterable[object]) -> str:
    """A table of "x", further columns and "y"."""
    names = sep.join(["x", *columns, "y"])
    numbers = [f"{value:.4f}".replace(".", decimal) for value in X]
    rows = zip(numbers, *columns.values(), labels, strict=True)
    return names + "\n" + "".join(sep.join(_quoted(cell) for cell in row) + "\n" for row in rows)


def _cycle(*values: object) -> list[object]:
    return [values[k % len(values)] for k in range(ROWS)]


def _every(step: int, instead: object, cells: Sequence[object]) -> list[object]:
    return [instead if k % step == 0 else cell for k, cell in enumerate(cells)]


def _german(value: float) -> str:
    return f"{value:,.2f} €".translate(str.maketrans(",.", ".,"))


def _zipped(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def _trains(
    content: str | bytes, *said: str, name: str = "table.csv", options: Sequence[str] = ("--target", "y")
) -> Flaw:
    return Flaw(content, name, options, ("trains", said))


def _refuses(
    content: str | bytes, said: str, *, name: str = "table.csv", options: Sequence[str] = ("--target", "y")
) -> Flaw:
    return Flaw(content, name, options, ("refuses", said))


PLAIN = text_table(kind=_cycle("a", "b", "c"))
_LINES = PLAIN.splitlines(keepends=True)
_WORDS = ["late", "paid", "early", "card", "loan", "need", "help", "bank", "fee", "account", "please", "money"]
_NOTES = [" ".join(_GENERATOR.choice(_WORDS, 6)) for _ in range(ROWS)]
_UUIDS = [uuid.UUID(int=int(a) << 64 | int(b)) for a, b in _GENERATOR.integers(0, 2**63, (ROWS, 2))]
_RECORDS = [{"x": round(float(x), 3), "y": int(y)} for x, y in zip(X, Y, strict=True)]
_TWO_WEEKS = [f"{day.day % 12 + 1:02}/{day.month:02}/{day.year}" for day in DAYS]
_SORTED = [_LINES[0], *(_LINES[k + 1] for k in np.argsort(Y, kind="stable"))]

_IDENTIFIERS = {
    "row numbers": _trains(text_table(n=range(ROWS)), "Column 'n' is left out: a number for every row"),
    "row numbers without a name": _trains(
        "," + _LINES[0] + "".join(f"{k},{line}" for k, line in enumerate(_LINES[1:])), "'x0' is left out"
    ),
    "row names as R writes them": _trains(
        _LINES[0] + "".join(f'"{k}",{line}' for k, line in enumerate(_LINES[1:])), "'row_name' is left out"
    ),
    "shuffled IDs with gaps": _trains(text_table(customer_id=_ORDER * 977 + 10**6), "'customer_id' is left out"),
    "customers that come several times": _trains(
        text_table(customer_id=_ORDER // 4 + 500), "'customer_id' is left out"
    ),
    "UUIDs": _trains(text_table(key=_UUIDS), "'key' is left out: a UUID"),
    "e-mail addresses": _trains(
        text_table(who=[f"u{k}@mail{k % 5}.org" for k in _ORDER]), "'who' is left out: an e-mail"
    ),
    "codes in every row": _trains(text_table(ticket=[f"T{k * 7919:06}Q" for k in _ORDER]), "'ticket' is left out"),
    "nothing but IDs": _refuses(
        "id,code,y\n" + "".join(f"{k},K{k}Z,{y}\n" for k, y in enumerate(Y)),
        "at least one column of inputs.*'id' is left out",
    ),
}
_DATES = {
    "dates": _trains(text_table(when=DAYS)),
    "dates with points": _trains(text_table(when=[f"{day:%d.%m.%Y}" for day in DAYS])),
    "day or month first": _trains(text_table(when=_TWO_WEEKS), "read with the month first"),
    "dates as whole numbers": _trains(text_table(when=[f"{day:%Y%m%d}" for day in DAYS])),
    "the end of year 9999": _trains(text_table(until=_every(3, "9999-12-31", DAYS)), "'9999-12-31' count as missing"),
    "dates with zeros": _trains(text_table(when=_every(40, "0000-00-00", DAYS)), "'0000-00-00' count as missing"),
    "dates with a word": _trains(text_table(when=_every(40, "tbd", DAYS)), "'tbd' count as missing"),
    "two orders of dates": _trains(
        text_table(when=[f"{day:%d/%m/%Y}" if k % 2 else f"{day:%m/%d/%Y}" for k, day in enumerate(DAYS)]),
        "of the cells are dates, others such as",
    ),
    "times of day": _trains(text_table(at=[f"{k % 24}:{k % 60:02}" for k in _ORDER])),
    "months with names": _trains(text_table(issued=[f"{day:%b-%Y}" for day in DAYS])),
}
_NUMBERS = {
    "decimal commas": _trains(text_table(";", ",", amount=[f"{v:.2f}".replace(".", ",") for v in AMOUNTS])),
    "euros as in Germany": _trains(text_table(amount=[_german(v) for v in AMOUNTS])),
    "dollars with thousands": _trains(text_table(amount=[f"${v:,.2f}" for v in AMOUNTS])),
    "debts in brackets": _trains(
        text_table(amount=[f"({v:,.0f})" if k % 3 else f"{v:,.0f}" for k, v in enumerate(AMOUNTS)])
    ),
    "percent signs": _trains(text_table(share=[f"{v / 1000:.1f}%" for v in AMOUNTS])),
    "units": _trains(text_table(weight=[f"{v / 1000:.1f} kg" for v in AMOUNTS])),
    "two currencies": _trains(
        text_table(price=[f"{'$€'[k % 2]}{v:.2f}" for k, v in enumerate(AMOUNTS)]), "read as one unit"
    ),
    "a word among numbers": _trains(
        text_table(income=_every(60, "n.b.", [f"{v:.1f}" for v in AMOUNTS])), "'n.b.' count as"
    ),
    "-999 for missing": _trains(text_table(age=_every(7, -999, [20 + k % 60 for k in _ORDER])), "'age' holds -999"),
    "an infinite number": _refuses(
        text_table(ratio=["inf", *AMOUNTS[1:]]), "column 'ratio' to hold finite numbers.*'inf' in row 1"
    ),
    "a number beyond all": _refuses(text_table(a=["1e400", *AMOUNTS[1:]]), "column 'a' to hold finite numbers.*row 1"),
}
_TEXTS = {
    "free texts": _trains(text_table(note=_NOTES), "'note' has", "hashed into 64 inputs"),
    "codes with leading zeros": _trains(text_table(zip=[f"{k % 40 * 211:05}" for k in _ORDER])),
    "spellings that differ in case": _trains(
        text_table(sex=_cycle("Male", "female", "male", "Female")), "differ in case alone"
    ),
    "line ends within cells": _trains(text_table(note=_cycle("one\ntwo", "three", "four\nfive"))),
    "an empty column": _trains(text_table(gone=[""] * ROWS), "'gone' is left out: no value at all"),
    "a constant column": _trains(text_table(country=["DE"] * ROWS), "'country' is left out: 'DE' in every row"),
    "a split column": _trains(
        text_table(split=_cycle("train", "train", "test")), options=("--target", "y", "--drop", "split")
    ),
}
_TARGETS = {
    "missing targets": _trains(
        text_table(labels=_every(10, "", list(Y))), "30 of 300 rows have no value of the target 'y'"
    ),
    "no target at all": _refuses(
        text_table(labels=[""] * ROWS), "target 'y' to have two values, but it has none in any row"
    ),
    "one class": _refuses(text_table(labels=[0] * ROWS), "target 'y' to have two values, but it is '0' in every row"),
    "three classes": _refuses(
        text_table(labels=_cycle("a", "b", "c")), "`positive` to name the positive value.*3 values"
    ),
    "a quantity as target": _refuses(
        text_table(labels=AMOUNTS.round(2)), "looks like a quantity; add a column of two classes"
    ),
    "a target of another case": _refuses(PLAIN, "no 'Y' among .*did you mean 'y'", options=("--target", "Y")),
    "a leak": _trains(
        text_table(paid=np.where(Y == 1, "no", "yes")), "Column 'paid' alone separates the classes", "--drop paid"
    ),
    "a leak by gaps": _trains(
        text_table(closed_on=[day if y else "" for day, y in zip(DAYS, Y, strict=True)]), "by where it is missing"
    ),
    "rows sorted by the target": _trains("".join(_SORTED), "rows are sorted by the target"),
    "copies of rows": _trains(_LINES[0] + "".join(_LINES[1:101] * 3), "200 of 300 rows repeat an earlier row"),
    "five positives": _trains(text_table(labels=[int(k % 60 == 0) for k in range(ROWS)]), "There are only 5 positives"),
    "titles of a sheet": _trains("Sales of 2024\n\nby Bob\n" + PLAIN, "lines above the header left out"),
}
_FILES = {
    "two columns of one name": _refuses(
        PLAIN.replace("x,kind", "x,x", 1), "different names, but 'x' comes twice; rename"
    ),
    "a row too short": _refuses(PLAIN + "0.5,a\n", "line 302 has 2; the row is cut short"),
    "a row too long": _refuses(PLAIN + "0.5,a,b,1\n", "line 302 has 4; a text that holds ',' needs double quotes"),
    "a total below": _refuses(
        PLAIN + "Source: the bank\n", "line 302 has 1; the row is cut short, or is a title, a note"
    ),
    "an open quote": _refuses(PLAIN + '0.5,"a,1\n0.5,b,0\n', "quotes in .* to come in pairs"),
    "old line ends": _trains(PLAIN.replace("\n", "\r")),
    "a byte order mark": _trains("\ufeff" + PLAIN),
    "UTF-16 as Excel writes it": _trains(PLAIN.replace(",", "\t").encode("utf-16"), name="table.txt"),
    "one byte of latin-1": _trains(
        text_table(town=_cycle("Zürich", "Köln", "Bern")).encode() + b"0.5,Z\xfcrich,1\n",
        "1 byte is not UTF-8, the first in line 302",
    ),
    "an old spreadsheet": _trains(text_table(town=_cycle("Zürich", "Köln")).encode("cp1252"), "read as Windows-1252"),
    "gzip without its suffix": _trains(gzip.compress(PLAIN.encode())),
    "half a gzip file": _refuses(gzip.compress(PLAIN.encode())[:-50], r"complete .gz file", name="table.csv.gz"),
    "a workbook named .csv": _refuses(
        _zipped({"[Content_Types].xml": "", "xl/workbook.xml": ""}), "an Excel workbook; save the sheet"
    ),
    "an archive of two files": _refuses(
        _zipped({"a.csv": PLAIN, "b.csv": PLAIN}), "holds 2; unpack it first", name="table.zip"
    ),
    "a web page named .xls": _refuses(
        "<html><table><tr><td>1</td></tr></table></html>", "a web page", name="table.xls"
    ),
    "JSON": _refuses(json.dumps(_RECORDS), "it is JSON; read it with pandas.read_json", name="table.json"),
    "a damaged file": _refuses(PLAIN[:900] + "\0" + PLAIN[900:], "holds zero bytes"),
    "an empty file": _refuses("", "to hold a table, but it is empty"),
    "a header alone": _refuses("x,y\n", "to hold rows below its header, but there are none"),
    "one column": _refuses(
        "y\n" + "\n".join(map(str, Y)), "at least two columns, the target and an input, but found one"
    ),
    "a separator of its own": _refuses(
        PLAIN.replace(",", "^"), "separator is none of comma, tab, semicolon, bar and blank"
    ),
}

FLAWS: dict[str, Flaw] = {**_IDENTIFIERS, **_DATES, **_NUMBERS, **_TEXTS, **_TARGETS, **_FILES}
"""Every flaw by its name."""


def write_bytes(flaw: Flaw) -> bytes:
    """The file of a flaw."""
    return flaw.content if isinstance(flaw.content, bytes) else flaw.content.encode()
