"""Stratified batches: quotas, coverage, order and resuming."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from setwise._checks import InputError
from setwise.data import GroupBalancedBatchSampler, StratifiedBatchSampler


def make(counts: list[int], size: int, **options: object) -> StratifiedBatchSampler:
    labels = np.random.default_rng(7).permutation(np.repeat(np.arange(len(counts)), counts))
    return StratifiedBatchSampler(labels, size, **options)  # type: ignore[arg-type]


def per_class(sampler: StratifiedBatchSampler, batch: list[int]) -> dict[int, int]:
    return dict(Counter(sampler.labels[batch].tolist()))


@settings(deadline=None)  # machines differ in speed
@given(
    counts=st.lists(st.integers(1, 70), min_size=1, max_size=5),
    size=st.integers(1, 24),
    shuffle=st.booleans(),
    seed=st.integers(0, 3),
)
def test_quotas_coverage_and_length(counts: list[int], size: int, shuffle: bool, seed: int) -> None:
    assume(size >= len(counts))
    sampler = make(counts, size, shuffle=shuffle, seed=seed)
    assert sum(sampler.quotas.values()) == size
    assert min(sampler.quotas.values()) >= 1
    batches = list(sampler)
    assert len(batches) == len(sampler)
    for batch in batches[:-1]:
        assert per_class(sampler, batch) == sampler.quotas
    last = per_class(sampler, batches[-1])
    assert set(last) == set(sampler.quotas)
    assert all(last[c] <= sampler.quotas[c] for c in last)
    visits = Counter(i for batch in batches for i in batch)
    assert set(visits) == set(range(sum(counts)))
    lead = max(range(len(counts)), key=lambda c: counts[c] / sampler.quotas[c])
    for c, count in enumerate(counts):
        times = [visits[i] for i in np.flatnonzero(sampler.labels == c).tolist()]
        assert max(times) - min(times) <= 1  # no sample comes again before all have come
        assert c != lead or max(times) == 1
        if count >= sampler.quotas[c]:
            for batch in batches:
                members = [i for i in batch if sampler.labels[i] == c]
                assert len(set(members)) == len(members)


@settings(deadline=None)  # machines differ in speed
@given(
    negatives=st.integers(1, 80),
    positives=st.integers(1, 40),
    size=st.integers(2, 16),
    data=st.data(),
)
def test_a_quota_of_positives_is_kept(negatives: int, positives: int, size: int, data: st.DataObject) -> None:
    quota = data.draw(st.integers(1, size - 1))
    sampler = make([negatives, positives], size, positives=quota)
    batches = list(sampler)
    assert all(per_class(sampler, batch) == {0: size - quota, 1: quota} for batch in batches[:-1])
    assert set(per_class(sampler, batches[-1])) == {0, 1}
    assert {i for batch in batches for i in batch} == set(range(negatives + positives))


@settings(deadline=None)  # machines differ in speed
@given(counts=st.lists(st.integers(1, 50), min_size=1, max_size=4), size=st.integers(1, 20), shuffle=st.booleans())
def test_balanced_batches_hold_all_classes_alike(counts: list[int], size: int, shuffle: bool) -> None:
    assume(size >= len(counts))
    sampler = make(counts, size, balanced=True, shuffle=shuffle)
    assert sum(sampler.quotas.values()) == size
    assert max(sampler.quotas.values()) - min(sampler.quotas.values()) <= 1
    largest = sorted(range(len(counts)), key=lambda c: -counts[c])[: size % len(counts)]
    assert all(sampler.quotas[c] == size // len(counts) + (c in largest) for c in range(len(counts)))
    batches = list(sampler)
    assert all(per_class(sampler, batch) == sampler.quotas for batch in batches[:-1])
    last = per_class(sampler, batches[-1])
    assert max(last.values()) - min(last.values()) <= 1
    assert {i for batch in batches for i in batch} == set(range(sum(counts)))  # every example has its turn


def test_shape_balanced_is_the_balanced_sampler() -> None:
    groups = np.random.default_rng(0).choice([-1, 1], size=50, p=[0.8, 0.2])
    options: dict[str, Any] = {"seed": 3, "drop_last": True, "weight": np.arange(50.0)}
    for chosen in ({"seed": 3}, options):
        found = GroupBalancedBatchSampler(torch.from_numpy(groups), 10, **chosen)
        assert list(found) == list(StratifiedBatchSampler(groups, 10, balanced=True, **chosen))
        assert found.quotas == {-1: 5, 1: 5}
    resumed = GroupBalancedBatchSampler(groups, 10)
    kept = GroupBalancedBatchSampler(groups, 10)
    first = list(islice(resumed, 3))
    kept.load_state_dict(resumed.state_dict())
    assert first + list(kept) == list(GroupBalancedBatchSampler(groups, 10))
    in_order = list(GroupBalancedBatchSampler(groups, 10, shuffle=False))
    assert in_order[0] == [*np.flatnonzero(groups == -1)[:5].tolist(), *np.flatnonzero(groups == 1)[:5].tolist()]
    with pytest.raises(InputError, match="`groups` to hold whole numbers"):
        GroupBalancedBatchSampler(groups + 0.5, 10)


def test_balanced_means_are_those_of_each_class() -> None:
    """What makes n/B+ and |S-|/B- the right scaling: within a class every example is drawn alike."""
    sampler = make([40, 9], 8, balanced=True)
    values = np.random.default_rng(0).random(49)
    estimate: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(400):
        for batch in sampler:
            for c in (0, 1):
                members = [i for i in batch if sampler.labels[i] == c]
                estimate[c].append(float(values[members].mean()))
    for c in (0, 1):
        assert np.mean(estimate[c]) == pytest.approx(values[sampler.labels == c].mean(), abs=0.01)


@settings(deadline=None)  # machines differ in speed
@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    size=st.integers(3, 9),
    stop=st.integers(0, 40),
    weighted=st.booleans(),
)
def test_resuming_equals_not_stopping(counts: list[int], size: int, stop: int, weighted: bool) -> None:
    weight = np.linspace(1, 2, sum(counts)) if weighted else None

    def stream(sampler: StratifiedBatchSampler, batches: int) -> list[list[int]]:
        found: list[list[int]] = []
        while len(found) < batches:
            found += islice(sampler, batches - len(found))
        return found

    whole = stream(make(counts, size, seed=5, weight=weight), stop + 25)
    first = make(counts, size, seed=5, weight=weight)
    head = stream(first, stop)
    second = make(counts, size, seed=0, weight=weight)
    second.load_state_dict(first.state_dict())
    assert head + stream(second, 25) == whole


def test_default_share_and_fraction() -> None:
    assert make([990, 10], 32).quotas == {0: 31, 1: 1}  # at least one
    assert make([300, 100], 32).quotas == {0: 24, 1: 8}
    assert make([40, 8], 8).quotas == {0: 6, 1: 2}  # (7, 1) would need 8 batches to visit all, this needs 7
    assert make([10, 990], 32).quotas == {0: 1, 1: 31}
    assert make([990, 10], 32, fraction=0.25).quotas == {0: 24, 1: 8}
    assert make([990, 10], 32, fraction=0.001).quotas == {0: 31, 1: 1}
    assert make([990, 10], 32, fraction=0.999).quotas == {0: 1, 1: 31}
    assert make([50, 30, 20], 10).quotas == {0: 5, 1: 3, 2: 2}


def test_epochs_differ_and_repeat() -> None:
    sampler = make([40, 8], 8, seed=1)
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(0)
    assert list(sampler) == first
    assert sampler.epoch == 1
    assert list(make([40, 8], 8, seed=2)) != first
    sampler.set_epoch(0)
    next(iter(sampler))  # left early: the next pass is the next epoch
    assert list(sampler) == second


def test_set_epoch_keeps_the_place_of_a_resumed_epoch() -> None:
    sampler = make([40, 8], 8)
    whole = list(sampler)
    state = {"epoch": 0, "batch": 2, "seed": 0, "batches": len(sampler)}
    sampler.load_state_dict(state)
    sampler.set_epoch(0)
    assert list(sampler) == whole[2:]
    sampler.load_state_dict(state)
    sampler.set_epoch(4)
    assert len(list(sampler)) == len(sampler)


def test_a_state_after_the_last_batch_starts_the_next_epoch() -> None:
    sampler, fresh = make([40, 8], 8), make([40, 8], 8)
    batches = iter(sampler)
    for _ in range(len(sampler)):
        next(batches)
    assert sampler.state_dict() == {"epoch": 1, "batch": 0, "seed": 0, "batches": len(sampler)}
    fresh.set_epoch(1)
    assert list(sampler) == list(fresh)
    sampler.load_state_dict({"epoch": 0, "batch": len(sampler), "seed": 0, "batches": len(sampler)})
    assert sampler.epoch == 1


def test_drop_last_leaves_whole_batches() -> None:
    sampler = make([41, 9], 8, positives=2, drop_last=True)
    batches = list(sampler)
    assert len(batches) == len(sampler) == 6
    assert all(per_class(sampler, batch) == {0: 6, 1: 2} for batch in batches)
    with pytest.raises(InputError, match=r"`drop_last` is set, but class 0 has 3 samples and a quota of 5"):
        make([3, 1], 8, positives=3, drop_last=True)


def test_without_shuffle_the_order_is_that_of_the_data() -> None:
    sampler = StratifiedBatchSampler([0, 1, 0, 0, 1, 0], 3, positives=1, shuffle=False)
    assert list(sampler) == [[0, 2, 1], [3, 5, 4]]
    assert list(sampler) == [[0, 2, 1], [3, 5, 4]]


def test_one_class_gives_plain_batches() -> None:
    sampler = StratifiedBatchSampler(np.ones(10), 4)
    batches = list(sampler)
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(i for batch in batches for i in batch) == list(range(10))


def test_fewer_positives_than_the_quota_are_repeated() -> None:
    sampler = StratifiedBatchSampler([0] * 12 + [1] * 2, 6, positives=3)
    for batch in sampler:
        assert sorted(set(batch) & {12, 13}) == [12, 13]
        assert len([i for i in batch if i >= 12]) == 3


def test_weights_steer_the_draws_within_a_class() -> None:
    labels = np.array([0] * 4 + [1] * 3)
    weight = torch.tensor([1.0, 1.0, 1.0, 0.0, 1.0, 3.0, 0.0])
    sampler = StratifiedBatchSampler(labels, 4, positives=2, weight=weight)
    draws = Counter(i for _ in range(600) for batch in sampler for i in batch)
    assert draws[3] == draws[6] == 0
    assert draws[5] / draws[4] == pytest.approx(3, rel=0.2)
    assert sum(draws[i] for i in (0, 1, 2)) == sum(draws[i] for i in (4, 5))
    with pytest.raises(InputError, match=r"positive for some sample of class 1"):
        StratifiedBatchSampler([0, 1], 2, weight=[1.0, 0.0])
    with pytest.raises(InputError, match=r"`weight` to be non-negative"):
        StratifiedBatchSampler([0, 1], 2, weight=[1.0, -1.0])
    with pytest.raises(InputError, match=r"`weight` to have the shape"):
        StratifiedBatchSampler([0, 1], 2, weight=[1.0])
    with pytest.raises(InputError, match=r"`shuffle` to be True"):
        StratifiedBatchSampler([0, 1], 2, weight=[1.0, 1.0], shuffle=False)


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([0, 1], {"positives": 2}, r"`positives` to be in \[1, 1\], but got 2"),
        ([0, 1], {"positives": 0}, r"`positives` to be at least 1"),
        ([0, 1], {"positives": 1, "fraction": 0.5}, r"`positives` or `fraction`, but got both"),
        ([0, 1], {"balanced": True, "fraction": 0.5}, r"`balanced`, or `positives` or `fraction`, but got both"),
        ([0, 1], {"balanced": True, "positives": 1}, r"`balanced`, or `positives` or `fraction`, but got both"),
        ([0, 1], {"fraction": 1.0}, r"`fraction` to be in \(0, 1\)"),
        ([0, 0], {"positives": 1}, r"`labels` to hold 0 and 1"),
        ([-1, 1], {"positives": 1}, r"hold only 0 and 1, .*labels > 0"),
        ([0, 1, 2], {}, r"`batch_size` to be at least the number of classes, 3, but got 2"),
        ([[0, 1]], {}, r"shape \(n,\)"),
        ([0.5, 1.0], {}, r"whole numbers"),
        ([0, 1], {"seed": -1}, r"`seed`"),
    ],
)
def test_what_is_refused(labels: list[float], options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        StratifiedBatchSampler(labels, 2, **options)  # type: ignore[arg-type]


def test_states_of_another_sampler_are_refused() -> None:
    sampler = make([40, 8], 8)
    with pytest.raises(InputError, match=r"lacks batches, seed"):
        sampler.load_state_dict({"epoch": 0, "batch": 0})
    with pytest.raises(InputError, match=r"with 7 batches per epoch, but it had 14"):
        sampler.load_state_dict(make([80, 16], 8).state_dict())
    with pytest.raises(InputError, match=r"state\['batch'\]"):
        sampler.load_state_dict(sampler.state_dict() | {"batch": 99})


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_gets_the_batches(workers: int) -> None:
    labels = torch.tensor([0] * 30 + [1] * 6)
    sampler = StratifiedBatchSampler(labels, 8, positives=2)
    loader = DataLoader(TensorDataset(torch.arange(36), labels), batch_sampler=sampler, num_workers=workers)
    plan = list(StratifiedBatchSampler(labels, 8, positives=2))
    seen = [index.tolist() for index, _ in loader]
    assert seen == plan
    assert len(loader) == len(plan)
    if workers == 0:
        batches = iter(loader)
        next(batches)
        assert sampler.state_dict()["batch"] == 1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_tracked_loader_is_resumed_exactly(workers: int, weighted: bool) -> None:
    labels = torch.tensor([0] * 40 + [1] * 8)
    weight = torch.linspace(1, 2, 48) if weighted else None

    def make_loader(seed: int) -> tuple[StratifiedBatchSampler, DataLoader[tuple[torch.Tensor, ...]]]:
        sampler = StratifiedBatchSampler(labels, 8, positives=2, weight=weight, seed=seed)
        return sampler, DataLoader(TensorDataset(torch.arange(48), labels), batch_sampler=sampler, num_workers=workers)

    reference = StratifiedBatchSampler(labels, 8, positives=2, weight=weight, seed=5)
    whole = [list(reference) for _ in range(3)]
    for stop in (1, 4, len(reference) - 1, len(reference)):  # prefetching has gone past the end before the last ones
        sampler, loader = make_loader(5)
        head = [index.tolist() for index, _ in islice(sampler.track(loader), stop)]
        assert head == whole[0][:stop]
        state = sampler.state_dict()
        assert (state["epoch"], state["batch"]) == ((0, stop) if stop < len(reference) else (1, 0))
        assert sampler.epoch == state["epoch"]
        resumed, again = make_loader(0)
        resumed.load_state_dict(state)
        rest = [index.tolist() for index, _ in resumed.track(again)]
        if stop < len(reference):
            assert rest == whole[0][stop:]
            rest = [index.tolist() for index, _ in resumed.track(again)]
        assert rest == whole[1]
        assert resumed.state_dict()["epoch"] == 2
        assert resumed.state_dict()["batch"] == 0


def test_a_pass_after_a_tracked_one_that_was_left_early_is_the_next_epoch() -> None:
    sampler, reference = make([40, 8], 8), make([40, 8], 8)
    whole = [list(reference) for _ in range(3)]
    loader = DataLoader(TensorDataset(torch.arange(48)), batch_sampler=sampler)
    assert len(list(islice(sampler.track(loader), 2))) == 2
    assert [index.tolist() for (index,) in sampler.track(loader)] == whole[1]
    assert [index.tolist() for (index,) in islice(sampler.track(loader), 2)] == whole[2][:2]
    assert sampler.epoch == 2
    sampler.set_epoch(1)  # and what was tracked is forgotten
    assert sampler.state_dict()["batch"] == 0
    assert list(sampler) == whole[1]


def test_only_a_loader_of_this_sampler_is_tracked() -> None:
    sampler = make([40, 8], 8)
    loader = DataLoader(TensorDataset(torch.arange(48)), batch_sampler=make([40, 8], 8))
    with pytest.raises(InputError, match=r"`loader` to have this sampler"):
        next(sampler.track(loader))


def test_it_works_in_a_lightning_trainer(tmp_path: object) -> None:
    lightning = pytest.importorskip("lightning")
    labels = torch.tensor([0] * 30 + [1] * 6)
    sampler = StratifiedBatchSampler(labels, 8, positives=2)
    loader = DataLoader(TensorDataset(torch.randn(36, 3), labels), batch_sampler=sampler)
    shares: list[int] = []

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(3, 1)

        def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
            shares.append(int(batch[1].sum()))
            return torch.nn.functional.softplus(self.layer(batch[0])).mean()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=str(tmp_path),
    )
    trainer.fit(Model(), loader)
    assert shares == [2] * (2 * len(sampler))
    assert sampler.epoch == 2
