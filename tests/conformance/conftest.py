"""Every test here that takes a ``case`` runs on each row of the table it applies to."""

from __future__ import annotations

import pytest

from support.spec import CASES

ROWS = {
    "case": CASES,
    "case_with_program": [case for case in CASES if case.program],
    "case_with_limit": [case for case in CASES if case.limit],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, rows in ROWS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, rows, ids=str)
