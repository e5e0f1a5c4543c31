"""How numbers and dates are written, and what they mean."""

from __future__ import annotations

import numpy as np
import pytest

from setwise.data.tables.dates import find_order, is_ambiguous, is_far, parse_dates, parse_numbers
from setwise.data.tables.numbers import find_style


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["1", "2.5", "-3e2", ".5", "5."], [1, 2.5, -300, 0.5, 5]),
        (["1,5", "2,25"], [1.5, 2.25]),
        (["1.234,50 €", "7,25 €", "-12,00 €"], [1234.5, 7.25, -12]),
        (["$1,234.50", "$7", "-$3", "$-4"], [1234.5, 7, -3, -4]),
        (["EUR 5", "USD 7.5", "5 CHF"], [5, 7.5, 5]),
        (["1'234.5", "12'345'678", "1"], [1234.5, 12345678, 1]),
        (["1 234,5", "12\u00a0345,25", "7\u202f000,0"], [1234.5, 12345.25, 7000]),
        (["12,34,567", "1,23,456", "99,999"], [1234567, 123456, 99999]),
        (["1.234.567", "5.678"], [1234567, 5678]),
        (["1,234,567", "5,678"], [1234567, 5678]),
        (["(5)", "($7.50)", "$(2)", "3-", "\u22124"], [-5, -7.5, -2, -3, -4]),
        (["5 %", "7.5%"], [5, 7.5]),
        (["5 kg", "7.5 kg"], [5, 7.5]),
        (["1,5e3", "2,0"], [1500, 2]),
    ],
)
def test_numbers_as_people_write_them(texts: list[str], numbers: list[float]) -> None:
    style = find_style(texts)
    assert style is not None
    assert [style.parse(text) for text in texts] == numbers


@pytest.mark.parametrize(
    "text", ["18_24", "1-2", "A5", "5A5", "1,2,3", "1.2.3", "--5", "5 of 6", "1,23.456,7", "", "-", "12:30"]
)
def test_texts_that_are_no_numbers(text: str) -> None:
    style = find_style(["5", text])
    assert style is not None
    assert style.parse(text) is None


def test_a_comma_before_three_digits_is_read_by_the_other_cells() -> None:
    for texts, decimal_comma, number in (
        (["1,234"], False, 1234),
        (["1,234"], True, 1.234),
        (["1,234", "1,5"], False, 1.234),
    ):
        style = find_style(texts, decimal_comma=decimal_comma)
        assert style is not None
        assert style.parse("1,234") == number


def test_several_units_are_said() -> None:
    style = find_style(["$5", "7 €"])
    assert style is not None
    assert style.mixed(["$5", "7 €"]) == "'$' and '€' are read as one unit"
    shares = find_style(["5 %", "0.05"])
    assert shares is not None
    assert "some have none" in shares.mixed(["5 %", "0.05"])


# ---------------------------------------------------------------- dates

DATES = {
    "2024-01-31": "2024-01-31", "2024/1/3": "2024-01-03", "2024.01.31": "2024-01-31", "31.01.2024": "2024-01-31",
    "31.1.24": "2024-01-31", "01/31/24": "2024-01-31", "31-01-2024": "2024-01-31", "31 Jan 2024": "2024-01-31",
    "31-Jan-24": "2024-01-31", "31JAN2024": "2024-01-31", "Jan 31, 2024": "2024-01-31",
    "January 31st, 2024": "2024-01-31",
    "Sept 3, 2020": "2020-09-03", "Wed, 31 Jan 2024": "2024-01-31", "Wednesday, January 31, 2024": "2024-01-31",
    "31. Januar 2024": "2024-01-31", "5. März 2024": "2024-03-05", "14 juillet 2024": "2024-07-14",
    "5 de enero de 2024": "2024-01-05", "2024年01月31日": "2024-01-31", "Dec-2015": "2015-12-01",
    "2024-01": "2024-01-01",
    "01/2024": "2024-01-01", "2024-01-31 10:30": "2024-01-31T10:30", "2024-01-31T10:30:00.5Z": "2024-01-31T10:30:00.5",
    "2024-01-31 10:30:00+02:00": "2024-01-31T08:30", "2024-01-31 10:30:00 CET": "2024-01-31T10:30",
    "20240131T103000": "2024-01-31T10:30", "31.01.2024 10:30": "2024-01-31T10:30",
    "1/31/2024 1:05 PM": "2024-01-31T13:05",
    "Wed Jan 31 10:30:00 2024": "2024-01-31T10:30", "Wed Jan 31 10:30:00 +0000 2024": "2024-01-31T10:30",
    "31/Jan/2024:10:30:00 -0700": "2024-01-31T17:30", "10:30": "1970-01-01T10:30", "9:05 PM": "1970-01-01T21:05",
    "12:00 a.m.": "1970-01-01", "36:10:05": "1970-01-02T12:10:05",
}  # fmt: skip
NO_DATES = (
    "18-24",
    "1-2",
    "1.2.3",
    "2024",
    "20240131",
    "10.0.0.1",
    "A-1-2024",
    "Mayor 1",
    "3:2:1:0",
    "1/2",
    "marbles 2020",
)


@pytest.mark.parametrize("text", DATES)
def test_dates_are_read(text: str) -> None:
    order = find_order([text])
    assert order is not None
    assert parse_dates([text], order)[0] == np.datetime64(DATES[text], "ns")


@pytest.mark.parametrize("text", NO_DATES)
def test_other_texts_are_no_dates(text: str) -> None:
    order = find_order([text])
    assert order is None or np.isnat(parse_dates([text], order))[0]
    assert np.isnat(parse_dates([text], "ymd"))[0]


@pytest.mark.parametrize(
    "text", ["2024-02-30", "31.13.2024", "0000-00-00", "9999-12-31", "0001-01-01", "2024-01-31 25:00"]
)
def test_dates_that_are_not_in_the_calendar(text: str) -> None:
    for order in ("ymd", "dmy", "mdy"):
        assert np.isnat(parse_dates([text], order))[0]


def test_the_order_of_a_column_is_that_of_the_cells_that_show_it() -> None:
    assert find_order(["01/02/2024", "13/02/2024"]) == "dmy"
    assert find_order(["01/02/2024", "02/13/2024"]) == "mdy"
    assert find_order(["01/02/2024"]) == "mdy"
    assert find_order(["01.02.2024"]) == "dmy"
    assert find_order(["late", "10:30", "11:45"]) == "clock"
    assert find_order([]) is None
    assert is_ambiguous(["01/02/2024"])
    assert not is_ambiguous(["01/02/2024", "13/02/2024"])
    assert not is_ambiguous(["01.02.2024"])


def test_dates_for_never() -> None:
    assert [is_far(text) for text in ("9999-12-31", "0001-01-01 00:00", "31.12.9999", "2024-01-31", "never")] == [
        *(True, True, True, False, False),
    ]


def test_numbers_that_are_dates() -> None:
    expected = np.array(["2024-01-31", "NaT"], "datetime64[ns]")
    for values, order in (
        ([20240131, 20240230], "compact"),
        ([1706659200, np.inf], "seconds"),
        ([1706659200e3, np.nan], "milliseconds"),
    ):
        np.testing.assert_array_equal(parse_numbers(np.array(values, float), order), expected)
    assert parse_numbers(np.array([20240131103000.0]), "compact")[0] == np.datetime64("2024-01-31T10:30")
