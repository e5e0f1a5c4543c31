"""Batch prediction: block by block as in one piece, what is kept, and no formulas in spreadsheets."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from setwise._checks import InputError
from setwise.app.ensemble import Ensemble
from setwise.app.model_file import TableModel
from setwise.app.predict import harmless, predict_file
from setwise.app.scorers import LinearScorer, NetworkScorer
from setwise.app.stack import Stack
from setwise.data import read_table
from setwise.data.tables import text_table, typed

ROWS = 500


def frame(rows: int = ROWS) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    x = generator.normal(size=rows)
    made = {
        "id": [f"{k:05d}" for k in range(rows)],
        "pay": [f"{1000 * (3 + value):,.2f} €" for value in x],
        "age": np.where(np.arange(rows) % 9 == 0, np.nan, np.round(40 + 10 * x)),
        "day": (pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(rows) % 90, unit="D")).strftime("%d.%m.%Y"),
        "job": generator.choice(["clerk", "=1+1", "-", "@home"], rows),
        "note": [f"{word} {k % 300}" for k, word in enumerate(generator.choice(["late", "paid", "cash"], rows))],
        "fraud": np.where(x + generator.normal(size=rows) > 1, "yes", "no"),
    }
    return pd.DataFrame(made)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TableModel:
    path = tmp_path_factory.mktemp("train") / "train.csv"
    frame().to_csv(path, index=False)
    table = read_table(path, target="fraud")
    encoding = table.fit()
    inputs = table.encode(encoding)
    draw, columns = torch.Generator().manual_seed(0), inputs.shape[1]
    layers = [(torch.randn(columns, 4, generator=draw) / 4, torch.randn(1, 4, generator=draw))]
    layers.append((torch.randn(4, 1, generator=draw), torch.zeros(1, 1)))
    mean, scale = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64) + 1e-3
    network = NetworkScorer.of(mean, scale, torch.randn(columns, 1, generator=draw) / 4, layers)
    line = LinearScorer.of(np.linspace(-0.01, 0.01, columns), 0.5)
    stack = Stack(("logistic", "network"), np.array([0.3, 0.7]), 0.0, np.zeros(2), np.ones(2))
    ensemble = Ensemble({"logistic": (line, line), "network": (network, network)}, stack)
    return TableModel(encoding, ensemble, 0.1, "auc")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "new.csv"
    frame().drop(columns="fraud").to_csv(path, index=False)
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_identifiers_are_kept_as_they_are_written(model: TableModel, table: Path, tmp_path: Path) -> None:
    assert model.encoding.identifiers == ("id",)
    found = predict_file(model, table, tmp_path / "out.csv")
    rows = read(tmp_path / "out.csv")
    assert list(rows[0]) == ["row", "id", "prediction", "probability"]
    assert [row["id"] for row in rows] == frame()["id"].tolist()
    assert [row["row"] for row in rows] == [str(k + 1) for k in range(ROWS)]
    assert (found.rows, found.kept, found.remarks) == (ROWS, ("id",), ())
    assert found.positives == sum(row["prediction"] == "yes" for row in rows)


@pytest.mark.parametrize(
    ("keep", "names"),
    [
        (["none"], []),
        (["pay", "id", "pay"], ["pay", "id"]),
        (["all"], ["id", "pay", "age", "day", "job", "note"]),
    ],
)
def test_what_is_asked_for_is_kept_and_changes_no_prediction(
    model: TableModel, table: Path, tmp_path: Path, keep: list[str], names: list[str]
) -> None:
    predict_file(model, table, tmp_path / "plain.csv", keep=["none"])
    predict_file(model, table, tmp_path / "kept.csv", keep=keep)
    plain, kept = read(tmp_path / "plain.csv"), read(tmp_path / "kept.csv")
    assert list(kept[0]) == ["row", *names, "prediction", "probability"]
    for first, second in zip(plain, kept, strict=True):
        assert {name: second[name] for name in first} == first
    original = read(table)
    for name in set(names) - {"job"}:
        assert [row[name] for row in kept] == [row[name] for row in original]


def test_blocks_give_what_one_piece_gives(
    model: TableModel, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with table.open("a") as file:  # the last block has what the others lack
        file.write('99999,"1,000.00 €",,01.01.2024,pilot,late 1\n')
    frame_ = pd.read_csv(table, dtype=str)
    frame_.to_parquet(tmp_path / "new.parquet")
    whole, parts = tmp_path / "whole.csv", tmp_path / "parts.csv"
    one = predict_file(model, table, whole, keep=["all"])
    for module in (text_table, typed):
        monkeypatch.setattr(module, "_ROWS", 7)
    many = predict_file(model, table, parts, keep=["all"])
    assert many == one
    for first, second in zip(read(parts), read(whole), strict=True):
        assert float(first.pop("probability")) == pytest.approx(float(second.pop("probability")), rel=1e-4)  # float32
        assert first == second
    assert one.remarks == (
        "Column 'job': 1 with values not seen before ('pilot'), taken for none of the known values.",
    )
    predict_file(model, tmp_path / "new.parquet", parts, keep=["all"])
    found, expected = ([float(row["probability"]) for row in read(path)] for path in (parts, whole))
    assert found == pytest.approx(expected, rel=1e-4)


def test_parquet_out_keeps_types_and_texts(model: TableModel, tmp_path: Path) -> None:
    source = frame().drop(columns="fraud").assign(number=np.arange(ROWS, dtype=np.int64) + 2**60)
    source.to_parquet(tmp_path / "new.parquet")
    predict_file(model, tmp_path / "new.parquet", tmp_path / "out.parquet", keep=["number", "job"])
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert list(found.columns) == ["row", "number", "job", "prediction", "probability"]
    assert found["number"].tolist() == source["number"].tolist(), "no digit is lost"
    assert found["job"].tolist() == source["job"].tolist(), "only a spreadsheet runs formulas"
    assert found["probability"].dtype == np.float64
    predict_file(model, tmp_path / "new.parquet", tmp_path / "out.csv", keep=["number"])
    assert [int(row["number"]) for row in read(tmp_path / "out.csv")] == source["number"].tolist()


def test_formulas_are_made_harmless(model: TableModel, table: Path, tmp_path: Path) -> None:
    predict_file(model, table, tmp_path / "out.csv", keep=["job"])
    jobs = {row["job"] for row in read(tmp_path / "out.csv")}
    assert jobs == {"clerk", "'=1+1", "'-", "'@home"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("=1+1", "'=1+1"),
        ("+SUM(A1)", "'+SUM(A1)"),
        ("-2+3", "'-2+3"),
        ("@x", "'@x"),
        ("\tx", "'\tx"),
        ("\uff1dx", "'\uff1dx"),
        ("-2.5e3", "-2.5e3"),
        ("+3", "+3"),
        ("-1,234.50 €", "-1,234.50 €"),
        ("-$3", "-$3"),
        ("+A1", "'+A1"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_only_what_a_spreadsheet_would_run_gets_a_quote(text: str, expected: str) -> None:
    assert harmless(text) == expected


def test_names_of_columns_are_no_formulas_and_stay_apart_from_ours(model: TableModel, tmp_path: Path) -> None:
    source = frame().drop(columns="fraud").assign(row="r", prediction="p", **{"=x": 1})
    source.to_csv(tmp_path / "new.csv", index=False)
    predict_file(model, tmp_path / "new.csv", tmp_path / "out.csv", keep=["row", "prediction", "=x"])
    names = list(read(tmp_path / "out.csv")[0])
    assert names == ["row", "row (input)", "prediction (input)", "'=x", "prediction", "probability"]


def test_open_files_take_csv_and_rows_are_told(model: TableModel, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_table, "_ROWS", 200)
    out, told = io.StringIO(), list[int]()
    predict_file(model, table, out, on_rows=told.append)
    assert told == [200, 400, 500]
    assert out.getvalue().count("\n") == ROWS + 1


def cell(column: str, value: str) -> Any:
    return lambda rows: rows.assign(**{column: [*rows[column].astype(str).iloc[:-1].replace("nan", ""), value]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (cell("age", "old"), r"column 'age' to hold finite numbers, but found 'old' in row 500"),
        (cell("age", "inf"), r"found 'inf' in row 500"),
        (cell("pay", "much"), r"column 'pay' .* 'much' in row 500"),
        (cell("day", "yesterday"), r"column 'day' to hold dates.*'yesterday' in row 500"),
        (lambda rows: rows.drop(columns=["age", "job"]), r"there is no 'age', 'job' among id, pay"),
    ],
)
def test_what_cannot_be_read_is_named_and_nothing_is_written(
    model: TableModel, tmp_path: Path, change: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_table, "_ROWS", 64)  # so that the error comes in a later block
    change(frame().drop(columns="fraud")).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(InputError, match=message):
        predict_file(model, tmp_path / "new.csv", tmp_path / "out.csv")
    assert not list(tmp_path.glob("*out*"))


def test_a_threshold_is_a_probability(model: TableModel, table: Path, tmp_path: Path) -> None:
    assert predict_file(model, table, tmp_path / "out.csv", threshold=0.0).positives == ROWS
    assert predict_file(model, table, tmp_path / "out.csv", threshold=1.0).positives == 0
    for wrong in (1.5, math.nan):
        with pytest.raises(InputError, match="`threshold`"):
            predict_file(model, table, tmp_path / "out.csv", threshold=wrong)
    with pytest.raises(InputError, match=r"`keep` to be a column.*did you mean 'note'"):
        predict_file(model, table, tmp_path / "out.csv", keep=["notes"])


def test_a_frame_gives_what_its_file_gives(model: TableModel, table: Path, tmp_path: Path) -> None:
    predict_file(model, table, tmp_path / "out.csv")
    of_file = [float(row["probability"]) for row in read(tmp_path / "out.csv")]
    for source in (pd.read_csv(table, dtype={"id": str}), pd.read_csv(table).to_dict("list")):
        np.testing.assert_allclose(model.apply(source).probabilities, of_file, rtol=1e-5)
    polars = pytest.importorskip("polars")
    np.testing.assert_allclose(model.apply(polars.read_csv(table)).probabilities, of_file, rtol=1e-5)
