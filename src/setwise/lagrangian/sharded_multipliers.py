r"""One multiplier per example, each kept by one rank only.

Of n examples rank r of W keeps the multipliers of r, r + W, r + 2 W, ...: n / W rows, whatever the order in which the
data is gone through. A batch asks the owners of its rows for their multipliers and sends them its violations, each by
one exchange of what is needed and no more: of B rows, 8 B bytes of indices and 4 B bytes of numbers (times the
columns), for any number of ranks.

>>> duals = ShardedMultipliers(5)  # on one process: as ExampleMultipliers
>>> ascent = duals.optimizer(0.1)
>>> duals.record(torch.tensor([2.0, -1.0, 3.0]), torch.tensor([4, 0, 4]))
>>> ascent.step()
>>> duals(torch.tensor([4, 3]))
tensor([0.5000, 0.0000])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from setwise import _checks
from setwise.distributed import ProcessGroupLike, Ranks, active, check_process_group
from setwise.lagrangian.constraints.inputs import read_integers
from setwise.lagrangian.multipliers import ExampleMultipliers


class ShardedMultipliers(ExampleMultipliers):
    """:class:`ExampleMultipliers` spread over the ranks of a process group; on one process the same.

    Every rank calls :meth:`forward`, :meth:`term`, :meth:`residual`, :meth:`record` and :meth:`reindex` equally often,
    with the rows of its own batch, which may be none. The steps of :meth:`optimizer` are each rank's own. The
    ``state_dict`` holds this rank's rows, and in ``layout`` how many examples there are, which rank this is and of how
    many; :func:`merge_shards` makes one state of all, which loads on any number of ranks.

    Args:
        num_examples: How many examples the data set has.
        process_group: The ranks; see :mod:`setwise.distributed`. Gradients need not be recorded.
        columns: How many constraints each example has; None for one, without a dimension for it.
        sparse: Whether gradients of batches are sparse.
        kind: ``"inequality"`` or ``"equality"``.
        init: Where the multipliers start, those of new examples too.
        maximum: Where they are clipped.
        augmented: The weight rho of the quadratic term.

    Attributes:
        values: This rank's multipliers.  # shape: (own examples,) or (own examples, columns)
        layout: Examples, rank, ranks; part of the ``state_dict``.
    """

    layout: Tensor

    def __init__(
        self,
        num_examples: int,
        *,
        process_group: ProcessGroupLike = None,
        columns: int | None = None,
        sparse: bool = True,
        kind: str = "inequality",
        init: float = 0.0,
        maximum: float | None = None,
        augmented: float = 0.0,
    ) -> None:
        check_process_group(process_group)
        _checks.is_count("num_examples", num_examples, 0)
        # Also without gradients: multipliers are read and moved in no_grad blocks.
        ranks = active(process_group, always=True)
        # On one process all rows are its own, so that the rest needs no second path.
        rank, world = (0, 1) if ranks is None else (ranks.rank, ranks.size)
        super().__init__(
            len(range(rank, num_examples, world)),
            columns=columns,
            sparse=sparse,
            kind=kind,
            init=init,
            maximum=maximum,
            augmented=augmented,
        )
        self._ranks = ranks
        # In the state_dict, so that a part is not taken for the whole when it is loaded.
        self.register_buffer("layout", torch.tensor([num_examples, rank, world]))
        self._rank, self._world, self._examples = rank, world, int(num_examples)

    @property
    def num_examples(self) -> int:
        """How many examples there are on all ranks."""
        return self._examples

    def forward(self, index: Tensor | None = None) -> Tensor:
        """A copy of the multipliers at ``index``, from whoever keeps them; or of all, which every rank then holds.

        Args:
            index: Which ones, integers of any shape.  # shape: (*rows,)
        """
        if index is None:
            return self._all()
        wanted = self._together(lambda: self._read_index(index), index)
        if self._ranks is None:
            return self.values.detach()[wanted]
        route = _Route(self._ranks, wanted.reshape(-1))
        # Example i is row i // world of its owner: rows are dealt out like cards.
        found = route.back(self.values.detach()[route.asked // self._world])
        return found.reshape(*wanted.shape, *self.values.shape[1:])

    def record(self, violation: Tensor, index: Tensor | None = None) -> None:
        """Add the violations to ``values.grad`` of the ranks that keep their multipliers.

        Args:
            violation: The true g; taken as a constant.  # shape: (*rows,) or (*rows, columns)
            index: Which examples the violations belong to.  # shape: (*rows,)
        """
        if index is None:
            raise _checks.InputError("Expected `index`, since no rank has all multipliers, but got None.")

        def read() -> Tensor:
            self._check(violation, index)
            return self._read_index(index)

        rows = self._together(read, index).reshape(-1)
        found = violation.detach().to(self.values).reshape(len(rows), *self.values.shape[1:])
        if self._ranks is not None:
            route = _Route(self._ranks, rows)
            # Violations travel to the owner of the multiplier, so each is added up exactly once.
            rows, found = route.asked // self._world, route.forth(found)
        self._accumulate(self._gradient(rows, found))

    @torch.no_grad()
    def project_(self, index: Tensor | None = None) -> None:
        """Clip this rank's multipliers to their bounds in place, all or those at ``index``."""
        if index is not None:
            rows = self._read_index(index).reshape(-1)
            # Every rank is told the same rows and clips its own; nothing has to be sent.
            index = rows[rows % self._world == self._rank] // self._world
        self._clip(index)

    def resize(self, num_examples: int, *, shrink: bool = False) -> None:
        """As for :class:`ExampleMultipliers`; each rank grows by its own part."""
        self._check_size(num_examples, shrink=shrink)
        kept = self.values.detach()[: len(range(self._rank, num_examples, self._world))]
        self._take(kept, num_examples)

    def reindex(self, source: Tensor) -> None:
        """As for :class:`ExampleMultipliers`; every rank is given the whole order.

        Args:
            source: For each example of the new order its old index, or -1.  # shape: (num_examples,)
        """
        rows = self._read_source(source)
        # The new order is dealt out anew, so a row may come from another rank.
        own = rows[self._rank :: self._world]
        # Row 0 stands in for new examples: every rank has to take part in the exchange.
        old = self.forward(own.clamp(min=0)) if self._examples else self.values.detach()[:0]
        known = (own >= 0).reshape(-1, *[1] * (self.values.ndim - 1))
        self._take(torch.where(known, old, self.init) if self._examples else old, len(rows))

    def _take(self, kept: Tensor, num_examples: int) -> None:
        self._grow(kept, len(range(self._rank, num_examples, self._world)))
        self._examples = int(num_examples)
        self.layout[0] = self._examples

    def _all(self) -> Tensor:
        values = self.values.detach().clone()
        if self._ranks is None:
            return values
        parts = self._ranks.rows(lambda: (values,), values)[0].split(
            [len(range(rank, self._examples, self._world)) for rank in range(self._world)]
        )
        whole = values.new_empty((self._examples, *values.shape[1:]))
        for rank, part in enumerate(parts):
            whole[rank :: self._world] = part
        return whole

    def _together(self, read: Callable[[], Tensor], index: Tensor) -> Tensor:
        """What ``read`` gives, or an error on all ranks where it fails on one."""
        return read() if self._ranks is None else self._ranks.agree(read, index)

    def _read_index(self, index: Tensor) -> Tensor:
        return read_integers("index", index, 0, self._examples, self.values.device)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        values, layout = state_dict.get(prefix + "values"), state_dict.get(prefix + "layout")
        if values is not None and layout is None:  # of one process: take what is ours
            state_dict[prefix + "layout"] = self.layout.clone()
            if len(values) == self._examples:
                state_dict[prefix + "values"] = values[self._rank :: self._world]
        elif layout is not None and layout.tolist() != self.layout.tolist():
            examples, rank, world = layout.tolist()
            raise _checks.InputError(
                f"Expected a state of {self._examples} examples from rank {self._rank} of {self._world}, but got one "
                f"of {examples} from rank {rank} of {world}; `merge_shards` makes a state for any number of ranks."
            )
        super()._load_from_state_dict(state_dict, prefix, *rest)


def merge_shards(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """One state, as of :class:`ExampleMultipliers`, from those of all ranks, in any order.

    Args:
        states: The ``state_dict`` of :class:`ShardedMultipliers` on every rank.

    >>> half = {"values": torch.tensor([1.0, 3.0]), "layout": torch.tensor([3, 0, 2])}
    >>> other = {"values": torch.tensor([2.0]), "layout": torch.tensor([3, 1, 2])}
    >>> merge_shards([other, half])
    {'values': tensor([1., 2., 3.])}
    """
    lacking = [k for k, state in enumerate(states) if not {"values", "layout"} <= state.keys()]
    if not states or lacking:
        raise _checks.InputError(f"Expected `states` of ShardedMultipliers, but got {len(states)}, {lacking} without.")
    layouts = sorted(tuple(state["layout"].tolist()) for state in states)
    examples, _, world = layouts[0]
    if layouts != [(examples, rank, world) for rank in range(world)]:
        raise _checks.InputError(f"Expected `states` to be those of all ranks, once each, but got {layouts}.")
    first = states[0]["values"]
    whole = first.new_empty((examples, *first.shape[1:]))
    for state in states:
        whole[int(state["layout"][1]) :: world] = state["values"].to(whole)
    return {"values": whole}


class _Route:
    """Rows on their way to the ranks that keep them, and answers on their way back."""

    def __init__(self, ranks: Ranks, rows: Tensor) -> None:
        self._group, world = ranks.process_group, ranks.size
        owner = rows % world
        # Sorted by owner, as all_to_all wants its pieces; the permutation leads back.
        self._order = owner.argsort(stable=True)
        out = torch.bincount(owner, minlength=world)
        come = torch.empty_like(out)
        # First how many rows are wanted, so that nobody has to send padded buffers.
        dist.all_to_all_single(come, out, group=self._group)
        self._out, self._come = out.tolist(), come.tolist()
        self.asked = self.forth(rows)  # shape: (rows that others want from this rank,)

    def forth(self, values: Tensor) -> Tensor:
        """What all ranks send to this one, from values beside their rows."""
        found = values.new_empty((sum(self._come), *values.shape[1:]))
        dist.all_to_all_single(found, values[self._order].contiguous(), self._come, self._out, group=self._group)
        return found

    def back(self, values: Tensor) -> Tensor:
        """What the owners send back, beside the rows again."""
        found = values.new_empty((sum(self._out), *values.shape[1:]))
        dist.all_to_all_single(found, values.contiguous(), self._out, self._come, group=self._group)
        unsorted = torch.empty_like(found)
        # The answers are sorted by owner; the caller wants them beside its rows.
        unsorted[self._order] = found
        return unsorted
