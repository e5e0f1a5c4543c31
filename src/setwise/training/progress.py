"""Progress of a training, told to all losses that change with it by one call."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from setwise import _checks


class PassesProgress(nn.Module):
    """A loss that may hold others that change while training goes on, however deep."""

    def set_progress(self, done: float) -> None:
        """Tell this loss and all losses inside it how much of the training is done, from 0 to 1."""
        _checks.in_range("done", done, 0.0, 1.0)
        for part in self.modules():
            if isinstance(part, KeepsProgress):
                part.take_progress(float(done))


class KeepsProgress(PassesProgress):
    """A loss that itself changes while training goes on. How far it is belongs to the ``state_dict``.

    Attributes:
        progress: The share of the training that is done, from 0 to 1.
    """

    progress: float

    def __init__(self) -> None:
        super().__init__()
        self.progress = 0.0

    def take_progress(self, done: float) -> None:
        """Change as the share of the training that is done asks for."""
        self.progress = done

    def get_extra_state(self) -> Tensor:
        """The progress; not a buffer, which ``half()`` would round and an accelerator would have to hand back."""
        return torch.tensor(self.progress, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Take up where the state was saved."""
        self.take_progress(float(state))
