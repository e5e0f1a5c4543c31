"""Permutation importance: which columns it finds, that encoded columns go together, and its standard error."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.app.candidates import Rows
from setwise.app.folds import make_folds
from setwise.app.importance import encoded_columns, permutation_importance, warning_of
from setwise.app.train_report import ColumnRow
from setwise.data import CategoryCode, NumberCode, TableEncoding

Floats = NDArray[np.float64]
COEF = np.array([2.0, 0.5, 0.0, 1.0, -1.0])
COLUMNS = {"strong": [0], "weak": [1], "noise": [2], "city": [3, 4]}


def table(rows: int = 1500) -> Rows:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 5))
    x[:, 3] = rng.integers(0, 2, rows)
    x[:, 4] = 1 - x[:, 3]
    return Rows.of(x, (x @ COEF + rng.normal(size=rows) > 1.5).astype(int))


def score(fold: int, inputs: NDArray[np.float32]) -> Floats:  # noqa: ARG001 (the same model in every fold)
    return np.asarray(inputs.astype(np.float64) @ COEF)


def test_finds_the_columns_that_matter() -> None:
    rows = table()
    found = permutation_importance(rows, make_folds(rows.y), score, COLUMNS, "auc")
    assert [each.column for each in found] == ["strong", "city", "weak", "noise"]
    by_name = {each.column: each for each in found}
    assert by_name["noise"].drop == by_name["noise"].error == 0  # the model does not use it
    assert by_name["strong"].drop > 5 * by_name["strong"].error > 0
    assert sum(each.share for each in found) == pytest.approx(1)


def test_encoded_columns_are_permuted_together() -> None:
    rows = table()
    apart: list[int] = []

    def watching(fold: int, inputs: NDArray[np.float32]) -> Floats:
        apart.append(int((inputs[:, 3] + inputs[:, 4] != 1).sum()))
        return score(fold, inputs)

    permutation_importance(rows, make_folds(rows.y), watching, {"city": [3, 4]}, "auc")
    assert sum(apart) == 0


def test_scores_rows_by_the_model_that_has_not_seen_them() -> None:
    rows = table(200)
    folds = make_folds(rows.y)

    def watching(fold: int, inputs: NDArray[np.float32]) -> Floats:
        held = rows.x[folds.held[fold]]
        assert all((held[:, 2] == value).any() for value in inputs[:, 2])
        return score(fold, inputs)

    permutation_importance(rows, folds, watching, {"strong": [0]}, "ap")


def test_some_rows_are_enough_and_the_seed_decides() -> None:
    rows = table(3000)
    folds = make_folds(rows.y)
    first, again, other = (
        permutation_importance(rows, folds, score, COLUMNS, "auc", most_rows=500, seed=seed) for seed in (0, 0, 1)
    )
    assert first == again != other
    assert first[0].column == "strong"


def test_standard_error_is_that_of_new_rows() -> None:
    drops, errors = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(400, 5))
        rows = Rows.of(x, (x @ COEF + rng.normal(size=400) > 1.5).astype(int))
        found = permutation_importance(rows, make_folds(rows.y), score, {"strong": [0]}, "auc", seed=seed)
        drops.append(found[0].drop)
        errors.append(found[0].error)
    assert 0.5 < np.mean(errors) / np.std(drops, ddof=1) < 2


def test_rows_of_weight_zero_do_not_count() -> None:
    rows = table(400)
    weight = np.ones(400)
    weight[:100] = 0.0
    folds = make_folds(rows.y)
    plain = permutation_importance(Rows(rows.x, rows.y, weight), folds, score, COLUMNS, "auc")
    other = Rows(np.where(weight[:, None] > 0, rows.x, 99.0).astype(np.float32), rows.y, weight)
    assert permutation_importance(other, folds, score, COLUMNS, "auc") == plain


def test_places_of_a_tables_columns() -> None:
    codes = (NumberCode("age"), CategoryCode("job", ("clerk", "smith")), NumberCode("pay"))
    encoding = TableEncoding(codes, "fraud", "yes", "no")
    places = encoded_columns(encoding)
    assert list(places) == ["age", "job", "pay"]
    assert [place for own in places.values() for place in own] == list(range(len(encoding.columns)))


def test_warns_of_one_column_that_carries_everything() -> None:
    one = [ColumnRow("outcome", 0.4, 0.02, 0.97), ColumnRow("age", 0.01, 0.01, 0.03)]
    assert "'outcome' carries 97%" in str(warning_of(one))
    assert warning_of(one[:1]) is None
    assert warning_of([ColumnRow("a", 0.2, 0.02, 0.6), ColumnRow("b", 0.1, 0.02, 0.4)]) is None
    assert warning_of([ColumnRow("a", 0.01, 0.02, 1.0), ColumnRow("b", 0.0, 0.02, 0.0)]) is None


def test_refuses_places_that_do_not_exist() -> None:
    rows = table(100)
    with pytest.raises(InputError, match="'city'"):
        permutation_importance(rows, make_folds(rows.y), score, {"city": [5]}, "auc")
