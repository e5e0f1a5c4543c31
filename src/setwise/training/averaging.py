r"""Weight averaging while training goes on: scores that jump less from step to step, and often a better measure.

With weights :math:`w_1, \dots, w_t` seen so far there are two averages:

    ema:    (1 - d) sum_k d^(t-k) w_k / (1 - d^t)       recent steps count most, over about 1 / (1 - d) of them
    equal:  sum_k w_k / t                               stochastic weight averaging (Izmailov et al. 2018)

The division by 1 - d^t takes the start's undue weight away: after t steps the exponential average is one of t steps,
not one of t steps and mostly the first. Both are kept by :class:`torch.optim.swa_utils.AveragedModel`.

>>> import torch
>>> from setwise.training import WeightAverage
>>> model = torch.nn.Linear(1, 1, bias=False)
>>> average = WeightAverage(model, decay=0.5)
>>> for weight in (1.0, 3.0):
...     torch.nn.init.constant_(model.weight, weight).item()
...     average.update(model)
1.0
3.0
>>> with average.applied(model):
...     round(model.weight.item(), 4)  # (0.5 * 0.5 * 1 + 0.5 * 3) / (1 - 0.5^2)
2.3333
>>> model.weight.item()
3.0
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, update_bn

from setwise import _checks
from setwise.training._call import is_module

KINDS = ("ema", "equal")


class WeightAverage:
    """A running average of a model's weights, beside the model.

    Floating-point buffers, such as the running statistics of batch norm, are averaged with the weights; other buffers
    are those of the last update. Half precision is averaged in float32, where small steps are not lost. For statistics
    that belong to the averaged weights exactly, see :func:`update_batch_norm`.

    Args:
        model: The model; a copy of it is made.
        kind: ``"ema"`` or ``"equal"``.
        decay: Of the exponential average, in [0, 1).
        start: Share of the training before which :meth:`update` does nothing, where it is told how far the training is.
    """

    def __init__(self, model: nn.Module, kind: str = "ema", *, decay: float = 0.999, start: float = 0.0) -> None:
        is_module("model", model)
        _checks.one_of("kind", kind, KINDS)
        _checks.in_range("decay", decay, 0.0, 1.0, open_high=True)
        _checks.in_range("start", start, 0.0, 1.0)
        self.kind = kind
        self.decay = decay
        self.start = start
        self.updates = 0
        self._averaged = AveragedModel(model, avg_fn=self._next, use_buffers=True).requires_grad_(requires_grad=False)
        for tensor in itertools.chain(self.module.parameters(), self.module.buffers()):
            if tensor.is_floating_point() and tensor.element_size() < 4:
                tensor.data = tensor.data.float()

    @property
    def module(self) -> nn.Module:
        """The copy that holds the average, to be read."""
        return self._averaged.module

    def update(self, model: nn.Module, *, done: float = 1.0) -> None:
        """Take the model's weights into the average, after a step of the optimizer.

        Args:
            model: The model, as it was when the average was made, but for its weights.
            done: The share of the training that is done; nothing happens before ``start``.
        """
        _checks.in_range("done", done, 0.0, 1.0)
        if done < self.start:
            return
        self._check_same(model)
        self._averaged.update_parameters(model)
        self.updates += 1

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[nn.Module]:
        """The model with the averaged weights, to be evaluated; afterwards its own are back, also after an error.

        Before the first update the model keeps its own weights.
        """
        self._check_same(model)
        tensors = _tensors(model)
        own = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        self.copy_to(model)
        try:
            yield model
        finally:
            _fill(tensors, own)

    def copy_to(self, model: nn.Module) -> None:
        """Give the model the averaged weights for good; before the first update it keeps its own."""
        self._check_same(model)
        if self.updates:
            _fill(_tensors(model), _tensors(self.module))

    def state_dict(self) -> dict[str, Any]:
        """The average and the number of updates; not the settings."""
        return {"updates": self.updates, "weights": {k: v.clone() for k, v in _tensors(self.module).items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up where :meth:`state_dict` was called."""
        mine, weights = _tensors(self.module), state.get("weights")
        if not isinstance(weights, dict) or weights.keys() != mine.keys():
            raise _checks.InputError("Expected `state` to come from the average of such a model, but it does not.")
        _checks.is_count("state['updates']", state["updates"], 0)
        for name, tensor in mine.items():
            _checks.same_shape(f"state['weights'][{name!r}]", weights[name], name, tensor)
        _fill(mine, weights)
        self.updates = int(state["updates"])
        self._averaged.n_averaged.fill_(self.updates)

    def __repr__(self) -> str:
        settings = f"kind={self.kind!r}, decay={self.decay}, start={self.start}"
        return f"{type(self).__name__}({settings}, updates={self.updates})"

    def _next(self, averaged: Tensor, current: Tensor, count: Tensor | int) -> Tensor:  # noqa: ARG002 (torch's signature)
        """The average with one more step in it. The count is our own: torch's would have to be read from the device."""
        if not averaged.is_floating_point():
            return current
        step = self.updates + 1
        share = 1 / step if self.kind == "equal" else (1 - self.decay) / (1 - self.decay**step)
        return averaged.lerp(current.to(averaged.dtype), share)

    def _check_same(self, model: nn.Module) -> None:
        is_module("model", model)
        mine, theirs = _tensors(self.module), _tensors(model)
        if mine.keys() != theirs.keys() or any(mine[name].shape != theirs[name].shape for name in mine):
            raise _checks.InputError(
                "Expected `model` to have the weights of the model that the average was made of, "
                f"but this {type(model).__name__} has others."
            )


def update_batch_norm(model: nn.Module, loader: Iterable[Any], *, device: torch.device | str | None = None) -> None:
    """Compute the running statistics of every batch norm anew, by one pass over the data with the weights as they are.

    For averaged weights call it within :meth:`WeightAverage.applied`, or after :meth:`WeightAverage.copy_to`. A model
    without batch norm is left as it is, and the data is not read.

    Args:
        model: The model; it is called with each batch, and is in the mode afterwards that it was in before.
        loader: Batches of inputs, or tuples and lists that begin with them.
        device: Where the inputs are sent.

    >>> model = torch.nn.BatchNorm1d(1)
    >>> update_batch_norm(model, [torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [7.0]])])
    >>> model.running_mean
    tensor([4.])
    """
    is_module("model", model)
    if not any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):  # noqa: SLF001 (no public name)
        return
    batches = iter(loader)
    first = next(batches, None)
    if first is None:  # torch would leave statistics of nothing behind
        raise _checks.InputError("Expected `loader` to hold at least one batch, but it is empty.")
    update_bn(itertools.chain([first], batches), model, device=None if device is None else torch.device(device))


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers by name, also buffers that are not saved; the tensors themselves."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


@torch.no_grad()
def _fill(tensors: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        tensor.copy_(values[name])
