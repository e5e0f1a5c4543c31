"""Which ranks a set is spread over, and what they exchange."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from setwise import _checks
from setwise.distributed._exchange import (
    NOTHING,
    Described,
    all_reduce,
    exchange,
    exchange_header,
    functional,
    gather_traced,
    named,
    read_together,
)
from setwise.distributed._functions import Own, Replicated, Shared, Sum, apply

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_AVAILABLE = dist.is_available()  # whether torch was built with it
_OUTSIDE = dist.GroupMember.NON_GROUP_MEMBER if _AVAILABLE else None  # what torch gives for a group of others
_GRADIENTS = ("average", "sum")
T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """The processes over which a set is spread, and what becomes of the gradients afterwards.

    Args:
        process_group: The process group; None for the default one, which is used only while gradients are recorded.
        gradients: ``"average"`` where the gradients of the parameters are averaged over the ranks, as DDP and FSDP
            do; ``"sum"`` where they are added up.

    >>> Ranks(gradients="sum")
    Ranks(process_group=None, gradients='sum')
    """

    process_group: ProcessGroup | None = None
    gradients: str = "average"

    def __post_init__(self) -> None:
        _checks.one_of("gradients", self.gradients, _GRADIENTS)
        if self.process_group is not None and not _is_process_group(self.process_group):
            raise TypeError(
                f"Expected `process_group` to be a ProcessGroup or None, but got {type(self.process_group).__name__}."
            )

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return dist.get_world_size(self.process_group)

    @property
    def rank(self) -> int:
        """This one's number among them."""
        return dist.get_rank(self.process_group)

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
            return gather_traced(self, cast("Tensor", scores), cast("Tensor", labels), weight)
        return self.rows(read, like)

    def rows(self, read: Callable[[], Sequence[Tensor | None]], like: object) -> tuple[Any, ...]:
        """As :meth:`gather`, for columns of any kind; not under ``torch.compile``."""
        columns, own = read_together(self, lambda: _constants(read()), like)
        whole, start = exchange(self, own, like)
        return apply(Own, cast("Tensor", columns[0]), whole[0], start, self.factor), *whole[1:]

    def agree(self, read: Callable[[], T], like: object, *, check: bool = True) -> T:
        """What ``read`` gives, or an error on all ranks where it fails on one of them.

        Args:
            read: Reads the input of this rank.
            like: As for :meth:`gather`.
            check: Whether the ranks wait for each other here; False costs nothing.
        """
        if not check:
            return read()
        found = read_together(self, read, like)
        exchange_header(self, 0, NOTHING, like)
        return found

    def sum(self, *values: Tensor) -> tuple[Tensor, ...]:
        """The sums of tensors over the ranks, in one exchange; their gradient is ``factor`` times that of the sums."""
        flat = torch.cat([value.reshape(-1) for value in values])
        if torch.compiler.is_compiling():
            whole = functional().all_reduce(flat.detach(), "sum", named(self.process_group))
        else:
            whole = flat.detach().clone()
            all_reduce(whole, self)
        parts = apply(Sum, flat, whole, self.factor).split([value.numel() for value in values])
        return tuple(part.view(value.shape) for part, value in zip(parts, values, strict=True))

    def replicated(self, value: Tensor) -> Tensor:
        """A tensor that is the same on all ranks, with a gradient that is so too: that of one process.

        For parameters that no one else averages. The backward pass waits for all ranks.
        """
        return apply(Replicated, value, 1 / self.factor, self.process_group)

    def sum_numbers(self, numbers: Sequence[float]) -> list[float]:
        """The sums of plain numbers over the ranks, in double precision."""
        whole = torch.tensor(numbers, dtype=torch.float64)
        all_reduce(whole, self)
        return whole.tolist()


if TYPE_CHECKING:
    ProcessGroupLike: TypeAlias = ProcessGroup | Ranks | bool | None
else:
    ProcessGroupLike: TypeAlias = Any


def check_process_group(process_group: ProcessGroupLike) -> None:
    """Refuse what is no group."""
    if (
        process_group is None
        or process_group is False
        or isinstance(process_group, Ranks)
        or _is_process_group(process_group)
    ):
        return
    came: object = process_group
    if type(came) is int and came == _OUTSIDE:
        raise _checks.InputError("Expected `process_group` to have this rank as a member, but it has not.")
    hint = "; `None` is the default group, where there is one" if process_group is True else ""
    raise TypeError(
        f"Expected `process_group` to be None, False, a ProcessGroup or Ranks, but got "
        f"{process_group if process_group is True else type(process_group).__name__}{hint}."
    )


def active(process_group: ProcessGroupLike, *, always: bool = False) -> Ranks | None:
    """The ranks to work with now, or None where there is one process only, or none is wanted.

    Args:
        process_group: As every loss takes it; see this package's page.
        always: Whether the default group is used without gradients too, as where ranks keep something in step.
    """
    if process_group is False:
        return None
    group = process_group.process_group if isinstance(process_group, Ranks) else process_group
    if group is None and not (_AVAILABLE and dist.is_initialized() and (always or torch.is_grad_enabled())):
        return None
    check_process_group(process_group)
    ranks = process_group if isinstance(process_group, Ranks) else Ranks(cast("ProcessGroup | None", process_group))
    if ranks.size == 1:
        return None
    if ranks.size < 0:
        raise _checks.InputError("Expected `process_group` to have this rank as a member, but it has not.")
    if torch._C._are_functorch_transforms_active():  # noqa: SLF001 (no public name)
        raise _checks.InputError(
            f"Expected `process_group` to be False under `torch.func` transforms, which know nothing of other ranks, "
            f"but there is a group of {ranks.size}."
        )
    return ranks


def gather(rows: Tensor, *, process_group: ProcessGroupLike = None) -> Tensor:
    """The rows of all ranks, in the order of the ranks, for measures of your own; any ranks may have none.

    Unlike the losses this asks nothing of what is made of the result: the backward pass adds up what all ranks send
    back, so all of them must take it.

    Args:
        rows: Rows of this rank.  # shape: (n, ...)
        process_group: As every loss takes it.

    Returns:
        All rows; on one process the tensor itself.  # shape: (sum of all n, ...)
    """

    def read() -> tuple[Tensor]:
        _checks.is_tensor("rows", rows)
        if rows.ndim == 0:
            raise _checks.InputError("Expected `rows` to have rows along dimension 0, but got a single number.")
        return (rows,)

    ranks = active(process_group)
    if ranks is None:
        return read()[0]
    _, own = read_together(ranks, lambda: _constants(read()), rows)
    columns, start = exchange(ranks, own, rows)
    return apply(Shared, rows, columns[0], start, ranks.factor / ranks.size, ranks.process_group)


def _constants(columns: Sequence[Tensor | None]) -> tuple[Sequence[Tensor | None], Described]:
    """The columns, and the same without a graph as they are sent."""
    return columns, Described.of([None if column is None else column.detach() for column in columns])


def _is_process_group(value: object) -> bool:
    return _AVAILABLE and isinstance(value, dist.ProcessGroup)
