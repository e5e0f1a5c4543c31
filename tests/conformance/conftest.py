"""Every test here that takes a ``case`` runs on each row of the table it applies to."""

from __future__ import annotations

import pytest

from support.table import CASES

ROWS = {
    "case": CASES,
    "case_with_program": [case for case in CASES if case.program],
    "case_with_exact": [case for case in CASES if case.exact],
    "case_with_limit": [case for case in CASES if case.limit is not None],
    "case_from_below": [case for case in CASES if case.lower is not None],
    "case_from_above": [case for case in CASES if case.upper is not None],
    "binary_case": [case for case in CASES if case.layout == "binary"],
    "invariant_case": [case for case in CASES if case.shift_invariant],
    "first_case_of_a_loss": list({case.loss: case for case in reversed(CASES)}.values()),
    "descending_case": [case for case in CASES if case.monotone and case.descends],
    "monotone_case": [case for case in CASES if case.monotone],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, rows in ROWS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, rows, ids=str)
