"""Imbalance made on purpose, and splits."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise._checks import InputError
from setwise.data import drop_class, group_classes, make_imbalanced, one_versus_rest, stratified_split


def test_two_classes_from_many() -> None:
    labels = torch.tensor([0, 1, 2, 3, 2])
    assert one_versus_rest(labels, 2).tolist() == [0, 0, 1, 0, 1]
    assert group_classes(labels, [0, 3]).tolist() == [1, 0, 0, 1, 0]
    for positive in ([7], [], [0, 7]):
        with pytest.raises(InputError, match=r"`positive` to list classes that occur"):
            group_classes(labels, positive)
    with pytest.raises(InputError, match=r"at least one class for the negatives"):
        group_classes(labels, [0, 1, 2, 3])
    with pytest.raises(InputError, match=r"whole numbers, but it also holds 0.5"):
        one_versus_rest([0.5, 1.0], 1)
    with pytest.raises(InputError, match=r"shape \(n,\)"):
        one_versus_rest([], 1)


@settings(deadline=None)  # machines differ in speed
@given(
    majority=st.integers(1, 400),
    minority=st.integers(1, 200),
    share=st.floats(0.01, 0.6),
    seed=st.integers(0, 9),
)
def test_the_share_is_as_near_as_samples_allow(majority: int, minority: int, share: float, seed: int) -> None:
    labels = np.random.default_rng(seed).permutation([0] * majority + [1] * minority)
    keep = round(majority * share / (1 - share))
    if keep > minority or keep == 0:
        with pytest.raises(InputError, match=r"`minority`"):
            make_imbalanced(labels, minority=share, seed=seed)
        return
    thinned = make_imbalanced(labels, minority=share, seed=seed)
    kept = labels[thinned.index]
    assert (kept == 0).sum() == majority
    assert (kept == 1).sum() == keep == thinned.counts_after[1]
    assert (np.diff(thinned.index) > 0).all()
    assert thinned.share == pytest.approx(kept.mean())
    for other in (keep - 1, keep + 1):  # no other whole number of samples comes nearer in odds
        assert abs(keep / majority - share / (1 - share)) <= abs(other / majority - share / (1 - share)) + 1e-9


def test_imbalance_records_what_was_done() -> None:
    labels = np.repeat([0, 1, 2], [50, 100, 150])
    thinned = make_imbalanced(labels, minority=0.2, minority_class=1, seed=3)
    record = json.loads(json.dumps(thinned.to_dict()))
    assert record["seed"] == 3
    assert record["minority"] == 0.2
    assert record["counts_before"] == {"0": 50, "1": 100, "2": 150}
    assert record["counts_after"] == {"0": 50, "1": 50, "2": 150}
    assert record["index"] == thinned.index.tolist()
    again, other = (make_imbalanced(labels, minority=0.2, seed=seed).index for seed in (3, 4))
    assert np.array_equal(again, thinned.index)
    assert not np.array_equal(other, thinned.index)


def test_drop_rate_per_class() -> None:
    labels = np.repeat([0, 1, 2], [10, 20, 30])
    thinned = drop_class(labels, cls=[0, 2], fraction=0.9, seed=1)
    assert thinned.counts_after == {0: 1, 1: 20, 2: 3}
    assert (thinned.fraction, thinned.minority) == (0.9, None)
    assert thinned.share == pytest.approx(4 / 24)
    assert len(drop_class(labels, cls=1, fraction=0).index) == 60
    assert drop_class(labels, cls=1, fraction=1).counts_after == {0: 10, 1: 0, 2: 30}
    with pytest.raises(InputError, match=r"`cls` to be a class of `labels` \(0, 1, 2\), but got 5"):
        drop_class(labels, cls=5, fraction=0.5)
    with pytest.raises(InputError, match=r"drop all"):
        drop_class(labels, cls=[0, 1, 2], fraction=1)
    with pytest.raises(InputError, match=r"`fraction` to be in \[0, 1\]"):
        drop_class(labels, cls=1, fraction=1.5)
    with pytest.raises(InputError, match=r"`cls` to name at least one"):
        drop_class(labels, cls=[], fraction=0.5)


def test_impossible_imbalance_is_refused() -> None:
    labels = [0] * 90 + [1] * 10
    with pytest.raises(InputError, match=r"`minority` to be at most 0.1.*but got 0.3"):
        make_imbalanced(labels, minority=0.3)
    with pytest.raises(InputError, match=r"leaves none"):
        make_imbalanced(labels, minority=0.001)
    with pytest.raises(InputError, match=r"`minority_class` to be a class of `labels` \(0, 1\), but got 2"):
        make_imbalanced(labels, minority_class=2)
    with pytest.raises(InputError, match=r"classes beside 1"):
        make_imbalanced([1, 1, 1])
    with pytest.raises(InputError, match=r"`minority` to be in \(0, 1\)"):
        make_imbalanced(labels, minority=1.0)
    with pytest.raises(InputError, match=r"`seed` to be at least 0"):
        make_imbalanced(labels, seed=-1)
    assert make_imbalanced(labels, minority=0.1).index.size == 100


@settings(deadline=None)  # machines differ in speed
@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    weights=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    seed=st.integers(0, 5),
)
def test_split_has_exact_sizes_and_all_classes(counts: list[int], weights: list[int], seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    fractions = [w / sum(weights) for w in weights]
    n = labels.size
    if min(fractions) * n < 1:  # too few samples for a part may be refused
        return
    parts = stratified_split(labels, fractions, seed=seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    for part, fraction in zip(parts, fractions, strict=True):
        assert abs(part.size - fraction * n) < 1
        assert (np.diff(part) > 0).all()
    table = np.array([[(labels[part] == c).sum() for part in parts] for c in range(len(counts))])
    # Exchanges that bring a rare class into a part may move a common one by one sample per class.
    assert np.abs(table - np.outer(counts, fractions)).max() < 1 + len(counts)
    for c, count in enumerate(counts):
        for p, part in enumerate(parts):
            if count >= len(parts) and part.size >= 2 * len(counts):
                assert table[c, p] > 0


def test_split_is_proportional_and_seeded() -> None:
    labels = np.repeat([0, 1], [900, 100])
    train, held, test = stratified_split(labels, [0.7, 0.1, 0.2], seed=1)
    assert [(labels[part]).sum() for part in (train, held, test)] == [70, 10, 20]
    again = stratified_split(labels, [0.7, 0.1, 0.2], seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(again, (train, held, test), strict=True))
    assert not np.array_equal(stratified_split(labels, [0.7, 0.1, 0.2], seed=2)[0], train)


def test_three_positives_go_into_three_parts() -> None:
    labels = np.array([0] * 97 + [1] * 3)
    parts = stratified_split(labels, [0.8, 0.1, 0.1])
    assert [part.size for part in parts] == [80, 10, 10]
    assert [labels[part].sum() for part in parts] == [1, 1, 1]


def test_groups_are_spread_as_well() -> None:
    labels = np.tile([0, 0, 0, 1], 100)
    groups = np.repeat(["a", "b"], [300, 100])
    first, second = stratified_split(labels, [0.5, 0.5], groups=groups)
    for part in (first, second):
        pairs = {(c, g): int(((labels[part] == c) & (groups[part] == g)).sum()) for c in (0, 1) for g in "ab"}
        expected = {(0, "a"): 112.5, (0, "b"): 37.5, (1, "a"): 37.5, (1, "b"): 12.5}
        assert all(abs(pairs[key] - expected[key]) <= 1 for key in expected)
    tensor_groups = torch.from_numpy((groups == "a").astype(np.int64))
    assert stratified_split(labels, [0.5, 0.5], groups=tensor_groups)[0].size == 200
    with pytest.raises(InputError, match=r"`groups` to have the shape of `labels`"):
        stratified_split(labels, [0.5, 0.5], groups=[0, 1])


def test_impossible_splits_are_refused() -> None:
    for fractions in ([0.5, 0.4], [], [0.9, 0.2]):
        with pytest.raises(InputError, match=r"`fractions` to sum to 1"):
            stratified_split([0, 1, 0, 1], fractions)
    with pytest.raises(InputError, match=r"`fractions\[1\]` to be in \(0, 1\]"):
        stratified_split([0, 1, 0, 1], [1.0, 0.0])
    with pytest.raises(InputError, match=r"to give each part a sample"):
        stratified_split([0, 1, 0], [0.9, 0.05, 0.05])
    assert stratified_split([0, 1, 0], [1.0])[0].tolist() == [0, 1, 2]
