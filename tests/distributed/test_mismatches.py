"""Ranks that do not do the same: an error on all of them in seconds, not at the timeout of the group."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import setwise
from setwise import InputError, functional
from setwise.distributed import _exchange, gather
from setwise.lagrangian import EqualQuality, ShardedMultipliers
from support import ranks
from support.ranks import close, everywhere

TIMEOUT = 120.0  # of the group
SOON = 30.0  # a busy machine is slow to say so

Call = Callable[[Tensor, Tensor, Tensor | None], Tensor]
LOSSES: dict[str, Call] = {
    "auc": lambda s, y, w: functional.auc_loss(s, y, weight=w),
    "average precision": lambda s, y, w: functional.average_precision_loss(s, y, weight=w),
    "partial auc": lambda s, y, w: functional.partial_auc_loss(s, y, max_fpr=0.5, weight=w),
    "precision at recall": setwise.PrecisionAtRecallLoss(0.5),
    "f1": lambda s, y, w: functional.fbeta_loss(s, y, weight=w),
    "f1 of classes": lambda s, y, w: setwise.FBetaLoss(average="macro")(torch.stack([s, -s], 1), y, w),
    "one class versus all": lambda s, y, w: functional.multiclass_auc_loss(torch.stack([s, -s], 1), y, weight=w),
}


def batch() -> tuple[Tensor, Tensor]:
    return torch.tensor([0.5, -0.5, 1.0, 0.1], requires_grad=True), torch.tensor([1, 0, 0, 1])


def soon(start: float) -> bool:
    return time.monotonic() - start < SOON


def a_runtime_error_of_one_rank_is_an_error_of_all() -> None:
    """Values on the meta device cannot be read: a RuntimeError of torch's, not a refusal of ours."""
    last = dist.get_world_size() - 1
    for name, loss in LOSSES.items():
        scores, labels = batch()
        start = time.monotonic()
        if dist.get_rank() == last:
            with pytest.raises((RuntimeError, NotImplementedError)):
                loss(scores, labels, torch.ones(4, device="meta"))
        else:
            with pytest.raises(InputError, match=f"rank {last} refused"):
                loss(scores, labels, None)
        assert soon(start), name
        loss(scores, labels, None).backward()  # and go on
        assert scores.grad is not None
        assert bool(scores.grad.isfinite().all())
    scores, labels = batch()
    close(functional.auc_loss(scores, labels), functional.auc_loss(scores, labels, process_group=False))


def different_losses_are_refused() -> None:
    scores, labels = batch()
    start = time.monotonic()
    with pytest.raises(InputError, match="the same loss"):
        (functional.fbeta_loss if dist.get_rank() else functional.auc_loss)(scores, labels)
    assert soon(start)


def aids_tell_the_others() -> None:
    """What else exchanges something: one rank's wrong input is an error on all."""
    first = dist.get_rank() == 0
    quality, multipliers = EqualQuality(2), ShardedMultipliers(6)
    losses, groups = torch.rand(3), torch.tensor([0, 1, 1])
    labels = torch.tensor([0, 1, 1, 0, 1, 0])
    objective = setwise.ConstrainedObjective("auc", ["recall>=0.5"], labels)
    wrong: list[Callable[[], object]] = [
        lambda: quality(losses, groups + 5 * first),
        lambda: quality.step(losses / (0.0 if first else 1.0), groups),
        lambda: multipliers(torch.tensor([1, 9 if first else 2])),
        lambda: multipliers.record(torch.ones(2), torch.tensor([1, -9 if first else 2])),
        lambda: objective(torch.rand(6), labels, index=torch.arange(6) + 3 * first),
        lambda: objective(torch.rand(6), labels + first, index=torch.arange(6)),
        lambda: gather(torch.tensor(1.0) if first else torch.ones(2)),
        lambda: gather(torch.ones(2, dtype=torch.complex64 if first else torch.float32)),
    ]
    for number, call in enumerate(wrong):
        start = time.monotonic()
        with pytest.raises((InputError, TypeError), match=None if first else "rank 0 refused"):
            call()
        assert soon(start), number
    assert len(gather(losses)) == 3 * dist.get_world_size()


def a_slow_rank_is_waited_for() -> None:
    _exchange._PATIENCE = dt.timedelta(seconds=0.2)
    slow = dist.get_rank() == 1
    if slow:
        time.sleep(1.5)
    scores, labels = batch()
    if slow:
        value = functional.auc_loss(scores, labels)
    else:
        with pytest.warns(UserWarning, match=r"waited 0\.2 seconds"):
            value = functional.auc_loss(scores, labels)
    _exchange._PATIENCE = dt.timedelta(seconds=10)
    close(value, functional.auc_loss(scores, labels, process_group=False))


def joined_with_as_many_batches() -> None:
    model, loss = DistributedDataParallel(nn.Linear(2, 1)), setwise.AUCLoss()
    with model.join():
        for _ in range(3):
            loss(model(torch.randn(4, 2)).squeeze(1), torch.tensor([1, 0, 0, 1])).backward()
    assert len(everywhere(0)) == dist.get_world_size()


@pytest.mark.parametrize("world", [2, 3])
def test_one_error_is_an_error_of_all(world: int, tmp_path: Path) -> None:
    checks = [
        a_runtime_error_of_one_rank_is_an_error_of_all,
        different_losses_are_refused,
        aids_tell_the_others,
        a_slow_rank_is_waited_for,
        joined_with_as_many_batches,
    ]
    ranks.run(world, checks, tmp_path, timeout=TIMEOUT)


def unequal(rank: int, world: int, folder: str, throw: bool, loss: nn.Module) -> None:
    """Rank 0 has two batches more than the others."""
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    rendezvous, limit = f"file://{folder}/store", dt.timedelta(seconds=TIMEOUT)
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=world, timeout=limit)
    _exchange._PATIENCE = dt.timedelta(seconds=2)
    model = DistributedDataParallel(nn.Linear(2, 1))
    start = time.monotonic()
    steps = 0
    try:
        with model.join(throw_on_early_termination=throw):
            for _ in range(4 if rank == 0 else 2):
                loss(model(torch.randn(4, 2)).squeeze(1), torch.tensor([1, 0, 0, 1])).backward()
                steps += 1
    except (RuntimeError, ValueError) as error:
        Path(folder, str(rank)).write_text(f"{time.monotonic() - start} {steps} {type(error).__name__}: {error}")
    os._exit(0)


@pytest.mark.parametrize(
    ("world", "throw", "loss"),
    [
        (2, False, setwise.AUCLoss()),
        (3, False, setwise.AUCLoss()),
        (2, False, setwise.FBetaLoss()),
        (2, True, setwise.AUCLoss()),
    ],
    ids=["two ranks", "three ranks", "counts", "ends with the shortest"],
)
def test_a_joined_rank_is_told_of_in_seconds(world: int, throw: bool, loss: nn.Module, tmp_path: Path) -> None:
    context = torch.multiprocessing.get_context("fork")
    every = [context.Process(target=unequal, args=(r, world, str(tmp_path), throw, loss)) for r in range(world)]
    for process in every:
        process.start()
    for process in every:
        process.join(TIMEOUT)
    said = {rank: (tmp_path / str(rank)).read_text().split(" ", 2) for rank in range(world)}
    assert all(float(seconds) < SOON for seconds, _, _ in said.values()), said
    assert all(steps == "2" for _, steps, _ in said.values())
    if throw:
        assert all("exhausted" in message for _, _, message in said.values()), said
    else:
        assert said[0][2].startswith("InputError: Expected all ranks to call the loss equally often"), said
        assert "join" in said[0][2]
