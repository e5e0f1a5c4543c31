"""Processes that talk to each other by gloo, forked from the test's own, and the parts of a set that they hold."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.multiprocessing.spawn import start_processes

from support.draws import Draw
from support.spec import Case

TIMEOUT = 300.0
SPLITS = ("even", "uneven", "a rank without positives", "a rank without rows")
Check = Callable[[], None]


def run(
    world: int, checks: Sequence[Check], folder: Path, *, timeout: float = TIMEOUT, limit: float = 3 * TIMEOUT
) -> None:
    """Every check on every rank of one group; an error on any of them is raised here with its traceback.

    Args:
        world: How many processes.
        checks: Functions without arguments that find out their rank by themselves.
        folder: An empty one, where the processes find each other.
        timeout: How long a rank waits for the others, in seconds.
        limit: How long all of it may take, in seconds.

    Raises:
        TimeoutError: The limit is over, say because a rank waits for something else than another rank.
    """
    arguments = world, checks, str(folder), timeout
    context: Any = start_processes(_one, arguments, nprocs=world, join=False, start_method="fork")
    end = time.monotonic() + limit
    while not context.join(timeout=max(0.0, end - time.monotonic())):  # true when all have ended
        if time.monotonic() > end:
            for process in context.processes:
                process.kill()
                process.join()
            raise TimeoutError(f"the ranks have not ended within {limit:g} s")


def _one(rank: int, world: int, checks: Sequence[Check], folder: str, timeout: float) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=world,
        timeout=dt.timedelta(seconds=timeout),
    )
    for check in checks:
        try:
            check()
        except Exception as error:
            error.add_note(f"in {getattr(check, '__name__', check)!r}")
            raise
    dist.barrier()
    dist.destroy_process_group()


def bounds(split: str, n: int) -> list[int]:
    """Where the parts of the ranks begin and end, W + 1 numbers."""
    world = dist.get_world_size()
    if split == "uneven":
        shares = torch.tensor([5.0, 1.0, 3.0, 2.0])[:world]
    elif split == "a rank without rows":
        shares = torch.tensor([1.0, 0.0, 2.0, 1.0])[:world] if world > 1 else torch.ones(1)
    else:
        shares = torch.ones(world)
    ends = (shares.cumsum(0) / shares.sum() * n).round().long().tolist()
    return [0, *ends]


def arranged(split: str, found: Draw) -> Draw:
    """The set in an order in which the first rank has no positives (or one class only), where that is asked for."""
    if split != "a rank without positives":
        return found
    order = found.labels.argsort(stable=True)
    weight = None if found.weight is None else found.weight[order]
    return Draw(found.scores[order], found.labels[order], weight)


def own_rows(split: str, n: int) -> slice:
    """Which rows are this rank's."""
    ends = bounds(split, n)
    return slice(ends[dist.get_rank()], ends[dist.get_rank() + 1])


def compare(case: Case, split: str, whole: Draw, loss: Callable[..., Tensor], tolerance: float) -> None:
    """Value and gradient of a loss that gathers beside those of one process that has all rows."""
    scores, labels, weight = whole
    rows = own_rows(split, len(labels))
    alone = scores.clone().requires_grad_()
    expected = case.value(alone, labels, weight, process_group=False)
    expected.backward()
    part = scores[rows].clone().requires_grad_()
    value = loss(part, labels[rows], None if weight is None else weight[rows])
    value.backward()
    assert part.grad is not None
    assert alone.grad is not None
    close(value, expected, tolerance)
    close(part.grad / dist.get_world_size(), alone.grad[rows], tolerance)


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-6) -> None:
    """Equal but for rounding."""
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def everywhere(value: Any) -> list[Any]:
    """What each rank has."""
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found
