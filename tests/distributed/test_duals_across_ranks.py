"""Terms over the whole data set, constraints and multipliers per example over several ranks: those of one process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from setwise import InputError
from setwise.lagrangian import (
    ConstrainedObjective,
    DualAscent,
    EqualQuality,
    ExampleMultipliers,
    ShardedMultipliers,
    SMeasure,
    merge_shards,
)
from support import ranks
from support.ranks import close, everywhere, own_rows

N = 40


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, 3, generator=generator)
    return x, (x[:, 0] + 0.5 * torch.randn(N, generator=generator) > 0.4).long()


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))


def batches() -> list[Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [part for _ in range(2) for part in torch.randperm(N, generator=generator).split(13)]


def train_term(variant: str, *, alone: bool) -> tuple[nn.Module, SMeasure]:
    x, shape = data()
    model: nn.Module = network() if alone else DistributedDataParallel(network())
    term = SMeasure(N, variant=variant, process_group=False if alone else None)
    ascent = DualAscent(term, dual_every=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for number, index in enumerate(batches()):
        rows = index if alone else index[own_rows("uneven" if number % 2 else "a rank without rows", len(index))]
        optimizer.zero_grad()
        term(model(x[rows]), shape[rows], rows).backward()
        optimizer.step()
        ascent.step()
    ascent.epoch_end()
    return model, term


def terms_over_the_data_set() -> None:
    for variant in ("exact", "partial", "full"):
        model, term = train_term(variant, alone=False)
        expected_model, expected = train_term(variant, alone=True)
        same(term, expected)
        same(model, expected_model)


def same(found: nn.Module, expected: nn.Module) -> None:
    for a, b in zip(found.state_dict().values(), expected.state_dict().values(), strict=True):
        close(a.double(), b.double(), 1e-5)


def a_term_without_gradients_stays_in_step() -> None:
    x, shape = data()
    term, index = SMeasure(N), own_rows("even", N)
    with torch.no_grad():
        term(x[index, 0], shape[index], torch.arange(N)[index])
    assert term.memory.seen.all()
    term.eval()
    with torch.no_grad():  # judges what it is given
        assert term(x[:2, 0], shape[:2], torch.arange(2)).isfinite()


def train_under_constraints(objective: str, sampling: str, *, alone: bool) -> tuple[nn.Module, ConstrainedObjective]:
    x, labels = data()
    group = (x[:, 1] > 0).long()
    model: nn.Module = network() if alone else DistributedDataParallel(network())
    loss = ConstrainedObjective(
        objective, ["recall>=0.9", "tpr_difference[group=side]<=0.1"], labels, {"side": group},
        sampling=sampling, process_group=False if alone else None,
    )  # fmt: skip
    optimizer = torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1)
    for number, index in enumerate(batches()):
        rows = index if alone else index[own_rows("uneven" if number % 2 else "a rank without rows", len(index))]
        optimizer.zero_grad()
        loss(model(x[rows]), labels[rows], index=rows).backward()
        optimizer.step()
        loss.step()
    return model, loss


def objectives_under_constraints() -> None:
    for objective, sampling in (("cross_entropy", "uniform"), ("auc", "stratified")):
        model, loss = train_under_constraints(objective, sampling, alone=False)
        expected_model, expected = train_under_constraints(objective, sampling, alone=True)
        same(loss, expected)
        same(model, expected_model)
        assert len(set(everywhere(loss.threshold))) == 1


def train_alike(form: str, *, alone: bool) -> tuple[nn.Module, EqualQuality]:
    x, labels = data()
    group = (x[:, 1] > 0).long()
    torch.manual_seed(1)
    model: nn.Module = nn.Linear(3, 2)
    model = model if alone else DistributedDataParallel(model)
    quality = EqualQuality(2, form=form, warm_up=0, process_group=False if alone else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, index in enumerate(batches()):
        rows = index if alone else index[own_rows("uneven" if number % 2 else "a rank without rows", len(index))]
        optimizer.zero_grad()
        quality(model(x[rows]), group[rows], labels=labels[rows]).backward()
        optimizer.step()
        if number % 2:
            quality.step()
    held_out = slice(None) if alone else own_rows("uneven", N)
    quality.step((x[:, 2] > 0)[held_out], group[held_out])
    return model, quality


def groups_that_are_served_alike() -> None:
    for form in ("constraint", "worst", "max"):
        model, quality = train_alike(form, alone=False)
        expected_model, expected = train_alike(form, alone=True)
        same(quality, expected)
        same(model, expected_model)


def multipliers_kept_by_their_owners() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    for columns in (None, 2):
        shape = () if columns is None else (columns,)
        sharded = ShardedMultipliers(11, columns=columns, maximum=3.0, augmented=0.5)
        whole = ExampleMultipliers(11, columns=columns, maximum=3.0, augmented=0.5)
        ascents = sharded.optimizer(0.5), whole.optimizer(0.5)
        generator = torch.Generator().manual_seed(3)
        for step in range(6):
            index = torch.randint(11, (9,), generator=generator)
            violation = torch.randn(9, *shape, generator=generator)
            rows = own_rows("a rank without rows" if step % 2 else "uneven", 9)
            sharded.record(violation[rows], index[rows])
            whole.record(violation, index)
            close(sharded(index[rows]), whole(index[rows]))
            close(sharded.term(violation[rows], index[rows]), whole.term(violation[rows], index[rows]))
            close(sharded.residual(violation[rows], index[rows]), whole.residual(violation[rows], index[rows]))
            for ascent in ascents:
                ascent.step()
                ascent.zero_grad()
        close(sharded(), whole())
        assert len(sharded.values) == len(range(rank, 11, world))
        states = everywhere(sharded.state_dict())
        close(merge_shards(states)["values"], whole().detach())
        other = ShardedMultipliers(11, columns=columns)
        other.load_state_dict(merge_shards(states), strict=False)  # without a layout: of one process
        other.load_state_dict(sharded.state_dict())
        close(other(), whole())
        with pytest.raises(InputError, match="merge_shards"):
            other.load_state_dict(states[1 - rank])
        order = torch.tensor([4, -1, 10, 0, 3])
        for duals in (sharded, whole):
            duals.resize(13)
            duals.reindex(order)
        close(sharded(), whole())
        assert sharded.num_examples == 5


def what_has_no_owner_is_refused() -> None:
    duals = ShardedMultipliers(5)
    with pytest.raises(InputError, match="`index`"):
        duals.record(torch.zeros(5))
    with pytest.raises(InputError, match="`index`"):
        duals(torch.tensor([5]))
    with pytest.raises(InputError, match="`num_examples`"):
        duals.resize(4)
    with pytest.raises(InputError, match="`states`"):
        merge_shards([duals.state_dict()])
    with pytest.raises(InputError, match="`states`"):
        merge_shards([])


def test_duals_are_those_of_one_process(tmp_path: Path) -> None:
    checks = [
        terms_over_the_data_set,
        a_term_without_gradients_stays_in_step,
        objectives_under_constraints,
        groups_that_are_served_alike,
        multipliers_kept_by_their_owners,
        what_has_no_owner_is_refused,
    ]
    ranks.run(2, checks, tmp_path)


def test_on_one_process_a_shard_is_the_whole() -> None:
    sharded, whole = ShardedMultipliers(4, init=0.5), ExampleMultipliers(4, init=0.5)
    for duals in (sharded, whole):
        ascent = duals.optimizer(1.0)
        duals.record(torch.tensor([1.0, -2.0]), torch.tensor([3, 1]))
        ascent.step()
        duals.reindex(torch.tensor([3, 1, -1]))
        duals.project_(torch.tensor([0]))
    assert torch.equal(sharded(), whole())
    assert sharded.layout.tolist() == [3, 0, 1]
