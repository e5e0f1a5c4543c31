"""What columns are: useful ones are kept, names of rows are left out, codes stay names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest

from setwise.data import Kind, read_table

Write = Callable[..., Path]

N = 300
G = np.random.default_rng(3)
SHUFFLED = G.permutation(N)
DAYS = np.datetime64("2020-01-01") + G.integers(0, 1500, N).astype("timedelta64[D]")


def kind_of(cells: Iterable[object], name: str = "c") -> Kind:
    return read_table({name: list(cells), "y": [k % 2 for k in range(N)]}, target="y").kinds[name]


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("amount", G.choice(100_000, N, replace=False)),  # cents, all different
        ("income", np.sort(G.choice(90_000, N, replace=False))),  # and in the order of the rows
        ("age", G.integers(18, 90, N)),
        ("year", G.integers(1990, 2024, N)),
        ("zip", G.choice(np.arange(10_000, 99_999), N, replace=False)),
        ("price_index", G.integers(80, 180, N)),
        ("humid", G.integers(0, 100, N)),
        ("num", G.normal(size=N)),
        ("Time", np.cumsum(G.uniform(1, 100, N))),
        ("index", G.normal(size=N)),
        ("bid", G.integers(0, 1000, N)),
        ("is_id", G.integers(0, 2, N)),
        ("no", G.integers(0, 10, N)),
        ("score", [f"{value:.1f}" for value in G.uniform(0, 9, N)]),
        ("gaps", [5 if k % 3 else None for k in range(N)]),
    ],
)
def test_numbers_are_kept(name: str, cells: Iterable[object]) -> None:
    assert kind_of(cells, name).kind == "number"


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("c", range(N)),
        ("c", SHUFFLED),
        ("c", 10_000 + SHUFFLED),
        ("c", SHUFFLED * 5 + 7),  # with gaps, but none comes twice
        ("customer_id", SHUFFLED * 99_991),
        ("customer_id", SHUFFLED // 3),
        ("PassengerId", SHUFFLED // 2),
        ("invoice_no", SHUFFLED * 99_991),
        ("c", [f"T{k}X" for k in SHUFFLED]),
        ("c", [f"u{k}@mail.com" for k in SHUFFLED]),
        ("phone", [f"+49 30 {k * 31}" for k in SHUFFLED]),
        ("user_id", [f"u{k // 3}" for k in SHUFFLED]),
    ],
)
def test_names_of_rows_are_left_out(name: str, cells: Iterable[object]) -> None:
    assert kind_of(cells, name).kind == "identifier"


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("zip", [f"{k % 40 * 211:05}" for k in range(N)]),
        ("store_id", SHUFFLED % 12),  # few things, each of many rows
        ("c", [f"A{k % 9}" for k in range(N)]),
        ("c", ["18-24", "25-34", "35-44"] * 100),
        ("c", [True, False, None] * 100),
        ("c", ["1/2", "3/4"] * 150),
        ("c", [f"{k % 7}" if k % 50 else "other" for k in range(N)]),  # seven numbers and a word
        ("c", ["x", None] * 150),
        ("id", ["a", "b", "c"] * 100),
    ],
)
def test_names_stay_names(name: str, cells: Iterable[object]) -> None:
    assert kind_of(cells, name).kind == "category"


@pytest.mark.parametrize(
    ("name", "cells", "order"),
    [
        ("c", [f"{day}" for day in DAYS], "ymd"),
        ("c", [int(str(day).replace("-", "")) for day in DAYS], "compact"),
        ("created_at", (DAYS - np.datetime64("1970-01-01")).astype(int) * 86400 + 5, "seconds"),
        ("timestamp", (DAYS - np.datetime64("1970-01-01")).astype(int) * 86400e3, "milliseconds"),
        ("c", [f"{k % 24}:{k % 60:02}" for k in SHUFFLED], "clock"),
    ],
)
def test_dates_are_found(name: str, cells: Iterable[object], order: str) -> None:
    found = kind_of(cells, name)
    assert (found.kind, found.order) == ("date", order)


def test_odd_cells_among_many_numbers_and_dates_count_as_missing() -> None:
    numbers = kind_of(["n.b." if k % 60 == 0 else f"{k / 7:.2f}" for k in SHUFFLED])
    assert (numbers.kind, numbers.odd, numbers.missing) == ("number", 5, 5)
    assert numbers.why == "5 cells such as 'n.b.' count as missing"
    dates = kind_of(["9999-12-31" if k % 3 == 0 else str(DAYS[k]) for k in range(N)])
    assert (dates.kind, dates.odd) == ("date", 100)
    mixed = kind_of(["soon" if k % 3 == 0 else str(DAYS[k]) for k in range(N)])
    assert mixed.kind in ("category", "text")
    assert "67 % of the cells are dates, others such as 'soon' are not" in mixed.why


def test_few_rows_say_nothing_of_identifiers() -> None:
    table = read_table({"a": range(10), "y": [0, 1] * 5})
    assert table.kinds["a"].kind == "number"


def test_what_is_asked_for_is_used() -> None:
    columns = {"id": range(N), "y": [0, 1] * 150}
    assert read_table(columns, use=["id"]).kinds["id"].kind == "number"
    assert read_table(columns, features=["id"]).kinds["id"].kind == "number"


def test_constants_and_empty_columns(write: Write) -> None:
    table = read_table(write("a,b,c,d,y\n" + "1,x,,-0.0,0\n1,x,NA,0.0,1\n" * 20))
    assert [kind.kind for kind in table.kinds.values()] == ["constant", "constant", "empty", "constant"]
    assert [kind.why for kind in table.kinds.values()] == [
        *("1 in every row", "'x' in every row", "no value at all", "0 in every row")
    ]
