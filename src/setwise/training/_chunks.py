"""Chunking of batches of any kind, for two passes over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from setwise import _checks

Inputs = Tensor | tuple[Tensor, ...] | list[Tensor] | dict[str, Tensor]


class Chunk(NamedTuple):
    """A few samples."""

    inputs: Inputs
    targets: Tensor
    weight: Tensor | None


class Column:
    """Rows that come chunk by chunk, in one tensor that doubles when it is full.

    A list of the pieces would do, but small tensors that stay, between large ones that come and go, keep the allocator
    from using the room of the large ones again.

    Args:
        expected: How many rows will come, where that is known, so that the tensor need not double.
    """

    def __init__(self, expected: int = 0) -> None:
        self.count = 0
        self._expected = expected
        self._buffer: Tensor | None = None

    def append(self, rows: Tensor) -> None:
        """Copy some rows to the end."""
        rows = rows.detach()
        end = self.count + len(rows)
        buffer = self._buffer
        if buffer is None:
            buffer = rows.new_empty((self._expected or 2 * len(rows), *rows.shape[1:]))
        if rows.shape[1:] != buffer.shape[1:]:
            raise _checks.InputError(
                f"Expected all chunks to have the same shape but for their length, but there were "
                f"{tuple(buffer.shape[1:])} and {tuple(rows.shape[1:])} per sample."
            )
        if end > len(buffer):
            larger = buffer.new_empty((2 * end, *buffer.shape[1:]))
            larger[: self.count] = buffer[: self.count]
            buffer = larger
        buffer[self.count : end] = rows
        self._buffer, self.count = buffer, end

    def whole(self) -> Tensor:
        """All rows so far."""
        return torch.empty(0) if self._buffer is None else self._buffer[: self.count]


class Chunks:
    """Chunks of at most ``size`` samples, the same the second time as the first.

    Args:
        batches: Batches ``(inputs, targets)`` or ``(inputs, targets, weight)``.
        size: Samples per chunk.
    """

    def __init__(self, batches: Iterable[Any], size: int) -> None:
        if isinstance(batches, Iterator) or not hasattr(batches, "__iter__"):
            raise TypeError(
                "Expected `batches` to be something that can be gone through twice, such as a DataLoader or a list, "
                f"but got {type(batches).__name__}."
            )
        self.batches = batches
        self.size = size
        self.expected = _known_length(batches)
        self._targets = Column(self.expected)
        self._weights = Column(self.expected)

    def first(self) -> Iterator[Chunk]:
        """The chunks; their targets and weights are kept."""
        for chunk in self._cut():
            self._targets.append(chunk.targets)
            if chunk.weight is not None:
                self._weights.append(chunk.weight)
            if self._weights.count not in (0, self._targets.count):
                raise _checks.InputError("Expected all `batches` or none to have weights, but some have.")
            yield chunk
        if not self._targets.count:
            raise _checks.InputError("Expected `batches` to hold at least one sample, but there is none.")

    def again(self) -> Iterator[tuple[slice, Chunk]]:
        """The chunks once more with their places, after a check that they are the same."""
        targets = self._targets.whole()
        at = 0
        for chunk in self._cut():
            rows = slice(at, at + len(chunk.targets))
            if not _equal(chunk.targets, targets[rows]):
                raise _differs(f"the targets from sample {at} on were others")
            at = rows.stop
            yield rows, chunk
        if at < len(targets):
            raise _differs(f"there were {at} samples, not {len(targets)}")

    def gathered(self) -> tuple[Tensor, Tensor | None]:
        """All targets, and all weights where there are some."""
        return self._targets.whole(), self._weights.whole() if self._weights.count else None

    def _cut(self) -> Iterator[Chunk]:
        for batch in self.batches:
            inputs, targets, weight = _read(batch)
            for start in range(0, len(targets), self.size):
                rows = slice(start, start + self.size)
                yield Chunk(mapped(inputs, itemgetter(rows)), targets[rows], None if weight is None else weight[rows])


def mapped(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """The inputs with all their tensors changed."""
    if isinstance(inputs, dict):
        return {name: change(value) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return [change(value) for value in inputs]
    return change(inputs)


def _known_length(batches: Iterable[Any]) -> int:
    """How many samples a list of batches holds; 0 where that is not known. What does not fit is refused when read."""
    if not isinstance(batches, list | tuple):
        return 0
    targets = [batch[1] for batch in batches if isinstance(batch, tuple | list) and len(batch) > 1]
    return sum(len(part) for part in targets if isinstance(part, Tensor) and part.ndim)


def _read(batch: Any) -> Chunk:
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise TypeError(
            "Expected each of `batches` to be (inputs, targets) or (inputs, targets, weight), "
            f"but got {type(batch).__name__}{f' of {len(batch)}' if isinstance(batch, tuple | list) else ''}."
        )
    inputs, targets, weight = batch if len(batch) == 3 else (*batch, None)
    _checks.is_tensor("targets", targets)
    if targets.ndim == 0:
        raise _checks.InputError("Expected `targets` to have their samples along dimension 0, but got a single number.")
    parts = list(inputs.values()) if isinstance(inputs, dict) else inputs
    parts = list(parts) if isinstance(parts, tuple | list) else [parts]
    named = [("inputs", part) for part in parts] + ([] if weight is None else [("weight", weight)])
    for name, part in named:
        _checks.is_tensor(name, part)
        if part.ndim == 0 or len(part) != len(targets):
            raise _checks.InputError(
                f"Expected `{name}` to have as many samples along dimension 0 as `targets`, {len(targets)}, "
                f"but got shape {tuple(part.shape)}."
            )
    return Chunk(inputs, targets, weight)


def _equal(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.equal(first, second)


def _differs(how: str) -> _checks.InputError:
    return _checks.InputError(
        f"Expected `batches` to be the same the second time as the first, but {how}; turn off shuffling by "
        "anything but torch's random numbers, and clear the gradients before going on."
    )
