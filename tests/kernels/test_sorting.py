from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from setwise.functional import auc_loss
from setwise.kernels import sorting
from setwise.kernels.sorting import BLOCK, blocks, sort_numpy, sort_torch, unsort

FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.one_of(FINITE, st.sampled_from([0.0, -0.0, 1.0])), st.booleans()), max_size=30),
    st.booleans(),
)
def test_ascending_by_key_then_by_class(
    dtype: type[np.floating], pairs: list[tuple[float, bool]], positives_first: bool
) -> None:
    key = np.array([k for k, _ in pairs], dtype)
    positive = np.array([p for _, p in pairs], bool)
    index, label = sort_numpy(key, positive, positives_first=positives_first)
    assert sorted(index.tolist()) == list(range(len(pairs)))
    assert np.array_equal(label, positive[index])
    last = ~positive if positives_first else positive
    rank = [(float(key[i]), bool(last[i])) for i in index]
    assert rank == sorted(rank)
    torch_index = sort_torch(torch.from_numpy(key), torch.from_numpy(positive), positives_first=positives_first)
    assert [(float(key[i]), bool(last[i])) for i in torch_index.tolist()] == rank


def test_keys_are_not_changed() -> None:
    key = np.array([-0.0, 3.0, -2.0], np.float32)
    before = key.tobytes()
    sort_numpy(key, np.array([True, False, True]))
    assert key.tobytes() == before


def test_subnormal_and_extreme_keys() -> None:
    extreme = np.array([3e38, -3e38, 1e-45, -1e-45, 0.0], np.float32)
    index, _ = sort_numpy(extreme, np.zeros(5, bool))
    assert index.tolist() == [1, 3, 4, 2, 0]


@pytest.mark.parametrize("size", [0, 1, 257, BLOCK, BLOCK + 1, 2 * BLOCK + 7])
@pytest.mark.parametrize("positives_first", [False, True])
def test_sets_of_several_blocks(size: int, positives_first: bool) -> None:
    rng = np.random.default_rng(size)
    key = rng.integers(-50, 50, size).astype(np.float32) / 4  # many ties
    positive = rng.random(size) < 0.3
    index, label = sort_numpy(key, positive, positives_first=positives_first)
    last = ~positive if positives_first else positive
    assert np.array_equal(np.sort(index), np.arange(size))
    assert np.array_equal(label, positive[index])
    expected = np.lexsort((last, key))
    assert np.array_equal(key[index], key[expected])
    assert np.array_equal(last[index], last[expected])
    assert np.array_equal(unsort(key[index], index), key)


@pytest.mark.parametrize("size", [0, 5, BLOCK, 3 * BLOCK + 1])
def test_blocks_cover_everything_once(size: int) -> None:
    assert [i for start, stop in blocks(size) for i in range(start, stop)] == list(range(size))


SORTS = {
    "quicksort of packed keys": sorting._sort_packed,
    "radix sort by NumPy": sorting._sort_radix_numpy,
    "radix sort by torch": sorting._sort_radix_torch,
}
KEYS: dict[str, Callable[[np.random.Generator, int], NDArray[Any]]] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "ties": lambda rng, n: rng.integers(-20, 20, n) / 4,
    "two values": lambda rng, n: rng.integers(0, 2, n),
    "signed zeros": lambda rng, n: rng.choice([0.0, -0.0, 1e-45, -1e-45], n),
    "every bit pattern": lambda rng, n: rng.integers(-(2**31), 2**31, n, dtype=np.int32).view(np.float32),
    "extremes": lambda rng, n: rng.choice([3.4e38, -3.4e38, 1.2e-38, -1.2e-38, 0.0], n),
    "large offset": lambda rng, n: 1e7 + rng.standard_normal(n),
    "sorted": lambda rng, n: np.sort(rng.standard_normal(n)),
    "reversed": lambda rng, n: np.sort(rng.standard_normal(n))[::-1],
    "constant": lambda _, n: np.full(n, -3.0),
}
SIZES = [1, 2, sorting._FEW + 1, sorting._CHOICE_FROM, BLOCK + 1, sorting._TORCH_RADIX_FROM - 1, 2 * BLOCK + 7, 100_003]


@pytest.fixture
def no_choice_yet() -> Iterator[None]:
    sorting._faster.cache_clear()
    yield
    sorting._faster.cache_clear()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keys", KEYS)
def test_every_sort_gives_the_same_order(keys: str, size: int) -> None:
    rng = np.random.default_rng(size)
    key = KEYS[keys](rng, size).astype(np.float32)
    key[~np.isfinite(key)] = 0
    for share in (0.0, 0.1, 0.5, 1.0):
        last = rng.random(size) < share
        before = key.tobytes(), last.tobytes()
        expected = np.lexsort((last, key))  # stable: by key, class and position
        for name, sort in SORTS.items():
            index, is_last = sort(key, last)
            assert index.dtype == np.int64, name
            assert np.array_equal(index, expected), name
            assert np.array_equal(is_last, last[expected]), name
        assert (key.tobytes(), last.tobytes()) == before


@pytest.mark.parametrize("name", SORTS)
def test_keys_that_are_not_finite_pass_through(name: str) -> None:
    key = np.random.default_rng(0).standard_normal(40_000).astype(np.float32)
    key[::7], key[::11], key[::13] = np.nan, np.inf, -np.inf
    index, _ = SORTS[name](key, key > 0)
    assert np.array_equal(np.sort(index), np.arange(key.size))


@pytest.mark.usefixtures("no_choice_yet")
@pytest.mark.parametrize(("packed", "radix"), [(3.0, 1.0), (1.4, 1.0), (1.2, 1.0), (1.0, 1.0), (1.0, 9.0)])
@pytest.mark.parametrize("unit", [1e-3, 1.0])  # a turn within the time of a trial, and beyond it
def test_the_sort_that_is_clearly_faster_is_taken(
    monkeypatch: pytest.MonkeyPatch, packed: float, radix: float, unit: float
) -> None:
    now, turns = [0.0], []

    def sort_of(seconds: float) -> sorting.Sort:
        def sort(key: NDArray[Any], last: NDArray[np.bool_]) -> sorting.Sorted:
            turns.append(seconds)
            now[0] += seconds * unit
            return np.arange(key.size), last

        return sort

    usual, small, large = sort_of(packed), sort_of(radix), sort_of(radix)
    for name, sort in (("_sort_packed", usual), ("_sort_radix_numpy", small), ("_sort_radix_torch", large)):
        monkeypatch.setattr(sorting, name, sort)
    monkeypatch.setattr("setwise.kernels.sorting.time.perf_counter", lambda: now[0])
    found = sorting._choose(sorting._CHOICE_FROM), sorting._choose(sorting._TORCH_RADIX_FROM)
    assert found == ((small, large) if packed > 1.3 * radix else (usual, usual))
    assert len(turns) == (12 if unit < 1 else 4)


@pytest.mark.usefixtures("no_choice_yet")
def test_the_choice_is_made_once_and_at_the_first_large_use() -> None:
    state = torch.get_rng_state().numpy().tobytes()

    def used(size: int) -> int:
        sort_numpy(np.zeros(size, np.float32), np.zeros(size, np.bool_))
        return sorting._faster.cache_info().misses

    assert [used(n) for n in (10, 1000, sorting._CHOICE_FROM - 1)] == [0, 0, 0]
    workers = [threading.Thread(target=used, args=(sorting._TORCH_RADIX_FROM,)) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert used(100_000) == 1
    assert used(sorting._CHOICE_FROM) == 2  # another pair of sorts
    assert used(20_000) == used(1_000_000) == 2
    assert torch.get_rng_state().numpy().tobytes() == state


@pytest.mark.parametrize("size", [5000, 50_000])
def test_value_and_gradient_do_not_depend_on_the_choice(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    rng = np.random.default_rng(size)
    target = torch.from_numpy(rng.random(size) < 0.2)
    scores = torch.from_numpy((rng.standard_normal(size).astype(np.float16) / 4).astype(np.float32))  # with ties
    found = []
    for sort in SORTS.values():
        monkeypatch.setattr(sorting, "_choose", lambda _, sort=sort: sort)
        own = scores.clone().requires_grad_()
        loss = auc_loss(own, target, surrogate="ramp")
        loss.backward()
        assert own.grad is not None
        found.append((loss.item(), own.grad.numpy().tobytes()))
    assert len(set(found)) == 1
