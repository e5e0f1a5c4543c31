from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

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
