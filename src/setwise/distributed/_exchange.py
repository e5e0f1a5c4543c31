"""Collectives of the losses: rows that go from all ranks to all ranks, after a header that finds what does not fit.

Every exchange begins with two integers of each rank: its number of rows, or :data:`REFUSED` where its own input gave an
error, and a code for what it wants to exchange. So an error on one rank, and calls of different losses, are errors on
all ranks at once, and nobody waits.
"""

from __future__ import annotations

import datetime as dt
import gc
import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from setwise import _checks
from setwise.distributed._functions import OwnTraced, apply

if TYPE_CHECKING:
    from setwise.distributed.ranks import Ranks

REFUSED = -1  # in the place of a number of rows
_DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)
T = TypeVar("T")

_ALIGN = 8  # bytes; the largest element
_PATIENCE = dt.timedelta(seconds=10)  # before a wait is looked into


class Described(NamedTuple):
    """Columns and a code for their types and shapes but for the rows."""

    columns: Sequence[Tensor | None]
    code: int

    @classmethod
    def of(cls, columns: Sequence[Tensor | None]) -> Described:
        """With the code; what cannot be sent is refused."""
        kinds = [_kind(column) for column in columns]
        return cls(columns, sum(kind * 1_000_003**k for k, kind in enumerate(kinds)) % 2**61)


NOTHING = Described((), 0)  # the header alone


def read_together(ranks: Ranks, read: Callable[[], T], like: object) -> T:
    """What ``read`` gives; where it fails, however that may be, the other ranks are told before the error goes on."""
    try:
        return read()
    except Exception:
        exchange_header(ranks, REFUSED, NOTHING, like)
        raise


def exchange(ranks: Ranks, own: Described, like: object) -> tuple[list[Any], int]:
    """All ranks' rows of each column, and where this rank's begin.

    A rank's block holds its columns one after the other, each padded to the rows of the longest part, as plain bytes:
    one exchange for any number of columns and types.
    """
    columns = own.columns
    rows = len(cast("Tensor", columns[0]))
    sizes = exchange_header(ranks, rows, own, like)
    longest = max(sizes)
    if longest == 0:
        return list(columns), 0
    spans, end = [], 0  # of each column in a block, in bytes
    for column in columns:
        each = 0 if column is None else column.element_size() * math.prod(column.shape[1:])
        spans.append((end, each))
        end += -(-each * longest // _ALIGN) * _ALIGN
    present = next(column for column in columns if column is not None)
    block = torch.zeros(end, dtype=torch.uint8, device=present.device)
    for column, (at, each) in zip(columns, spans, strict=True):
        if column is not None and rows:
            block[at : at + each * rows].copy_(column.contiguous().reshape(-1).view(torch.uint8))
    blocks = block.new_empty(ranks.size * end)
    if end:
        _all_gather(blocks, block, ranks)
    blocks = blocks.view(ranks.size, end)
    found: list[Any] = []
    for column, (at, each) in zip(columns, spans, strict=True):
        if column is None or each == 0:
            found.append(None if column is None else column.new_empty((sum(sizes), *column.shape[1:])))
            continue
        parts = [blocks[r, at : at + each * n].view(column.dtype) for r, n in enumerate(sizes)]
        found.append(torch.cat(parts).view(-1, *column.shape[1:]))
    return found, sum(sizes[: ranks.rank])


def exchange_header(ranks: Ranks, rows: int, own: Described, like: object) -> list[int]:
    """The rows of each rank, after a look whether all can go on and want to exchange the same.

    Args:
        ranks: The ranks.
        rows: How many this rank has; :data:`REFUSED` where its input gave an error, which the caller raises afterwards.
        own: What it wants to exchange.
        like: As for :func:`device_of`.
    """
    mine = torch.tensor([rows, own.code], device=device_of(like))
    every = mine.new_empty(2 * ranks.size)
    _all_gather(every, mine, ranks)
    pairs = every.view(-1, 2).tolist()
    sizes = [size for size, _ in pairs]
    if rows != REFUSED and REFUSED in sizes:
        where = ", ".join(str(r) for r, size in enumerate(sizes) if size == REFUSED)
        raise _checks.InputError(
            f"Expected every rank to give input that can be used, but rank {where} refused its own; see its error."
        )
    if rows != REFUSED and len({found for _, found in pairs}) > 1:
        shown = ", ".join("none" if c is None else f"{c.dtype} {tuple(c.shape)}" for c in own.columns) or "counts"
        raise _checks.InputError(
            "Expected all ranks to call the same loss, with `input`, `target` and `weight` of the same types and "
            f"shapes (but for their rows), and `weight` on all or none, but they do not; here {shown}."
        )
    return sizes


def all_reduce(whole: Tensor, ranks: Ranks) -> None:
    """The sum over the ranks, in place."""
    _finish(dist.all_reduce(whole, group=ranks.process_group, async_op=True), whole)


def _all_gather(found: Tensor, mine: Tensor, ranks: Ranks) -> None:
    """Into one tensor; newer versions of torch have another name for it."""
    function = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    _finish(function(found, mine, group=ranks.process_group, async_op=True), mine)


def _finish(work: Any, sent: Tensor) -> None:
    """Wait for a collective, not longer than a while for ranks that are not going to come.

    Torch's join context stands in for the collectives of DDP alone, so a rank without further batches waits for one of
    those while the others wait here, until the timeout of the group.
    """
    if sent.device.type != "cpu":  # on other devices a wait is no wait of this process
        work.wait()
        return
    try:
        work.wait(_PATIENCE)
    except RuntimeError:
        if work.is_completed():
            raise
        if _joining():
            raise _checks.InputError(
                "Expected all ranks to call the loss equally often, but inside `DistributedDataParallel.join()` some "
                f"have not come for {_PATIENCE.total_seconds():g} seconds: ranks without further batches take no part "
                "in the loss. Give all ranks equally many batches, as `setwise.data.StratifiedBatchSampler` does; or "
                "end with the shortest, `join(throw_on_early_termination=True)`; or take each rank's own loss, "
                "`process_group=False`."
            ) from None
        warnings.warn(
            f"A loss over ranks has waited {_PATIENCE.total_seconds():g} seconds for the other ranks, and goes on "
            "waiting. All of them must call it equally often; one that has left out a call, such as after an error "
            "that it caught, keeps the others here until the timeout of `init_process_group`.",
            stacklevel=2,
        )
        work.wait()


def _joining() -> bool:
    """Whether this process is in a join context of torch's that goes on after the shortest rank.

    Torch keeps no list of them, and a look at everything that refers to the class takes a tenth of a second.
    """
    from torch.distributed.algorithms.join import Join

    contexts = [each for each in gc.get_referrers(Join) if type(each) is Join]
    return any(each._enable and not each._throw_on_early_termination for each in contexts)  # noqa: SLF001 (no public name)


def _kind(column: Tensor | None) -> int:
    """A number for type and shape but for the rows."""
    if column is None:
        return 1
    if column.dtype not in _DTYPES:
        raise TypeError(f"Expected tensors of floats, integers or booleans over ranks, but got dtype {column.dtype}.")
    number = 2 + _DTYPES.index(column.dtype)
    for size in column.shape[1:]:
        number = number * 65_537 + size + 1
    return number


def gather_traced(ranks: Ranks, scores: Tensor, labels: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The same by collectives that can be traced, padded to the longest part with weight 0."""
    collective, process_group, size = functional(), named(ranks.process_group), ranks.size
    rows = scores.shape[0]
    sizes = collective.all_gather_tensor(torch.full((1,), rows, device=scores.device), 0, process_group)
    longest = int(sizes.max().clamp(min=1).item())  # at least one row, so that nobody asks whether there are any
    torch._check(longest >= 1)  # noqa: SLF001 (its name)
    torch._check(longest >= rows)  # noqa: SLF001
    missing = longest - rows

    def every(column: Tensor) -> Tensor:
        padded = torch.cat([column, column.new_zeros((missing, *column.shape[1:]))])
        return cast("Tensor", collective.all_gather_tensor(padded, 0, process_group))

    own = torch.arange(rows, device=scores.device) + ranks.rank * longest
    whole = apply(OwnTraced, scores, every(scores.detach()), own, ranks.factor)
    kept = torch.arange(longest, device=scores.device) < sizes.unsqueeze(1)  # shape: (ranks, longest)
    real = kept.reshape(size * longest).to(scores.dtype)
    everywhere = every(labels.view(torch.uint8)).bool() if labels.dtype == torch.bool else every(labels)
    return whole, everywhere, real if weight is None else every(weight) * real.to(weight.dtype)


def functional() -> Any:
    """Torch's collectives that can be traced, loaded where they are needed."""
    import torch.distributed._functional_collectives as collectives

    return collectives


def named(process_group: Any) -> Any:
    """The group, with the default one in place of None."""
    return dist.group.WORLD if process_group is None else process_group


def device_of(like: object) -> torch.device:
    """The device of a tensor; the CPU for anything else."""
    return like.device if isinstance(like, Tensor) else torch.device("cpu")
