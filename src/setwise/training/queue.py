"""Queue of recent scores, so that the loss of a small batch is that within a larger set.

A measure of 16 samples is a noisy estimate of the measure of all, and none at all without positives. With a queue of
the last m scores s~, labels and weights, the loss of a batch s is

    L(s_1, ..., s_n, s~_1, ..., s~_m),      gradient through s alone.

The queued scores are constants, computed by the network as it was some steps ago; they go stale at the rate at which
it learns. So keep the queue to some tens of batches, and shorter than the data set, lest a sample meet its own past.
The gradient is the batch's part of the whole set's: for a mean over samples it is about n / (n + m) of what the batch
alone would give, so the learning rate may be larger. :class:`~setwise.training.TwoPass` has no stale scores, at the
price of a second forward pass.

>>> import torch, setwise
>>> from setwise.training import ScoreQueue
>>> loss = ScoreQueue(setwise.AUCLoss(), size=256)
>>> loss(torch.tensor([0.5, 0.0]), torch.tensor([1, 1]))  # no negative yet
tensor(0.)
>>> loss(torch.tensor([0.0]), torch.tensor([0]))  # against the two positives of before: (0.5 + 1) / 2
tensor(0.7500)
>>> loss.held
3
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from setwise import _checks
from setwise.measures._base import promote_dtype
from setwise.training._call import call_loss, is_module
from setwise.training.progress import PassesProgress


class ScoreQueue(PassesProgress):
    """A loss over the batch and the last ``size`` samples before it; call it like the loss.

    Samples stand along dimension 0: scores (N,) or (N, ...), targets (N, ...), weights of the target's shape. Only in
    training mode is the queue used and filled; after ``eval()`` this is the loss of the batch alone. What it holds is
    part of the ``state_dict``. A :class:`~setwise.training.Temperature` belongs inside, so that old scores are divided
    by the temperature of now.

    Args:
        loss: Any loss called as ``loss(input, target)``, and with ``weight=`` where weights are given.
        size: How many samples are kept.
    """

    scores: Tensor
    targets: Tensor
    weights: Tensor

    def __init__(self, loss: nn.Module, size: int) -> None:
        super().__init__()
        is_module("loss", loss)
        _checks.is_count("size", size)
        self.loss = loss
        self.size = int(size)
        for name in ("scores", "targets", "weights"):
            self.register_buffer(name, torch.empty(0))
        self.clear()

    @property
    def held(self) -> int:
        """How many samples are held."""
        return min(self._seen, self.size)

    def clear(self) -> None:
        """Forget all samples, as when the network is changed from outside or its scores get another shape."""
        for name in ("scores", "targets", "weights"):
            setattr(self, name, getattr(self, name).new_empty(0))
        self._seen = 0
        self._weighted = False

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss over batch and queue; the batch then joins the queue.

        Args:
            input: Logits.  # shape: (N, ...)
            target: Labels.  # shape: (N, ...)
            weight: Per-sample weights of the target's shape. Batches without weights count 1 where others have some.
        """
        if not self.training:
            return call_loss(self.loss, input, target, weight)
        self._check(input, target, weight)
        self._make_room(input, target)
        self._weighted = self._weighted or weight is not None
        held = self.held
        ones = torch.ones(target.shape, dtype=self.weights.dtype, device=target.device)
        weight = ones if weight is None else weight.detach().to(ones)
        loss = call_loss(
            self.loss,
            torch.cat([input, self.scores[:held]]),
            torch.cat([target, self.targets[:held]]),
            torch.cat([weight, self.weights[:held]]) if self._weighted else None,
        )
        self._append(input.detach(), target.detach(), weight)
        return loss

    def extra_repr(self) -> str:
        """The size, for ``repr``."""
        return f"size={self.size}"

    def get_extra_state(self) -> Tensor:
        """How many samples have come so far, and whether any had weights."""
        return torch.tensor([self._seen, self._weighted])

    def set_extra_state(self, state: Tensor) -> None:
        """Take up where the state was saved."""
        self._seen, self._weighted = int(state[0]), bool(state[1])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        # The shapes of the buffers are those of the scores, which a new queue does not know yet.
        saved = {name: state_dict.get(prefix + name) for name in ("scores", "targets", "weights")}
        found = saved["scores"]
        if found is not None and found.numel() and len(found) != self.size:
            raise _checks.InputError(f"Expected a state of a queue of size {self.size}, but got one of {len(found)}.")
        for name, value in saved.items():
            if value is not None:
                setattr(self, name, torch.empty_like(value, device=getattr(self, name).device))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _check(self, input: Tensor, target: Tensor, weight: Tensor | None) -> None:
        _checks.is_floating("input", input)
        _checks.is_real("target", target)
        if input.ndim == 0 or target.ndim == 0 or len(input) != len(target):
            raise _checks.InputError(
                "Expected `input` and `target` to have their samples along dimension 0, "
                f"but got shapes {tuple(input.shape)} and {tuple(target.shape)}."
            )
        if weight is not None:
            _checks.is_real("weight", weight)
            _checks.same_shape("weight", weight, "target", target)
        if self._seen == 0:
            return
        for name, value, held in (("input", input, self.scores), ("target", target, self.targets)):
            if value.shape[1:] != held.shape[1:]:
                raise _checks.InputError(
                    f"Expected each sample of `{name}` to be of shape {tuple(held.shape[1:])} like those in the queue, "
                    f"but got {tuple(value.shape[1:])}; for another task `clear()` the queue first."
                )
        if target.dtype != self.targets.dtype:
            raise TypeError(
                f"Expected `target` to be {self.targets.dtype} like what the queue holds, but got {target.dtype}."
            )

    def _make_room(self, input: Tensor, target: Tensor) -> None:
        """The buffers, on the device of the scores: a loss without parameters is seldom moved there by hand."""
        if self._seen == 0:
            scores = promote_dtype(input.detach())
            self.scores = scores.new_zeros((self.size, *input.shape[1:]))
            self.targets = target.new_zeros((self.size, *target.shape[1:]))
            self.weights = scores.new_zeros((self.size, *target.shape[1:]))
        elif self.scores.device != input.device:
            self.to(input.device)

    def _append(self, scores: Tensor, targets: Tensor, weights: Tensor) -> None:
        """Over the oldest ones, round and round."""
        taken = min(len(scores), self.size)
        first = self._seen + len(scores) - taken
        rows = torch.arange(first, first + taken, device=self.scores.device) % self.size
        for held, new in ((self.scores, scores), (self.targets, targets), (self.weights, weights)):
            held[rows] = new[len(new) - taken :].to(held)
        self._seen += len(scores)
