"""The ways a loss is computed: NumPy kernels, torch kernels, under ``vmap``, compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

from setwise import _checks
from support import ranks
from support.extremes import Batch, batches, problem
from support.spec import Case

Found = tuple[Tensor, Tensor | None]
Loss = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def differentiate(loss: Loss, batch: Batch) -> Found:
    """Value and gradient of a loss by autograd."""
    leaf = batch.scores.clone().requires_grad_()
    value = loss(leaf, batch.labels, batch.weight)
    value.backward()
    return value.detach(), leaf.grad


@contextmanager
def torch_kernels() -> Iterator[None]:
    """Inside, no value may be read, so that every loss takes its torch form."""
    readable = _checks.values_are_readable
    _checks.values_are_readable = lambda: False
    try:
        yield
    finally:
        _checks.values_are_readable = readable


def mapped(case: Case, sets: list[Batch]) -> list[Found]:
    """Values and gradients of sets of one size and dtype, with weights, by ``vmap``."""
    scores, labels = torch.stack([one.scores for one in sets]), torch.stack([one.labels for one in sets])
    weight = torch.stack([one.weight for one in map(Batch.with_weight, sets) if one.weight is not None])

    def loss(s: Tensor, y: Tensor, w: Tensor) -> Tensor:
        return case.value(s, y, w)

    gradients, values = torch.func.vmap(torch.func.grad_and_value(loss))(scores, labels, weight)
    return list(zip(values.unbind(), gradients.unbind(), strict=True))


def compiled(case: Case, backend: str) -> Loss:
    """The loss as one graph."""
    torch.compiler.reset()
    module = case.loss(**case.settings)
    return torch.compile(module, fullgraph=True, dynamic=False, backend=backend)


def on_ranks(cases: list[Case], count: int, seed: int, every: int = 1) -> None:
    """Each rank has its share of the rows of a set; one of ``every`` sets is compared with the oracle.

    Args:
        cases: The rows of the table.
        count: How many sets of each.
        seed: Of the sets.
        every: Which share goes to the oracle.
    """
    for case in cases:
        for number, batch in enumerate(batches(case, seed, count)):
            rows = ranks.own_rows("uneven", len(batch.labels))
            weight = None if batch.weight is None else batch.weight[rows]
            value, part = differentiate(case.value, Batch(batch.scores[rows], batch.labels[rows], weight))
            assert part is not None
            whole = torch.cat(ranks.everywhere(part / dist.get_world_size()))
            wrong = problem(case, batch, value, whole, oracle=number % every == 0)
            assert wrong is None, f"{case}({batch}): {wrong}"
