"""Stratified batches over several processes: each has its share of every batch."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from setwise import InputError
from setwise.data import GroupBalancedBatchSampler, StratifiedBatchSampler
from support import ranks
from support.ranks import everywhere

LABELS = [0] * 70 + [1] * 13 + [2] * 5


def shares(world: int, **options: Any) -> list[StratifiedBatchSampler]:
    return [StratifiedBatchSampler(LABELS, rank=rank, num_replicas=world, **options) for rank in range(world)]


@given(world=st.integers(1, 5), size=st.integers(5, 40), shuffle=st.booleans(), drop=st.booleans())
def test_the_shares_make_up_the_batch(world: int, size: int, shuffle: bool, drop: bool) -> None:
    options: dict[str, Any] = {"batch_size": size, "shuffle": shuffle, "drop_last": drop, "seed": 3}
    whole = StratifiedBatchSampler(LABELS, **options)
    parts = shares(world, **options)
    assert {len(part) for part in parts} == {len(whole)}
    for batch, *pieces in itertools.zip_longest(whole, *parts):
        together = sorted(itertools.chain(*pieces))
        if len(batch) >= world:
            assert together == sorted(batch)
        else:  # filled up, so that nobody goes without
            assert set(together) == set(batch)
            assert {len(piece) for piece in pieces} == {1}
        counts = np.array([np.bincount(np.take(LABELS, piece), minlength=3) for piece in pieces])
        assert (np.ptp(counts, axis=0) <= 1).all()


def test_epochs_and_states_are_those_of_the_whole_batches() -> None:
    first, second = shares(2, batch_size=16)
    epoch = [list(first) for _ in range(2)]
    assert epoch[0] != epoch[1]
    first.set_epoch(0)
    assert list(first) == epoch[0]
    start = iter(second)
    for _ in range(2):
        next(start)
    resumed = StratifiedBatchSampler(LABELS, 16, rank=0, num_replicas=2)  # the state is that of any rank
    resumed.load_state_dict(second.state_dict())
    assert list(resumed) == epoch[0][2:]
    whole = StratifiedBatchSampler(LABELS, 16)  # and of any number of ranks
    whole.load_state_dict(second.state_dict())
    assert [len(batch) for batch in whole] == [16] * (len(whole) - 3) + [len(list(shares(1, batch_size=16)[0])[-1])]


def test_shapes_are_shared_out_too() -> None:
    for rank in range(2):
        sampler = GroupBalancedBatchSampler([0] * 40 + [1] * 10, 8, rank=rank, num_replicas=2)
        assert [sum(i >= 40 for i in batch) for batch in sampler] == [2] * 10


def test_without_a_group_batches_are_whole() -> None:
    assert StratifiedBatchSampler(LABELS, 16).replica == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 1}, "`rank` and `num_replicas`"),
        ({"num_replicas": 2}, "`rank` and `num_replicas`"),
        ({"rank": 2, "num_replicas": 2}, "`rank`"),
        ({"rank": 0, "num_replicas": 0}, "`num_replicas`"),
        ({"rank": 0, "num_replicas": 17}, "`batch_size`.*17.*16"),
    ],
)
def test_what_is_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        StratifiedBatchSampler(LABELS, 16, **options)  # type: ignore[arg-type]


def the_group_says_the_rank() -> None:
    sampler = StratifiedBatchSampler(LABELS, 16)
    assert sampler.replica == (dist.get_rank(), 2)
    mine = list(sampler)
    expected = [list(part) for part in shares(2, batch_size=16)]
    assert everywhere(mine) == expected
    assert len(next(iter(StratifiedBatchSampler(LABELS, 16, rank=0, num_replicas=1)))) == 16
    with pytest.raises(InputError, match="`batch_size`"):
        list(StratifiedBatchSampler([0, 0, 0], 1))


def test_the_group_says_the_rank(tmp_path: Path) -> None:
    ranks.run(2, [the_group_says_the_rank], tmp_path)
