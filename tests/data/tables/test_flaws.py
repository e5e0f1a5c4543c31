"""Flaws of real tables: each ends in inputs that can be learnt from, or in one line that says what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from setwise._checks import InputError
from setwise.data import inspect, load_table
from support.flawed_tables import FLAWS, Flaw, write_bytes


def _arguments(flaw: Flaw) -> dict[str, Any]:
    pairs = zip(flaw.options[::2], flaw.options[1::2], strict=True)
    given: dict[str, Any] = {}
    for option, value in pairs:
        name = option.strip("-")
        given[name] = [*given.get(name, []), value] if name in ("drop", "use") else value
    return given


@pytest.mark.parametrize("name", [name for name, flaw in FLAWS.items() if flaw.expected[0] == "trains"])
def test_a_flaw_that_can_be_read(name: str, tmp_path: Path) -> None:
    flaw = FLAWS[name]
    path = tmp_path / flaw.name
    path.write_bytes(write_bytes(flaw))
    arguments = _arguments(flaw)
    found = inspect(path, **arguments)
    for text in flaw.expected[1]:
        assert text in str(found)
    table = load_table(path, **arguments)
    assert "x" in table.columns
    assert np.isfinite(table.inputs).all()
    assert len(table) == found.rows >= 200
    assert table.labels.sum() == found.positives


@pytest.mark.parametrize("name", [name for name, flaw in FLAWS.items() if flaw.expected[0] == "refuses"])
def test_a_flaw_that_is_refused(name: str, tmp_path: Path) -> None:
    flaw = FLAWS[name]
    path = tmp_path / flaw.name
    path.write_bytes(write_bytes(flaw))
    with pytest.raises(InputError) as caught:
        load_table(path, **_arguments(flaw))
    line = str(caught.value)
    assert re.search(str(flaw.expected[1]), line)
    assert "\n" not in line
    assert line.startswith("Expected ")


def test_there_are_thirty_flaws_and_more() -> None:
    assert len(FLAWS) >= 60


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("dates", ["days", "month", "day", "weekday"]),
        ("dates as whole numbers", ["days", "month", "day", "weekday"]),
        ("months with names", ["days", "month"]),
        ("times of day", ["hour"]),
    ],
)
def test_dates_become_parts(name: str, columns: list[str], tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes(write_bytes(FLAWS[name]))
    table = load_table(tmp_path / "table.csv", target="y")
    parts = [re.sub(r".*\((\w+).*", r"\1", column) for column in table.columns if column != "x"]
    assert parts == columns


@pytest.mark.parametrize(
    "name",
    ["decimal commas", "euros as in Germany", "dollars with thousands", "percent signs", "units"],
)
def test_amounts_become_one_number(name: str, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_bytes(write_bytes(FLAWS[name]))
    table = load_table(tmp_path / "table.csv", target="y")
    assert len(table.columns) == 2
    assert len(np.unique(table.inputs[:, 1])) > 200
