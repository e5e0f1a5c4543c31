r"""Measures of a set that is spread over the ranks of a process group: exact, as on one process.

A loss that each rank computes on its own part is the loss of another set, and the mean of such losses has another
gradient. Here the parts are put together first. Measures of ranking gather scores, labels and weights (never features):
the sizes first, then one block of bytes, so that parts may be of different sizes or empty. Measures of counts add up
their counts, a few numbers. The value is then the same on every rank.

**Gradients.** Let L be the loss of the whole set and s_r the scores of rank r. Distributed training averages the
gradients of the parameters over W ranks (DDP, FSDP, and what is built on them). So on rank r the loss has the gradient

    W dL/ds_r,    and    (1/W) sum_r (W dL/ds_r) (ds_r/dtheta) = dL/dtheta,

the gradient of one process that sees everything. Whoever adds gradients up instead says so: ``Ranks(gradients="sum")``.
Every rank has all of dL/ds, so the backward pass sends nothing; what is done to the loss afterwards (a factor, a sum
with other losses) must be the same on every rank. Second derivatives are those of one rank's own part only, and are
refused.

**When.** Every loss takes ``group``: ``None``, the default, uses the default process group where there is one and
gradients are recorded; a ``ProcessGroup`` is used always, under ``no_grad`` too; ``False`` never; :class:`Ranks` says
more. All ranks of the group must then call the loss equally often, those without rows with empty tensors. Where one of
them refuses its input, all raise.

>>> import torch, setwise
>>> loss = setwise.AUCLoss()  # on one process the same as AUCLoss(group=False)
>>> loss(torch.zeros(4), torch.tensor([0, 1, 0, 1]))
tensor(1.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable

from setwise import _checks

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_AVAILABLE = dist.is_available()  # whether torch was built with it
_GRADIENTS = ("average", "sum")
_DTYPES = (
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8),
)
_ALIGN = 8  # bytes; the largest element
_REFUSED = -1  # in the place of a number of rows


@dataclass(frozen=True)
class Ranks:
    """The processes over which a set is spread, and what becomes of the gradients afterwards.

    Args:
        group: The process group; None for the default one, which is used only while gradients are recorded.
        gradients: ``"average"`` where the gradients of the parameters are averaged over the ranks, as DDP, FSDP and
            their kin do; ``"sum"`` where they are added up.

    >>> Ranks(gradients="sum")
    Ranks(group=None, gradients='sum')
    """

    group: ProcessGroup | None = None
    gradients: str = "average"

    def __post_init__(self) -> None:
        _checks.one_of("gradients", self.gradients, _GRADIENTS)
        if self.group is not None and not _is_process_group(self.group):
            raise TypeError(f"Expected `group` to be a ProcessGroup or None, but got {type(self.group).__name__}.")

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return dist.get_world_size(self.group)

    @property
    def rank(self) -> int:
        """This one's number among them."""
        return dist.get_rank(self.group)

    @property
    def factor(self) -> float:
        """What the gradient of the whole set's loss is multiplied by on each rank."""
        return float(self.size) if self.gradients == "average" else 1.0

    def gather(self, read: Callable[[], Sequence[Tensor | None]], like: object) -> tuple[Any, ...]:
        """The rows of all ranks, in the order of the ranks.

        Under ``torch.compile`` the parts are padded to one size, with weight 0.

        Args:
            read: Gives scores, labels and weights of this rank, after checks; weights may be None. The first
                tensor keeps its graph.  # shapes: (n, ...)
            like: What was given as scores; where it is a tensor, its device is used.

        Returns:
            As many tensors, or None where all ranks gave None.
        """
        if torch.compiler.is_compiling():
            scores, labels, weight = read()
            return _gather_traced(self, cast("Tensor", scores), cast("Tensor", labels), weight)
        try:
            columns = read()
        except (TypeError, ValueError):
            _exchange_sizes(self, _REFUSED, (), like)
            raise
        return _gather(self, columns, like)

    def agree(self, read: Callable[[], Any], like: object, *, check: bool) -> Any:
        """What ``read`` gives, or an error on all ranks where it fails on one of them.

        Args:
            read: Reads the input of this rank.
            like: As for :meth:`gather`.
            check: Whether the ranks wait for each other here; False costs nothing.
        """
        if not check:
            return read()
        failed = torch.zeros((), dtype=torch.int64, device=_device(like))
        try:
            found = read()
        except (TypeError, ValueError):
            dist.all_reduce(failed + 1, group=self.group)
            raise
        dist.all_reduce(failed, group=self.group)
        if int(failed):
            raise _checks.InputError(
                f"Expected every rank to give input that can be used, but {int(failed)} of {self.size} refused theirs; "
                "see their errors."
            )
        return found

    def sum(self, *values: Tensor) -> tuple[Tensor, ...]:
        """The sums of tensors over the ranks, in one exchange; their gradient is ``factor`` times that of the sums."""
        flat = torch.cat([value.reshape(-1) for value in values])
        if torch.compiler.is_compiling():
            whole = _functional().all_reduce(flat.detach(), "sum", _named(self.group))
        else:
            whole = flat.detach().clone()
            dist.all_reduce(whole, group=self.group)
        parts = _apply(_Sum, flat, whole, self.factor).split([value.numel() for value in values])
        return tuple(part.view(value.shape) for part, value in zip(parts, values, strict=True))

    def sum_numbers(self, numbers: Sequence[float]) -> list[float]:
        """The sums of plain numbers over the ranks, in double precision."""
        whole = torch.tensor(numbers, dtype=torch.float64)
        dist.all_reduce(whole, group=self.group)
        return whole.tolist()


if TYPE_CHECKING:
    Group: TypeAlias = ProcessGroup | Ranks | bool | None
else:
    Group: TypeAlias = Any


def check_group(group: Group) -> None:
    """Refuse what is no group."""
    if group is None or group is False or isinstance(group, Ranks) or _is_process_group(group):
        return
    hint = "; `None` is the default group, where there is one" if group is True else ""
    raise TypeError(
        f"Expected `group` to be None, False, a ProcessGroup or Ranks, but got "
        f"{group if group is True else type(group).__name__}{hint}."
    )


def active(group: Group) -> Ranks | None:
    """The ranks to work with now, or None where there is one process only, or none is wanted.

    Args:
        group: As every loss takes it; see this module's page.
    """
    if group is False:
        return None
    if group is None:
        if not (_AVAILABLE and dist.is_initialized() and torch.is_grad_enabled()):
            return None
        ranks = Ranks()
    else:
        check_group(group)
        ranks = group if isinstance(group, Ranks) else Ranks(cast("ProcessGroup", group))
        if ranks.group is None and not (_AVAILABLE and dist.is_initialized() and torch.is_grad_enabled()):
            return None
    if ranks.size == 1:
        return None
    if ranks.size < 0:
        raise _checks.InputError("Expected `group` to have this rank as a member, but it has not.")
    if torch._C._are_functorch_transforms_active():  # noqa: SLF001 (no public name)
        raise _checks.InputError(
            f"Expected `group` to be False under `torch.func` transforms, which know nothing of other ranks, but there "
            f"is a group of {ranks.size}."
        )
    return ranks


def gather(rows: Tensor, *, group: Group = None) -> Tensor:
    """The rows of all ranks, in the order of the ranks, for measures of your own; any ranks may have none.

    Unlike the losses this asks nothing of what is made of the result: the backward pass adds up what all ranks send
    back, so all of them must take it.

    Args:
        rows: Rows of this rank.  # shape: (n, ...)
        group: As every loss takes it.

    Returns:
        All rows; on one process the tensor itself.  # shape: (sum of all n, ...)
    """
    _checks.is_tensor("rows", rows)
    if rows.ndim == 0:
        raise _checks.InputError("Expected `rows` to have rows along dimension 0, but got a single number.")
    ranks = active(group)
    if ranks is None:
        return rows
    columns, start = _exchange(ranks, (rows.detach(),), rows)
    return _apply(_Shared, rows, columns[0], start, ranks)


def _gather(ranks: Ranks, columns: Sequence[Tensor | None], like: object) -> tuple[Any, ...]:
    first = cast("Tensor", columns[0])
    whole, start = _exchange(ranks, (first.detach(), *columns[1:]), like)
    return _apply(_Own, first, whole[0], start, ranks.factor), *whole[1:]


def _exchange(ranks: Ranks, columns: Sequence[Tensor | None], like: object) -> tuple[list[Any], int]:
    """All ranks' rows of each column, and where this rank's begin.

    A rank's block holds its columns one after the other, each padded to the rows of the longest part, as plain bytes:
    one exchange for any number of columns and types.
    """
    rows = len(cast("Tensor", columns[0]))
    sizes = _exchange_sizes(ranks, rows, columns, like)
    longest = max(sizes)
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
        dist.all_gather_into_tensor(blocks, block, group=ranks.group)
    blocks = blocks.view(ranks.size, end)
    found: list[Any] = []
    for column, (at, each) in zip(columns, spans, strict=True):
        if column is None:
            found.append(None)
            continue
        parts = [blocks[r, at : at + each * n].view(column.dtype) for r, n in enumerate(sizes)]
        found.append(torch.cat(parts).view(-1, *column.shape[1:]) if each else column.new_empty(sum(sizes), 0))
    return found, sum(sizes[: ranks.rank])


def _exchange_sizes(ranks: Ranks, rows: int, columns: Sequence[Tensor | None], like: object) -> list[int]:
    """The rows of each rank, after a look whether all have tensors of the same kind."""
    kinds = [_kind(column) for column in columns] or [0]
    code = sum(kind * 1_000_003**k for k, kind in enumerate(kinds)) % 2**61
    mine = torch.tensor([rows, code], device=_device(like))
    every = mine.new_empty(2 * ranks.size)
    dist.all_gather_into_tensor(every, mine, group=ranks.group)
    pairs = every.view(-1, 2).tolist()
    sizes = [size for size, _ in pairs]
    if rows != _REFUSED and _REFUSED in sizes:
        where = ", ".join(str(r) for r, size in enumerate(sizes) if size == _REFUSED)
        raise _checks.InputError(
            f"Expected every rank to give input that can be used, but rank {where} refused its own; see its error."
        )
    if rows != _REFUSED and len({found for _, found in pairs}) > 1:
        shown = ", ".join("none" if c is None else f"{c.dtype} {tuple(c.shape)}" for c in columns)
        raise _checks.InputError(
            "Expected `input`, `target` and `weight` to be of the same types and shapes (but for their rows) on all "
            f"ranks, and `weight` to be given on all or none, but they are not; here {shown}."
        )
    return sizes


def _kind(column: Tensor | None) -> int:
    """A number for type and shape but for the rows."""
    if column is None:
        return 1
    number = 2 + _DTYPES.index(column.dtype)
    for size in column.shape[1:]:
        number = number * 65_537 + size + 1
    return number


def _gather_traced(
    ranks: Ranks, scores: Tensor, labels: Tensor, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by collectives that can be traced, padded to the longest part with weight 0."""
    collective, group, size = _functional(), _named(ranks.group), ranks.size
    rows = scores.shape[0]
    sizes = collective.all_gather_tensor(torch.full((1,), rows, device=scores.device), 0, group)
    longest = int(sizes.max().item())
    torch._check(longest >= rows)  # noqa: SLF001 (its name)
    missing = longest - rows

    def every(column: Tensor) -> Tensor:
        padded = torch.cat([column, column.new_zeros((missing, *column.shape[1:]))])
        return cast("Tensor", collective.all_gather_tensor(padded, 0, group))

    own = torch.arange(rows, device=scores.device) + ranks.rank * longest
    whole = _apply(_OwnTraced, scores, every(scores.detach()), own, ranks.factor)
    kept = torch.arange(longest, device=scores.device) < sizes.unsqueeze(1)  # shape: (ranks, longest)
    real = kept.reshape(size * longest).to(scores.dtype)
    everywhere = every(labels.view(torch.uint8)).bool() if labels.dtype == torch.bool else every(labels)
    return whole, everywhere, real if weight is None else every(weight) * real.to(weight.dtype)


class _Own(torch.autograd.Function):
    """All rows as a function of a rank's own."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, whole: Tensor, start: int, factor: float) -> Tensor:
        ctx.place = (start, len(rows), factor)
        return whole.view_as(whole)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        start, count, factor = ctx.place
        return grad_output[start : start + count] * factor, None, None, None


class _OwnTraced(torch.autograd.Function):
    """The same with places that are known when it runs."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, whole: Tensor, own: Tensor, factor: float) -> Tensor:  # noqa: ARG004 (the graph's input)
        ctx.save_for_backward(own)
        ctx.factor = factor
        return whole.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        (own,) = ctx.saved_tensors
        return grad_output.index_select(0, own) * ctx.factor, None, None, None


class _Sum(torch.autograd.Function):
    """The sum over the ranks as a function of a rank's own part."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, whole: Tensor, factor: float) -> Tensor:  # noqa: ARG004 (the graph's input)
        ctx.factor = factor
        return whole.clone() if torch.compiler.is_compiling() else whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        return grad_output * ctx.factor, None, None


class _Shared(torch.autograd.Function):
    """All rows as a function of a rank's own, where each rank may do with them as it likes."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, whole: Tensor, start: int, ranks: Ranks) -> Tensor:
        ctx.place = (start, len(rows), ranks)
        return whole.view_as(whole)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        start, count, ranks = ctx.place
        whole = grad_output.contiguous().clone()
        dist.all_reduce(whole, group=ranks.group)
        return whole[start : start + count] * (ranks.factor / ranks.size), None, None, None


def _apply(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    return cast("Tensor", function.apply(*arguments))


def _functional() -> Any:
    """Torch's collectives that can be traced, loaded where they are needed."""
    import torch.distributed._functional_collectives as collectives

    return collectives


def _named(group: ProcessGroup | None) -> Any:
    return dist.group.WORLD if group is None else group


def _is_process_group(value: object) -> bool:
    return _AVAILABLE and isinstance(value, dist.ProcessGroup)


def _device(like: object) -> torch.device:
    return like.device if isinstance(like, Tensor) else torch.device("cpu")
