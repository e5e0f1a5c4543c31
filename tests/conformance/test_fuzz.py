"""The losses on very many sets at the edge of what floats can hold: nothing but finite numbers, and the oracle's.

Every set is looked at for NaN, infinite gradients and exceptions; one of ``ORACLE_SHARE`` is compared with brute force,
which takes longer than the losses do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from support import ranks
from support.extremes import Batch, batches, problem
from support.paths import Found, compiled, differentiate, mapped, on_ranks, torch_kernels
from support.spec import Case
from support.table import CASES

EAGER = 1_000_000  # sets in all
OTHERS = 20_000  # sets on each other path
ORACLE_SHARE = 25
STACK = 50  # sets under one vmap
SIZE = 7  # samples of a set where all must have the same
SHOWN = 5  # problems in a message
pytestmark = pytest.mark.slow


def for_each_row(total: int) -> int:
    return math.ceil(total / len(CASES))


def examine(case: Case, sets: list[Batch], find: Callable[[Batch], Found]) -> list[str]:
    """What is wrong with each set, where anything is."""
    wrong = []
    for number, batch in enumerate(sets):
        try:
            came = problem(case, batch, *find(batch), oracle=number % ORACLE_SHARE == 0)
        except Exception as error:  # noqa: BLE001 (any of them is what is looked for)
            came = repr(error)
        if came is not None:
            wrong.append(f"{case}({batch}): {came}")
    return wrong


def look_up(found: dict[int, Found], batch: Batch) -> Found:
    return found[id(batch)]


def report(wrong: list[str]) -> None:
    assert not wrong, f"{len(wrong)} sets, the first: " + "\n".join(wrong[:SHOWN])


@pytest.mark.parametrize("part", range(2))
def test_eager(case: Case, part: int) -> None:
    wrong, left = [], for_each_row(EAGER) // 2
    for chunk in range(0, left, 1000):
        sets = list(batches(case, 10_000_000 * (part + 1) + chunk, min(1000, left - chunk)))
        wrong += examine(case, sets, partial(differentiate, case.value))
    report(wrong)


def test_torch(case: Case) -> None:
    with torch_kernels():
        report(examine(case, list(batches(case, 11, for_each_row(OTHERS))), partial(differentiate, case.value)))


def test_vmap(case: Case) -> None:
    wrong = []
    for stack in range(math.ceil(for_each_row(OTHERS) / STACK)):
        dtype = (torch.float64, torch.float32, torch.float16, torch.bfloat16)[stack % 4]
        sets = list(batches(case, 1000 + stack, STACK, size=SIZE, dtype=dtype))
        found = dict(zip(map(id, sets), mapped(case, sets), strict=True))
        wrong += examine(case, sets, partial(look_up, found))
    report(wrong)


def test_compile(case: Case) -> None:
    wrong = []
    loss = compiled(case, "aot_eager")
    for dtype in (torch.float64, torch.float32):
        sets = [batch.with_weight() for batch in batches(case, 12, for_each_row(OTHERS) // 2, size=SIZE, dtype=dtype)]
        wrong += examine(case, sets, partial(differentiate, loss))
    report(wrong)


def test_inductor() -> None:
    for name in ("auc-hinge-1", "f1-hinge-1-identity"):
        case = next(case for case in CASES if case.name == name)
        loss = compiled(case, "inductor")
        sets = [batch.with_weight() for batch in batches(case, 13, 1000, size=SIZE, dtype=torch.float32)]
        report(examine(case, sets, partial(differentiate, loss)))


@pytest.mark.parametrize("part", range(4))
def test_ranks(part: int, tmp_path: Path) -> None:
    ranks.run(2, [partial(on_ranks, CASES[part::4], for_each_row(OTHERS), 14, ORACLE_SHARE)], tmp_path)
