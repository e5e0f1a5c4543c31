"""The last score of every example, by its index in the data set."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from setwise import _checks

UNKNOWN = -1


class ScoreMemory(nn.Module):
    """Scores and groups of a data set as the training meets them; all of it part of the ``state_dict``.

    Args:
        num_examples: Rows.
        num_groups: Groups are 0..num_groups-1.
        width: Scores per row.

    >>> memory = ScoreMemory(3)
    >>> memory.write(torch.tensor([2, 0]), torch.tensor([[0.5], [1.5]]), torch.tensor([1, 0]))
    >>> memory.groups, memory.seen
    (tensor([ 0, -1,  1], dtype=torch.int16), tensor([ True, False,  True]))
    >>> memory.counts
    tensor([1, 1])
    """

    scores: Tensor  # shape: (num_examples, width)
    groups: Tensor  # shape: (num_examples,), UNKNOWN where none has come yet
    seen: Tensor  # shape: (num_examples,)
    counts: Tensor  # of each group among the known ones, shape: (num_groups,)

    def __init__(self, num_examples: int, num_groups: int = 2, width: int = 1) -> None:
        super().__init__()
        _checks.is_count("num_examples", num_examples)
        self.register_buffer("scores", torch.zeros(num_examples, width))
        self.register_buffer("groups", torch.full((num_examples,), UNKNOWN, dtype=torch.int16))
        self.register_buffer("seen", torch.zeros(num_examples, dtype=torch.bool))
        self.register_buffer("counts", torch.zeros(num_groups, dtype=torch.int64))

    def __len__(self) -> int:
        return len(self.seen)

    @property
    def seen_groups(self) -> Tensor:
        """The groups of the examples that have a score, UNKNOWN for the others.  # shape: (num_examples,)."""
        return torch.where(self.seen, self.groups, UNKNOWN)

    @torch.no_grad()
    def write(self, index: Tensor, scores: Tensor, groups: Tensor) -> None:
        """Keep the scores, without their gradient; of an example that comes twice, the later."""
        if scores.dtype == torch.float64 and self.scores.dtype != torch.float64:
            self.scores = self.scores.double()  # nothing is lost of what a model in double precision says
        # Detached, or the graph of every past batch would stay alive.
        self.scores[index] = scores.detach().to(self.scores)
        self.seen[index] = True
        self.write_groups(index, groups)

    def write_groups(self, index: Tensor, groups: Tensor) -> None:
        """Keep the groups and their numbers up to date."""
        rows = torch.unique(index)  # an example that comes twice counts once
        before = self.groups[rows].long()
        self.groups[index] = groups.to(self.groups)
        after = self.groups[rows].long()
        size = len(self.counts)
        # The difference, in O(batch): counting all again would cost the data set at every step.
        self.counts += torch.bincount(after, minlength=size) - torch.bincount(before[before >= 0], minlength=size)

    @torch.no_grad()
    def reindex(self, source: Tensor) -> None:
        """Row i becomes what was row ``source[i]``, or unknown where that is -1."""
        kept = source >= 0
        rows = source.clamp(min=0)
        self.scores = torch.where(kept[:, None], self.scores[rows], torch.zeros_like(self.scores[:1]))
        self.groups = torch.where(kept, self.groups[rows], torch.full_like(self.groups[:1], UNKNOWN))
        self.seen = kept & self.seen[rows]
        # Counted anew: rows may have been dropped or taken twice.
        self.counts = torch.bincount(self.groups[self.groups >= 0].long(), minlength=len(self.counts))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(prefix + "scores")
        if saved is not None and saved.shape != self.scores.shape:
            raise _checks.InputError(
                f"Expected a state of {len(self)} examples with {self.scores.shape[1]} scores each, "
                f"but got one of shape {tuple(saved.shape)}; `resize` first."
            )
        if saved is not None:
            # A state in double precision must not be rounded on its way in.
            self.scores = self.scores.to(saved.dtype)
        super()._load_from_state_dict(state_dict, prefix, *rest)
