"""Every test here that takes a ``case`` runs on each row of the table it applies to, ``any_case`` on variants too."""

from __future__ import annotations

from typing import Any

import pytest

from support.table import CASES, VARIANTS

ALL = [*CASES, *VARIANTS]
JUDGED = [*CASES, *(case for case in VARIANTS if case.limit is not None)]
# One for each way that losses are computed: pairs, a part of them, ratios, several classes, a threshold, a grid of
# thresholds, counts, the derivatives of a function of counts. The others share their code with one of them.
COMPILED = (
    "auc-hinge-1", "pauc-hinge-1-0.25-0.5", "ap-hinge-1", "auc-ova-hinge-1", "recall@precision-hinge-1", "curve-pr",
    "f1-hinge-1-identity", "mcc-hinge-1-identity",
)  # fmt: skip
FIRST = list({case.loss: case for case in reversed(CASES)}.values())
ROWS: dict[str, list[Any]] = {
    "case": CASES,
    "any_case": ALL,
    "any_case_with_program": [case for case in ALL if case.program],
    "any_case_with_exact": [case for case in ALL if case.exact],
    "any_case_with_limit": [case for case in ALL if case.limit is not None],
    "judged_case": JUDGED,
    "convex_case": [case for case in ALL if case.convex],
    "case_with_program": [case for case in CASES if case.program],
    "case_with_exact": [case for case in CASES if case.exact],
    "case_from_below": [case for case in JUDGED if case.lower is not None],
    "case_from_above": [case for case in CASES if case.upper is not None],
    "binary_case": [case for case in CASES if case.layout == "binary"],
    "invariant_case": [case for case in CASES if case.shift_invariant],
    "any_invariant_case": [case for case in ALL if case.shift_invariant],
    "first_case_of_a_loss": FIRST,
    "compiled_case": [
        *(case for case in ALL if case.name in COMPILED),
        *(pytest.param(case, marks=pytest.mark.slow) for case in FIRST if case.name not in COMPILED),
    ],
    "descending_case": [case for case in CASES if case.monotone and case.descends],
    "monotone_case": [case for case in CASES if case.monotone],
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name, rows in ROWS.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, rows, ids=str)
