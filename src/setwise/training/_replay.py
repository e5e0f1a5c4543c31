"""Replay of a forward pass: random state and buffers that make the second pass equal to the first."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from setwise import _checks

_TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float64: 1e-8}  # of the largest score; others 1e-3


class Replay:
    """A context in which random numbers are those that came after this object was made.

    On leaving, they go on from where they were before the context: as if there had been one pass only.

    Args:
        model: Its devices' generators are replayed, and that of the CPU.
        loader: Its own ``generator``, where it has one, is replayed too.
    """

    def __init__(self, model: nn.Module, loader: object) -> None:
        self._devices = sorted({str(part.device) for part in model.parameters()} - {"cpu", "meta"})
        generators = [getattr(loader, "generator", None), getattr(getattr(loader, "sampler", None), "generator", None)]
        self._generators = [found for found in generators if isinstance(found, torch.Generator)]
        self._start = self._states()
        self._end: list[Tensor] = []

    def __enter__(self) -> None:
        self._end = self._states()
        self._restore(self._start)

    def __exit__(self, *error: object) -> None:
        self._restore(self._end)

    def _states(self) -> list[Tensor]:
        devices = [torch.get_device_module(torch.device(name)).get_rng_state(name) for name in self._devices]
        return [torch.get_rng_state(), *devices, *(found.get_state() for found in self._generators)]

    def _restore(self, states: list[Tensor]) -> None:
        rest = iter(states)
        torch.set_rng_state(next(rest))
        for name in self._devices:
            torch.get_device_module(torch.device(name)).set_rng_state(next(rest), name)
        for found in self._generators:
            found.set_state(next(rest))


def without_batch_statistics(model: nn.Module) -> None:
    """Refuse networks in which a sample's score depends on the other samples of its chunk."""
    for name, part in model.named_modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and (part.training or part.running_mean is None):  # noqa: SLF001 (the one base of them all)
            raise _checks.InputError(
                f"Expected `model` to compute every sample on its own, but `{name or 'model'}` ({type(part).__name__}) "
                "uses the statistics of a batch, which are other ones in chunks; call `eval()` on such layers, or use "
                "GroupNorm or LayerNorm."
            )


def same_scores(again: Tensor, before: Tensor) -> None:
    """Refuse scores of a second pass that are not those of the first, but for rounding."""
    if again.shape != before.shape:
        raise _other_scores(f"their shape was {tuple(before.shape)} and is {tuple(again.shape)}")
    if not before.numel():
        return
    scale = before.abs().max()
    gap = (again - before).abs().max()
    if bool(gap > _TOLERANCE.get(before.dtype, 1e-3) * scale):
        raise _other_scores(f"some differ by {gap.item():.3g}, where the largest is {scale.item():.3g}")


def _other_scores(how: str) -> _checks.InputError:
    return _checks.InputError(
        f"Expected `model` to give the same scores twice for the same samples, but {how}; inputs drawn anew, random "
        "numbers that torch does not draw, or a state that each pass changes can do this. Clear the gradients before "
        "going on."
    )
