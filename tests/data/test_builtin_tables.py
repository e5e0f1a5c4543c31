"""The built-in table: whole, with UCI's columns, found by its name wherever a table is read, and made as it says."""

from __future__ import annotations

import importlib
import lzma
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import setwise.data as sd
from setwise._checks import InputError
from support.scripts import script

ROOT = Path(__file__).resolve().parents[2]
UCI_COLUMNS = [
    *("LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"),
    *("PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6"),
    *("BILL_AMT1", "BILL_AMT2", "BILL_AMT3", "BILL_AMT4", "BILL_AMT5", "BILL_AMT6"),
    *("PAY_AMT1", "PAY_AMT2", "PAY_AMT3", "PAY_AMT4", "PAY_AMT5", "PAY_AMT6"),
    "default",
]


@pytest.fixture(scope="module")
def table() -> sd.RawTable:
    return sd.read_table("credit-default", target="default")


def counts(table: sd.RawTable, name: str) -> dict[str, int]:
    return dict(pd.Series(table.column(name)).value_counts())


def test_the_table_is_whole(table: sd.RawTable) -> None:
    assert len(table) == 30_000
    assert table.columns == tuple(UCI_COLUMNS)
    assert table.labels.sum() == 6_636
    assert table.name == "credit-default"
    assert not table.frame.isna().any().any()


def test_the_categories_have_the_counts_of_uci(table: sd.RawTable) -> None:
    assert counts(table, "SEX") == {"female": 18_112, "male": 11_888}
    education = {"graduate school": 10_585, "university": 14_030, "high school": 4_917, "other": 123}
    assert counts(table, "EDUCATION") == education | {"unknown": 14 + 280 + 51}  # codes 0, 5 and 6
    assert counts(table, "MARRIAGE") == {"married": 13_659, "single": 15_964, "other": 323, "unknown": 54}


def test_unknown_is_a_category_and_no_missing_value(table: sd.RawTable) -> None:
    columns = table.fit().columns
    assert {"SEX=female", "EDUCATION=unknown", "MARRIAGE=unknown"} <= set(columns)
    assert not [name for name in columns if "(missing)" in name]


def test_all_but_the_target_become_inputs(table: sd.RawTable) -> None:
    encoding = table.fit()
    assert encoding.left_out == {}
    assert table.encode(encoding, range(100)).shape == (100, len(encoding.columns))


def test_it_is_small_and_its_licence_is_beside_it() -> None:
    path = sd.builtin_table("credit-default")
    assert path.stat().st_size <= 1_500_000
    notice = (path.parent / "NOTICE.md").read_text(encoding="utf-8")
    for words in (path.name, "Yeh", "Attribution 4.0", "https://creativecommons.org/licenses/by/4.0/", "Changes"):
        assert words in notice, words


def test_every_file_beside_it_is_named_in_the_notice() -> None:
    folder = sd.builtin_table("credit-default").parent
    notice = (folder / "NOTICE.md").read_text(encoding="utf-8")
    for path in folder.iterdir():
        assert path.name == "NOTICE.md" or f"`{path.name}`" in notice


def test_the_wheel_holds_the_table_and_its_licence() -> None:
    builder = importlib.import_module("hatchling.builders.wheel").WheelBuilder(str(ROOT))
    packed = {file.distribution_path for file in builder.recurse_included_files()}
    assert {f"setwise/data/files/{name}" for name in ("credit_default.csv.xz", "NOTICE.md")} <= packed
    assert "src/setwise/data/files/NOTICE.md" in builder.metadata.core.license_files


def test_names_and_paths_are_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sd.builtin_table("credit-default")
    assert sd.table_names() == ("credit-default",)
    assert sd.table_source("credit-default") == path
    assert sd.table_source(Path("credit-default")) == path  # as a command line gives it
    assert sd.table_source("credit-default.csv") == "credit-default.csv"
    assert sd.table_source(path) is path
    frame = pd.DataFrame({"a": [1]})
    assert sd.table_source(frame) is frame
    monkeypatch.chdir(tmp_path)
    Path("credit-default").write_text("a,y\n1,0\n2,1\n", encoding="utf-8")  # a file that is there goes first
    assert sd.table_source("credit-default") == "credit-default"
    assert len(sd.read_table("credit-default", target="y")) == 2


def test_every_reader_takes_the_name() -> None:
    names = ["LIMIT_BAL", "default"]
    frame, info = sd.read_frame("credit-default", columns=names)
    assert frame.shape == (30_000, 2)
    assert list(info.names) == UCI_COLUMNS
    loaded = sd.load_table("credit-default", target="default", features=["LIMIT_BAL"])
    assert sd.load_inputs("credit-default", loaded.encoding).tolist() == loaded.inputs.tolist()


def test_other_names_are_answered_with_the_known_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"built-in table \(credit-default\).*'credit'.*by its path"):
        sd.builtin_table("credit")
    with pytest.raises(InputError, match=r"did you mean 'credit-default'"):
        sd.builtin_table("credit_default")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"did you mean 'credit-default'"):
        sd.read_frame("credit_default")


def test_it_is_made_from_the_source_as_the_script_says(
    tmp_path: Path, real_set: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, made, pack = real_set("tabular/uci_credit_default.csv.xz"), tmp_path / "made.csv.xz", lzma.compress
    builtin = script("builtin_credit_default")
    monkeypatch.setattr("sys.argv", ["builtin_credit_default.py", str(source), "--out", str(made)])
    monkeypatch.setattr(lzma, "compress", lambda text, **_: pack(text, preset=0))  # tightly it takes seconds
    builtin.main()
    stored = sd.builtin_table("credit-default").read_bytes()
    assert lzma.decompress(made.read_bytes()) == lzma.decompress(stored)  # packed bytes hang on the version of liblzma
