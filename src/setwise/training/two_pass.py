"""The exact gradient of a measure of a whole data set, in the memory of one small batch.

A measure of n samples does not split into batches, but the chain rule does: with scores s_i = f(x_i; theta),

    dL/dtheta = sum_i (dL/ds_i) (ds_i/dtheta).

So a first pass computes all scores without a graph, chunk by chunk; the loss of all of them gives dL/ds, n numbers; and
a second pass computes each chunk again with its graph and hands it its slice of dL/ds. The sum is the gradient that one
backward pass through everything would give, for one more forward pass. Random numbers are replayed, so dropout drops
the same units twice.

>>> import torch, setwise
>>> from setwise.training import TwoPass
>>> x, y = torch.randn(1_000, 8), torch.arange(1_000) % 20 == 0
>>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(), torch.nn.Linear(16, 1), torch.nn.Flatten(0))
>>> step = TwoPass(model, setwise.AUCLoss(), chunk_size=64)
>>> result = step.backward(x, y)  # adds to .grad, as backward() does
>>> result.scores.shape, result.loss.requires_grad
(torch.Size([1000]), False)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from operator import methodcaller
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from setwise import _checks
from setwise.training._call import call_loss
from setwise.training._chunks import Chunk, Chunks, Column, Inputs, mapped
from setwise.training._memory import given_back
from setwise.training._replay import Replay, same_scores, without_batch_statistics


class TwoPassResult(NamedTuple):
    """What a step has seen; without graphs.

    Attributes:
        loss: The loss of all samples.
        scores: The scores of all samples, in the order of the batches.
        targets: Their targets.
    """

    loss: Tensor
    scores: Tensor
    targets: Tensor


class TwoPass:
    """Backward passes through the loss of any number of samples, ``chunk_size`` of them at a time.

    The network must compute every sample on its own: layers that use the statistics of a batch (``BatchNorm`` in
    training mode) are refused. It must do the same twice: the scores of the second pass are compared with those of the
    first. Under ``torch.autocast`` both passes and the loss run in its precision. Forward hooks and counters see every
    sample twice.

    Args:
        model: The network; a tensor of inputs goes in as ``model(x)``, a tuple or list as ``model(*x)``, a dict as
            ``model(**x)``.
        loss: Any loss, called as ``loss(scores, targets)`` or ``loss(scores, targets, weight=weight)``. Its own
            parameters get their gradients as well.
        chunk_size: How many samples go through the network at a time.
        output: Makes scores of what the model gives, such as ``lambda out: out.squeeze(1)``.
        device: Where chunks are sent before they go in; by default they stay where they are.
        scaler: A ``torch.amp.GradScaler`` for half precision; it scales the loss before the backward passes.
        give_back: True where memory is short: freed pieces of a megabyte on go back to the system at once, on Linux
            with glibc. Its allocator else keeps pieces of up to 32 MB and often cannot use them again, so that on the
            CPU the process grows to two or three times what a chunk needs, as it does in plain training. Fetching pages
            anew can double the time (``benchmarks/two_pass.py``), and the allocator is set for the whole process
            meanwhile; models on other devices leave it alone.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[..., Tensor],
        *,
        chunk_size: int,
        output: Callable[[Any], Tensor] | None = None,
        device: torch.device | str | None = None,
        scaler: torch.amp.GradScaler | None = None,
        give_back: bool = False,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"Expected `model` to be a torch.nn.Module, but got {type(model).__name__}.")
        if not callable(loss) or isinstance(loss, type):
            raise TypeError(f"Expected `loss` to be a loss that can be called, but got {loss!r}.")
        _checks.is_count("chunk_size", chunk_size)
        self.model = model
        self.loss = loss
        self.chunk_size = int(chunk_size)
        self.output = output
        self.device = device
        self.scaler = scaler
        self.give_back = bool(give_back)

    def backward(self, inputs: Inputs, targets: Tensor, weight: Tensor | None = None) -> TwoPassResult:
        """Add the gradient of the loss of all samples to the parameters' ``.grad``.

        Args:
            inputs: A tensor, or a tuple, list or dict of tensors, with the samples along dimension 0.
            targets: Their targets.  # shape: (n, ...)
            weight: Per-sample weights.  # shape: (n, ...)
        """
        batch = (inputs, targets) if weight is None else (inputs, targets, weight)
        return self.backward_batches([batch])

    def backward_batches(self, batches: Iterable[Any]) -> TwoPassResult:
        """The same over the batches of a ``DataLoader``, a list, or anything that can be gone through twice.

        A loader that shuffles by torch's random numbers gives the same order twice, since they are replayed. Where the
        second time brings other targets or scores, an error says so; gradients of the chunks before are then in
        ``.grad``.

        Args:
            batches: Batches ``(inputs, targets)`` or ``(inputs, targets, weight)``. Batches larger than ``chunk_size``
                are cut.
        """
        without_batch_statistics(self.model)
        on_cpu = all(each.device.type == "cpu" for each in self.model.parameters())
        with given_back() if self.give_back and on_cpu else contextlib.nullcontext():
            return self._both_passes(batches)

    def _both_passes(self, batches: Iterable[Any]) -> TwoPassResult:
        chunks = Chunks(batches, self.chunk_size)
        replay = Replay(self.model, batches)
        scores, targets, weight = self._first_pass(chunks)
        with torch.enable_grad():
            scores = scores.requires_grad_()
            loss = call_loss(self.loss, scores, targets, weight)
            _check_scalar(loss)
            (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        slopes = torch.zeros_like(scores) if scores.grad is None else scores.grad
        scores = scores.detach()
        with replay, torch.enable_grad():
            self._second_pass(chunks, scores, slopes)
        return TwoPassResult(loss.detach(), scores, targets)

    def _first_pass(self, chunks: Chunks) -> tuple[Tensor, Tensor, Tensor | None]:
        """All scores without a graph, and the targets and weights beside them."""
        scores = Column(chunks.expected)
        with torch.no_grad():
            for chunk in chunks.first():
                found = self._scores(chunk)
                if found.ndim == 0 or len(found) != len(chunk.targets):
                    raise _checks.InputError(
                        f"Expected `model` to give one score (or row of scores) per sample, {len(chunk.targets)} of "
                        f"them, but got shape {tuple(found.shape)}."
                    )
                scores.append(found)
        torch.clear_autocast_cache()  # older torch keeps copies of parameters there without graph: pytorch#158232
        whole = scores.whole()
        targets, weight = chunks.gathered()
        return whole, targets.to(whole.device), None if weight is None else weight.to(whole.device)

    def _second_pass(self, chunks: Chunks, scores: Tensor, slopes: Tensor) -> None:
        """Each chunk again, with its graph, which takes its slice of dL/ds and is let go."""
        for rows, chunk in chunks.again():
            found = self._scores(chunk)
            same_scores(found.detach(), scores[rows])
            if found.requires_grad:
                found.backward(slopes[rows])

    def _scores(self, chunk: Chunk) -> Tensor:
        inputs = chunk.inputs if self.device is None else mapped(chunk.inputs, methodcaller("to", self.device))
        if isinstance(inputs, dict):
            found = self.model(**inputs)
        elif isinstance(inputs, tuple | list):
            found = self.model(*inputs)
        else:
            found = self.model(inputs)
        if self.output is not None:
            found = self.output(found)
        if not isinstance(found, Tensor):
            raise TypeError(
                f"Expected `model` to give a torch.Tensor, but got {type(found).__name__}; "
                "`output` can make scores of what it gives."
            )
        return found


def _check_scalar(loss: object) -> None:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shown = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise _checks.InputError(f"Expected `loss` to give one number, but got {shown}.")
