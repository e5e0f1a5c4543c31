"""Every loss at the edge of what floats can hold, on every path, beside brute force in float64.

The sets are those of :mod:`support.extremes`; ``test_fuzz.py`` has many more of them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from support import ranks
from support.extremes import DTYPES, LARGEST_WEIGHT, Batch, batches, draw_batch, problem
from support.paths import Found, compiled, differentiate, mapped, on_ranks, torch_kernels
from support.spec import Case
from support.table import CASES

SETS = 30  # of every row, with the oracle, on each path
LARGE = 300  # samples: float32 scores of so many are sorted as packed integers
COMPILED = ("auc-hinge-1", "ap-ramp-0.5", "auc-mu-hinge-1", "precision@recall-hinge-1-optimum", "f1-hinge-1-identity")
PATHS = ("eager", "torch")


def on_path(path: str, case: Case, batch: Batch) -> Found:
    if path == "eager":
        return differentiate(case.value, batch)
    with torch_kernels():
        return differentiate(case.value, batch)


def check(case: Case, batch: Batch, found: Found) -> None:
    wrong = problem(case, batch, *found)
    assert wrong is None, f"{case}({batch}): {wrong}"


@pytest.mark.parametrize("path", PATHS)
def test_value_and_gradient_are_those_of_brute_force(case: Case, path: str) -> None:
    for batch in batches(case, 1, SETS):
        check(case, batch, on_path(path, case, batch))


@pytest.mark.parametrize("path", PATHS)
def test_larger_sets_are_those_of_brute_force(first_case_of_a_loss: Case, path: str) -> None:
    case = first_case_of_a_loss
    for dtype in (torch.float32, torch.bfloat16):
        for batch in batches(case, 2, 1, size=LARGE if case.oracle_is_quick else 40, dtype=dtype):
            check(case, batch, on_path(path, case, batch))


def test_under_vmap(case: Case) -> None:
    for dtype in DTYPES:
        sets = list(batches(case, 3, 8, size=7, dtype=dtype))
        for batch, found in zip(sets, mapped(case, sets), strict=True):
            check(case, batch, found)


@pytest.mark.parametrize("name", COMPILED)
def test_compiled(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    loss = compiled(case, "aot_eager")
    for batch in batches(case, 4, 20, size=7, dtype=torch.float32):
        check(case, batch.with_weight(), differentiate(loss, batch.with_weight()))


def test_on_two_ranks(tmp_path: Path) -> None:
    ranks.run(2, [partial(on_ranks, CASES, 6, 5)], tmp_path)


def layouts(scores: Tensor, labels: Tensor, weight: Tensor) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """The same set with other strides; expanded ones are sets of equal samples."""

    def spread(x: Tensor) -> Tensor:
        return x.repeat_interleave(3, 0)[::3]

    def turned(x: Tensor) -> Tensor:
        return x.unsqueeze(-1).repeat(*[1] * x.ndim, 2)[..., 1] if x.ndim == 1 else x.mT.contiguous().mT

    def inside(x: Tensor) -> Tensor:
        return torch.cat([x, x, x])[len(x) : 2 * len(x)]

    return {
        name: (change(scores), change(labels), change(weight))
        for name, change in {"strided": spread, "not contiguous": turned, "a view": inside}.items()
    }


@pytest.mark.parametrize("path", PATHS)
def test_layouts_change_nothing(case: Case, path: str) -> None:
    for dtype in DTYPES:
        batch = draw_batch(case, np.random.default_rng(6), 9, dtype).with_weight()
        assert batch.weight is not None
        value, gradient = on_path(path, case, batch)
        assert gradient is not None
        for name, parts in layouts(batch.scores, batch.labels, batch.weight).items():
            other, slope = on_path(path, case, Batch(*parts))
            assert slope is not None
            assert torch.equal(other, value), name
            assert torch.equal(slope, gradient), name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("path", PATHS)
def test_no_dimension_no_sample_and_one_sample_many_times(case: Case, path: str, dtype: torch.dtype) -> None:
    shapes: list[tuple[int, ...]] = [(0,), (1,), (5,)] if case.layout == "classes" else [(), (0,), (1,), (2, 0), (5,)]
    for shape in shapes:
        more: tuple[int, ...] = (3,) if case.layout == "classes" else ()
        one = torch.full((1,) * len(shape) + more, 0.5, dtype=dtype)
        scores, labels = one.expand((*shape, *more)), torch.zeros((1,) * len(shape), dtype=torch.long).expand(shape)
        for label in (labels, labels + 1):
            for weight in (None, torch.full(shape, 1e-20)):
                value, gradient = on_path(path, case, Batch(scores, label, weight))
                assert gradient is not None
                assert value.isfinite()
                assert gradient.isfinite().all()


def assert_same(case: Case, batch: Batch, other: Batch, order: Tensor | None = None) -> None:
    """A changed set has the same value, and the same gradient in its own order."""
    (value, gradient), (again, slope) = differentiate(case.value, batch), differentiate(case.value, other)
    assert gradient is not None
    assert slope is not None
    tolerance = max(batch.tolerance, other.tolerance)
    torch.testing.assert_close(again, value, rtol=tolerance, atol=tolerance)
    within = tolerance * max(float(gradient.double().abs().max()), 1e-3)
    rounding = 4 * torch.finfo(gradient.dtype).eps
    gradient = gradient if order is None else gradient[order]
    torch.testing.assert_close(slope.double(), gradient.double(), rtol=max(rounding, tolerance), atol=within)


def test_the_order_of_the_samples_does_not_matter(case: Case) -> None:
    for batch in batches(case, 7, SETS, size=9):
        order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
        weight = None if batch.weight is None else batch.weight[order]
        assert_same(case, batch, Batch(batch.scores[order], batch.labels[order], weight), order)


def test_the_scale_of_the_weights_does_not_matter(case: Case) -> None:
    for batch in batches(case, 8, SETS, size=9):
        one = batch.with_weight()
        assert one.weight is not None
        unit = one.weight.double() / one.weight.double().max().clamp(min=1e-300)
        for factor in (1 / LARGEST_WEIGHT, LARGEST_WEIGHT):
            assert_same(case, one, Batch(one.scores, one.labels, (unit * factor).to(one.weight.dtype)))


def test_a_common_offset_does_not_matter(invariant_case: Case) -> None:
    case = invariant_case
    rng = np.random.default_rng(9)
    for dtype, size, offset in (
        (torch.float64, 2**20, 2.0**20),
        (torch.float32, 2**4, 2.0**16),
        (torch.bfloat16, 1, 32),
    ):
        for _ in range(SETS // 3):
            batch = draw_batch(case, rng, 9, dtype)
            step = 1 / size if dtype != torch.bfloat16 else 1.0
            scores = torch.from_numpy(rng.integers(-40, 40, batch.scores.shape) * step).to(dtype)
            here, there = (Batch(scores + add, batch.labels, batch.weight) for add in (0, offset))
            assert torch.equal(there.scores - offset, here.scores)  # both are representable
            assert_same(case, here, there)
