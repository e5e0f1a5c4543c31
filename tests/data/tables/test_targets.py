"""The target: which of its values is positive, and which targets are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from setwise._checks import InputError
from setwise.data import load_table

Write = Callable[..., Path]


def table_of(values: str) -> str:
    return "x,y\n" + "".join(f"{k % 7}.5,{value}\n" for k, value in enumerate(values.split()))


@pytest.mark.parametrize(
    ("values", "classes", "labels"),
    [
        ("1 1 1 0", ("0", "1"), "1110"),  # label 1 is positive also where it is the more frequent
        ("1 1 1 -1", ("-1", "1"), "1110"),
        ("True True False True", ("False", "True"), "1101"),
        ("TRUE FALSE TRUE TRUE", ("FALSE", "TRUE"), "1011"),
        ("yes yes yes no", ("no", "yes"), "1110"),
        ("1 2 1 1", ("1", "2"), "0100"),  # any other pair: the rarer
        ("1 2 2 2", ("2", "1"), "1000"),
        ("b a b a", ("a", "b"), "1010"),  # equal counts: the later
        ("10 9 10 9", ("9", "10"), "1010"),  # numbers in their order, not as texts
        ("'good' 'bad' 'good' 'good'", ("good", "bad"), "0100"),
        ("1.0 0.0 0.0 0.0", ("0", "1"), "1000"),
        ("1 0.0 0 1.0", ("0", "1"), "1001"),
        ("none attack none none", ("none", "attack"), "0100"),
        ("Yes no yes NO no Yes", ("no", "Yes"), "101001"),  # the most frequent spelling
        ("0.5 1.5 1.5 0.5", ("0.5", "1.5"), "0110"),
    ],
)
def test_which_value_is_positive(write: Write, values: str, classes: tuple[str, str], labels: str) -> None:
    table = load_table(write(table_of(values)))
    assert table.classes == classes
    assert table.labels.tolist() == [int(label) for label in labels]


@pytest.mark.parametrize("positive", [2, "2", 2.0])
def test_many_values_need_a_positive_one(write: Write, positive: object) -> None:
    path = write("x,y\n1,0\n2,1\n3,2\n4,2\n")
    with pytest.raises(InputError, match=r"`positive` .* since it has 3 values: '0', '1', '2'\."):
        load_table(path)
    table = load_table(path, positive=positive)
    assert table.labels.tolist() == [0, 0, 1, 1]
    assert table.classes == ("not 2", "2")
    with pytest.raises(InputError, match=r"`positive` to be a value of 'y'"):
        load_table(path, positive=7)


@pytest.mark.parametrize(
    ("values", "positive", "chosen"),
    [
        ("0 1 0 0", True, "1"),
        ("no yes no no", 1, "yes"),
        ("FALSE TRUE FALSE FALSE", "1", "TRUE"),
        ("ok Fraud ok ok", "fraud", "Fraud"),
        ("0 1 0 0", 0, "0"),
    ],
)
def test_the_positive_value_is_found_in_another_spelling(
    write: Write, values: str, positive: object, chosen: str
) -> None:
    assert load_table(write(table_of(values)), positive=positive).classes[1] == chosen


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("? ? NA", "it has none in any row"),
        ("1 1 ?", "it is '1' in every row: there is nothing to learn"),
        (" ".join(f"{k}.25" for k in range(30)), "looks like a quantity; add a column of two classes"),
        (" ".join(f"u{k}" for k in range(30)), "since it has 30 values: 'u0', 'u1', .*"),
    ],
)
def test_targets_that_are_refused(write: Write, values: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_table(write(table_of(values)))
